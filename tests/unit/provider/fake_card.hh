// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// As much of a T3 as a QP and its CQs can see from host memory: it fetches slots as the card does (both
// generation bits, in order, only after a doorbell) and writes completion entries. Tests decide what
// completes.
#pragma once

#include "userspace/common/be.hh"
#include "userspace/providers/cxgb3/border.h"
#include "userspace/providers/cxgb3/cq.hh"
#include "userspace/providers/cxgb3/qp.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fake {

using common::from_be;
using common::to_be;
using t3::Completion;
using t3::WorkOp;

// Requests in the words of these tests; they are posted through the functions that libibverbs calls.
struct Sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};
enum class SendOp : uint8_t { send, send_inv, write, read, local_inv };
struct SendRequest {
    uint64_t wr_id = 0;
    SendOp op = SendOp::send;
    bool signaled = false;
    bool solicited = false;
    bool fence = false;
    bool inline_data = false;
    std::span<const Sge> sg = {};
    uint32_t inv_stag = 0;    // send_inv: at the peer; local_inv: here
    uint32_t remote_stag = 0; // write, read
    uint64_t remote_addr = 0;
};
struct RecvRequest {
    uint64_t wr_id = 0;
    std::span<const Sge> sg = {};
};

static_assert(sizeof(Sge) == sizeof(ibv_sge));
inline ibv_sge* sges(std::span<const Sge> sg) {
    return const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(sg.data()));
}

inline ibv_send_wr verbs(const SendRequest& r) {
    static constexpr std::array opcodes = {IBV_WR_SEND, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE,
                                           IBV_WR_RDMA_READ, IBV_WR_LOCAL_INV};
    ibv_send_wr wr{};
    wr.wr_id = r.wr_id;
    wr.opcode = opcodes[static_cast<size_t>(r.op)];
    wr.send_flags = r.signaled * IBV_SEND_SIGNALED + r.solicited * IBV_SEND_SOLICITED +
                    r.fence * IBV_SEND_FENCE + r.inline_data * IBV_SEND_INLINE;
    wr.sg_list = sges(r.sg);
    wr.num_sge = static_cast<int>(r.sg.size());
    if (r.op == SendOp::send_inv || r.op == SendOp::local_inv)
        wr.invalidate_rkey = r.inv_stag;
    wr.wr.rdma.rkey = r.remote_stag;
    wr.wr.rdma.remote_addr = r.remote_addr;
    return wr;
}
inline ibv_recv_wr verbs(const RecvRequest& r) {
    return {r.wr_id, nullptr, sges(r.sg), static_cast<int>(r.sg.size())};
}
inline Completion completion(const ibv_wc& wc) {
    EXPECT_EQ(wc.status, t3_status_to_wc(static_cast<uint8_t>(wc.vendor_err)));
    EXPECT_EQ(wc.src_qp | wc.pkey_index | wc.slid | wc.sl | wc.dlid_path_bits, 0u);
    const bool inv = wc.wc_flags & IBV_WC_WITH_INV;
    EXPECT_TRUE(inv || wc.invalidated_rkey == 0);
    return {.wr_id = wc.wr_id,
            .qpid = wc.qp_num,
            .byte_len = wc.byte_len,
            .invalidated_stag = wc.invalidated_rkey,
            .op = static_cast<WorkOp>(wc.opcode),
            .status = static_cast<uint8_t>(wc.vendor_err),
            .with_invalidate = inv};
}

// 4 KiB aligned, zeroed memory, as the kernel maps it.
class Pages {
public:
    explicit Pages(size_t bytes)
        : size_((bytes + 4095) / 4096 * 4096), mem_(std::aligned_alloc(4096, size_), &free) {
        std::memset(mem_.get(), 0, size_);
    }
    uint8_t* data() const { return static_cast<uint8_t*>(mem_.get()); }

private:
    size_t size_;
    std::unique_ptr<void, decltype(&free)> mem_;
};

struct CqMemory {
    explicit CqMemory(unsigned log2, bool needs_locks = true, cxgb3_counters* counters = nullptr)
        : log2(log2), pages(((size_t{1} << log2) + 1) * sizeof(t3_cqe)), cq(needs_locks, counters) {
        cq.use_ring(pages.data(), log2);
        handle.core = &cq;
    }

