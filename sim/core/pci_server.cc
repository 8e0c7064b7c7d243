// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/pci_server.hh"

#include <algorithm>
#include <array>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

spdlog::logger& bus_log = logger("bus");

/// Size of the next access at @p offset with @p left bytes to go: 8, 4, 2 or 1, aligned.
unsigned access_size(std::uint64_t offset, std::uint64_t left) {
    unsigned size = 8;
    while (size > left || offset % size != 0)
        size /= 2;
    return size;
}

} // namespace

std::uint32_t find_capability(Device& device, std::uint8_t id) {
    std::array<std::uint8_t, 256> space{};
    device.config_read(0, space);
    std::uint8_t at = space[0x34];
    for (int guard = 0; at >= 0x40 && guard < 48; guard++, at = space[at + 1U]) {
        if (space[at] == id)
            return at;
        if (at > 0xfc)
            break;
    }
    return 0;
}

std::uint16_t config_word(Device& device, std::uint32_t offset) {
    std::array<std::uint8_t, 2> raw{};
    device.config_read(offset, raw);
    return static_cast<std::uint16_t>(raw[0] | raw[1] << 8);
}

PciServer::PciServer(const std::string& protocol)
    : messages_(counters_[protocol + ".messages"]), interrupts_raised_(counters_[protocol + ".interrupts"]),
      refused_(counters_[protocol + ".refused_requests"]), mmio_reads_(counters_[protocol + ".bar_reads"]),
      mmio_writes_(counters_[protocol + ".bar_writes"]), dma_reads_(counters_[protocol + ".dma_reads"]),
      dma_writes_(counters_[protocol + ".dma_writes"]), bus_errors_(counters_[protocol + ".bus_errors"]) {}

bool PciServer::in_bar(unsigned bar, std::uint64_t offset, std::uint64_t count) const {
    const std::uint64_t size = bar < num_bars ? device_->bar_size(bar) : 0;
    return offset <= size && count <= size - offset;
}

void PciServer::read_bar(unsigned bar, std::uint64_t offset, MutableBytes to) {
    while (!to.empty()) {
        const unsigned size = access_size(offset, to.size());
        const std::uint64_t value = device_->mmio_read(bar, offset, size);
        std::memcpy(to.data(), &value, size);
        mmio_reads_++;
        offset += size;
        to = to.subspan(size);
    }
}

void PciServer::write_bar(unsigned bar, std::uint64_t offset, Bytes data) {
    while (!data.empty()) {
        const unsigned size = access_size(offset, data.size());
        std::uint64_t value = 0;
        std::memcpy(&value, data.data(), size);
        device_->mmio_write(bar, offset, size, value);
        mmio_writes_++;
        offset += size;
        data = data.subspan(size);
    }
}

void PciServer::write_config(std::uint32_t offset, Bytes data) {
    device_->config_write(offset, data);
    refresh_command();
}

void PciServer::reset_device() {
    device_->reset();
    refresh_command();
}

void PciServer::refresh_command() {
    command_ = config_word(*device_, 0x04);
    bus_master_ = (command_ & 0x0004) != 0;
}

bool PciServer::bus_error(const char* what, std::uint64_t addr, std::size_t size) {
    bus_errors_++;
    bus_log.debug("bus error: {} of {} bytes at {:#x}{}", what, size, addr,
                  bus_master_ ? "" : " (bus mastering is off)");
    if (dma_.lost())
        fail("its memory is gone");
    return false;
}

bool PciServer::dma_read(std::uint64_t addr, MutableBytes to) {
    dma_reads_++;
    if (bus_master_ && dma_.read(addr, to))
        return true;
    std::fill(to.begin(), to.end(), std::uint8_t{0});
    return bus_error("read", addr, to.size());
}

bool PciServer::dma_write(std::uint64_t addr, Bytes from) {
    dma_writes_++;
    return (bus_master_ && dma_.write(addr, from)) || bus_error("write", addr, from.size());
}

bool PciServer::dma_load(std::uint64_t addr, std::uint32_t& raw) {
    dma_reads_++;
    const std::uint32_t* word = bus_master_ ? dma_.word(addr, false) : nullptr;
    raw = word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;
    return (word && !dma_.lost()) || bus_error("load", addr, sizeof raw);
}

bool PciServer::dma_store(std::uint64_t addr, std::uint32_t raw) {
    dma_writes_++;
    std::uint32_t* word = bus_master_ ? dma_.word(addr, true) : nullptr;
    if (word)
        __atomic_store_n(word, raw, __ATOMIC_RELEASE);
    return (word && !dma_.lost()) || bus_error("store", addr, sizeof raw);
}

} // namespace t3sim
