// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/rig.hh"

#include <stdexcept>

namespace t3sim {

Rig::Rig(EventLoop& loop, const Options& options) : loop_(loop) {
    for (const auto& description : options.cards) {
        Slot slot{.description = description, .server = {}, .card = {}};
        slot.server = std::make_unique<vfio::Server>(loop, description.socket);
        slot.card = std::make_unique<Card>(
            CardConfig{.name = description.name, .mac = description.mac, .serial = description.serial},
            *slot.server, loop.queue());
        slots_.push_back(std::move(slot));
    }
    for (const auto& description : options.wires) {
        auto& wire = *wires_.emplace_back(std::make_unique<Wire>(loop.queue(), description.name));
        for (const auto& end : description.ends) {
            Card& card = *slot(end.card)->card;
            card.connect(end.port, wire);
            wire.attach(card.port(end.port), end.label());
        }
    }
    // Last, so that no guest sees a card that has no wire yet.
    for (const auto& slot : slots_)
        slot.server->attach(*slot.card);
}

Rig::~Rig() {
    // A card may still want to say something to its host and to its wires when it goes.
    for (auto& slot : slots_)
        slot.card.reset();
}

const Rig::Slot* Rig::slot(const std::string& name) const {
    for (const auto& slot : slots_)
        if (slot.description.name == name)
            return &slot;
    return nullptr;
}

Wire* Rig::wire(const std::string& name) const {
    for (const auto& wire : wires_)
        if (wire->name() == name)
            return wire.get();
    return nullptr;
}

} // namespace t3sim
