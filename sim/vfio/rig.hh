// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Everything that one t3sim process holds: cards behind their sockets, and the wires between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/card/card.hh"
#include "sim/core/event_loop.hh"
#include "sim/net/wire.hh"
#include "sim/vfio/options.hh"
#include "sim/vfio/server.hh"

namespace t3sim {

class Rig {
public:
    /// Throws std::runtime_error with a complete sentence if something cannot be opened.
    Rig(EventLoop& loop, const Options& options);
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    ~Rig();

    struct Slot {
        Options::Card description;
        std::unique_ptr<vfio::Server> server;
        std::unique_ptr<Card> card;
    };
    [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }
    [[nodiscard]] const Slot* slot(const std::string& name) const;
    [[nodiscard]] const std::vector<std::unique_ptr<Wire>>& wires() const { return wires_; }
    [[nodiscard]] Wire* wire(const std::string& name) const;

private:
    EventLoop& loop_;
    std::vector<std::unique_ptr<Wire>> wires_;
    std::vector<Slot> slots_;
};

} // namespace t3sim
