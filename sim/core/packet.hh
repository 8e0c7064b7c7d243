// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Bytes on their way through the engines of a card and over the wire, without copies: the RDMA engine
// allocates a packet for an FPDU, TCP and Ethernet put their headers in front of it, and the peer reads it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "sim/core/bytes.hh"

// AddressSanitizer finds a use after free only if an unused block is really freed.
#if defined(__SANITIZE_ADDRESS__)
#define T3SIM_KEEP_BLOCKS 0
#elif defined(__has_feature)
#define T3SIM_KEEP_BLOCKS !__has_feature(address_sanitizer)
#else
#define T3SIM_KEEP_BLOCKS 1
#endif

namespace t3sim {

/// A range of a block of memory. Copies share the block. All of one block belong to one thread.
class Packet {
public:
    Packet() = default;
    /// @p size bytes, not initialised, with space for @p headroom bytes in front.
    explicit Packet(std::size_t size, std::size_t headroom = 0)
        : block_(allocate(headroom + size)), data_(block_->bytes() + headroom), size_(size) {}
    static Packet copy(Bytes from, std::size_t headroom = 0) {
        Packet made(from.size(), headroom);
        std::copy(from.begin(), from.end(), made.data());
        return made;
    }

    Packet(const Packet& other) : block_(other.block_), data_(other.data_), size_(other.size_) {
        if (block_)
            ++block_->references;
    }
    Packet(Packet&& other) noexcept
        : block_(std::exchange(other.block_, nullptr)), data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    Packet& operator=(Packet other) noexcept {
        std::swap(block_, other.block_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Packet() {
        if (block_ && --block_->references == 0)
            release(block_);
    }

    [[nodiscard]] std::uint8_t* data() { return data_; }
    [[nodiscard]] const std::uint8_t* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    operator Bytes() const { return {data_, size_}; }

    /// Whether there is another packet of the same block.
    [[nodiscard]] bool shared() const { return block_ && block_->references != 1; }
    [[nodiscard]] std::size_t headroom() const {
        return block_ ? static_cast<std::size_t>(data_ - block_->bytes()) : 0;
    }
    /// Adds @p count bytes, not initialised, in front: at most headroom(). Other packets of the block must
    /// not use their headroom then.
    std::uint8_t* prepend(std::size_t count) {
        data_ -= count;
        size_ += count;
        return data_;
    }
    /// Appends zeroes up to @p size bytes. Of a shared block a copy is made.
    void pad(std::size_t size) {
        if (size <= size_)
            return;
        if (shared() || headroom() + size > block_->capacity) {
            Packet longer(size);
            std::copy_n(data_, size_, longer.data_);
            std::swap(longer.size_, size_);
            size_ = longer.size_;
            *this = std::move(longer);
        }
        std::fill(data_ + size_, data_ + size, std::uint8_t{0});
        size_ = size;
    }

    /// A packet of n bytes with headroom h takes at most n + h + overhead bytes.
    static constexpr std::size_t overhead = 280;

private:
    struct Block {
        std::uint32_t references;
        std::uint32_t capacity;
        [[nodiscard]] std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(this + 1); }
    };

    /// Blocks of sizes up to 2 KiB are kept for the next packets, some of each size.
    static constexpr std::size_t step = 256, sizes = 8, kept = 256;
    static constexpr bool keeps = T3SIM_KEEP_BLOCKS;
    struct Kept {
        std::array<std::array<Block*, kept>, sizes> blocks;
        std::array<std::size_t, sizes> count;
    };
    static inline constinit thread_local Kept kept_{};

    static constexpr std::size_t index_of(std::size_t capacity) {
        return (capacity + sizeof(Block) - 1) / step;
    }
    static Block* allocate(std::size_t bytes) {
        const std::size_t index = index_of(bytes);
        Block* block;
        if (index < sizes && kept_.count[index] != 0)
            block = kept_.blocks[index][--kept_.count[index]];
        else
            block = static_cast<Block*>(::operator new((index + 1) * step));
        return new (block) Block{1, static_cast<std::uint32_t>((index + 1) * step - sizeof(Block))};
    }
    static void release(Block* block) {
        const std::size_t index = index_of(block->capacity);
        if (keeps && index < sizes && kept_.count[index] != kept) {
            kept_.blocks[index][kept_.count[index]++] = block;
            return;
        }
        ::operator delete(block);
    }

    Block* block_ = nullptr;
    std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace t3sim
