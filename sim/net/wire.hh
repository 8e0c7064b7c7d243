// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A cable (two endpoints) or a hub (more). What one endpoint sends, all others get, through the event queue:
// nobody's frame_in() ever runs within somebody's send().
//
// What a port has sent and the others have not got is bounded twice: past `room_limit` a port is asked to
// wait, past `backlog_limit` its frames are lost. What an impairment delays is bounded by `delay_limit`
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/event_queue.hh"
#include "sim/net/impairments.hh"
#include "sim/net/link.hh"

namespace t3sim {

/// Watches a wire, e.g. to write a capture file.
class Tap {
public:
    virtual ~Tap() = default;
    /// A frame leaves @p port (the number that Wire::attach() gave). @p fate: empty, or what an impairment is
    /// about to do to it ("lost").
    virtual void frame(unsigned port, Bytes frame, std::string_view fate) = 0;
};

class Wire : public Link {
public:
    /// @p queue must outlive the wire, and the wire all that happens in the queue.
    Wire(EventQueue& queue, std::string name);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    [[nodiscard]] const std::string& name() const { return name_; }

    /// Plugs an endpoint in and tells it whether there is a signal. Returns its port number on this wire.
    /// @p label names the port in captures.
    unsigned attach(Endpoint& endpoint, std::string label);
    [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }

    void send(const Endpoint& from, Bytes frame) override;
    [[nodiscard]] bool up() const override { return up_; }
    bool room(const Endpoint& from) override;

    /// What a frame on the way is counted with beyond its bytes: the event and its buffer.
    static constexpr std::size_t frame_cost = 256;
    /// Of one port, in bytes with frame_cost.
    static constexpr std::size_t room_limit = 64 << 10, backlog_limit = 4 << 20, delay_limit = 64 << 20;
    /// Bytes, with frame_cost, of the frames of @p port that are on the way.
    [[nodiscard]] std::size_t on_the_way(unsigned port) const {
        return ports_.at(port).backlog + ports_.at(port).delayed;
    }

    /// Pulls or plugs the cable. What is on the way is lost.
    void set_up(bool up);

    /// Impairs what @p port sends from now on; takes the place of what was set before. Throws
    /// std::out_of_range.
    void impair(unsigned port, const Impairments& impairments);
    /// nullptr: the port's frames arrive at once and unharmed.
    [[nodiscard]] const Impairer* impairer(unsigned port) const { return ports_.at(port).impairer.get(); }

    void add_tap(Tap& tap) { taps_.push_back(&tap); }
    void remove_tap(const Tap& tap) { std::erase(taps_, &tap); }

    struct Statistics {
        std::uint64_t frames = 0;
        std::uint64_t bytes = 0;
        std::uint64_t lost_down = 0; ///< sent while, or on the way when, the wire was down
        std::uint64_t lost_full = 0; ///< more was on the way than a port may have there
    };
    [[nodiscard]] const Statistics& statistics() const { return statistics_; }

private:
    struct Port {
        Endpoint* endpoint;
        std::unique_ptr<Impairer> impairer;
        std::size_t backlog = 0; ///< due, but not delivered yet
        std::size_t delayed = 0; ///< held back by an impairment
        bool refused = false;    ///< room() was, so the endpoint waits for room()
    };

    [[nodiscard]] unsigned port_of(const Endpoint& endpoint) const;
    void schedule(unsigned from, Time when, Buffer&& frame);
    void deliver(unsigned from, std::uint64_t plug, Bytes frame);

    EventQueue& queue_;
    std::string name_;
    std::vector<Port> ports_;
    std::vector<std::string> labels_;
    std::vector<Tap*> taps_;
    Statistics statistics_;
    bool up_ = true;
    std::uint64_t plug_ = 0; ///< counts changes of the cable: frames of an earlier one are lost
};

} // namespace t3sim
