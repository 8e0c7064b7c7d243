// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Linux TAP interface as an end of a wire. It connects the card to the host's TCP/IP stack, to bridges and
// to tcpdump.
#pragma once

#include <cstdint>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/fd.hh"
#include "sim/net/link.hh"

namespace t3sim {

class TapDevice : public Endpoint {
public:
    /// Opens the interface @p name, or creates it if the process has the privileges. Sends received frames to
    /// @p link, which must outlive this. Throws std::runtime_error with a complete sentence.
    TapDevice(EventLoop& loop, Link& link, const std::string& name);
    ~TapDevice() override;
    TapDevice(const TapDevice&) = delete;
    TapDevice& operator=(const TapDevice&) = delete;

    void frame_in(Bytes frame) override;
    void carrier(bool up) override;
    void resume_send() override;
    /// Frames that the interface did not accept (it is down, or its queue is full).
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

private:
    void ready();

    EventLoop& loop_;
    Link& link_;
    std::string name_;
    Fd fd_;
    EventLoop::Watch watch_ = 0;
    std::uint64_t dropped_ = 0;
};

} // namespace t3sim
