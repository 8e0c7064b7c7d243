// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/wire.hh"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

spdlog::logger& log = logger("wire");

} // namespace

Wire::Wire(EventQueue& queue, std::string name) : queue_(queue), name_(std::move(name)) {}

unsigned Wire::attach(Endpoint& endpoint, std::string label) {
    endpoints_.push_back(&endpoint);
    labels_.push_back(std::move(label));
    endpoint.carrier(up_);
    return static_cast<unsigned>(endpoints_.size() - 1);
}

void Wire::send(const Endpoint& from, Bytes frame) {
    const auto it = std::find(endpoints_.begin(), endpoints_.end(), &from);
    if (it == endpoints_.end())
        throw std::logic_error("wire " + name_ + ": send by somebody who is not attached");
    if (!up_) {
        statistics_.lost_down++;
        return;
    }
    const auto port = static_cast<unsigned>(it - endpoints_.begin());
    statistics_.frames++;
    statistics_.bytes += frame.size();
    log.trace("{}: {} sends {} bytes", name_, labels_[port], frame.size());
    for (Tap* tap : taps_)
        tap->frame(port, frame);
    queue_.after(0, [this, port, plug = plug_, copy = Buffer(frame.begin(), frame.end())] {
        deliver(port, plug, copy);
    });
}

void Wire::deliver(unsigned from, std::uint64_t plug, Bytes frame) {
    if (plug != plug_) {
        statistics_.lost_down++;
        return;
    }
    for (unsigned port = 0; port < endpoints_.size(); port++)
        if (port != from)
            endpoints_[port]->frame_in(frame);
}

void Wire::set_up(bool up) {
    if (up == up_)
        return;
    up_ = up;
    plug_++;
    log.info("{}: {}", name_, up ? "plugged" : "pulled");
    for (Endpoint* endpoint : endpoints_)
        endpoint->carrier(up);
}

} // namespace t3sim
