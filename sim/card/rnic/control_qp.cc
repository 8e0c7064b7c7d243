// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A driver changes the RDMA engine's tables in two ways: memory writes on the ring of the control QP,
// and MODIFY_QP on a control queue, which creates the egress context of that ring: docs/hw/mr.md 10 and what
// follows it.
#include "sim/card/rnic/rnic.hh"

#include <utility>

#include "sim/card/rnic/log.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

namespace ec = hw::egress_context;
using hw::RdmaOp;
using hw::Status;

namespace {

constexpr CqId control_cq = 0;

constexpr unsigned slot_budget = 64;

/// The egress context that MODIFY_QP carries.
hw::Context context_of(const hw::ModifyQpWr& wr) {
    return {static_cast<std::uint32_t>(wr.ctx0), static_cast<std::uint32_t>(wr.ctx0 >> 32),
            static_cast<std::uint32_t>(wr.ctx1), static_cast<std::uint32_t>(wr.ctx1 >> 32)};
}

/// RDMA contexts: those of QPs and of the control QP. The others belong to the NIC driver.
bool is_rdma_context(std::uint32_t context) {
    return context >= hw::first_qp && context <= hw::control_qp;
}

} // namespace

void Rnic::control_wr(Bytes bytes) {
    const auto wr = hw::load<hw::ModifyQpWr>(bytes);
    ++count_wrs_;
    Status status = Status::success;
    if (wr.header.opcode() != hw::WrOpcode::modify_qp || bytes.size() < sizeof wr) {
        status = Status::internal;
    } else if (wr.flags & hw::ModifyQpWr::write_context) {
        // Other bits of sge_cmd are ignored [guess G47].
        const auto id = static_cast<std::uint32_t>(bits(static_cast<std::uint32_t>(wr.sge_cmd), 31, 8));
        const hw::Context c = context_of(wr);
        const bool valid = ec::valid.get(c) != 0;
        if (!is_rdma_context(id) ||
            (valid && static_cast<hw::EgressType>(ec::type.get(c)) != hw::EgressType::rdma))
            status = Status::internal;
        else if (valid)
            parts_.sge.open_qp_context(id, ec::token.get(c), ec::base(c), ec::size.get(c));
        else
            parts_.sge.invalidate_qp_context(id);
    }
    if (status != Status::success) {
        ++count_malformed_;
        rnic_log.warn("control queue: invalid work request {:#x} of {} bytes",
                      static_cast<unsigned>(wr.header.opcode()), bytes.size());
    }
    if (wr.header.flag(hw::wr::notify)) // [guess G26]
        parts_.sge.async_event(control_cq, {.qp = hw::first_control_queue,
                                            .status = static_cast<std::uint8_t>(status),
                                            .send_side = true,
                                            .opcode = static_cast<std::uint8_t>(RdmaOp::modify_qp),
                                            .word2 = wr.header.wr_id_hi,
                                            .word3 = wr.header.wr_id_lo});
}

void Rnic::run_control_qp() {
    Slot slot;
    for (unsigned budget = slot_budget; budget && work_.left() != 0; --budget) {
        if (parts_.sge.fetch_slot(hw::control_qp, slot) != SgeServices::Fetch::slot)
            return;
        if (probe_) [[unlikely]]
            record_slot(hw::control_qp, RecordHead::none, slot);
        const std::size_t filled = parts_.memory.filled();
        control_slot(hw::load<hw::BypassWr>(slot));
        work_.use(slot_work + page_work * (parts_.memory.filled() - filled));
    }
    control_resume_.soon();
}

/// A write takes effect at once, or, for a page list, with the next write [guess G55].
bool Rnic::write_memory(std::uint32_t addr, Bytes data) {
    if (const auto late = std::exchange(late_list_, std::nullopt))
        (void)parts_.memory.pmrx_write(late->first, late->second);
    const CardMemory::Region pbl = parts_.memory.pbl();
    if (guesses_.other(Guess::page_list_read_for_each_transfer) && addr >= pbl.base && addr <= pbl.limit) {
        late_list_.emplace(addr, Buffer(data.begin(), data.end()));
        return true;
    }
    return parts_.memory.pmrx_write(addr, data);
}

/// False: the command is not valid.
bool Rnic::memory_write(const hw::BypassWr& wr) {
    const unsigned units = bits(wr.size, 31, 28);
    const unsigned command_flits = 1 + units * (hw::BypassWr::unit / hw::flit);
    const std::uint64_t to = std::uint64_t{bits(wr.command, 26, 0)} * hw::BypassWr::unit;
    return wr.header.opcode() == hw::WrOpcode::bypass &&
           bits(wr.command, 31, 28) == hw::BypassWr::memory_write && units >= 1 &&
           units <= hw::BypassWr::max_units && bits(wr.size, 7, 0) == command_flits &&
           wr.header.flits() == 2 + command_flits && to <= UINT32_MAX &&
           write_memory(static_cast<std::uint32_t>(to), Bytes(wr.data).first(units * hw::BypassWr::unit));
}

/// Reports a bad command and skips it: all connections depend on the ring of the control QP.
void Rnic::control_slot(const hw::BypassWr& wr) {
    ++count_wrs_;
    const bool good = memory_write(wr);
    if (!good) {
        ++count_malformed_;
        rnic_log.warn("control QP: bad memory write, command {:#x} {:#x}", std::uint32_t{wr.command},
                      std::uint32_t{wr.size});
    }
    if (good && !wr.header.flag(hw::wr::completion))
        return;
    parts_.sge.async_event(control_cq,
                           {.qp = hw::control_qp,
                            .status = static_cast<std::uint8_t>(good ? Status::success : Status::internal),
                            .send_side = true,
                            .opcode = static_cast<std::uint8_t>(RdmaOp::bypass),
                            .word2 = wr.header.wr_id_hi,
                            .word3 = wr.header.wr_id_lo});
}

} // namespace t3sim
