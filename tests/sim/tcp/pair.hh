// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two engines, or one engine and a script, on a virtual clock.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/event_queue.hh"
#include "sim/tcp/engine.hh"

namespace t3sim::tcp::test {

constexpr std::uint32_t ip_a = 0x0a000001, ip_b = 0x0a000002;
constexpr FourTuple a_to_b{ip_a, ip_b, 50000, 7471};

/// One end: records all events, and lets a test react to them.
class End : public Sink {
public:
    explicit End(EventQueue& queue)
        : events(queue), engine(*this, params, [&queue] { return queue.now(); }) {}

    EventQueue& events;
    Params params;
    Engine engine;
    std::function<void(Buffer)> wire; // where packets go
    ConnId next_id = 1;
    bool refuse_syns = false;
    std::optional<Options> auto_accept;

    std::vector<std::string> log;
    std::vector<SynInfo> syns;
    std::vector<ListenId> asked; // for each of them
    std::optional<Established> up;
    Buffer stream;
    std::optional<AbortReason> abort_reason;
    unsigned peer_closes = 0, closes = 0, finishes = 0, advices = 0;
    bool consume = true; // credit what is received at once
    std::function<void(ConnId)> on_acked, on_established, on_peer_closed, on_closed, on_aborted, on_syn;
    std::function<void(ConnId, Bytes)> on_received;
    std::function<bool()> can_take, wire_ready; // of Sink; after a refusal of the wire, call engine.resume()
    std::function<void(const Segment&)> on_transmit;
    std::function<void(const Packet&)> on_packet;
    std::function<void(std::function<bool()>)> on_discard;

    std::optional<ConnId> syn(ListenId listener, const SynInfo& info) override {
        log.emplace_back("syn");
        syns.push_back(info);
        asked.push_back(listener);
        if (refuse_syns)
            return std::nullopt;
        const ConnId id = next_id++;
        if (on_syn)
            on_syn(id);
        if (auto_accept)
            events.after(0, [this, id] { engine.accept(id, *auto_accept); });
        return id;
    }
    void established(ConnId id, const Established& info) override {
        log.emplace_back("established");
        up = info;
        if (on_established)
            on_established(id);
    }
    void received(ConnId id, Seq seq, Bytes data, bool, const Packet*) override {
        if (up && seq != up->rcv_isn + static_cast<std::uint32_t>(stream.size()))
            log.emplace_back("gap");
        stream.insert(stream.end(), data.begin(), data.end());
        if (on_received)
            on_received(id, data);
        if (consume)
            engine.credit(id, static_cast<std::uint32_t>(data.size()), false);
    }
    void acked(ConnId id) override {
        if (on_acked)
            on_acked(id);
    }
    void peer_closed(ConnId id, Seq) override {
        log.emplace_back("peer_closed");
        ++peer_closes;
        if (on_peer_closed)
            on_peer_closed(id);
    }
    void closed(ConnId id, Seq, Seq) override {
        log.emplace_back("closed");
        ++closes;
        if (on_closed)
            on_closed(id);
    }
    void finished(ConnId) override {
        log.emplace_back("finished");
        ++finishes;
    }
    void aborted(ConnId id, AbortReason reason) override {
        log.emplace_back("aborted");
        abort_reason = reason;
        if (on_aborted)
            on_aborted(id);
    }
    bool can_receive(ConnId) override { return !can_take || can_take(); }
    bool wire_ready_or_wait(ConnId) override { return !wire_ready || wire_ready(); }
    void advice(ConnId, Advice) override { ++advices; }
    void discard_table(std::function<bool()> drop_one) override {
        if (on_discard)
            on_discard(std::move(drop_one));
    }
    void transmit(ConnId, Packet&& sent) override {
        if (on_packet)
            on_packet(sent);
        Buffer packet(sent.data(), sent.data() + sent.size());
        if (on_transmit) {
            auto s = decode(packet);
            on_transmit(s.value());
        }
        if (wire)
            wire(std::move(packet));
    }
};

/// The RST with which a host without the connection replies to @p packet (RFC 9293 3.10.7.1), if any.
inline std::optional<Buffer> reset_reply(Bytes packet) {
    const auto s = decode(packet);
    if (!s || s->has(flag_rst))
        return std::nullopt;
    Segment rst{.tuple = s->tuple, .flags = flag_rst};
    if (s->has(flag_ack)) {
        rst.seq = s->ack;
    } else {
        rst.ack = s->seq + s->length();
        rst.flags |= flag_ack;
    }
    const Headers h = encode(rst, 1, 64);
    return Buffer(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
}

/// Runs the queue and the timers of @p ends until @p until, or until nothing is left to do.
inline void run(EventQueue& events, const std::vector<End*>& ends, Time until) {
    for (;;) {
        std::optional<Time> next = events.next();
        for (const End* e : ends)
            if (const auto t = e->engine.next_deadline(); t && (!next || *t < *next))
                next = t;
        if (!next || *next > until)
            break;
        events.advance(*next);
        for (End* e : ends)
            e->engine.advance();
    }
    events.advance(until);
}

} // namespace t3sim::tcp::test
