// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/trace/trace.hh"

#include <algorithm>
#include <array>
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
    std::uint32_t component = 0, components = 1;
};

/// Throws BadTrace.
FileHeader header(const std::string& path, std::istream& in) {
    std::array<std::uint8_t, trace_file::header_size> bytes{};
    in.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    const auto& magic = trace_file::magic;
    if (in.gcount() != bytes.size() || !std::equal(magic.begin(), magic.end(), bytes.begin()))
        throw BadTrace(fmt::format("'{}' is not a t3sim recording", path));
    const auto version = get_le<std::uint16_t>(&bytes[8]);
    if (version != trace_file::version)
        throw BadTrace(fmt::format("'{}' has format version {}, this t3sim supports version {}", path,
                                   version, trace_file::version));
    const FileHeader h{.size = get_le<std::uint16_t>(&bytes[10]),
                       .part = get_le<std::uint32_t>(&bytes[12]),
                       .id = get_le<std::uint64_t>(&bytes[16]),
                       .component = get_le<std::uint32_t>(&bytes[24]),
                       .components = std::max(get_le<std::uint32_t>(&bytes[28]), std::uint32_t{1})};
    in.seekg(0, std::ios::end);
    if (h.size < trace_file::header_size || in.tellg() < h.size ||
        h.components > trace_file::max_components || h.component >= h.components)
        throw BadTrace(fmt::format("'{}' has a broken header", path));
    return h;
}

} // namespace

/// Reads one record. @p known_cards: how many cards have a name. Reports the end of a part that is not the
/// end of the file as the end.
Component::Found Component::next_record(Reader& reader, std::size_t known_cards, Event& event) const {
    const Part& part = parts_[reader.part];
    if (reader.at == 0) {
        reader.in = std::ifstream(part.path, std::ios::binary);
        reader.in.seekg(static_cast<std::streamoff>(part.begin));
        reader.at = part.begin;
        reader.record.resize(1 << 16);
    }
    if (reader.at == part.end)
        return Found::end;
    std::uint8_t* const p = reader.record.data();
    const std::uint64_t left = part.end - reader.at;
    std::size_t size = 0;
    if (left >= 2 && reader.in.read(reinterpret_cast<char*>(p), 2))
        size = get_le<std::uint16_t>(p);
    const bool complete =
        left >= 2 && size <= left &&
        (size < 2 || reader.in.read(reinterpret_cast<char*>(p + 2), static_cast<std::streamsize>(size - 2)));
    if (!complete)
        return Found::incomplete;
    const bool known = size >= trace_file::head_size && p[2] < static_cast<unsigned>(EventKind::count);
    if (!known || (p[2] != 0 && p[3] >= known_cards))
        return Found::damaged;
    event.card = p[3];
    event.head = {.kind = static_cast<EventKind>(p[2]),
                  .unit = get_le<std::uint16_t>(p + 4),
                  .flags = get_le<std::uint16_t>(p + 6),
                  .where = get_le<std::uint64_t>(p + 16),
                  .length = get_le<std::uint32_t>(p + 24),
                  .tid = get_le<std::uint32_t>(p + 28),
                  .qp = get_le<std::uint32_t>(p + 32)};
    event.time = get_le<std::uint64_t>(p + 8);
    event.data = Bytes(reader.record).subspan(trace_file::head_size, size - trace_file::head_size);
    reader.at += size;
    return event.head.kind == EventKind::card ? Found::name : Found::event;
}

Component::Component(const std::string& path) {
    std::ifstream newest(path, std::ios::binary);
    if (!newest)
        throw BadTrace(fmt::format("cannot read '{}'", path));
    const FileHeader h = header(path, newest);
    id_ = h.id;
    number_ = h.component;
    count_ = h.components;
    const auto end = [](std::istream& in) { return static_cast<std::uint64_t>(in.tellg()); };
    if (h.part != 0) {
        const std::string older_path = trace_file::older_part(path);
        if (std::ifstream older(older_path, std::ios::binary); older) {
            const FileHeader o = header(older_path, older);
            if (o.id == h.id && o.part + 1 == h.part)
                parts_.push_back({older_path, o.size, end(older)});
        }
    }
    parts_.push_back({path, h.size, end(newest)});
    survey();
}

/// Finds the ends of the complete records, the names of the cards, and the TIDs of addresses, which sent
/// segments have.
void Component::survey() {
    Event e;
    for (Reader reader; reader.part != parts_.size();) {
        const Found found = next_record(reader, cards_.size(), e);
        if (found == Found::name) {
            if (e.card >= cards_.size())
                cards_.resize(e.card + 1U);
            cards_[e.card].assign(e.data.begin(), e.data.end());
            continue;
        }
        if (found != Found::event) {
            std::uint64_t& end = parts_[reader.part].end;
            if (found == Found::incomplete)
                remark_ = fmt::format("the file ends in the middle of a record, {} bytes after the last "
                                      "complete one",
                                      end - reader.at);
            else if (found == Found::damaged)
                remark_ = fmt::format("the file is damaged from byte {} on", reader.at);
            end = reader.at;
            ++reader.part;
            reader.at = 0;
            continue;
        }
        const std::uint64_t number = reader.number++;
        if (e.head.kind != EventKind::segment_out)
            continue;
        const auto s = parse_frame(e.data, e.head.length);
        if (!s)
            continue;
        auto& runs = sent_[{e.card, s->ends}];
        const std::uint32_t tid = tid_of(e);
        if (runs.empty() || runs.back().tid != tid)
            runs.push_back({number, number, tid});
        runs.back().last = number;
    }
}

