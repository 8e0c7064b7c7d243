// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Descriptors that a client sends. The client has them, too, and with them the flags that both share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "sim/core/fd.hh"
#include "sim/core/worker.hh"

namespace t3sim {

/// Receives from a socket without waiting, as recv() does, with all descriptors that come along: the kernel
/// would close the others in this thread, which may take any time.
ssize_t receive_with(int socket, void* to, std::size_t size, std::vector<Fd>& fds);

/// They call no file system. A send() with MSG_DONTWAIT to a stream of AF_UNIX never waits; but before
/// Linux 6.9, while more than 16,000 such sockets of the machine are in messages, it frees those that are
/// only in each other's.
bool is_unix_stream(const Fd& fd);
bool is_socket(const Fd& fd);

/// An eventfd that this process signals, or a stream of AF_UNIX: User Mode Linux has no SIGIO of an eventfd.
/// Its last close may take long, too: Signals::release().
struct Eventfd {
    explicit Eventfd(Fd&& eventfd, bool socket = false) : fd(std::move(eventfd)), is_socket(socket) {}
    Fd fd;
    const bool is_socket;
    std::atomic<bool> waits = false; ///< for the worker
};
using SharedEventfd = std::shared_ptr<Eventfd>;

/// The signals of one server. A client decides what they cost: Linux wakes all that wait for it, and
/// a client can let 100,000 instances of epoll wait. After the first one that takes more than 1 ms the worker
/// signals, which delays only this server's clients; after one that takes more than 0.1 ms, until this thread
/// has used 1,000 times as much.
class Signals {
public:
    explicit Signals(Worker& worker) : worker_(worker) {}
    /// Adds one, or nothing to a counter at its limit or a full socket. Does not block, also if the client
    /// has cleared O_NONBLOCK.
    void signal(const SharedEventfd& eventfd);
    void release(SharedEventfd eventfd);
    /// The next client has not made the signals slow.
    void forget_client() { slow_ = false; }
    /// Of this thread: makes now what the first signal would make.
    static void prepare();

private:
    Worker& worker_;
    std::int64_t slow_until_ = 0; ///< of processor time
    bool slow_ = false;           ///< until the client has gone
};

} // namespace t3sim