    t3_cqe* entry(uint32_t i) { return reinterpret_cast<t3_cqe*>(pages.data()) + i; }
    uint32_t& status_word() { return *reinterpret_cast<uint32_t*>(entry(1u << log2)); }

    // Writes the next entry. hi and lo as they are in memory.
    void write(uint32_t qpid, bool sq, unsigned opcode, unsigned status, uint32_t len, uint32_t hi,
               uint32_t lo) {
        const common::RingSize size(log2);
        t3_cqe& e = *entry(size.index(produced));
        e.len = to_be(len);
        e.u.sq.wrid_hi = hi;
        e.u.sq.wrid_lo = lo;
        const uint32_t header = qpid << 12 | (size.lap_bit(produced) ? T3_CQE_GEN : 0) | status << 5 |
                                (sq ? T3_CQE_TYPE_SQ : 0) | opcode;
        __atomic_store_n(&e.header, to_be(header), __ATOMIC_RELEASE);
        produced++;
    }
    void sent(uint32_t qpid, uint32_t pos, unsigned opcode = T3_RDMA_SEND, unsigned status = 0) {
        write(qpid, true, opcode, status, 0xdeadbeef, pos, 0); // the length of such an entry means nothing
    }
    void read_done(uint32_t qpid, uint32_t stag = 0x1234ff, unsigned status = 0) {
        write(qpid, false, T3_RDMA_READ_RESP, status, 0xdeadbeef, to_be(stag), 0);
    }
    void received(uint32_t qpid, uint32_t msn, uint32_t len, unsigned opcode = T3_RDMA_SEND,
                  uint32_t stag = 0, unsigned status = 0) {
        write(qpid, false, opcode, status, len, to_be(stag), to_be(msn));
    }

    // Up to n completions, in calls for at most 64.
    std::vector<Completion> poll(int n = 64) {
        ibv_wc wc[64];
        std::memset(wc, 0xaa, sizeof(wc)); // what is left out shows
        std::vector<Completion> out;
        const int got = cxgb3_poll_cq(&handle.vcq.cq, n, wc);
        EXPECT_LE(got, n);
        for (int i = 0; i < got; i++)
            out.push_back(completion(wc[i]));
        return out;
    }
    // The card's entries that were not polled yet.
    uint32_t waiting() const { return (produced - cq.consumed()) & ((2u << log2) - 1); }

    unsigned log2;
    Pages pages;
    uint32_t produced = 0;
    t3::Cq cq;
    cxgb3_cq handle{};
};

struct QpOptions {
    uint32_t qpid = 0x21;
    unsigned slots_log2 = 5;
    unsigned sq_log2 = 4;
    unsigned rq_log2 = 4;
    bool signal_all = false;
    bool needs_locks = true;
    cxgb3_counters* counters = nullptr; // none are kept
};

struct QpMemory {
    QpMemory(CqMemory& scq, CqMemory& rcq, const QpOptions& o = {})
        : size(o.slots_log2), pages(size_t{size.entries()} * T3_WR_SLOT_BYTES), scq(scq), rcq(rcq),
          qp({.qpid = o.qpid,
              .size_log2 = o.slots_log2,
              .sq_size_log2 = o.sq_log2,
              .rq_size_log2 = o.rq_log2,
              .ring = pages.data(),
              .doorbell = &doorbell,
              .signal_all = o.signal_all,
              .needs_locks = o.needs_locks,
              .counters = o.counters,
              .abort = [](void* self) { static_cast<QpMemory*>(self)->aborts++; },
              .owner = this},
             scq.cq, rcq.cq) {
        handle.core = &qp;
    }

    uint8_t* slot_bytes(uint32_t i) { return pages.data() + size_t{i} * T3_WR_SLOT_BYTES; }
    t3_wr_slot& slot(uint32_t i) { return *reinterpret_cast<t3_wr_slot*>(slot_bytes(i)); }
    uint64_t& status_word() { return *reinterpret_cast<uint64_t*>(slot_bytes(0) + T3_QP_STATUS_OFFSET); }
    // What the kernel does when a connection is to end, and when the card has let go of it.
    void kernel_stops() { __atomic_fetch_or(&status_word(), T3_QP_STATUS_STOPPED, __ATOMIC_SEQ_CST); }
    // A change to RESET: the ring is cleared, but for what belongs to the doorbells of the device.
    void kernel_resets() {
        const uint64_t keep = status_word() & T3_QP_STATUS_DB_OFF;
        std::memset(pages.data(), 0, size_t{size.entries()} * T3_WR_SLOT_BYTES);
        status_word() = keep;
        fetched = 0;
    }
    void kernel_flushes() {
        __atomic_fetch_or(&status_word(), T3_QP_STATUS_ERROR, __ATOMIC_SEQ_CST);
        __atomic_store_n(&scq.status_word(), T3_CQ_STATUS_ERROR, __ATOMIC_RELEASE);
        __atomic_store_n(&rcq.status_word(), T3_CQ_STATUS_ERROR, __ATOMIC_RELEASE);
    }

