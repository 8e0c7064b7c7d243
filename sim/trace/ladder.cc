// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A sequence diagram of one connection: four lifelines (host, card, card, host), time downwards, an arrow for
// each event between two of them. A row is an event, not an amount of time: times are printed at the left,
// and long gaps are marked.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/hw/cpl.hh"
#include "sim/trace/decode.hh"

namespace t3sim::trace {
namespace {

constexpr unsigned width = 1100, top = 96, row_height = 21, most_rows = 600;
constexpr Time long_gap = 50'000'000;

using Connection = std::pair<std::uint8_t, std::uint32_t>; ///< card, TID

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text)
        out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
}

std::string ms(Time time) {
    return fmt::format("{:.3f}", static_cast<double>(time) / 1e6);
}

/// A segment whose arrival has not been read yet.
struct Travelling {
    Buffer data; ///< its first bytes
    std::uint32_t length;
    std::size_t arrow;
};

/// Whether @p received is the frame @p sent. The wire pads short frames.
bool same_frame(const Travelling& sent, const Event& received) {
    constexpr std::uint32_t shortest = 60;
    const std::size_t common = std::min(sent.data.size(), received.data.size());
    return std::max(sent.length, shortest) == received.head.length &&
           std::equal(sent.data.begin(), sent.data.begin() + static_cast<std::ptrdiff_t>(common),
                      received.data.begin());
}

std::string ip_text(std::uint32_t ip) {
    return fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 0xff, ip >> 8 & 0xff, ip & 0xff);
}

/// Calls @p take(event, number) for the events in the time of the filter. The number is that of all events.
template <typename Take> void each_in_time(const Source& source, const Filter& filter, const Take& take) {
    std::uint64_t number = 0;
    source.each([&](const Event& e) {
        if (e.time >= filter.from && e.time <= filter.to)
            take(e, number);
        ++number;
    });
}

/// The segment that opens a connection.
struct Syn {
    std::uint64_t number; ///< of the event
    Connection from;
    Ends ends;
};

/// The two ends of the connection that is drawn.
struct Pair {
    Connection left, right;
    bool has_right = false; ///< the peer is one of the recorded cards
    Ends ends;              ///< from the view of the left one
    bool has_ends = false;
    std::optional<Syn> syn; ///< that opened it; earlier events of the TID belong to other connections
};

