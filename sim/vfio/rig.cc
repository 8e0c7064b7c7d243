// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/rig.hh"

#include <filesystem>
#include <stdexcept>

#include <sys/random.h>

#include "sim/net/qemu_socket.hh"
#include "sim/net/tap.hh"
#include "sim/vfio/server.hh"
#include "sim/vhost/server.hh"

namespace t3sim {

namespace {

std::array<std::uint64_t, 2> random_secret() {
    std::array<std::uint64_t, 2> secret{};
    if (getrandom(secret.data(), sizeof secret, 0) != sizeof secret)
        throw std::runtime_error("getrandom() failed");
    return secret;
}

} // namespace

Rig::Rig(EventLoop& loop, const Options& options) : loop_(loop) {
    for (const auto& description : options.cards) {
        Slot slot{.description = description, .server = {}, .card = {}};
        if (description.vhost_user)
            slot.server = std::make_unique<vhost::Server>(loop, description.socket);
        else
            slot.server = std::make_unique<vfio::Server>(loop, description.socket);
        slot.card = std::make_unique<Card>(CardConfig{.name = description.name,
                                                      .mac = description.mac,
                                                      .serial = description.serial,
                                                      .chip = description.chip,
                                                      .lanes = description.lanes,
                                                      .secret = random_secret()},
                                           *slot.server, loop.queue());
        for (const auto& guess : options.guesses)
            slot.card->guess(guess);
        slots_.push_back(std::move(slot));
    }
    for (const auto& description : options.wires) {
        auto& wire = *wires_.emplace_back(std::make_unique<Wire>(loop.queue(), description.name));
        for (const auto& end : description.ends)
            plug(wire, end);
    }
    if (!options.capture.empty())
        start_capture(options.capture, options.capture_limit);
    if (!options.record.empty())
        start_recording(options.record, options.record_limit);
    // Last, so that no guest accesses a card before its wires are connected.
    for (const auto& slot : slots_)
        slot.server->attach(*slot.card);
}

void Rig::plug(Wire& wire, const Options::End& end) {
    switch (end.kind) {
    case Options::End::Kind::card_port: {
        Card& card = *slot(end.card)->card;
        card.connect(end.port, wire);
        wire.attach(card.port(end.port), end.label());
        return;
    }
    case Options::End::Kind::qemu:
        others_.push_back(std::make_unique<QemuSocket>(loop_, wire, end.where));
        break;
    case Options::End::Kind::tap:
        others_.push_back(std::make_unique<TapDevice>(loop_, wire, end.where));
        break;
    }
    wire.attach(*others_.back(), end.label());
}

std::vector<std::string> Rig::start_capture(const std::string& directory, std::uint64_t limit) {
    stop_capture();
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error)
        throw std::runtime_error("cannot make '" + directory + "': " + error.message());
    std::vector<std::unique_ptr<PcapngWriter>> captures;
    std::vector<std::string> files;
    for (const auto& wire : wires_) {
        files.push_back(directory + "/" + wire->name() + ".pcapng");
        captures.push_back(std::make_unique<PcapngWriter>(loop_.queue(), *wire, files.back(), limit));
    }
    captures_ = std::move(captures);
    return files;
}

bool Rig::stop_capture() {
    const bool ran = !captures_.empty();
    captures_.clear();
    return ran;
}

void Rig::start_recording(const std::string& path, std::uint64_t limit) {
    stop_recording();
    recorder_ = std::make_unique<Recorder>(loop_.queue(), path, limit);
    for (const auto& slot : slots_)
        slot.card->record(recorder_.get());
}

bool Rig::stop_recording() {
    for (const auto& slot : slots_)
        slot.card->record(nullptr);
    return std::exchange(recorder_, nullptr) != nullptr;
}

Rig::~Rig() {
    // The destructor of a card may still access its host and its wires.
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
