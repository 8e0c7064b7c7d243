// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// For tests of the servers: what a client can make an access to a descriptor cost.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include <sys/epoll.h>
#include <unistd.h>

#include "sim/core/event_loop.hh"
#include "sim/core/fd.hh"
#include "tests/sim/hostile/effort.hh"

namespace t3sim::test {

/// 90,000 entries of instances of epoll wait for one descriptor. Linux wakes all of them, in the thread that
/// reads, writes or signals.
class Waiters {
public:
    /// @p instances: fewer cost less.
    explicit Waiters(const Fd& fd, std::size_t instances = 300) : epolls_(instances) {
        for (Fd& epoll : epolls_)
            epoll.reset(epoll_create1(EPOLL_CLOEXEC));
        epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {}};
        for (Fd& copy : copies_) { // each counts
            copy.reset(dup(fd.get()));
            for (const Fd& epoll : epolls_)
                epoll_ctl(epoll.get(), EPOLL_CTL_ADD, copy.get(), &event);
        }
    }
    /// One that is ready already costs less.
    void wait_again() {
        std::array<epoll_event, 300> ready{};
        for (const Fd& epoll : epolls_)
            (void)epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), 0);
    }

private:
    std::vector<Fd> epolls_;
    std::array<Fd, 300> copies_;
};

/// Whether @p action gets no more than a twentieth of the time, and the first long ones, as a client that has
/// to rest. @p prepare does not count.
template <typename Prepare, typename Action> bool has_to_rest(Prepare&& prepare, Action&& action) {
    using namespace std::chrono;
    std::uint64_t all = 0, longest = 0;
    const auto begin = steady_clock::now();
    for (int i = 0; i < 40; ++i) {
        prepare();
        Effort effort;
        action();
        effort.action_ends();
        all += effort.longest_action();
        longest = std::max(longest, effort.longest_action());
    }
    const auto time = static_cast<std::uint64_t>(nanoseconds(steady_clock::now() - begin).count());
    std::printf("%ju us of %ju us, the longest one %ju us\n", static_cast<std::uintmax_t>(all / 1000),
                static_cast<std::uintmax_t>(time / 1000), static_cast<std::uintmax_t>(longest / 1000));
    return longest > 1'500'000 && all < time / 20 + (EventLoop::single_handlers + 3) * longest;
}

} // namespace t3sim::test
