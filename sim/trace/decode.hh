// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Events in words: the names that the card's documents use.
#pragma once

#include <string>

#include "sim/trace/trace.hh"

namespace t3sim::trace {

struct Words {
    std::string name;  ///< "SEND", "ACT_ESTABLISH", "write SG_KDOORBELL"
    std::string brief; ///< what one writes on an arrow: "64 B"
    std::string more;  ///< the rest
};

Words describe(const Event& event);
/// An RDMAP message inside @p fpdu (length field first), as a segment carries it.
Words describe_fpdu(Bytes fpdu);
/// "doorbell", "wr", "cpl", ...: what --text shows in its third column.
const char* kind_name(EventKind kind);

/// Which connection a message belongs to; RecordHead::none if its id names something else.
std::uint32_t tid_of(const Event& event);
/// The send side's entries; receives are the other.
bool is_send_side(const Event& cqe);

} // namespace t3sim::trace
