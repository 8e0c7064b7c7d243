// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What an input costs the model. `t3sim` has one thread: an action that nothing can interrupt (one event, one
// access to a register) delays all other guests and the control socket by its processor time, and the heap is
// shared by all cards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <ctime>
#include <malloc.h>

// Of the sanitizers' allocator, which does not fill in mallinfo2().
extern "C" [[gnu::weak]] std::size_t __sanitizer_get_current_allocated_bytes();

namespace t3sim::test {

class Effort {
public:
    /// Between two calls is one action.
    void action_begins() { began_ = cpu_time(); }
    void action_ends() {
        const std::uint64_t now = cpu_time();
        longest_ = std::max(longest_, now - began_);
        began_ = now;
    }
    void look_at_heap() { most_heap_ = std::max(most_heap_, heap()); }

    /// Nanoseconds of processor time, so that a busy machine does not matter.
    [[nodiscard]] std::uint64_t longest_action() const { return longest_; }
    /// Bytes that were allocated beyond those at the begin.
    [[nodiscard]] std::size_t heap_growth() const { return most_heap_ - std::min(first_heap_, most_heap_); }

    /// A sentence if a limit was exceeded, else an empty string.
    [[nodiscard]] std::string excess() const {
        if (longest_ > longest_allowed)
            return "an action took " + std::to_string(longest_ / 1000) + " us of processor time, at most " +
                   std::to_string(longest_allowed / 1000) + " are allowed";
        if (heap_growth() > heap_allowed)
            return "the heap grew by " + std::to_string(heap_growth() >> 10) + " KiB, at most " +
                   std::to_string(heap_allowed >> 10) + " are allowed";
        return "";
    }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static constexpr std::uint64_t slowness = 10;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    static constexpr std::uint64_t slowness = 10;
#else
    static constexpr std::uint64_t slowness = 1;
#endif
#else
    static constexpr std::uint64_t slowness = 1;
#endif
    /// Interrupts of the machine count as processor time, so a run that exceeds a limit is repeated: an input
    /// that costs too much does so each time.
    static constexpr unsigned attempts = 10;
    /// What each of the attempts exceeds; "" if one is within the limits. @p run returns that of one.
    template <typename Run> static std::string excess_each_time(Run run) {
        std::string excess = run();
        for (unsigned again = attempts - 1; again != 0 && !excess.empty(); --again)
            excess = run();
        return excess;
    }
    /// 350 us and 15 MB are usual.
    static constexpr std::uint64_t longest_allowed = 3'000'000 * slowness;
    static constexpr std::size_t heap_allowed = 32 << 20;

    /// Of this thread, in ns.
    static std::uint64_t cpu_time() {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
               static_cast<std::uint64_t>(now.tv_nsec);
    }

private:
    static std::size_t heap() {
        if (__sanitizer_get_current_allocated_bytes)
            return __sanitizer_get_current_allocated_bytes();
        const struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
    }

    std::uint64_t began_ = cpu_time(), longest_ = 0;
    std::size_t first_heap_ = heap(), most_heap_ = 0;
};

} // namespace t3sim::test
