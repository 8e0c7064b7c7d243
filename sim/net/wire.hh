// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A cable (two endpoints) or a hub (more). Each frame goes to all other endpoints through the event queue, so
// no frame_in() ever runs within a send().
//
// Frames that an observer or an impairment sees, and those of an end that is no card, have all sums
// (core/packet.hh).
//
// Two limits bound the undelivered frames of a port. Above `send_limit` ready_or_wait() returns false; above
// `backlog_limit` frames are lost. Only `delay_limit` bounds the frames that an impairment delays. Of these,
// and of frames that are lost, a sender may send `sent_at_a_time` in one event.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/budget.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/fifo.hh"
#include "sim/net/impairments.hh"
#include "sim/net/link.hh"

namespace t3sim {

/// Observes a wire, e.g. to write a capture file.
class WireObserver {
public:
    virtual ~WireObserver() = default;
    /// A frame leaves @p port (the number that Wire::attach() returned). @p fate: what an impairment does to
    /// it ("lost"), or empty.
    virtual void frame(unsigned port, Bytes frame, std::string_view fate) = 0;
};

class Wire : public Link {
public:
    /// @p queue must outlive the wire. The wire must outlive its events of delayed frames in the queue.
    Wire(EventQueue& queue, std::string name);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    [[nodiscard]] const std::string& name() const { return name_; }

    /// Attaches an endpoint and reports the carrier state to it. Returns its port number on this wire. @p
    /// label names the port in captures.
    unsigned attach(Endpoint& endpoint, std::string label);
    [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }

    using Link::send;
    void send(const Endpoint& from, Packet&& frame) override;
    [[nodiscard]] bool up() const override { return up_; }
    bool ready_or_wait(const Endpoint& from) override;

    /// Cost of an undelivered frame beyond its bytes: its place in the queue or its event, and its block.
    static constexpr std::size_t frame_cost = Packet::overhead + 128,
                                 delayed_cost = Packet::overhead + EventQueue::event_cost + 64;
    /// Of one port, in bytes with these costs.
    static constexpr std::size_t send_limit = 64 << 10, backlog_limit = 4 << 20, delay_limit = 64 << 20;
    static constexpr unsigned sent_at_a_time = 256;
    /// Bytes, with these costs, of the undelivered frames of @p port.
    [[nodiscard]] std::size_t in_flight(unsigned port) const {
        return ports_.at(port)->backlog + ports_.at(port)->delayed;
    }

    /// Plugs or unplugs the cable. Undelivered frames are lost.
    void set_up(bool up);

    /// Sets the impairments of the frames that @p port sends, in place of earlier ones. Throws
    /// std::out_of_range.
    void impair(unsigned port, const Impairments& impairments);
    /// nullptr: the port's frames arrive at once and unchanged.
    [[nodiscard]] const Impairer* impairer(unsigned port) const { return ports_.at(port)->impairer.get(); }

    /// Whether frames have all sums, even if only cards of this process receive them, which then check them.
    void compute_sums(bool on) { computes_sums_ = on; }

    void add_observer(WireObserver& observer) { observers_.push_back(&observer); }
    void remove_observer(const WireObserver& observer) { std::erase(observers_, &observer); }

    struct Statistics {
        std::uint64_t frames = 0;
        std::uint64_t bytes = 0;
        std::uint64_t lost_down = 0; ///< sent while the wire was down, or undelivered when it went down
        std::uint64_t lost_full = 0; ///< above the port's backlog_limit or delay_limit
    };
    [[nodiscard]] const Statistics& statistics() const { return statistics_; }

private:
    struct Frame {
        Packet bytes;
        std::uint64_t plug = 0; ///< plug_ when it was sent
    };
    struct Port {
        Port(EventQueue& queue, EventQueue::Handler deliver)
            : delivery(queue, std::move(deliver)), unqueued(queue, sent_at_a_time) {}
        std::unique_ptr<Impairer> impairer;
        Fifo<Frame> due;               ///< not delivered yet
        unsigned receiver = 0;         ///< of a hub: the first frame is delivered to those before it
        EventQueue::Repeated delivery; ///< calls deliver_due(): some are due, or `refused`
        Budget unqueued;               ///< frames that are lost or delayed, which one event sends
        std::size_t backlog = 0;       ///< cost of `due`
        std::size_t delayed = 0;       ///< delayed by an impairment
        bool refused = false; ///< ready_or_wait() returned false: the endpoint waits for resume_send()
    };

    [[nodiscard]] unsigned port_of(const Endpoint& endpoint) const {
        for (unsigned port = 0; port < endpoints_.size(); ++port)
            if (endpoints_[port] == &endpoint)
                return port;
        not_attached();
    }
    [[noreturn]] void not_attached() const;
    void send_impaired(unsigned from, Impairer& impairer, const Packet& frame);
    void show(unsigned from, Bytes frame, std::string_view fate);
    void deliver_now(unsigned from, Packet&& frame);
    void queue_frame(unsigned from, Frame&& frame);
    void deliver_later(unsigned from, Time when, Packet&& frame);
    void deliver_due(unsigned from);
    [[nodiscard]] bool has_bursts() const;
    void deliver_turn(unsigned from);
    void deliver(unsigned from, const Frame& frame);
    void deliver_to_next(unsigned from);

    EventQueue& queue_;
    std::string name_;
    std::vector<std::unique_ptr<Port>> ports_; ///< references stay valid
    std::vector<Endpoint*> endpoints_;         ///< of these; each frame begins with a search
    std::vector<std::string> labels_;
    std::vector<WireObserver*> observers_;
    Statistics statistics_;
    bool up_ = true;
    bool computes_sums_ = false;
    std::uint64_t plug_ = 0; ///< counts carrier changes; frames sent before the last one are lost
};

} // namespace t3sim