    // The slot at the card's consumer index, if both generations fit.
    const t3_wr_slot* fetch() {
        t3_wr_slot& s = slot(size.index(fetched));
        const bool gen1 = from_be<uint32_t>(__atomic_load_n(&s.hdr.lo, __ATOMIC_ACQUIRE)) & T3_WR_GEN;
        const uint64_t gen2 = from_be<uint64_t>(__atomic_load_n(&s.flit[T3_WR_GEN2_FLIT], __ATOMIC_ACQUIRE));
        EXPECT_LE(gen2, 1u);
        if (gen1 != size.lap_bit(fetched) || gen2 != size.lap_bit(fetched))
            return nullptr;
        fetched++;
        return &s;
    }
    unsigned fetch_all() {
        unsigned n = 0;
        while (fetch())
            n++;
        return n;
    }

    // Number of doorbells is not visible in memory, but whether one was rung since the last call is.
    bool rung() {
        const bool was = doorbell != 0;
        if (was) {
            EXPECT_EQ(doorbell, common::to_le(qp.qpid()));
        }
        doorbell = 0;
        return was;
    }

    ibv_qp* ibqp() { return &handle.vqp.qp; }
    int post(ibv_send_wr* wr, ibv_send_wr** bad) { return cxgb3_post_send(ibqp(), wr, bad); }
    int post(ibv_recv_wr* wr, ibv_recv_wr** bad) { return cxgb3_post_recv(ibqp(), wr, bad); }

    int send(const SendRequest& r) {
        ibv_send_wr wr = verbs(r), *bad = nullptr;
        const int err = post(&wr, &bad);
        EXPECT_EQ(bad, err ? &wr : nullptr);
        return err;
    }
    int recv(const RecvRequest& r) {
        ibv_recv_wr wr = verbs(r), *bad = nullptr;
        const int err = post(&wr, &bad);
        EXPECT_EQ(bad, err ? &wr : nullptr);
        return err;
    }
    // Shorthands without data.
    int send_signaled(uint64_t wr_id) { return send({.wr_id = wr_id, .signaled = true}); }
    int send_unsignaled(uint64_t wr_id) { return send({.wr_id = wr_id}); }
    int read(uint64_t wr_id, uint32_t bytes, bool signaled = true) {
        const Sge sge{0x1000, bytes, 0x1234ff};
        return send({.wr_id = wr_id,
                     .op = SendOp::read,
                     .signaled = signaled,
                     .sg = {&sge, 1},
                     .remote_stag = 0x2345ff,
                     .remote_addr = 0x2000});
    }
    int recv_empty(uint64_t wr_id) { return recv({.wr_id = wr_id}); }

    common::RingSize size;
    Pages pages;
    volatile uint32_t doorbell = 0;
    uint32_t fetched = 0;
    unsigned aborts = 0; // that the library has requested of the kernel
    CqMemory &scq, &rcq;
    t3::Qp qp;
    cxgb3_qp handle{};
};

// "14c00100 80000006" as bytes.
inline std::vector<uint8_t> bytes(const std::string& hex) {
    std::vector<uint8_t> out;
    std::string digits;
    for (char c : hex) {
        if (!isspace(static_cast<unsigned char>(c)))
            digits += c;
    }
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        out.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return out;
}

inline std::vector<uint64_t> wr_ids(const std::vector<Completion>& cs) {
    std::vector<uint64_t> out;
    for (const auto& c : cs)
        out.push_back(c.wr_id);
    return out;
}
inline std::vector<int> statuses(const std::vector<Completion>& cs) {
    std::vector<int> out;
    for (const auto& c : cs)
        out.push_back(c.status);
    return out;
}

} // namespace fake
