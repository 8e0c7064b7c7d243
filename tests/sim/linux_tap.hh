// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The TCP of the running kernel as a peer: a TAP device in a network namespace of the test's own. The kernel
// is 10.0.0.2, and knows 10.0.0.1 at the test's end.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "sim/core/bytes.hh"
#include "sim/tcp/segment.hh"

namespace t3sim::test {

class Handle {
public:
    Handle() = default;
    explicit Handle(int fd) : fd_(fd) {}
    ~Handle() { close(); }
    Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    operator int() const { return fd_; }
    void close() {
        if (fd_ >= 0)
            ::close(std::exchange(fd_, -1));
    }

private:
    int fd_ = -1;
};

inline sockaddr_in address(const char* ip, std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

template <class Address> sockaddr* raw(Address& a) {
    return reinterpret_cast<sockaddr*>(&a);
}

/// struct virtio_net_hdr, whose own header file is not C++.
struct VirtioNetHeader {
    static constexpr std::uint8_t needs_checksum = 1;
    std::uint8_t flags, gso_type;
    std::uint16_t header_length, gso_size, checksum_start, checksum_offset;
};
static_assert(sizeof(VirtioNetHeader) == 10);

class LinuxTap {
public:
    using Mac = std::array<std::uint8_t, 6>;
    static constexpr Mac kernels_mac{0x00, 0x07, 0x43, 0x33, 0x44, 0x00},
        tests_mac{0x00, 0x07, 0x43, 0x11, 0x22, 0x00};

    /// Empty: it is open. Otherwise why there can be none here.
    std::string open() {
        if (unshare(CLONE_NEWNET) != 0)
            return std::string("no network namespaces: ") + std::strerror(errno);
        control_ = Handle(socket(AF_INET, SOCK_DGRAM, 0));
        tap_ = Handle(::open("/dev/net/tun", O_RDWR | O_NONBLOCK));
        ifreq r = request();
        r.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        if (tap_ < 0 || ioctl(tap_, TUNSETIFF, &r) != 0 || ioctl(tap_, TUNSETOFFLOAD, TUN_F_CSUM) != 0)
            return std::string("no TAP devices: ") + std::strerror(errno);

        std::memcpy(r.ifr_hwaddr.sa_data, kernels_mac.data(), kernels_mac.size());
        r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        EXPECT_EQ(ioctl(control_, SIOCSIFHWADDR, &r), 0);
        auto ip = address("10.0.0.2", 0);
        std::memcpy(&r.ifr_addr, &ip, sizeof ip);
        EXPECT_EQ(ioctl(control_, SIOCSIFADDR, &r), 0);
        ip = address("255.255.255.0", 0);
        std::memcpy(&r.ifr_netmask, &ip, sizeof ip);
        EXPECT_EQ(ioctl(control_, SIOCSIFNETMASK, &r), 0);
        r.ifr_flags = IFF_UP | IFF_RUNNING;
        EXPECT_EQ(ioctl(control_, SIOCSIFFLAGS, &r), 0);
        arpreq neighbour{};
        ip = address("10.0.0.1", 0);
        std::memcpy(&neighbour.arp_pa, &ip, sizeof ip);
        neighbour.arp_ha.sa_family = ARPHRD_ETHER;
        std::memcpy(neighbour.arp_ha.sa_data, tests_mac.data(), tests_mac.size());
        neighbour.arp_flags = ATF_PERM | ATF_COM;
        std::strcpy(neighbour.arp_dev, "card0");
        EXPECT_EQ(ioctl(control_, SIOCSARP, &neighbour), 0);
        return {};
    }
    void set_mtu(int mtu) {
        ifreq r = request();
        r.ifr_mtu = mtu;
        ASSERT_EQ(ioctl(control_, SIOCSIFMTU, &r), 0);
    }
    /// Sets a sysctl of the namespace. False: it cannot be set here.
    static bool sysctl(const std::string& name, const std::string& value) {
        std::ofstream file("/proc/sys/net/ipv4/" + name);
        file << value << std::flush;
        return file.good();
    }

    /// For poll().
    [[nodiscard]] int fd() const { return tap_; }

    /// The next frame of the kernel, valid until the next call; empty: there is none. A TCP retransmission
    /// may rewrite the header of a frame that waits in the TAP queue, after its checksum was computed. So
    /// checksum offload is enabled and this function computes it.
    Bytes read() {
        VirtioNetHeader header{};
        const iovec parts[] = {{&header, sizeof header}, {frame_.data(), frame_.size()}};
        const ssize_t n = readv(tap_, parts, 2);
        if (n <= static_cast<ssize_t>(sizeof header))
            return {};
        const MutableBytes frame = MutableBytes(frame_).first(static_cast<std::size_t>(n) - sizeof header);
        if (header.flags & VirtioNetHeader::needs_checksum) {
            const std::uint16_t checksum = tcp::fold(tcp::sum(frame.subspan(header.checksum_start)));
            put_be16(&frame[header.checksum_start + header.checksum_offset], checksum);
        }
        return frame;
    }
    void write(Bytes frame) {
        VirtioNetHeader header{};
        const iovec parts[] = {{&header, sizeof header},
                               {const_cast<std::uint8_t*>(frame.data()), frame.size()}};
        EXPECT_EQ(writev(tap_, parts, 2), static_cast<ssize_t>(sizeof header + frame.size()));
    }

private:
    static ifreq request() {
        ifreq r{};
        std::strcpy(r.ifr_name, "card0");
        return r;
    }

    Handle tap_, control_;
    std::array<std::uint8_t, 16384> frame_;
};

} // namespace t3sim::test