bool Component::next(Reader& reader, Event& event) const {
    while (reader.part != parts_.size()) {
        const Found found = next_record(reader, cards_.size(), event);
        if (found == Found::event) {
            const std::uint64_t number = reader.number++;
            event.head.tid =
                event.head.kind == EventKind::segment_in ? tid_of_segment(number, event) : tid_of(event);
            return true;
        }
        if (found != Found::name) { // also if the file has been truncated since
            ++reader.part;
            reader.at = 0;
        }
    }
    return false;
}

/// A received segment has only addresses. The TID comes from a segment that the card sent with the same
/// addresses: an earlier one for an existing connection, a later one for a SYN.
std::uint32_t Component::tid_of_segment(std::uint64_t number, const Event& event) const {
    const auto s = parse_frame(event.data, event.head.length);
    const auto found = s ? sent_.find({event.card, s->ends.reversed()}) : sent_.end();
    if (found == sent_.end())
        return tid_of(event);
    const std::vector<Run>& runs = found->second;
    const auto next =
        std::partition_point(runs.begin(), runs.end(), [&](const Run& run) { return run.last < number; });
    const auto after =
        std::partition_point(runs.begin(), runs.end(), [&](const Run& run) { return run.first < number; });
    const bool opens = (s->flags & (Segment::syn | Segment::ack_flag)) == Segment::syn;
    if (opens)
        return (next != runs.end() ? *next : runs.back()).tid;
    return (after != runs.begin() ? *std::prev(after) : runs.front()).tid;
}

File::File(const std::string& path) {
    const auto add = [&](Component&& component) {
        constexpr std::size_t most = 256; // an event has a byte for its card
        if (cards_.size() + component.cards().size() > most)
            throw BadTrace(fmt::format("'{}' has more than {} cards", path, most));
        cards_.insert(cards_.end(), component.cards().begin(), component.cards().end());
        if (remark_.empty())
            remark_ = component.remark();
        components_.push_back(std::move(component));
    };
    add(Component(path));
    const Component& first = components_.front();
    if (first.number() != 0) // the user has selected this file
        return;
    const std::uint64_t id = first.id();
    for (std::uint32_t number = 1, count = first.count(); number < count; ++number) {
        const std::string other = trace_file::file_of(path, number);
        try {
            Component component(other);
            if (component.id() != id || component.number() != number)
                throw BadTrace(fmt::format("'{}' is of another recording", other));
            add(std::move(component));
        } catch (const BadTrace& e) {
            if (remark_.empty())
                remark_ = fmt::format("a part of the recording is missing: {}", e.what());
        }
    }
}

void File::each(const Take& take) const {
    struct Input {
        const Component& component;
        std::uint8_t first_card;
        Component::Reader reader{};
        Event event{};
        bool more = false;
        void read() {
            more = component.next(reader, event);
            event.card = static_cast<std::uint8_t>(event.card + first_card);
        }
    };
    std::deque<Input> inputs;
    std::size_t card = 0;
    for (const Component& component : components_) {
        inputs.push_back({component, static_cast<std::uint8_t>(card)});
        inputs.back().read();
        card += component.cards().size();
    }
    for (;;) {
        Input* earliest = nullptr;
        for (Input& input : inputs)
            if (input.more && (!earliest || input.event.time < earliest->event.time))
                earliest = &input;
        if (!earliest)
            return;
        take(earliest->event);
        earliest->read();
    }
}

Trace read(const std::string& path, Time from, Time to) {
    const File file(path);
    Trace trace{.cards = file.cards(), .events = {}, .remark = file.remark(), .data = {}};
    file.each([&](const Event& e) {
        if (e.time < from || e.time > to)
            return;
        trace.events.push_back(e);
        trace.events.back().data = trace.data.emplace_back(e.data.begin(), e.data.end());
    });
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

void check(const Source& source, const Filter& filter) {
    const std::vector<std::string>& cards = source.cards();
    if (filter.card && std::find(cards.begin(), cards.end(), *filter.card) == cards.end())
        throw BadTrace(fmt::format("there is no card '{}' in the recording; cards are: {}", *filter.card,
                                   fmt::join(cards, ", ")));
}

void select(const Source& source, const Filter& filter, const Source::Take& take) {
    check(source, filter);
    const std::vector<std::string>& cards = source.cards();
    // The connection of the QP: its CPL messages contain only the TID.
    std::set<std::pair<std::uint8_t, std::uint32_t>> connections;
    if (filter.qp)
        source.each([&](const Event& e) {
            if (e.head.tid != RecordHead::none && e.head.qp == *filter.qp)
                connections.emplace(e.card, e.head.tid);
        });
    source.each([&](const Event& e) {
        if (e.time >= filter.from && e.time <= filter.to && (!filter.card || cards[e.card] == *filter.card) &&
            (!filter.tid || e.head.tid == *filter.tid) &&
            (!filter.qp || e.head.qp == *filter.qp || connections.contains({e.card, e.head.tid})))
            take(e);
    });
}

std::vector<const Event*> select(const Trace& trace, const Filter& filter) {
    std::vector<const Event*> events;
    select(Memory(trace), filter, [&](const Event& e) { events.push_back(&e); });
    return events;
}

} // namespace t3sim::trace
