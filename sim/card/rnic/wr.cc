// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Execution of each work request (docs/hw/wr.md, docs/hw/engine.md 4). A WR is checked completely before it
// changes any state; a malformed one gets status 0x1f [guess G28].
#include "sim/card/rnic/rnic.hh"

#include <algorithm>

#include "sim/card/rnic/qp.hh"

namespace t3sim {

using hw::RdmaOp;
using hw::Status;
using hw::WrOpcode;

namespace {

constexpr unsigned flits_for(std::uint32_t bytes) {
    return (bytes + hw::flit - 1) / hw::flit;
}

template <typename Wr> unsigned length_of(const Wr& wr) {
    return wr.header.flits();
}

bool is_send(RdmaOp op) {
    return op >= RdmaOp::send && op <= RdmaOp::send_se_inv;
}

} // namespace

const Rnic::WrRow* Rnic::wr_row(WrOpcode opcode) const {
    // RDMA_INIT, MODIFY_QP and especially BYPASS (it writes card memory) are not allowed in a QP's ring
    // [guess G59].
    static constexpr WrRow rows[] = {
        {WrOpcode::send, true, false, RdmaOp::send, &Rnic::wr_send},
        {WrOpcode::rdma_write, true, false, RdmaOp::write, &Rnic::wr_write},
        {WrOpcode::rdma_read, true, false, RdmaOp::read_request, &Rnic::wr_read},
        {WrOpcode::receive, false, false, RdmaOp::send, &Rnic::wr_receive},
        {WrOpcode::bind_mw, true, true, RdmaOp::bind_mw, &Rnic::wr_bind},
        {WrOpcode::fast_register, true, true, RdmaOp::fast_register, &Rnic::wr_fast_register},
        {WrOpcode::local_inv, true, true, RdmaOp::local_inv, &Rnic::wr_local_inv},
        {WrOpcode::bypass, true, true, RdmaOp::bypass, &Rnic::wr_bypass},
    };
    if (opcode == WrOpcode::bypass && !guesses_.other(Guess::memory_write_in_qp_ring_refused))
        return nullptr;
    const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                   [opcode](const WrRow& r) { return r.opcode == opcode; });
    return row == std::end(rows) ? nullptr : row;
}

RdmaOp Rnic::WrRow::op(Bytes slot) const {
    if (opcode == WrOpcode::send)
        if (const auto flavour = static_cast<RdmaOp>(slot[offsetof(hw::SendWr, rdma_op)]); is_send(flavour))
            return flavour;
    return cqe_op;
}

/// Resolves the payload of a SEND or WRITE. All local checks are done before its first byte is sent.
Status Rnic::take_payload(const Qp& qp, std::uint32_t plen, std::uint32_t num_sge, const hw::Sge* sge,
                          const std::uint8_t* inline_data, OutMessage* message) const {
    message->length = plen;
    if (num_sge == 0) {
        const bool refused = !guesses_.other(Guess::inline_above_64_bytes_refused); // [guess G33]
        if (plen > (refused ? hw::max_inline : hw::max_inline_of_a_slot))
            return Status::internal;
        message->is_inline = true;
        std::copy_n(inline_data, plen, message->inline_data.begin());
        return Status::success;
    }
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < num_sge; ++i) {
        const Status status = tpt_.check_local(qp.prot, sge[i], local_read, &message->part[i]);
        if (status != Status::success)
            return status;
        sum += sge[i].length;
    }
    return sum == plen ? Status::success : Status::internal;
}

/// Queues the message of a SEND or WRITE. @p segment: its first header.
template <typename Wr>
inline Status Rnic::add_message(Qp& qp, const Wr& wr, Bytes slot, const DdpSegment& segment) {
    OutMessage& message = qp.out.emplace_back();
    const Status status =
        take_payload(qp, wr.plen, wr.num_sge, wr.sge, &slot[offsetof(Wr, inline_data)], &message);
    if (status != Status::success) {
        qp.out.pop_back();
        return status;
    }
    message.segment = segment;
    message.signaled = wr.header.flag(hw::wr::completion);
    message.wr = wr.header;
    return Status::success;
}

