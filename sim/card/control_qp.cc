// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A driver changes the RDMA engine's tables in two ways: memory writes on the ring of the control QP (rdma
// 2), and MODIFY_QP on a control queue, which creates the egress context of that ring.
#include "sim/card/rnic.hh"
#include "sim/core/log.hh"

namespace t3sim {

using hw::RdmaOp;
using hw::Status;

namespace {

spdlog::logger& rlog = logger("rnic");

constexpr CqId control_cq = 0;
constexpr QpId control_queue = 65528; // QP number in the event of a MODIFY_QP

constexpr unsigned slot_budget = 64;

/// The four words of an egress context, in the order of their registers, as MODIFY_QP carries them.
struct EgressContext {
    std::uint32_t data0, data1, data2, data3;

    explicit EgressContext(const hw::ModifyQpWr& wr)
        : data0(static_cast<std::uint32_t>(wr.ctx0)), data1(static_cast<std::uint32_t>(wr.ctx0 >> 32)),
          data2(static_cast<std::uint32_t>(wr.ctx1)), data3(static_cast<std::uint32_t>(wr.ctx1 >> 32)) {}

    [[nodiscard]] bool valid() const { return bits(data3, 31, 31) != 0; }
    [[nodiscard]] unsigned type() const { return bits(data3, 9, 7); }
    [[nodiscard]] Tid token() const { return bits(data3, 30, 11); }
    [[nodiscard]] std::uint32_t slots() const { return bits(data1, 15, 0); }
    [[nodiscard]] std::uint64_t base() const {
        return (std::uint64_t{bits(data3, 3, 0)} << 48 | std::uint64_t{data2} << 16 | bits(data1, 31, 16))
               << 12;
    }
};

/// RDMA contexts: those of QPs and of the control QP. The others belong to the NIC driver.
bool is_rdma_context(std::uint32_t context) {
    return context >= 16 && context <= control_qp;
}

} // namespace

void Rnic::control_wr(Bytes bytes) {
    const auto wr = hw::load<hw::ModifyQpWr>(bytes);
    ++count_wrs_;
    Status status = Status::success;
    if (wr.header.opcode() != hw::WrOpcode::modify_qp || bytes.size() < sizeof wr) {
        status = Status::internal;
    } else if (wr.flags & hw::ModifyQpWr::write_context) {
        const auto context = static_cast<std::uint32_t>(bits(static_cast<std::uint32_t>(wr.sge_cmd), 31, 8));
        const EgressContext egress(wr);
        if (!is_rdma_context(context) || (egress.valid() && egress.type() != 0))
            status = Status::internal;
        else if (egress.valid())
            parts_.sge.open_qp_context(context, egress.token(), egress.base(), egress.slots());
        else
            parts_.sge.invalidate_qp_context(context);
    }
    if (status != Status::success) {
        ++count_malformed_;
        rlog.warn("control queue: invalid work request {:#x} of {} bytes",
                  static_cast<unsigned>(wr.header.opcode()), bytes.size());
    }
    if (wr.header.flag(hw::wr_hi::notify)) // [guess G26]
        parts_.sge.async_event(control_cq, {.qp = control_queue,
                                            .status = static_cast<std::uint8_t>(status),
                                            .send_side = true,
                                            .opcode = static_cast<std::uint8_t>(RdmaOp::modify_qp),
                                            .word2 = wr.header.wr_id_hi,
                                            .word3 = wr.header.wr_id_lo});
}

void Rnic::run_control_qp() {
    Slot slot;
    for (unsigned budget = slot_budget; budget; --budget) {
        if (parts_.sge.fetch_slot(control_qp, slot) != SgeServices::Fetch::slot)
            return;
        if (probe_) [[unlikely]]
            record_slot(control_qp, RecordHead::none, slot);
        memory_write(hw::load<hw::BypassWr>(slot));
    }
    parts_.events.cancel(control_resume_);
    control_resume_ = parts_.events.after(0, [this] { run_control_qp(); });
}

/// Reports a bad command and skips it: all connections depend on the ring of the control QP.
void Rnic::memory_write(const hw::BypassWr& wr) {
    ++count_wrs_;
    const unsigned units = bits(wr.size, 31, 28);
    const unsigned command_flits = 1 + units * (hw::BypassWr::unit / hw::flit);
    const std::uint64_t to = std::uint64_t{bits(wr.command, 26, 0)} * hw::BypassWr::unit;
    const bool good = wr.header.opcode() == hw::WrOpcode::bypass &&
                      bits(wr.command, 31, 28) == hw::BypassWr::memory_write && units >= 1 &&
                      units <= hw::BypassWr::max_units && bits(wr.size, 7, 0) == command_flits &&
                      wr.header.flits() == 2 + command_flits && to <= UINT32_MAX &&
                      parts_.memory.pmrx_write(static_cast<std::uint32_t>(to),
                                               Bytes(wr.data).first(units * hw::BypassWr::unit));
    if (!good) {
        ++count_malformed_;
        rlog.warn("control QP: bad memory write, command {:#x} {:#x}", std::uint32_t{wr.command},
                  std::uint32_t{wr.size});
    }
    if (good && !wr.header.flag(hw::wr_hi::completion))
        return;
    parts_.sge.async_event(control_cq,
                           {.qp = control_qp,
                            .status = static_cast<std::uint8_t>(good ? Status::success : Status::internal),
                            .send_side = true,
                            .opcode = static_cast<std::uint8_t>(RdmaOp::bypass),
                            .word2 = wr.header.wr_id_hi,
                            .word3 = wr.header.wr_id_lo});
}

} // namespace t3sim
