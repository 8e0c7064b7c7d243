// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/trace/trace.hh"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/trace/decode.hh"

namespace t3sim::trace {
namespace {

template <typename Int> Int get_le(const std::uint8_t* from) {
    Int value = 0;
    for (unsigned byte = 0; byte < sizeof value; ++byte)
        value = static_cast<Int>(value | Int{from[byte]} << 8 * byte);
    return value;
}

struct FileHeader {
    std::uint16_t size = 0;
    std::uint32_t part = 0;
    std::uint64_t id = 0;
};

/// Nothing if the file cannot be opened.
std::optional<Buffer> load(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in)
        return std::nullopt;
    Buffer bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (in.bad())
        return std::nullopt;
    return bytes;
}

/// Throws BadTrace.
FileHeader header(const std::string& path, const Buffer& bytes) {
    const auto& magic = trace_file::magic;
    if (bytes.size() < trace_file::header_size || !std::equal(magic.begin(), magic.end(), bytes.begin()))
        throw BadTrace(fmt::format("'{}' is no recording of t3sim", path));
    const auto version = get_le<std::uint16_t>(&bytes[8]);
    if (version != trace_file::version)
        throw BadTrace(fmt::format("'{}' has format version {}, this t3sim reads version {}", path, version,
                                   trace_file::version));
    const FileHeader h{.size = get_le<std::uint16_t>(&bytes[10]),
                       .part = get_le<std::uint32_t>(&bytes[12]),
                       .id = get_le<std::uint64_t>(&bytes[16])};
    if (h.size < trace_file::header_size || h.size > bytes.size())
        throw BadTrace(fmt::format("'{}' has a broken header", path));
    return h;
}

/// Adds the records of one file.
void add_records(Trace& trace, Bytes file, std::size_t at) {
    while (at != file.size()) {
        const Bytes left = file.subspan(at);
        const std::size_t size = left.size() >= 2 ? get_le<std::uint16_t>(left.data()) : 0;
        if (left.size() < 2 || size > left.size()) {
            trace.remark = fmt::format("the file ends in the middle of a record, {} bytes after the last "
                                       "whole one",
                                       left.size());
            return;
        }
        const std::uint8_t* p = left.data();
        Event e{.time = 0, .card = p[3], .head = {}, .data = {}};
        const bool known = size >= trace_file::head_size && p[2] < static_cast<unsigned>(EventKind::count);
        if (!known || (p[2] != 0 && e.card >= trace.cards.size())) {
            trace.remark = fmt::format("the file is damaged from byte {} on", at);
            return;
        }
        e.head = {.kind = static_cast<EventKind>(p[2]),
                  .unit = get_le<std::uint16_t>(p + 4),
                  .flags = get_le<std::uint16_t>(p + 6),
                  .where = get_le<std::uint64_t>(p + 16),
                  .length = get_le<std::uint32_t>(p + 24),
                  .tid = get_le<std::uint32_t>(p + 28),
                  .qp = get_le<std::uint32_t>(p + 32)};
        e.time = get_le<std::uint64_t>(p + 8);
        e.data = left.subspan(trace_file::head_size, size - trace_file::head_size);
        at += size;
        if (e.head.kind != EventKind::card) {
            trace.events.push_back(e);
            continue;
        }
        if (e.card >= trace.cards.size())
            trace.cards.resize(e.card + 1U);
        trace.cards[e.card].assign(e.data.begin(), e.data.end());
    }
}

/// Gives messages and received segments the connection that they name. A received segment says only its
/// addresses; which TID these are, the card's own segments tell: before for a connection that is there,
/// afterwards for a SYN.
void resolve(Trace& trace) {
    std::map<std::pair<std::uint8_t, Ends>, std::vector<std::pair<std::size_t, std::uint32_t>>> sent;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        Event& e = trace.events[i];
        e.head.tid = tid_of(e);
        if (e.head.kind == EventKind::segment_out)
            if (const auto s = parse_frame(e.data, e.head.length))
                sent[{e.card, s->ends}].emplace_back(i, e.head.tid);
    }
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        Event& e = trace.events[i];
        if (e.head.kind != EventKind::segment_in)
            continue;
        const auto s = parse_frame(e.data, e.head.length);
        const auto found = s ? sent.find({e.card, s->ends.turned()}) : sent.end();
        if (found == sent.end())
            continue;
        const auto& list = found->second;
        auto it = std::lower_bound(list.begin(), list.end(), std::pair{i, 0U});
        const bool opens = (s->flags & (Segment::syn | Segment::ack_flag)) == Segment::syn;
        if (it == list.end() || (it != list.begin() && !opens))
            --it;
        e.head.tid = it->second;
    }
}

} // namespace