Status Rnic::wr_send(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::SendWr>(slot);
    const auto op = static_cast<RdmaOp>(wr.rdma_op);
    const unsigned body = wr.num_sge ? 2 * wr.num_sge : flits_for(wr.plen);
    if (!is_send(op) || wr.num_sge > hw::max_sge || length_of(wr) != 4 + body)
        return Status::internal;
    const Status status = add_message(qp, wr, slot, {.op = op, .stag = wr.inv_stag, .msn = qp.next_send_msn});
    if (status == Status::success)
        ++qp.next_send_msn;
    return status;
}

Status Rnic::wr_write(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::WriteWr>(slot);
    const unsigned body = wr.num_sge ? 2 * wr.num_sge : flits_for(wr.plen);
    if (static_cast<RdmaOp>(wr.rdma_op) != RdmaOp::write || wr.num_sge > hw::max_sge ||
        length_of(wr) != 5 + body)
        return Status::internal;
    return add_message(qp, wr, slot, {.op = RdmaOp::write, .stag = wr.sink_stag, .to = wr.sink_to});
}

/// The sink is checked when the response is received. The response completes the read, with or without the
/// COMPLETION flag [guess G34].
Status Rnic::wr_read(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::ReadWr>(slot);
    if (static_cast<RdmaOp>(wr.rdma_op) != RdmaOp::read_request || length_of(wr) != 6)
        return Status::internal;
    OutMessage& message = qp.out.emplace_back();
    message.segment = {.op = RdmaOp::read_request, .msn = qp.next_read_msn++};
    message.length = sizeof(rdmap_read_request);
    message.is_inline = true;
    write_read_request(message.inline_data.data(),
                       {wr.local_stag, wr.local_to, wr.local_len, wr.rem_stag, wr.rem_to});
    message.wr = wr.header;
    message.signaled =
        guesses_.other(Guess::completion_flag_of_read_ignored) && wr.header.flag(hw::wr::completion);
    qp.reads.push_back({.sink_stag = wr.local_stag,
                        .sink_to = wr.local_to,
                        .length = wr.local_len,
                        .invalidate = wr.local_inv != 0});
    return Status::success;
}

Status Rnic::wr_receive(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::ReceiveWr>(slot);
    if (wr.num_sge > hw::max_sge || length_of(wr) != 13)
        return Status::internal;
    // One entry stays unused to distinguish a full RQ from an empty one.
    if (qp.rqes_posted - qp.rqes_used >= qp.init.rq_size - 1)
        return Status::rqe_bounds;
    Rqe rqe;
    // [guess G16, G58]
    const FormB form_b = guesses_.other(Guess::page_list_receive_is_form_b) ? FormB::none
                         : guesses_.other(Guess::form_b_stays_in_region)    ? FormB::anywhere
                                                                            : FormB::in_region;
    if (const Status status = resolve_receive(tpt_, qp.prot, wr, &rqe, form_b); status != Status::success) {
        if (!guesses_.other(Guess::receive_checked_when_executed)) // [guess G17]
            return status;
        qp.bad_receives[qp.rqes_posted] = status;
        rqe = {};
    }
    if (!store_rqe(parts_.memory, rqe_address(qp, qp.rqes_posted), rqe, rqe_layout()))
        return Status::rqe_bounds;
    ++qp.rqes_posted;
    return Status::success;
}

Status Rnic::wr_local_inv(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::LocalInvWr>(slot);
    if (length_of(wr) != 3)
        return Status::internal;
    return tpt_.invalidate(qp.prot, wr.stag, Tpt::Invalidator::local);
}

/// Only with the other answer to G59.
Status Rnic::wr_bypass(Qp&, Bytes slot) {
    return memory_write(hw::load<hw::BypassWr>(slot)) ? Status::success : Status::internal;
}

Status Rnic::wr_fast_register(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::FastRegisterWr>(slot);
    if (wr.pages() > hw::max_fast_register_pages || length_of(wr) != 5 + wr.pages())
        return Status::internal;
    return tpt_.fast_register(qp.prot, wr);
}

Status Rnic::wr_bind(Qp& qp, Bytes slot) {
    const auto wr = hw::load<hw::BindWr>(slot);
    if (length_of(wr) != 6)
        return Status::internal;
    return tpt_.bind(qp.prot, wr);
}

} // namespace t3sim
