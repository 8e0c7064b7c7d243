// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Host for tests: one block of memory at a bus address, and a record of the interrupts. Addresses outside
// of the block or in a hole behave as unmapped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "sim/core/host.hh"

namespace t3sim::test {

class FakeHost : public Host {
public:
    /// Not 0, so that an uninitialised address faults; above 4 GiB, so that a truncated address faults.
    static constexpr std::uint64_t default_base = 0x1'0000'0000;

    explicit FakeHost(std::size_t size = 4 << 20, std::uint64_t base = default_base)
        : base_(base), next_(base), size_(size),
          memory_(static_cast<std::uint8_t*>(std::calloc(size, 1)), &std::free) {}
    /// The memory is @p memory, which other processes may share.
    FakeHost(std::uint8_t* memory, std::size_t size, std::uint64_t base = default_base)
        : base_(base), next_(base), size_(size), memory_(memory, [](void*) noexcept {}) {}

    bool dma_read(std::uint64_t addr, MutableBytes to) override {
        ++reads;
        const std::uint8_t* from = find(addr, to.size());
        if (!from) {
            std::fill(to.begin(), to.end(), std::uint8_t{0});
            return false;
        }
        std::memcpy(to.data(), from, to.size());
        return true;
    }
    bool dma_write(std::uint64_t addr, Bytes from) override {
        ++writes;
        std::uint8_t* to = find(addr, from.size());
        if (to)
            std::memcpy(to, from.data(), from.size());
        return to != nullptr;
    }
    bool dma_load(std::uint64_t addr, std::uint32_t& raw) override {
        raw = 0;
        if (addr % 4 != 0)
            throw std::logic_error("unaligned dma_load");
        return dma_read(addr, {reinterpret_cast<std::uint8_t*>(&raw), sizeof raw});
    }
    bool dma_store(std::uint64_t addr, std::uint32_t raw) override {
        if (addr % 4 != 0)
            throw std::logic_error("unaligned dma_store");
        return dma_write(addr, {reinterpret_cast<const std::uint8_t*>(&raw), sizeof raw});
    }
    void raise_irq(unsigned vector) override { ++irqs[vector]; }
    void set_intx(bool asserted) override {
        intx_edges += asserted && !intx;
        intx = asserted;
    }

    [[nodiscard]] std::uint64_t base() const { return base_; }
    /// Direct access to the memory. Throws std::out_of_range, which reports a mistake in a test.
    std::uint8_t* at(std::uint64_t addr, std::size_t size = 1) {
        if (addr < base_ || size > size_ || addr - base_ > size_ - size)
            throw std::out_of_range("FakeHost: no such memory");
        return &memory_[addr - base_];
    }
    [[nodiscard]] Bytes bytes(std::uint64_t addr, std::size_t size) { return {at(addr, size), size}; }
    void put(std::uint64_t addr, Bytes from) {
        if (!from.empty())
            std::memcpy(at(addr, from.size()), from.data(), from.size());
    }
    /// Big-endian words, in the notation of docs/hw.
    void put_words(std::uint64_t addr, std::initializer_list<std::uint32_t> words) {
        for (std::uint32_t word : words) {
            put_be32(at(addr, 4), word);
            addr += 4;
        }
    }
    [[nodiscard]] std::uint32_t word(std::uint64_t addr) { return be32(at(addr, 4)); }

    /// Zeroed memory for a ring or a buffer; by default page aligned. Never freed.
    std::uint64_t alloc(std::size_t size, std::size_t align = 4096) {
        const std::uint64_t addr = (next_ + align - 1) / align * align;
        at(addr, size);
        next_ = addr + size;
        return addr;
    }

    /// Makes the range fault, as if its page had been unmapped.
    void unmap(std::uint64_t addr, std::size_t size) { holes_.push_back({addr, size}); }
    void map_all() { holes_.clear(); }

    std::map<unsigned, unsigned> irqs; ///< vector -> edges
    bool intx = false;
    unsigned intx_edges = 0;
    std::uint64_t reads = 0, writes = 0; ///< DMA operations, words included

private:
    struct Hole {
        std::uint64_t addr;
        std::size_t size;
    };

    std::uint8_t* find(std::uint64_t addr, std::size_t size) {
        if (addr < base_ || size > size_ || addr - base_ > size_ - size)
            return nullptr;
        for (const Hole& hole : holes_)
            if (addr < hole.addr + hole.size && hole.addr < addr + size)
                return nullptr;
        return &memory_[addr - base_];
    }

    std::uint64_t base_;
    std::uint64_t next_;
    std::size_t size_;
    std::unique_ptr<std::uint8_t[], decltype(&std::free)> memory_; ///< untouched pages cost nothing
    std::vector<Hole> holes_;
};

} // namespace t3sim::test
