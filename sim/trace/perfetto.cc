// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Writes the Trace Event Format (JSON) of ui.perfetto.dev and chrome://tracing. A process is a card. Its
// threads are the engines and, below them, the connections; each connection is a span with its events inside.
// A flow connects the doorbell of a QP to the next completion.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/trace/decode.hh"

namespace t3sim::trace {
namespace {

using nlohmann::json;

enum Track : unsigned { mmio = 1, doorbells, dma, requests, cpls, rdma, wire, completions, interrupts };

constexpr const char* track_names[] = {nullptr,         "MMIO",         "doorbells",  "DMA",
                                       "work requests", "CPL messages", "RDMA FPDUs", "wire",
                                       "completions",   "interrupts"};
/// Connections follow the engines.
constexpr unsigned first_connection = 100;

Track track_of(EventKind kind) {
    switch (kind) {
    case EventKind::mmio_read:
    case EventKind::mmio_write:
    case EventKind::reset:
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

struct Slice {
    Time time = 0;
    json what;
};

/// Writes events as they are read: the memory grows with the tracks, not with the events.
class Document {
public:
    Document(const Source& source, const Output& output) : source_(source), output_(output) {}

    void write(const Filter& filter) {
        output_("{\"traceEvents\":[");
        for (std::size_t card = 0; card < source_.cards().size(); ++card)
            name("process_name", static_cast<unsigned>(card), 0, "card " + source_.cards()[card]);
        select(source_, filter, [this](const Event& e) { add(e); });
        for (auto& [lane, slice] : held_)
            release(lane, slice, slice.time + shown);
        for (const auto& [connection, last] : open_)
            put("E", connection.first, first_connection + connection.second, last, {});
        output_("],\"displayTimeUnit\":\"ns\"");
        if (!source_.remark().empty())
            output_(",\"metadata\":" + text(json{{"remark", source_.remark()}}));
        output_("}\n");
    }

private:
    using Key = std::pair<unsigned, unsigned>; ///< card, and track or TID
    /// Events have no duration; they are drawn with this one.
    static constexpr Time shown = 1000;

    static std::string text(const json& value) {
        return value.dump(-1, ' ', false, json::error_handler_t::replace);
    }
    void put(const char* phase, unsigned card, unsigned track, Time time, const json& more) {
        json event{{"ph", phase}, {"pid", card + 1}, {"tid", track}, {"ts", us(time)}};
        event.update(more.is_object() ? more : json::object());
        output_(std::exchange(first_, false) ? "" : ",\n");
        output_(text(event));
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

    /// Keeps the last event of each track until the next one, which limits its drawn duration.
    void hold(unsigned card, unsigned track, Time time, const json& slice) {
        const auto [it, fresh] = held_.try_emplace({card, track});
        if (!fresh)
            release(it->first, it->second, time);
        it->second = {time, slice};
    }
    void release(const Key& lane, Slice& slice, Time next) {
        slice.what["dur"] = us(std::min(next - slice.time, shown));
        put("X", lane.first, lane.second, slice.time, slice.what);
    }

    void add(const Event& e) {
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
        const json slice{{"name", w.name}, {"cat", kind_name(e.head.kind)}, {"args", args}};
        hold(e.card, track, e.time, slice);
        if (e.head.tid != RecordHead::none) {
            const unsigned lane = first_connection + e.head.tid;
            name_track(e.card, lane, "connection, tid " + std::to_string(e.head.tid));
            const auto [open, fresh] = open_.try_emplace({e.card, e.head.tid});
            if (fresh)
                put("B", e.card, lane, e.time, {{"name", "tid " + std::to_string(e.head.tid)}});
            open->second = e.time + shown;
            hold(e.card, lane, e.time, slice);
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

    const Source& source_;
    const Output& output_;
    bool first_ = true;
    std::map<Key, Slice> held_;
    std::map<Key, Time> open_; ///< connections, and where their span ends so far
    std::map<Key, Time> rung_;
    std::set<Key> named_;
    unsigned flows_ = 0;
};

} // namespace

void to_perfetto(const Source& source, const Filter& filter, const Output& output) {
    Document(source, output).write(filter);
}

std::string to_perfetto(const Trace& trace, const Filter& filter) {
    std::string text;
    to_perfetto(Memory(trace), filter, [&](std::string_view piece) { text += piece; });
    return text;
}

} // namespace t3sim::trace
