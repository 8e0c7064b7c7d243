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
#include <map>
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
        if (now - began_ > longest_allowed)
            too_long_[actions_] = now - began_;
        ++actions_;
        began_ = now;
    }
    void look_at_heap() { most_heap_ = std::max(most_heap_, heap()); }

    /// Nanoseconds of processor time, so that a busy machine does not matter.
    [[nodiscard]] std::uint64_t longest_action() const { return longest_; }
    /// Bytes that were allocated beyond those at the begin.
    [[nodiscard]] std::size_t heap_growth() const { return most_heap_ - std::min(first_heap_, most_heap_); }

    /// A sentence if a limit was exceeded, else an empty string.
    [[nodiscard]] std::string excess() const {
        if (!too_long_.empty()) {
            const auto& [action, time] = *too_long_.begin();
            return "action " + std::to_string(action) + " took " + std::to_string(time / 1000) +
                   " us of processor time, at most " + std::to_string(longest_allowed / 1000) +
                   " are allowed";
        }
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
    /// Interrupts of the machine, and of the machine that it is a guest of, count as processor time. So a run
    /// that exceeds a limit is repeated: an input that costs too much does so each time, in the same action.
    static constexpr unsigned attempts = 10;
    /// What each of the attempts exceeds, else "". @p run returns the Effort of one.
    template <typename Run> static std::string excess_each_time(Run run) {
        Effort least = run();
        for (unsigned again = attempts - 1; again != 0 && !least.excess().empty(); --again)
            least.keep_common(run());
        return least.excess();
    }
    /// Of seven equal actions and more, those that the same interrupts may lengthen.
    static constexpr int interrupted = 3;
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

    /// Keeps what both runs of one input exceed. Where they differ in their actions, all of a run are one.
    void keep_common(const Effort& other) {
        if (other.too_long_.empty())
            too_long_.clear();
        else if (other.actions_ == actions_)
            std::erase_if(too_long_,
                          [&](const auto& action) { return !other.too_long_.contains(action.first); });
        if (other.heap_growth() < heap_growth())
            most_heap_ = first_heap_ + other.heap_growth();
    }

    std::uint64_t began_ = cpu_time(), longest_ = 0, actions_ = 0;
    std::map<std::uint64_t, std::uint64_t> too_long_; // their times by number, in ns
    std::size_t first_heap_ = heap(), most_heap_ = 0;
};

} // namespace t3sim::test
