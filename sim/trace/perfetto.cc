// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The Trace Event Format (JSON) that ui.perfetto.dev and chrome://tracing open. A process is a card; its
// threads are the engines and, below them, the connections: each of these a span with its events inside. A
// flow leads from a QP's doorbell to the completion that follows.
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "sim/trace/decode.hh"

namespace t3sim::trace {
namespace {

using nlohmann::json;

enum Track : unsigned { mmio = 1, doorbells, dma, requests, cpls, rdma, wire, completions, interrupts };

constexpr const char* track_names[] = {nullptr,         "MMIO",         "doorbells",  "DMA",
                                       "work requests", "CPL messages", "RDMA FPDUs", "wire",
                                       "completions",   "interrupts"};
/// Connections come behind the engines.
constexpr unsigned first_connection = 100;

Track track_of(EventKind kind) {
    switch (kind) {
    case EventKind::mmio_read:
    case EventKind::mmio_write:
        return mmio;
    case EventKind::doorbell:
        return doorbells;
    case EventKind::dma_read:
    case EventKind::dma_write:
        return dma;
    case EventKind::interrupt:
        return interrupts;
    case EventKind::work_request:
        return requests;
    case EventKind::cpl:
        return cpls;
    case EventKind::fpdu_out:
    case EventKind::fpdu_in:
        return rdma;
    case EventKind::cqe:
    case EventKind::async_event:
        return completions;
    default:
        return wire;
    }
}

/// The format counts in microseconds.
double us(Time time) {
    return static_cast<double>(time) / 1000;
}

class Document {
public:
    explicit Document(const Trace& trace) : trace_(trace) {}

    std::string write(const std::vector<const Event*>& events) {
        find_durations(events);
        for (std::size_t card = 0; card < trace_.cards.size(); ++card)
            name("process_name", static_cast<unsigned>(card), 0, "card " + trace_.cards[card]);
        for (std::size_t i = 0; i < events.size(); ++i)
            add(*events[i], i);
        for (const auto& [connection, last] : open_)
            put("E", connection.first, first_connection + connection.second, last, {});
        json document{{"traceEvents", std::move(out_)}, {"displayTimeUnit", "ns"}};
        if (!trace_.remark.empty())
            document["metadata"] = {{"remark", trace_.remark}};
        return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    }

private:
    using Key = std::pair<unsigned, unsigned>; ///< card, and track or TID

    void put(const char* phase, unsigned card, unsigned track, Time time, json more) {
        json event{{"ph", phase}, {"pid", card + 1}, {"tid", track}, {"ts", us(time)}};
        event.update(more.is_object() ? more : json::object());
        out_.push_back(std::move(event));
    }
    void name(const char* what, unsigned card, unsigned track, const std::string& text) {
        put("M", card, track, 0, {{"name", what}, {"args", {{"name", text}}}});
    }
    void name_track(unsigned card, unsigned track, const std::string& text) {
        if (!named_.emplace(card, track).second)
            return;
        name("thread_name", card, track, text);
        put("M", card, track, 0, {{"name", "thread_sort_index"}, {"args", {{"sort_index", track}}}});
    }

    /// Events have no length of their own; what is drawn must not reach into the next one of its track.
    void find_durations(const std::vector<const Event*>& events) {
        constexpr Time shown = 1000;
        std::map<Key, Time> next;
        durations_.resize(events.size());
        for (std::size_t i = events.size(); i-- != 0;) {
            const Event& e = *events[i];
            const auto look = [&](unsigned track) {
                auto [it, last] = next.try_emplace({e.card, track}, e.time + shown);
                const Time gap = it->second - e.time;
                it->second = e.time;
                return std::min(gap, shown);
            };
            durations_[i].engine = look(track_of(e.head.kind));
            if (e.head.tid != RecordHead::none) {
                durations_[i].connection = look(first_connection + e.head.tid);
                ends_.try_emplace({e.card, e.head.tid}, e.time + shown);
            }
        }
    }

    void add(const Event& e, std::size_t i) {
        const Track track = track_of(e.head.kind);
        name_track(e.card, track, track_names[track]);
        const Words w = describe(e);
        json args{{"kind", kind_name(e.head.kind)}};
        if (!w.brief.empty())
            args["what"] = w.brief;
        if (!w.more.empty())
            args["details"] = w.more;
        if (e.head.qp != RecordHead::none)
            args["qp"] = e.head.qp;
        if (e.head.tid != RecordHead::none)
            args["tid"] = e.head.tid;
        json slice{{"name", w.name}, {"cat", kind_name(e.head.kind)}, {"args", args}};
        slice["dur"] = us(durations_[i].engine);
        put("X", e.card, track, e.time, slice);
        if (e.head.tid != RecordHead::none) {
            const Key connection{e.card, e.head.tid};
            const unsigned lane = first_connection + e.head.tid;
            name_track(e.card, lane, "connection, tid " + std::to_string(e.head.tid));
            if (open_.try_emplace(connection, ends_[connection]).second)
                put("B", e.card, lane, e.time, {{"name", "tid " + std::to_string(e.head.tid)}});
            slice["dur"] = us(durations_[i].connection);
            put("X", e.card, lane, e.time, slice);
        }
        add_flow(e);
    }

    /// From the last doorbell of a QP to the next completion of its send side.
    void add_flow(const Event& e) {
        if (e.head.qp == RecordHead::none)
            return;
        const Key qp{e.card, e.head.qp};
        if (e.head.kind == EventKind::doorbell)
            rung_[qp] = e.time;
        const auto rung = rung_.find(qp);
        if (e.head.kind != EventKind::cqe || rung == rung_.end() || !is_send_side(e))
            return;
        const json flow{{"name", "work"}, {"cat", "flow"}, {"id", ++flows_}};
        put("s", e.card, doorbells, rung->second, flow);
        json finish = flow;
        finish["bp"] = "e";
        put("f", e.card, completions, e.time, finish);
        rung_.erase(rung);
    }

    struct Durations {
        Time engine = 0, connection = 0;
    };

    const Trace& trace_;
    json out_ = json::array();
    std::vector<Durations> durations_;
    std::map<Key, Time> ends_, open_, rung_;
    std::set<Key> named_;
    unsigned flows_ = 0;
};

} // namespace

std::string to_perfetto(const Trace& trace, const Filter& filter) {
    return Document(trace).write(select(trace, filter));
}

} // namespace t3sim::trace
