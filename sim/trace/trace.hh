// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A recording in memory: events in the order in which they happened, each with the connection that it belongs
// to as far as that can be told.
#pragma once

#include <compare>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core/recorder.hh"

namespace t3sim::trace {

/// Not a recording; what() is one sentence for the user.
struct BadTrace : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Event {
    Time time = 0;
    std::uint8_t card = 0;
    RecordHead head;
    Bytes data; ///< the first of head.length bytes
};

struct Trace {
    std::vector<std::string> cards;
    std::vector<Event> events;
    std::string remark;        ///< what is wrong with the file's end; empty: nothing
    std::vector<Buffer> files; ///< that the events' data lies in
};

/// Reads FILE, and the older part of a limited recording beside it. Throws BadTrace.
Trace read(const std::string& path);

/// A TCP segment's addresses as its sender sees them.
struct Ends {
    std::uint32_t ip = 0, peer_ip = 0;
    std::uint16_t port = 0, peer_port = 0;
    auto operator<=>(const Ends&) const = default;
    [[nodiscard]] Ends turned() const { return {peer_ip, ip, peer_port, port}; }
};

struct Segment {
    Ends ends;
    std::uint32_t seq = 0, ack = 0;
    std::uint8_t flags = 0;
    std::uint32_t payload_length = 0;
    Bytes payload; ///< as much of it as was recorded

    static constexpr std::uint8_t fin = 1, syn = 2, rst = 4, psh = 8, ack_flag = 16;
};

/// Takes a frame apart; @p length: of the whole frame. Nothing if it is no TCP segment.
std::optional<Segment> parse_frame(Bytes frame, std::uint32_t length);

/// What the user asks for.
struct Filter {
    std::optional<std::string> card{};
    std::optional<std::uint32_t> tid{}, qp{};
    Time from = 0, to = ~Time{0};
};

/// The events that pass. Throws BadTrace if there is no such card.
std::vector<const Event*> select(const Trace& trace, const Filter& filter);

std::string to_text(const Trace& trace, const Filter& filter);
std::string to_perfetto(const Trace& trace, const Filter& filter);
/// Throws BadTrace if the recording has no such connection.
std::string to_ladder(const Trace& trace, const Filter& filter);

/// t3sim trace ...; the exit status.
int command(int argc, const char* const* argv);

} // namespace t3sim::trace
