// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The interface between a port and its cable. A card's port is an Endpoint of a Link. A Link joins two
// endpoints (ports, TAP devices, ...), or more, which it then floods as a hub does. Frames carry no FCS.
#pragma once

#include "sim/core/packet.hh"

namespace t3sim {

/// A receiver of frames.
class Endpoint {
public:
    virtual ~Endpoint() = default;
    virtual void frame_in(Bytes frame) = 0;
    /// The same, from a sender of this process. A receiver that does not know of missing sums gets a complete
    /// frame.
    virtual void packet_in(const Packet& frame) { frame_in(frame); }
    /// Whether it is a card whose segments nothing observes or counts.
    [[nodiscard]] virtual bool takes_bursts() const { return false; }
    /// More frames follow at once (true), or the last one has come (false): one ACK may cover several
    /// segments. Only if both ends of the link take bursts.
    virtual void burst([[maybe_unused]] bool on) {}
    /// The carrier state has changed (cable plugged or unplugged).
    virtual void carrier(bool up) = 0;
    /// The link accepts frames again, after Link::ready_or_wait() returned false.
    virtual void resume_send() {}
};

/// The port's view of its cable.
class Link {
public:
    virtual ~Link() = default;
    /// Delivers a frame to all other endpoints of the link, later (never from within this call).
    virtual void send(const Endpoint& from, Packet&& frame) = 0;
    void send(const Endpoint& from, Bytes frame) { send(from, Packet::copy(frame)); }
    [[nodiscard]] virtual bool up() const = 0;
    /// Whether @p from should send more. If false, Endpoint::resume_send() follows. The link still accepts
    /// frames after false, up to a limit. Nothing that a peer can cause at will should be sent then.
    virtual bool ready_or_wait([[maybe_unused]] const Endpoint& from) { return true; }
};

} // namespace t3sim
