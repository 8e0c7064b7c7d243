// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A thread for calls to Linux that a client can make wait, so that they delay only this client. The close of
// a descriptor waits for the client's own FUSE server, or for a socket that lingers; the last reference to
// its memory frees all of it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sim/core/event_loop.hh"
#include "sim/core/fd.hh"

namespace t3sim {

class Worker {
public:
    /// Starts the thread: later the process may have no more. Throws std::system_error.
    Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    /// Does not wait for tasks. They are still executed, unless the program ends.
    ~Worker();

    /// Executes @p task after all earlier ones.
    void run(std::function<void()> task);
    void close(Fd fd);
    void close(std::vector<Fd> fds);
    /// It has so many unfinished tasks that its client should get no more, so that it cannot use up the
    /// descriptors of the process.
    [[nodiscard]] bool is_behind() const;
    /// @p handler is called in the thread of @p loop each time when the last task has ended.
    void on_idle(EventLoop& loop, std::function<void()> handler);

private:
    struct State;
    std::shared_ptr<State> state_;
    std::shared_ptr<std::function<void()>> idle_;
};

} // namespace t3sim
