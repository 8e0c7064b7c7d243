// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// For tests of the servers: a device that records its calls, and what clients of all protocols need.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <new>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "sim/core/fd.hh"
#include "sim/core/host.hh"
#include "sim/core/pci_config.hh"

namespace t3sim {

/// BAR 0 of 4 KiB: a word of memory for each offset; BAR 2 of 8 MiB: writes are recorded, reads give the
/// offset. A write to the last word of BAR 4 runs out of memory.
class RecordingDevice : public Device {
public:
    RecordingDevice() : config({.vendor = 0x1425, .device = 0x36, .class_code = 0x020000}, 1) {
        config.add_bar(0, 4096);
        config.add_bar(2, 8 << 20);
        config.add_bar(4, 16384);
        config.add_pm(0x40);
        config.add_msi(0x48, 1);
        config.add_pcie(0x58, {});
        config.add_msix(0x9c, 9, 4, 0, 0x2000);
    }
    std::uint64_t bar_size(unsigned bar) const override { return config.bar_size(bar); }
    unsigned msix_vectors() const override { return 9; }
    std::uint64_t mmio_read(unsigned bar, std::uint64_t offset, unsigned size) override {
        reads.push_back({bar, offset, size, 0});
        return bar == 0 ? memory[offset] : offset;
    }
    void mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) override {
        if (bar == 4 && offset == 16380)
            throw std::bad_alloc();
        if (on_write)
            on_write();
        writes.push_back({bar, offset, size, value});
        if (bar == 0)
            memory[offset] = value;
    }
    void config_read(std::uint32_t offset, MutableBytes to) override { config.read(offset, to); }
    void config_write(std::uint32_t offset, Bytes from) override { config.write(offset, from); }
    void reset() override {
        resets++;
        config.reset();
        memory.clear();
    }
    void restore_nonvolatile() override { restores++; }

    struct Access {
        unsigned bar;
        std::uint64_t offset;
        unsigned size;
        std::uint64_t value;
        bool operator==(const Access&) const = default;
    };
    std::function<void()> on_write;
    PciConfig config;
    std::map<std::uint64_t, std::uint64_t> memory;
    std::vector<Access> reads, writes;
    int resets = 0, restores = 0;
};

template <typename T> Buffer raw(const T& value) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(&value);
    return {p, p + sizeof value};
}

inline Buffer join(std::initializer_list<Buffer> parts) {
    Buffer all;
    for (const auto& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

/// Sends one message with descriptors.
inline bool send_with(const Fd& socket, Bytes bytes, const std::vector<int>& fds) {
    iovec vec{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
    msghdr msg{};
    msg.msg_iov = &vec;
    msg.msg_iovlen = 1;
    if (!fds.empty()) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    }
    return sendmsg(socket.get(), &msg, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Waits for what another thread does. False: not within ten seconds.
template <typename F> bool eventually(F&& f) {
    for (int i = 0; i < 10'000; ++i) {
        if (f())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

inline Fd memory_file(std::size_t size) {
    Fd fd(memfd_create("guest", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
    return fd;
}

} // namespace t3sim
