// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Bytes on their way through the engines of a card and over the wire, without copies: the RDMA engine
// allocates a packet for an FPDU, TCP and Ethernet put their headers in front of it, and the peer reads it.
//
// Between two cards of a process nothing can change a packet, so its sums need neither be computed nor be
// checked: such a packet is intact, and sums may be missing in it. fill_in() stores them, and then the packet
// is like any other. data() and the conversion to Bytes call it; only code that knows of missing sums uses
// raw().
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

    /// Fills in missing sums, as the conversion to Bytes does.
    [[nodiscard]] std::uint8_t* data() {
        fill_in();
        return data_;
    }
    [[nodiscard]] const std::uint8_t* data() const {
        fill_in();
        return data_;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    operator Bytes() const { return {data(), size_}; }
    /// Sums may be missing.
    [[nodiscard]] Bytes raw() const { return {data_, size_}; }

    /// The last four bytes are to be the CRC32c of all bytes before (RFC 5044: the low byte first).
    void omit_crc() { omit(size_, crc_missing); }
    /// The packet consists of headers and a payload of @p payload bytes, which a TCP header without options
    /// precedes. Its checksum field has the sum of all but the payload, not inverted. The packet is intact
    /// from now on.
    void omit_checksum(std::size_t payload) { omit(payload, checksum_missing | intact_bit); }
    /// The same for a packet in which no sum is missing.
    void set_intact() { block_->sums |= intact_bit; }
    [[nodiscard]] bool intact() const { return block_ && (block_->sums & intact_bit) != 0; }
    /// Whether the CRC of exactly the range @p of is missing.
    [[nodiscard]] bool crc_is_missing(Bytes of) const {
        return (block_->sums & crc_missing) != 0 && of.data() == block_->bytes() + block_->payload_at &&
               of.data() + of.size() == data_ + size_;
    }
    /// The packet, and all others of its block, are not intact any more, and no sum is missing.
    void fill_in() const {
        if (!block_)
            return;
        if ((block_->sums & (crc_missing | checksum_missing)) != 0) [[unlikely]]
            compute_sums_at(block_->payload_at);
        block_->sums = 0;
    }

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
        if (block_ && (block_->sums & (crc_missing | checksum_missing)) != 0)
            fill_in();
        if (shared() || headroom() + size > capacity_of(block_->index)) {
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
    /// Bits of Block::sums.
    enum : std::uint8_t { crc_missing = 1, checksum_missing = 2, intact_bit = 4 };
    struct Block {
        std::uint32_t references;
        std::uint16_t index;         ///< of its size
        std::uint8_t payload_at = 0; ///< where the bytes begin whose sums are missing
        std::uint8_t sums = 0;
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
    static constexpr std::size_t capacity_of(std::size_t index) { return (index + 1) * step - sizeof(Block); }
    static Block* allocate(std::size_t bytes) {
        const std::size_t index = index_of(bytes);
        Block* block;
        if (index < sizes && kept_.count[index] != 0)
            block = kept_.blocks[index][--kept_.count[index]];
        else if (index <= UINT16_MAX)
            block = static_cast<Block*>(::operator new((index + 1) * step));
        else
            throw std::bad_alloc();
        return new (block) Block{.references = 1, .index = static_cast<std::uint16_t>(index)};
    }
    static void release(Block* block) {
        const std::size_t index = block->index;
        if (keeps && index < sizes && kept_.count[index] != kept) {
            kept_.blocks[index][kept_.count[index]++] = block;
            return;
        }
        ::operator delete(block);
    }

    /// Records that a sum is missing which covers the last @p payload bytes.
    void omit(std::size_t payload, std::uint8_t what) {
        const auto at = static_cast<std::size_t>(data_ + size_ - payload - block_->bytes());
        block_->payload_at = static_cast<std::uint8_t>(at);
        block_->sums |= what;
        if (at > UINT8_MAX) [[unlikely]]
            compute_sums_at(at);
    }
    void compute_sums_at(std::size_t payload_at) const;

    Block* block_ = nullptr;
    std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace t3sim
