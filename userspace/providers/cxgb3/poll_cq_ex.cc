// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_start_poll(), ibv_next_poll(), ibv_end_poll(): completions one at a time, and of each what the program
// reads.
//
// As ibv_poll_cq() for one completion at a time, into an ibv_wc of the CQ, under one lock from start to end.
#include "userspace/providers/cxgb3/completion.hh"

namespace {

using t3::Cq;
using t3::CqPosition;

cxgb3_cq& object(ibv_cq_ex* ex) {
    return *reinterpret_cast<cxgb3_cq*>(ex);
}
Cq& core(ibv_cq_ex* ex) {
    return *static_cast<Cq*>(object(ex).core);
}

[[gnu::always_inline]] inline int set_result(ibv_cq_ex* ex, const ibv_wc& wc) {
    ex->wr_id = wc.wr_id;
    ex->status = wc.status;
    return 0;
}

[[gnu::noinline]] int next_slow(ibv_cq_ex* ex) noexcept {
    ibv_wc& wc = object(ex).current;
    return t3::poll_slow(core(ex), 1, &wc) ? set_result(ex, wc) : ENOENT;
}

// With the lock held.
[[gnu::always_inline]] inline int next(ibv_cq_ex* ex, Cq& cq) {
    const CqPosition at = cq.position();
    const t3_cqe* const entry = at.entry();
    if (!at.filled(entry) || cq.attention()) [[unlikely]]
        return cq.attention() ? next_slow(ex) : ENOENT;
    common::dma_consume_barrier();
    ibv_wc& wc = object(ex).current;
    if (!t3::fast_take(cq, *entry, wc)) [[unlikely]]
        return next_slow(ex);
    cq.set_position(cq.next_position(at));
    return set_result(ex, wc);
}

int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) noexcept {
    if (attr->comp_mask) [[unlikely]]
        return EINVAL;
    Cq& cq = core(ex);
    if (!cq.position_relaxed().filled()) {
        if (!cq.attention()) [[likely]]
            return ENOENT;
        if (cq.may_only_overflow() && !cq.may_be_overrun())
            return ENOENT;
    }
    cq.lock();
    const int error = next(ex, cq);
    if (error) // then there will be no ibv_end_poll()
        cq.unlock();
    return error;
}

int next_poll(ibv_cq_ex* ex) noexcept {
    return next(ex, core(ex));
}

void end_poll(ibv_cq_ex* ex) noexcept {
    core(ex).unlock();
}

int counted(ibv_cq_ex* ex, int error) {
    cxgb3_counters& counters = *core(ex).counters();
    t3::count(counters.poll);
    t3::count(counters.empty_poll, error == ENOENT);
    t3::count(counters.completions, error == 0);
    return error;
}
int start_poll_counted(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) noexcept {
    return counted(ex, start_poll(ex, attr));
}
int next_poll_counted(ibv_cq_ex* ex) noexcept {
    return counted(ex, next_poll(ex));
}

// A field of the ibv_wc.
template <auto Field> auto read(ibv_cq_ex* ex) noexcept {
    return object(ex).current.*Field;
}

} // namespace

void cxgb3_set_readers(cxgb3_cq* cq, bool counted) noexcept {
    ibv_cq_ex& ex = cq->vcq.cq_ex;
    ex.start_poll = counted ? start_poll_counted : start_poll;
    ex.next_poll = counted ? next_poll_counted : next_poll;
    ex.end_poll = end_poll;
    ex.read_opcode = read<&ibv_wc::opcode>;
    ex.read_vendor_err = read<&ibv_wc::vendor_err>;
    ex.read_wc_flags = read<&ibv_wc::wc_flags>;
    ex.read_byte_len = read<&ibv_wc::byte_len>;
    ex.read_imm_data =
        read<&ibv_wc::imm_data>; // or the key that was invalidated: there is one function for both
    ex.read_qp_num = read<&ibv_wc::qp_num>;
    // iWARP has none of these; they are 0, as in an ibv_wc.
    ex.read_src_qp = read<&ibv_wc::src_qp>;
    ex.read_slid = [](ibv_cq_ex* e) noexcept -> uint32_t { return object(e).current.slid; };
    ex.read_sl = read<&ibv_wc::sl>;
    ex.read_dlid_path_bits = read<&ibv_wc::dlid_path_bits>;
}
