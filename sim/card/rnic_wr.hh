// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The work requests that are allowed in a QP's ring, one row each.
#pragma once

#include "sim/card/rnic.hh"

namespace t3sim {

struct Rnic::WrRow {
    hw::WrOpcode opcode;
    bool send_side; ///< fences and the RTR hold apply; errors go to the send CQ
    bool immediate; ///< completes when executed; the others complete when their message has been sent
    hw::RdmaOp cqe_op;
    hw::Status (Rnic::*execute)(Qp&, Bytes slot);

    /// The operation code in the CQE: for sends the exact variant [guess G45].
    [[nodiscard]] hw::RdmaOp op(Bytes slot) const;
};

} // namespace t3sim
