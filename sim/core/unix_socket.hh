// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <functional>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/fd.hh"

namespace t3sim {

/// A listening unix stream socket. Its destructor removes the file. A stale file of an ended process is
/// replaced; a file at which another process listens is not.
class Listener {
public:
    using Accepted = std::function<void(Fd socket)>;

    /// Throws std::runtime_error with a complete sentence. @p share: that of its clients.
    Listener(EventLoop& loop, std::string path, Accepted accepted,
             EventLoop::SharedShare share = std::make_shared<EventLoop::Share>());
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener();

    /// While paused, clients stay in the backlog.
    void pause(bool paused) {
        paused_ = paused;
        loop_.change(watch_, paused ? 0U : EPOLLIN);
    }

private:
    void accept();

    /// After which it tries again when the process or the system has no more descriptors.
    static constexpr Time retry_time = 100'000'000;

    EventLoop& loop_;
    std::string path_;
    Fd socket_;
    Accepted accepted_;
    bool paused_ = false;
    EventLoop::Watch watch_ = 0;
    EventQueue::Repeated retry_;
};

/// Connects to a unix stream socket; an empty Fd and errno on failure.
Fd connect_unix(const std::string& path);

} // namespace t3sim
