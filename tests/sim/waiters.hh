// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// For tests of the servers: what a client can make an access to a descriptor cost.
#pragma once

#include <array>

#include <sys/epoll.h>
#include <unistd.h>

#include "sim/core/fd.hh"

namespace t3sim::test {

/// 90,000 entries of instances of epoll wait for one descriptor. Linux wakes all of them, in the thread that
/// reads, writes or signals.
class Waiters {
public:
    explicit Waiters(const Fd& fd) {
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
    std::array<Fd, 300> epolls_, copies_;
};

} // namespace t3sim::test
