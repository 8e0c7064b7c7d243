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
    ports_.push_back({.endpoint = &endpoint, .impairer = nullptr});
    labels_.push_back(std::move(label));
    endpoint.carrier(up_);
    return static_cast<unsigned>(ports_.size() - 1);
}

void Wire::impair(unsigned port, const Impairments& impairments) {
    ports_.at(port).impairer = std::make_unique<Impairer>(impairments);
}

unsigned Wire::port_of(const Endpoint& endpoint) const {
    const auto it = std::find_if(ports_.begin(), ports_.end(),
                                 [&](const Port& port) { return port.endpoint == &endpoint; });
    if (it == ports_.end())
        throw std::logic_error("wire " + name_ + ": send from an endpoint that is not attached");
    return static_cast<unsigned>(it - ports_.begin());
}

bool Wire::ready_or_wait(const Endpoint& from) {
    Port& port = ports_[port_of(from)];
    if (port.backlog < send_limit)
        return true;
    port.refused = true;
    return false;
}

void Wire::send(const Endpoint& from, Bytes frame) {
    const unsigned port = port_of(from);
    if (!up_) {
        statistics_.lost_down++;
        return;
    }
    statistics_.frames++;
    statistics_.bytes += frame.size();
    Impairer* const impairer = ports_[port].impairer.get();
    std::vector<Impairer::Copy> copies{{.when = queue_.now()}};
    std::string_view fate;
    if (impairer) {
        copies = impairer->plan(queue_.now(), frame.size());
        fate = impairer->fate();
    }
    log.trace("{}: {} sends {} bytes {}", name_, labels_[port], frame.size(), fate);
    for (Tap* tap : taps_)
        tap->frame(port, frame, fate);
    for (const auto& copy : copies) {
        Buffer bytes(frame.begin(), frame.end());
        if (copy.flipped_bit != Impairer::not_flipped)
            bytes[copy.flipped_bit / 8] ^= static_cast<std::uint8_t>(1U << copy.flipped_bit % 8);
        schedule(port, copy.when, std::move(bytes));
    }
}

void Wire::schedule(unsigned from, Time when, Buffer&& frame) {
    const bool late = when > queue_.now();
    Port& port = ports_[from];
    std::size_t& waiting = late ? port.delayed : port.backlog;
    const std::size_t cost = frame.size() + frame_cost;
    if (waiting + cost > (late ? delay_limit : backlog_limit)) {
        statistics_.lost_full++;
        return;
    }
    waiting += cost;
    queue_.at(when, [this, from, late, plug = plug_, frame = std::move(frame)] {
        Port& sender = ports_[from];
        (late ? sender.delayed : sender.backlog) -= frame.size() + frame_cost;
        deliver(from, plug, frame);
        // Wakes a sender when half of its limit is free, so that it can send several frames.
        if (sender.refused && sender.backlog <= send_limit / 2) {
            sender.refused = false;
            sender.endpoint->resume_send();
        }
    });
}

void Wire::deliver(unsigned from, std::uint64_t plug, Bytes frame) {
    if (plug != plug_) {
        statistics_.lost_down++;
        return;
    }
    for (unsigned port = 0; port < ports_.size(); port++)
        if (port != from)
            ports_[port].endpoint->frame_in(frame);
}

void Wire::set_up(bool up) {
    if (up == up_)
        return;
    up_ = up;
    plug_++;
    log.info("{}: {}", name_, up ? "plugged" : "unplugged");
    for (const Port& port : ports_)
        port.endpoint->carrier(up);
}

} // namespace t3sim
