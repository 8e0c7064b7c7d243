// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Descriptions of events, with the names of the card's documents.
#pragma once

#include <string>

#include "sim/trace/trace.hh"

namespace t3sim::trace {

struct Words {
    std::string name;  ///< "SEND", "ACT_ESTABLISH", "write SG_KDOORBELL"
    std::string brief; ///< short, for an arrow's label: "64 B"
    std::string more;  ///< details
};

Words describe(const Event& event);
/// An RDMAP message inside @p fpdu (length field first), as a segment carries it.
Words describe_fpdu(Bytes fpdu);
/// "doorbell", "wr", "cpl", ...: the third column of --text.
const char* kind_name(EventKind kind);

/// The TID of the message's connection; RecordHead::none if its id is not a TID.
std::uint32_t tid_of(const Event& event);
/// Whether the CQE belongs to the send side (not to a receive).
bool is_send_side(const Event& cqe);

} // namespace t3sim::trace
