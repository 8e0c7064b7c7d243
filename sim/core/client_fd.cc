// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/client_fd.hh"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

/// Negative: no socket.
int socket_option(const Fd& fd, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd.get(), SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// A write to an eventfd waits if O_NONBLOCK is clear and the counter is full, and a client can do both. The
/// kernel's own notification of an asynchronous request never waits. So each signal is that of an empty
/// write.
class Notifier {
public:
    Notifier() : null_(open("/dev/null", O_WRONLY | O_CLOEXEC)) {
        syscall(SYS_io_setup, results.size(), &context_);
    }
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;
    ~Notifier() { syscall(SYS_io_destroy, context_); }

    bool signal(int eventfd) {
        iocb request{};
        request.aio_lio_opcode = IOCB_CMD_PWRITE;
        request.aio_fildes = static_cast<std::uint32_t>(null_.get());
        request.aio_buf = reinterpret_cast<std::uintptr_t>(&request);
        request.aio_flags = IOCB_FLAG_RESFD;
        request.aio_resfd = static_cast<std::uint32_t>(eventfd);
        iocb* const requests[] = {&request};
        if (syscall(SYS_io_submit, context_, 1, requests) == 1)
            return true;
        // Without space for the results of more requests.
        syscall(SYS_io_getevents, context_, 0, results.size(), results.data(), nullptr);
        return syscall(SYS_io_submit, context_, 1, requests) == 1;
    }

private:
    Fd null_;
    aio_context_t context_ = 0;
    std::array<io_event, 128> results{};
};

Notifier& notifier() {
    thread_local Notifier of_this_thread;
    return of_this_thread;
}

void write_one(const Eventfd& to) {
    const std::uint64_t one = 1;
    if (to.is_socket) {
        send(to.fd.get(), &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    // A container may refuse asynchronous requests, and other processes may use up those of the machine. Then
    // a client that clears the flag now makes the write to its full counter wait.
    set_nonblocking(to.fd);
    [[maybe_unused]] const ssize_t n = ::write(to.fd.get(), &one, sizeof one);
}

constexpr std::int64_t long_signal = 100'000, longest_signal = 1'000'000, rest_factor = 1000;

/// Of processor time, so that a busy machine does not matter.
std::int64_t nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

} // namespace

ssize_t receive_with(int socket, void* to, std::size_t size, std::vector<Fd>& fds) {
    constexpr std::size_t most = 253; // that Linux sends at a time
    iovec vec{to, size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most * sizeof(int))> control; // NOLINT: recvmsg() fills it
    msghdr message{};
    message.msg_iov = &vec;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return n;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; i++) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            fds.emplace_back(fd);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) { // this process may have no more descriptors
        errno = EMFILE;
        return -1;
    }
    return n;
}

bool is_unix_stream(const Fd& fd) {
    return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

bool is_socket(const Fd& fd) {
    return socket_option(fd, SO_TYPE) >= 0;
}

void Signals::prepare() {
    // Its pages are not there yet, which takes longer than a signal may on some machines.
    const Fd own(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    notifier().signal(own.get());
}

void Signals::signal(const SharedEventfd& eventfd) {
    if (const std::int64_t began = nanoseconds(); !slow_ && began >= slow_until_) {
        bool done = true;
        if (eventfd->is_socket)
            write_one(*eventfd);
        else
            done = notifier().signal(eventfd->fd.get());
        const std::int64_t took = nanoseconds() - began;
        if (took > long_signal)
            slow_until_ = began + rest_factor * took;
        slow_ = took > longest_signal;
        if (slow_)
            logger("irq").warn("a signal of a client took more than 1 ms: the worker signals from now on");
        if (done)
            return;
    }
    if (eventfd->waits.exchange(true))
        return;
    worker_.run([eventfd] {
        eventfd->waits = false;
        write_one(*eventfd);
    });
}

void Signals::release(SharedEventfd eventfd) {
    if (eventfd)
        worker_.run([eventfd = std::move(eventfd)] {});
}

} // namespace t3sim