Trace read(const std::string& path) {
    const auto newest = load(path);
    if (!newest)
        throw BadTrace(fmt::format("cannot read '{}'", path));
    const FileHeader h = header(path, *newest);
    Trace trace;
    trace.files.reserve(2);
    if (h.part != 0) {
        const std::string older_path = trace_file::older_part(path);
        if (auto older = load(older_path)) {
            const FileHeader o = header(older_path, *older);
            if (o.id == h.id && o.part + 1 == h.part) {
                trace.files.push_back(std::move(*older));
                add_records(trace, trace.files.back(), o.size);
            }
        }
    }
    trace.files.push_back(*newest);
    add_records(trace, trace.files.back(), h.size);
    resolve(trace);
    return trace;
}

std::optional<Segment> parse_frame(Bytes frame, std::uint32_t length) {
    constexpr std::size_t ethernet = 14, vlan = 4, ip_min = 20, tcp_min = 20;
    constexpr std::uint16_t ipv4 = 0x0800, tagged = 0x8100;
    std::size_t ip = ethernet;
    if (frame.size() >= ethernet + vlan && be16(&frame[12]) == tagged)
        ip += vlan;
    if (frame.size() < ip + ip_min || be16(&frame[ip - 2]) != ipv4 || frame[ip + 9] != 6)
        return std::nullopt;
    const std::size_t tcp = ip + std::size_t{4} * (frame[ip] & 0xf);
    if (frame.size() < tcp + tcp_min)
        return std::nullopt;
    const std::size_t data = tcp + std::size_t{4} * (frame[tcp + 12] >> 4);
    const std::size_t end = std::min<std::size_t>(ip + be16(&frame[ip + 2]), length);
    Segment s{
        .ends = {be32(&frame[ip + 12]), be32(&frame[ip + 16]), be16(&frame[tcp]), be16(&frame[tcp + 2])},
        .seq = be32(&frame[tcp + 4]),
        .ack = be32(&frame[tcp + 8]),
        .flags = frame[tcp + 13],
        .payload_length = static_cast<std::uint32_t>(end - std::min(end, data)),
        .payload = {}};
    const std::size_t held = std::min(end, frame.size());
    s.payload = frame.subspan(std::min(held, data), held - std::min(held, data));
    return s;
}

std::vector<const Event*> select(const Trace& trace, const Filter& filter) {
    if (filter.card && std::find(trace.cards.begin(), trace.cards.end(), *filter.card) == trace.cards.end())
        throw BadTrace(fmt::format("there is no card '{}' in the recording; cards are: {}", *filter.card,
                                   fmt::join(trace.cards, ", ")));
    // A QP's connection: its messages name the TID only.
    std::set<std::pair<std::uint8_t, std::uint32_t>> connections;
    for (const Event& e : trace.events)
        if (e.head.tid != RecordHead::none && filter.qp && e.head.qp == *filter.qp)
            connections.emplace(e.card, e.head.tid);
    std::vector<const Event*> events;
    for (const Event& e : trace.events)
        if (e.time >= filter.from && e.time <= filter.to &&
            (!filter.card || trace.cards[e.card] == *filter.card) &&
            (!filter.tid || e.head.tid == *filter.tid) &&
            (!filter.qp || e.head.qp == *filter.qp || connections.contains({e.card, e.head.tid})))
            events.push_back(&e);
    return events;
}

} // namespace t3sim::trace
