// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/wire.hh"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/net/log.hh"

namespace t3sim {
namespace {

/// While it exists, its endpoint gets a burst.
class Burst {
public:
    explicit Burst(Endpoint* receiver) : receiver_(receiver) {
        if (receiver_)
            receiver_->burst(true);
    }
    ~Burst() {
        if (receiver_)
            receiver_->burst(false);
    }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

private:
    Endpoint* receiver_;
};

} // namespace

Wire::Wire(EventQueue& queue, std::string name) : queue_(queue), name_(std::move(name)) {}

unsigned Wire::attach(Endpoint& endpoint, std::string label) {
    const auto port = static_cast<unsigned>(ports_.size());
    ports_.push_back(std::make_unique<Port>(queue_, [this, port] { deliver_due(port); }));
    endpoints_.push_back(&endpoint);
    labels_.push_back(std::move(label));
    endpoint.carrier(up_);
    return port;
}

void Wire::impair(unsigned port, const Impairments& impairments) {
    ports_.at(port)->impairer = std::make_unique<Impairer>(impairments);
}

void Wire::not_attached() const {
    throw std::logic_error("wire " + name_ + ": send from an endpoint that is not attached");
}

bool Wire::ready_or_wait(const Endpoint& from) {
    Port& port = *ports_[port_of(from)];
    if (port.backlog < send_limit && port.unqueued.left() != 0)
        return true;
    port.delivery.soon();
    port.refused = true;
    return false;
}

void Wire::send(const Endpoint& from, Packet&& frame) {
    const unsigned port = port_of(from);
    if (!up_) {
        statistics_.lost_down++;
        ports_[port]->unqueued.use(1);
        return;
    }
    statistics_.frames++;
    statistics_.bytes += frame.size();
    if (computes_sums_)
        frame.fill_in();
    if (Impairer* const impairer = ports_[port]->impairer.get()) {
        send_impaired(port, *impairer, frame);
    } else {
        if (!observers_.empty() || wire_log.should_log(spdlog::level::trace)) [[unlikely]]
            show(port, frame, {});
        deliver_now(port, std::move(frame));
    }
}

void Wire::send_impaired(unsigned from, Impairer& impairer, const Packet& frame) {
    ports_[from]->unqueued.use(1);
    frame.fill_in(); // before a bit of a copy may be flipped
    const std::vector<Impairer::Copy> copies = impairer.plan(queue_.now(), frame.size());
    show(from, frame, impairer.fate());
    for (const auto& copy : copies) {
        Packet bytes = frame;
        if (copy.flipped_bit != Impairer::not_flipped) {
            bytes = Packet::copy(frame); // the sender may still have the frame, to send it again
            bytes.data()[copy.flipped_bit / 8] ^= static_cast<std::uint8_t>(1U << copy.flipped_bit % 8);
        }
        if (copy.when > queue_.now())
            deliver_later(from, copy.when, std::move(bytes));
        else
            deliver_now(from, std::move(bytes));
    }
}

void Wire::show(unsigned from, Bytes frame, std::string_view fate) {
    if (wire_log.should_log(spdlog::level::trace)) [[unlikely]]
        wire_log.trace("{}: {} sends {} bytes {}", name_, labels_[from], frame.size(), fate);
    for (WireObserver* observer : observers_)
        observer->frame(from, frame, fate);
}

void Wire::deliver_now(unsigned from, Packet&& frame) {
    if (ports_[from]->backlog + frame.size() + frame_cost > backlog_limit)
        statistics_.lost_full++;
    else
        queue_frame(from, {std::move(frame), plug_});
}

void Wire::queue_frame(unsigned from, Frame&& frame) {
    static_assert(Fifo<Frame>::place_cost + Packet::overhead <= frame_cost);
    Port& port = *ports_[from];
    port.backlog += frame.bytes.size() + frame_cost;
    port.due.push_back(std::move(frame));
    port.delivery.soon();
}

void Wire::deliver_later(unsigned from, Time when, Packet&& frame) {
    Port& port = *ports_[from];
    const std::size_t cost = frame.size() + delayed_cost;
    if (port.delayed + cost > delay_limit) {
        statistics_.lost_full++;
        return;
    }
    port.delayed += cost;
    queue_.at(when, [this, from, delayed = Frame{std::move(frame), plug_}] {
        ports_[from]->delayed -= delayed.bytes.size() + delayed_cost;
        queue_frame(from, Frame(delayed));
    });
}

/// Whether it joins two cards, and nothing observes the frames.
bool Wire::has_bursts() const {
    const auto alone = [](const auto& port) { return !port->impairer; };
    const auto takes = [](const Endpoint* end) { return end->takes_bursts(); };
    return endpoints_.size() == 2 && observers_.empty() && !computes_sums_ &&
           !wire_log.should_log(spdlog::level::trace) && std::ranges::all_of(ports_, alone) &&
           std::ranges::all_of(endpoints_, takes);
}

void Wire::deliver_due(unsigned from) {
    Port& port = *ports_[from];
    {
        const Burst burst(port.due.size() > 1 && has_bursts() ? endpoints_[1 - from] : nullptr);
        deliver_turn(from);
    }
    if (port.due.empty() && !port.refused)
        port.delivery.cancel();
    else
        port.delivery.after(0); // also behind the replies to these frames
}

/// Delivers a few frames. Then all other due events have their turn. In one turn each end delivers the same
/// number of bytes, as on a cable; each receiver counts, because what a frame costs is the receiver's choice.
/// With the same number of frames, the acknowledgements of a stream would leave the queue only as fast as
/// they enter it, and a sender that waits for a shorter queue would starve.
void Wire::deliver_turn(unsigned from) {
    constexpr std::size_t turn = 6 << 10; // with frame_cost: four large frames
    Port& port = *ports_[from];
    for (std::size_t delivered = 0;;) {
        // Wakes a sender when half of its limit is free, so that it can send several frames.
        if (port.refused && port.backlog <= send_limit / 2) {
            port.refused = false;
            endpoints_[from]->resume_send();
        }
        if (port.due.empty())
            break;
        const std::size_t cost = port.due.front().bytes.size() + frame_cost;
        // A frame that is longer than those of the usual MTU has a turn of its own, for each receiver.
        const bool is_long = cost > (2 << 10);
        if (delivered >= turn || (delivered != 0 && is_long))
            break;
        if (is_long && ports_.size() > 2) {
            delivered += cost;
            deliver_to_next(from);
            continue;
        }
        const Frame frame = port.due.take_front();
        port.backlog -= cost;
        delivered += cost * std::max<std::size_t>(1, ports_.size() - 1);
        deliver(from, frame);
    }
}

void Wire::deliver(unsigned from, const Frame& frame) {
    if (frame.plug != plug_) {
        statistics_.lost_down++;
        return;
    }
    for (unsigned port = 0; port < ports_.size(); port++)
        if (port != from)
            endpoints_[port]->packet_in(frame.bytes);
}

/// Delivers the first frame of a port of a hub to one receiver.
void Wire::deliver_to_next(unsigned from) {
    Port& port = *ports_[from];
    port.receiver += port.receiver == from;
    const unsigned receiver = port.receiver++;
    const bool last = port.receiver + (port.receiver == from) == ports_.size();
    const Frame frame = last ? port.due.take_front() : port.due.front();
    if (last) {
        port.receiver = 0;
        port.backlog -= frame.bytes.size() + frame_cost;
        statistics_.lost_down += frame.plug != plug_;
    }
    if (frame.plug == plug_)
        endpoints_[receiver]->packet_in(frame.bytes);
}

void Wire::set_up(bool up) {
    if (up == up_)
        return;
    up_ = up;
    plug_++;
    wire_log.info("{}: {}", name_, up ? "plugged" : "unplugged");
    for (Endpoint* endpoint : endpoints_)
        endpoint->carrier(up);
}

} // namespace t3sim
