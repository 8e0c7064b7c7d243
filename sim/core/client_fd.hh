// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Descriptors that a client sends. The client has them, too, and with them the flags that both share.
#pragma once

#include <cstddef>
#include <vector>

#include <sys/types.h>

#include "sim/core/fd.hh"

namespace t3sim {

/// Receives from a socket without waiting, as recv() does, with all descriptors that come along: the kernel
/// would close the others in this thread, which may take any time.
ssize_t receive_with(int socket, void* to, std::size_t size, std::vector<Fd>& fds);

/// They call no file system. A send() with MSG_DONTWAIT to a stream of AF_UNIX never waits.
bool is_unix_stream(const Fd& fd);
bool is_socket(const Fd& fd);

/// Neither blocks, also if the client has cleared O_NONBLOCK. signal_eventfd() adds one, or nothing to a
/// counter at its limit.
void signal_eventfd(const Fd& eventfd);
void clear_eventfd(const Fd& eventfd);

} // namespace t3sim