/// The connection that the filter selects; by default the one with most FPDUs, else with most events.
Connection choose(const Source& source, const Filter& filter) {
    std::map<Connection, std::pair<std::uint64_t, std::uint64_t>> seen;
    select(source, filter, [&](const Event& e) {
        if (e.head.tid == RecordHead::none)
            return;
        auto& [fpdus, all] = seen[{e.card, e.head.tid}];
        fpdus += e.head.kind == EventKind::fpdu_out || e.head.kind == EventKind::fpdu_in;
        ++all;
    });
    if (seen.empty())
        throw BadTrace("the recording has no such connection");
    return std::max_element(seen.begin(), seen.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

/// The active side of the connection is drawn at the left.
Pair find_pair(const Source& source, const Filter& filter) {
    Pair pair{.left = choose(source, filter), .right = {}, .ends = {}, .syn = {}};
    const auto each_sent = [&](const auto& take) {
        each_in_time(source, filter, [&](const Event& e, std::uint64_t number) {
            if (e.head.kind != EventKind::segment_out)
                return;
            if (const auto s = parse_frame(e.data, e.head.length))
                take(Connection(e.card, e.head.tid), *s, number);
        });
    };
    const auto opened_by = [&pair](Connection from, const Segment& s, std::uint64_t number) {
        if (s.flags == Segment::syn)
            pair.syn = Syn{number, from, s.ends};
    };
    each_sent([&](Connection from, const Segment& s, std::uint64_t number) {
        if (from != pair.left)
            return;
        pair.ends = s.ends;
        pair.has_ends = true;
        opened_by(from, s, number);
    });
    if (!pair.has_ends)
        return pair;
    each_sent([&](Connection from, const Segment& s, std::uint64_t number) {
        if (s.ends != pair.ends.reversed())
            return;
        pair.right = from;
        pair.has_right = pair.right != pair.left;
        opened_by(from, s, number);
    });
    if (pair.syn && pair.syn->ends != pair.ends && pair.syn->ends != pair.ends.reversed())
        pair.syn.reset(); // of another connection
    if (pair.has_right && pair.syn && pair.syn->from == pair.right) {
        std::swap(pair.left, pair.right);
        pair.ends = pair.ends.reversed();
    }
    return pair;
}

enum Lane : unsigned { left_host, left_card, right_card, right_host };
constexpr unsigned lane_x[] = {130, 390, 780, 1040};

constexpr std::size_t under_way = ~std::size_t{0};

struct Arrow {
    Lane from, to;
    std::string label, tip;
    const char* style;
    std::size_t row, end_row;
    bool lost = false;
};

class Ladder {
public:
    Ladder(const Source& source, const Filter& filter)
        : cards_(source.cards()), pair_(find_pair(source, filter)) {
        each_in_time(source, filter, [this](const Event& e, std::uint64_t number) { add(e, number); });
        for (auto& arrow : arrows_)
            if (arrow.end_row == under_way) { // lost, or the arrival was not recorded
                arrow.end_row = arrow.row;
                arrow.lost = pair_.has_right;
            }
    }

    std::string svg() const {
        const std::size_t rows = times_.size();
        const std::size_t height = top + (rows + 2) * row_height;
        std::string out = fmt::format(
            R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="11">
<style>
.lane {{ stroke: #888; stroke-width: 1.5 }} .a {{ stroke-width: 1.3; fill: none }} text {{ fill: #222 }}
.l {{ text-anchor: middle; stroke: #fff; stroke-width: 3; paint-order: stroke }} .t {{ text-anchor: end; fill: #777; font-size: 10px }}
.wr {{ stroke: #1f5fa8 }} .cpl {{ stroke: #7a4fa3 }} .tcp {{ stroke: #999 }} .fpdu {{ stroke: #c2571a }} .done {{ stroke: #2b8a3e }} .bell {{ stroke: #1f5fa8; stroke-dasharray: 2 3 }} .irq {{ stroke: #2b8a3e; stroke-dasharray: 4 3 }}
</style>
<defs><marker id="h" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>
<rect width="{0}" height="{1}" fill="#fff"/>
)",
            width, height);
        head(out, height);
        for (std::size_t row = 0; row < rows; ++row)
            time(out, row);
        for (const Arrow& arrow : arrows_)
            draw(out, arrow);
        if (rows_ > rows)
            out += fmt::format(
                "<text x=\"{}\" y=\"{}\">the first {} of {} rows; --from and --to show others</text>\n",
                lane_x[0], height - 6, rows, rows_);
        return out + "</svg>\n";
    }

private:
    [[nodiscard]] static unsigned y(std::size_t row) {
        return top + static_cast<unsigned>(row + 1) * row_height;
    }
    [[nodiscard]] Time start() const { return times_.empty() ? 0 : times_.front(); }

    std::size_t new_row(const Event& e) {
        if (!full())
            times_.push_back(e.time);
        return rows_++;
    }
    /// Further rows are only counted.
    [[nodiscard]] bool full() const { return rows_ >= most_rows; }

    void arrow(const Event& e, Lane from, Lane to, const char* style, std::string label) {
        const bool counted_only = full();
        const std::size_t row = new_row(e);
        if (counted_only)
            return;
        const Words w = describe(e);
        arrows_.push_back({.from = from,
                           .to = to,
                           .label = std::move(label),
                           .tip = w.more,
                           .style = style,
                           .row = row,
                           .end_row = row});
    }

    void add(const Event& e, std::uint64_t number) {
        const Connection connection{e.card, e.head.tid};
        const bool is_left = connection == pair_.left,
                   is_right = pair_.has_right && connection == pair_.right;
        if (e.head.kind == EventKind::interrupt) {
            // An interrupt has no connection. One at the same time as a message of this connection signals
            // it.
            if (last_message_ == std::pair(e.card, e.time) && e.head.unit == 0)
                arrow(e, card_of(on_left_), host_of(on_left_), "irq", describe(e).name);
            last_message_.reset();
            return;
        }
        bool on_left = is_left;
        if ((!is_left && !is_right) || (pair_.syn && number < pair_.syn->number)) {
            // The request that opens the connection has no TID yet.
            const auto side = opens(e);
            if (!side)
                return;
            on_left = *side;
        }
        const Words w = full() ? Words{} : describe(e);
        const std::string label = w.brief.empty() ? w.name : w.name + ", " + w.brief;
        const Lane host = host_of(on_left), card = card_of(on_left);
        last_message_.reset();
        switch (e.head.kind) {
        case EventKind::doorbell:
            arrow(e, host, card, "bell", "doorbell");
            break;
        case EventKind::work_request:
            arrow(e, host, card, e.head.qp == RecordHead::none ? "cpl" : "wr", label);
            break;
        case EventKind::cpl:
            arrow(e, card, host, "cpl", label);
            break;
        case EventKind::cqe:
        case EventKind::async_event:
            arrow(e, card, host, "done", label);
            break;
        case EventKind::fpdu_out:
        case EventKind::fpdu_in:
            rdma_.insert(connection);
            return;
        case EventKind::segment_out:
            segment_out(e, on_left, label);
            return;
        case EventKind::segment_in:
            segment_in(e, on_left, label);
            return;
        default:
            return;
        }
        if (e.head.kind == EventKind::cpl || e.head.kind == EventKind::async_event) {
            last_message_ = {e.card, e.time};
            on_left_ = on_left;
        }
    }

    [[nodiscard]] static Lane host_of(bool left) { return left ? left_host : right_host; }
    [[nodiscard]] static Lane card_of(bool left) { return left ? left_card : right_card; }

    /// Whether @p e is the request that opens this connection, and on which side.
    [[nodiscard]] std::optional<bool> opens(const Event& e) const {
        if (e.head.kind != EventKind::work_request || e.head.tid != RecordHead::none || !pair_.has_ends ||
            e.card != pair_.left.first || opened_)
            return std::nullopt;
        const auto open = hw::load<hw::ActOpenReq>(e.data);
        if (open.wr.op() != hw::FwOp::forward || open.opcode() != hw::Cpl::act_open_req ||
            Ends{open.ends.local_ip, open.ends.peer_ip, open.ends.local_port, open.ends.peer_port} !=
                pair_.ends)
            return std::nullopt;
        return true;
    }

    void segment_out(const Event& e, bool on_left, const std::string& plain) {
        opened_ = true;
        if (full()) {
            new_row(e);
            return;
        }
        const auto s = parse_frame(e.data, e.head.length);
        const bool fpdu = s && s->payload_length != 0 && rdma_.contains({e.card, e.head.tid});
        const Words w = fpdu ? describe_fpdu(s->payload) : describe(e);
        std::string label = fpdu ? w.name + ", " + w.brief : plain;
        if (s && !sent_[on_left].insert({s->seq, s->payload_length, s->flags, s->ack}).second &&
            s->payload_length != 0)
            label += " (again)";
        const std::size_t row = new_row(e);
        arrows_.push_back({.from = card_of(on_left),
                           .to = card_of(!on_left),
                           .label = label,
                           .tip = w.more,
                           .style = fpdu ? "fpdu" : "tcp",
                           .row = row,
                           .end_row = under_way});
        travelling_[on_left].push_back(
            {Buffer(e.data.begin(), e.data.end()), e.head.length, arrows_.size() - 1});
    }

    void segment_in(const Event& e, bool on_left, const std::string& label) {
        auto& from = travelling_[!on_left];
        const auto found =
            std::find_if(from.begin(), from.end(), [&](const Travelling& t) { return same_frame(t, e); });
        if (found != from.end()) {
            arrows_[found->arrow].end_row = new_row(e);
            from.erase(found);
        } else { // the sender was not recorded
            arrow(e, card_of(!on_left), card_of(on_left), "tcp", label);
        }
    }

    void head(std::string& out, std::size_t height) const {
        const auto who = [&](const Connection& c) {
            return fmt::format("{}, tid {}", cards_[c.first], c.second);
        };
        const std::string peer = pair_.has_right ? who(pair_.right) : "not recorded";
        const std::string titles[] = {"host", "card " + who(pair_.left), "card " + peer, "host"};
        for (unsigned lane = 0; lane < 4; ++lane)
            out += fmt::format("<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" font-size=\"13\" "
                               "font-weight=\"bold\">{2}</text>\n<line class=\"lane\" x1=\"{0}\" y1=\"{3}\" "
                               "x2=\"{0}\" y2=\"{4}\"/>\n",
                               lane_x[lane], top - 14, escaped(titles[lane]), top, height - row_height);
        out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#777\">wire</text>\n",
                           (lane_x[1] + lane_x[2]) / 2, top - 14);
        out +=
            fmt::format("<text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}:{} - {}:{}</text>\n"
                        "<text x=\"16\" y=\"44\">times in ms after {:.6f} s; an arrow over the wire ends "
                        "where the segment arrived</text>\n",
                        ip_text(pair_.ends.ip), pair_.ends.port, ip_text(pair_.ends.peer_ip),
                        pair_.ends.peer_port, static_cast<double>(start()) / 1e9);
    }

    void time(std::string& out, std::size_t row) const {
        const Time before = row == 0 ? ~Time{0} : times_[row - 1];
        if (times_[row] == before)
            return;
        out += fmt::format("<text class=\"t\" x=\"78\" y=\"{}\">{}</text>\n", y(row) + 3,
                           ms(times_[row] - start()));
        if (row != 0 && times_[row] - before >= long_gap)
            out += fmt::format("<line x1=\"16\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"#bbb\" "
                               "stroke-dasharray=\"1 4\"/>\n",
                               width - 16, y(row) - row_height / 2 - 4, y(row) - row_height / 2 - 4);
    }

    void draw(std::string& out, const Arrow& a) const {
        const unsigned x1 = lane_x[a.from], y1 = y(a.row),
                       y2 = y(std::min<std::size_t>(a.end_row, most_rows));
        const unsigned x2 = a.lost ? (x1 + lane_x[a.to]) / 2 : lane_x[a.to];
        const std::string tip = a.tip.empty() ? "" : "<title>" + escaped(a.tip) + "</title>";
        out += fmt::format("<g>{}<line class=\"a {}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>", tip,
                           a.style, x1, y1, x2, y2, a.lost ? "" : "marker-end=\"url(#h)\"");
        if (a.lost)
            out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#c00\" "
                               "font-weight=\"bold\">x</text>",
                               x2, y2 + 4);
        // The label of a slanted arrow is near its start, so that crossing arrows do not hide it.
        const bool slanted = y1 != y2;
        const double part = slanted && a.end_row > a.row + 2 ? 0.3 : 0.5;
        out += fmt::format("<text class=\"l\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text></g>\n",
                           x1 + (static_cast<double>(lane_x[a.to]) - x1) * part,
                           y1 + (static_cast<double>(y2) - y1) * part - 3, escaped(a.label));
    }

    const std::vector<std::string>& cards_;
    Pair pair_;
    std::vector<Arrow> arrows_; ///< of the rows that are drawn
    std::vector<Time> times_;   ///< of these rows
    std::size_t rows_ = 0;      ///< also of those that are not drawn
    std::set<Connection> rdma_; ///< connections that send FPDUs
    std::vector<Travelling> travelling_[2];
    std::set<std::array<std::uint32_t, 4>> sent_[2];
    std::optional<std::pair<std::uint8_t, Time>> last_message_; ///< its card and its time
    bool on_left_ = false, opened_ = false;
};

} // namespace

std::string to_ladder(const Source& source, const Filter& filter) {
    return Ladder(source, filter).svg();
}

std::string to_ladder(const Trace& trace, const Filter& filter) {
    return to_ladder(Memory(trace), filter);
}

} // namespace t3sim::trace
