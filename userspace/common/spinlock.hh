// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A lock for critical sections of some tens of instructions, which can be switched off for programs that
// promise to use an object from one thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

namespace common {

class SpinLock {
public:
    explicit SpinLock(bool needed = true) : needed_(needed) {}
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

    void lock() {
        while (!try_lock())
            [[unlikely]] wait();
    }
    bool try_lock() {
        if (needed_) [[likely]]
            return !locked_.exchange(true, std::memory_order_acquire);
        return true;
    }
    // A lock that is not needed was never taken, and stays free.
    void unlock() { locked_.store(false, std::memory_order_release); }

private:
    // The owner may have lost its CPU: after a short spin the waiter offers its own.
    void wait() const {
        for (unsigned spins = 0; locked_.load(std::memory_order_relaxed); spins++) {
            if (spins >= 100)
                sched_yield();
        }
    }

    std::atomic<bool> locked_{false};
    const bool needed_;
};

} // namespace common
