// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A QEMU network backend as an end of a wire: -netdev stream,id=n0,server=off,addr.type=unix,addr.path=PATH.
// On the socket each frame follows a 32-bit big-endian length. This connects an ordinary guest NIC to a card.
#pragma once

#include <cstdint>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/unix_socket.hh"
#include "sim/core/worker.hh"
#include "sim/net/link.hh"

namespace t3sim {

class QemuSocket : public Endpoint {
public:
    /// Listens at @p path and serves one QEMU at a time. Sends received frames to @p link, which must outlive
    /// this. Throws as Listener does.
    QemuSocket(EventLoop& loop, Link& link, const std::string& path);
    ~QemuSocket() override;
    QemuSocket(const QemuSocket&) = delete;
    QemuSocket& operator=(const QemuSocket&) = delete;

    void frame_in(Bytes frame) override;
    void carrier(bool) override {} // the protocol cannot express it
    void resume_send() override;

    [[nodiscard]] bool connected() const { return static_cast<bool>(socket_); }
    /// Frames dropped because the queue to QEMU was full or no QEMU was connected.
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

private:
    void accept(Fd socket);
    void hang_up(const char* why);
    void ready(std::uint32_t events);
    void take_frames();
    void watch_events();

    EventLoop& loop_;
    Link& link_;
    std::string path_;
    Worker worker_; ///< closes what QEMU sends: a frame needs no descriptor
    Fd socket_;
    EventLoop::Watch watch_ = 0;
    Buffer input_;
    Buffer output_;     ///< not yet accepted by the socket; may begin in the middle of a frame
    bool full_ = false; ///< the link is full: the socket is not read
    std::uint64_t dropped_ = 0;
    const EventLoop::SharedShare share_ = std::make_shared<EventLoop::Share>(); ///< of all QEMUs
    Listener listener_;
};

} // namespace t3sim
