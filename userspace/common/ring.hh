// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Counters of a ring with one producer and one consumer. They run freely through 2^32 and are masked only
// to index; fill level and order are differences, never comparisons.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace common {

class RingSize {
public:
    RingSize() = default;
    explicit constexpr RingSize(unsigned log2) : log2_(log2), mask_((1u << log2) - 1) {}

    constexpr uint32_t entries() const { return mask_ + 1; }
    constexpr unsigned log2() const { return log2_; }
    constexpr uint32_t index(uint32_t counter) const { return counter & mask_; }
    // Parity of the lap that a counter is in. Rings that mark valid entries by lap start at 1 and alternate.
    constexpr bool lap_bit(uint32_t counter) const { return !((counter >> log2_) & 1); }

private:
    unsigned log2_ = 0;
    uint32_t mask_ = 0;
};

// True if `counter` is in [from, to), going up from `from` with wrap-around.
constexpr bool counter_within(uint32_t counter, uint32_t from, uint32_t to) {
    return counter - from < to - from;
}

// The producer owns `tail`, the consumer owns `head`. Each publishes its own with release and reads the
// other's with acquire, so that entries need no lock between the two sides.
class RingCounters {
public:
    uint32_t tail_relaxed() const { return tail_.load(std::memory_order_relaxed); }
    uint32_t tail() const { return tail_.load(std::memory_order_acquire); }
    uint32_t head_relaxed() const { return head_.load(std::memory_order_relaxed); }
    uint32_t head() const { return head_.load(std::memory_order_acquire); }
    void publish_tail(uint32_t v) { tail_.store(v, std::memory_order_release); }
    // For the producer. Reads the consumer's cache line only if the last value read of it means full.
    bool full(uint32_t capacity) {
        if (tail_relaxed() - head_seen_ < capacity)
            return false;
        head_seen_ = head();
        return tail_relaxed() - head_seen_ >= capacity;
    }
    void publish_head(uint32_t v) { head_.store(v, std::memory_order_release); }
    // Both sides must be idle.
    void reset(uint32_t start = 0) {
        head_.store(start, std::memory_order_relaxed);
        tail_.store(start, std::memory_order_relaxed);
        head_seen_ = start;
    }

private:
    std::atomic<uint32_t> tail_{0};
    uint32_t head_seen_ = 0;
    alignas(64) std::atomic<uint32_t> head_{0};
};

} // namespace common
