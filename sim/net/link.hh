// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Where Ethernet frames go. A card's port is an Endpoint of a Link; a Link may join two ports, or a port
// and a TAP device, or more (then it floods, as a hub does). Frames carry no FCS.
#pragma once

#include "sim/core/bytes.hh"

namespace t3sim {

/// Something that frames can be handed to.
class Endpoint {
public:
    virtual ~Endpoint() = default;
    virtual void frame_in(Bytes frame) = 0;
    /// The signal came or went (cable plugged or pulled).
    virtual void carrier(bool up) = 0;
    /// The link has room again, after it refused it (Link::room()).
    virtual void room() {}
};

/// The port's view of its cable.
class Link {
public:
    virtual ~Link() = default;
    /// Hands a frame to everybody else on the link, later (never from within this call).
    virtual void send(const Endpoint& from, Bytes frame) = 0;
    [[nodiscard]] virtual bool up() const = 0;
    /// Whether @p from should send more. False: Endpoint::room() follows when it should. What is sent in
    /// spite of it is taken, up to a limit that only small frames in answer to others should ever come near.
    virtual bool room([[maybe_unused]] const Endpoint& from) { return true; }
};

} // namespace t3sim
