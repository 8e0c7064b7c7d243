// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Timers, earliest first: those of an EventQueue, and those of TCP connections. An indexed binary heap: a
// timer stores its index in the heap, so stopping it removes it at once and earliest() never returns a timer
// whose owner is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/core/time.hh"

namespace t3sim {

/// One timer, a member of its owner. It must be stopped before the owner is destroyed.
class Timer {
public:
    Timer() = default;
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    [[nodiscard]] bool running() const { return place_ != nowhere; }
    [[nodiscard]] Time when() const { return when_; }
    /// Of the last start; each start of a heap has its own.
    [[nodiscard]] std::uint64_t serial() const { return serial_; }

private:
    friend class TimerHeap;
    static constexpr std::size_t nowhere = SIZE_MAX;
    Time when_ = 0;
    std::uint64_t serial_ = 0; // timers of one time fire in the order in which they were started
    std::size_t place_ = nowhere;
};

class TimerHeap {
public:
    void start(Timer& t, Time when) {
        stop(t);
        t.when_ = when;
        t.serial_ = ++serial_;
        t.place_ = heap_.size();
        heap_.push_back(&t);
        up(t.place_);
    }
    void stop(Timer& t) {
        if (!t.running())
            return;
        const std::size_t hole = std::exchange(t.place_, Timer::nowhere);
        Timer* last = heap_.back();
        heap_.pop_back();
        if (last == &t)
            return;
        put(hole, last);
        down(hole);
        up(last->place_);
    }
    [[nodiscard]] bool empty() const { return heap_.empty(); }
    [[nodiscard]] std::size_t size() const { return heap_.size(); }
    [[nodiscard]] Timer* earliest() const { return heap_.empty() ? nullptr : heap_.front(); }

private:
    static bool before(const Timer* a, const Timer* b) {
        return a->when_ != b->when_ ? a->when_ < b->when_ : a->serial_ < b->serial_;
    }
    void put(std::size_t i, Timer* t) {
        heap_[i] = t;
        t->place_ = i;
    }
    void up(std::size_t i) {
        Timer* t = heap_[i];
        for (; i > 0 && before(t, heap_[(i - 1) / 2]); i = (i - 1) / 2)
            put(i, heap_[(i - 1) / 2]);
        put(i, t);
    }
    void down(std::size_t i) {
        Timer* t = heap_[i];
        for (std::size_t child; (child = 2 * i + 1) < heap_.size(); i = child) {
            if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child]))
                ++child;
            if (!before(heap_[child], t))
                break;
            put(i, heap_[child]);
        }
        put(i, t);
    }

    std::vector<Timer*> heap_;
    std::uint64_t serial_ = 0;
};

} // namespace t3sim
