// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The provider's data path as a program calls it, with memory in place of the card. What the card does,
// writing completion entries, is done outside of the calls that are measured.
#pragma once

#include "userspace/providers/cxgb3/border.h"

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"
#include "userspace/common/be.hh"
#include "userspace/common/ring.hh"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace bench {

constexpr unsigned most = 32;      // of a batch
constexpr unsigned depth_log2 = 7; // of the queues, as where the old library was measured
constexpr unsigned slots_log2 = 8;
constexpr unsigned cq_log2 = 9;

class Rig {
public:
    explicit Rig(bool threads = true)
        : cq_ring_(((size_t{1} << cq_log2) + 1) * T3_CQE_BYTES),
          ring_((size_t{1} << slots_log2) * T3_WR_SLOT_BYTES) {
        cq_.ring = cq_ring_.get();
        qp_.ring = ring_.get();
        qp_.doorbell = &doorbell_;
        qp_.vqp.qp.send_cq = qp_.vqp.qp.recv_cq = &cq_.vcq.cq;
        t3_create_cq_resp cq{};
        cq.size_log2 = cq_log2;
        t3_create_qp_resp qp{};
        qp.qpid = qpid;
        qp.size_log2 = slots_log2;
        qp.sq_size_log2 = qp.rq_size_log2 = depth_log2;
        if (cxgb3_core_create_cq(&cq_, threads, nullptr))
            std::abort();
        cxgb3_core_cq_use_ring(&cq_, &cq);
        if (cxgb3_core_create_qp(&qp_, &qp, false, threads, nullptr, nullptr))
            std::abort();
        cxgb3_set_builders(&qp_, false);
        cxgb3_set_readers(&cq_, false);
        for (unsigned i = 0; i < most; i++) {
            sge_[i] = {reinterpret_cast<uintptr_t>(data_), 16, 0x1234ff};
            send_[i] = {};
            send_[i].wr_id = i;
            send_[i].sg_list = &sge_[i];
            send_[i].num_sge = 1;
            send_[i].wr.rdma.remote_addr = 0x2000;
            send_[i].wr.rdma.rkey = 0x5678ff;
            recv_[i] = {i, nullptr, &sge_[i], 1};
        }
    }
    ~Rig() {
        cxgb3_core_destroy_qp(&qp_);
        cxgb3_core_destroy_cq(&cq_);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    // A list of n requests, of which every `signaled`th asks for a completion.
    void prepare(unsigned n, ibv_wr_opcode op, unsigned flags, uint32_t bytes, unsigned signaled = 1) {
        for (unsigned i = 0; i < n; i++) {
            sge_[i].length = bytes;
            send_[i].opcode = op;
            send_[i].send_flags = flags | ((i + 1) % signaled == 0) * IBV_SEND_SIGNALED;
            send_[i].next = i + 1 < n ? &send_[i + 1] : nullptr;
            recv_[i].next = i + 1 < n ? &recv_[i + 1] : nullptr;
        }
    }
    void post_send(unsigned n) {
        ibv_send_wr* bad;
        if (cxgb3_post_send(&qp_.vqp.qp, send_, &bad))
            std::abort();
        sent_ += n;
    }
    void post_recv(unsigned) {
        ibv_recv_wr* bad;
        if (cxgb3_post_recv(&qp_.vqp.qp, recv_, &bad))
            std::abort();
    }
    void poll(unsigned n, unsigned want) {
        if (cxgb3_poll_cq(&cq_.vcq.cq, static_cast<int>(n), wc_) != static_cast<int>(want))
            std::abort();
    }
    // The same by the extended calls, as a program makes them.
    void build_send(unsigned n) {
        ibv_qp_ex* const ex = &qp_.vqp.qp_ex;
        ibv_wr_start(ex);
        for (unsigned i = 0; i < n; i++) {
            const ibv_send_wr& wr = send_[i];
            ex->wr_id = wr.wr_id;
            ex->wr_flags = wr.send_flags;
            if (wr.opcode == IBV_WR_SEND)
                ibv_wr_send(ex);
            else if (wr.opcode == IBV_WR_RDMA_WRITE)
                ibv_wr_rdma_write(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            else
                ibv_wr_rdma_read(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            if (wr.send_flags & IBV_SEND_INLINE)
                ibv_wr_set_inline_data(ex, data_, sge_[i].length);
            else
                ibv_wr_set_sge(ex, sge_[i].lkey, sge_[i].addr, sge_[i].length);
        }
        if (ibv_wr_complete(ex))
            std::abort();
        sent_ += n;
    }
    // Reads of each completion what programs usually read.
    void poll_extended(unsigned want) {
        ibv_cq_ex* const ex = &cq_.vcq.cq_ex;
        ibv_poll_cq_attr attr{};
        unsigned got = 0;
        if (ibv_start_poll(ex, &attr) == 0) {
            do {
                wc_[got] = {};
                wc_[got].wr_id = ex->wr_id;
                wc_[got].opcode = ibv_wc_read_opcode(ex);
                wc_[got].byte_len = ibv_wc_read_byte_len(ex);
            } while (++got < want && ibv_next_poll(ex) == 0);
            ibv_end_poll(ex);
        }
        if (got != want)
            std::abort();
    }
    int poll_some(unsigned n) { return cxgb3_poll_cq(&cq_.vcq.cq, static_cast<int>(n), wc_); }

    // The card: the last n sends, every `signaled`th of them with an entry; reads; messages.
    void complete_sends(unsigned n, unsigned opcode, unsigned signaled = 1) {
        for (unsigned i = 0; i < n; i++) {
            if ((i + 1) % signaled == 0)
                write(T3_CQE_TYPE_SQ | opcode, 0, sent_ - n + i, 0);
        }
    }
    void complete_reads(unsigned n) {
        while (n--)
            write(T3_RDMA_READ_RESP, 0, common::to_be(0x1234ffu), 0);
    }
    void complete_recvs(unsigned n) {
        while (n--)
            write(T3_RDMA_SEND, common::to_be(16u), 0, common::to_be(++received_));
    }

    uint8_t* ring() { return static_cast<uint8_t*>(qp_.ring); }
    size_t ring_bytes() const { return (size_t{1} << slots_log2) * T3_WR_SLOT_BYTES; }

private:
    static constexpr uint32_t qpid = 33;

    struct Pages {
        explicit Pages(size_t bytes) : mem(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), &free) {
            std::memset(mem.get(), 0, (bytes + 4095) / 4096 * 4096);
        }
        void* get() { return mem.get(); }
        std::unique_ptr<void, decltype(&free)> mem;
    };

    void write(uint32_t header, uint32_t len, uint32_t hi, uint32_t lo) {
        const common::RingSize size(cq_log2);
        auto& e = static_cast<t3_cqe*>(cq_.ring)[size.index(produced_)];
        e.len = len;
        e.u.sq = {hi, lo};
        __atomic_store_n(&e.header,
                         common::to_be(qpid << 12 | (size.lap_bit(produced_) ? T3_CQE_GEN : 0) | header),
                         __ATOMIC_RELEASE);
        produced_++;
    }

    Pages cq_ring_, ring_;
    cxgb3_cq cq_{};
    cxgb3_qp qp_{};
    volatile uint32_t doorbell_ = 0;
    uint32_t produced_ = 0, sent_ = 0, received_ = 0;
    uint8_t data_[64] = {};
    ibv_sge sge_[most];
    ibv_send_wr send_[most];
    ibv_recv_wr recv_[most];
    ibv_wc wc_[most];
};

// One call of the data path, in batches. `ref`: what the old library needs for a single one.
struct Case {
    const char* name;
    unsigned ref;
    const char* kind; // which calls are counted: post, poll, and the extended ones
    // Prepares, posts, completes and polls n.
    void (*round)(Rig&, unsigned n);
};

inline void send_round(Rig& r, unsigned n, ibv_wr_opcode op, unsigned card_op, unsigned flags, uint32_t bytes,
                       unsigned signaled = 1) {
    r.prepare(n, op, flags, bytes, signaled);
    r.post_send(n);
    if (op == IBV_WR_RDMA_READ)
        r.complete_reads(n);
    else
        r.complete_sends(n, card_op, signaled);
    r.poll(n, n / signaled);
}
inline void send(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, 0, 16);
}
inline void send_inline16(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, IBV_SEND_INLINE, 16);
}
inline void send_inline64(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, IBV_SEND_INLINE, 64);
}
inline void write(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_RDMA_WRITE, T3_RDMA_WRITE, 0, 16);
}
inline void read(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_RDMA_READ, 0, 0, 16);
}
inline void extended_round(Rig& r, unsigned n, ibv_wr_opcode op, unsigned card_op, unsigned flags,
                           uint32_t bytes) {
    r.prepare(n, op, flags, bytes);
    r.build_send(n);
    if (op == IBV_WR_RDMA_READ)
        r.complete_reads(n);
    else
        r.complete_sends(n, card_op);
    r.poll_extended(n);
}
inline void wr_send(Rig& r, unsigned n) {
    extended_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, 0, 16);
}
inline void wr_send_inline16(Rig& r, unsigned n) {
    extended_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, IBV_SEND_INLINE, 16);
}
inline void wr_send_inline64(Rig& r, unsigned n) {
    extended_round(r, n, IBV_WR_SEND, T3_RDMA_SEND, IBV_SEND_INLINE, 64);
}
inline void wr_write(Rig& r, unsigned n) {
    extended_round(r, n, IBV_WR_RDMA_WRITE, T3_RDMA_WRITE, 0, 16);
}
inline void wr_read(Rig& r, unsigned n) {
    extended_round(r, n, IBV_WR_RDMA_READ, 0, 0, 16);
}
inline void recv_extended(Rig& r, unsigned n) {
    r.prepare(n, IBV_WR_SEND, 0, 16);
    r.post_recv(n);
    r.complete_recvs(n);
    r.poll_extended(n);
}
inline void recv(Rig& r, unsigned n) {
    r.prepare(n, IBV_WR_SEND, 0, 16);
    r.post_recv(n);
    r.complete_recvs(n);
    r.poll(n, n);
}
inline void unsignaled(Rig& r, unsigned n) {
    send_round(r, n, IBV_WR_RDMA_WRITE, T3_RDMA_WRITE, 0, 16, n);
}
inline void empty(Rig& r, unsigned) {
    r.poll(1, 0);
}

inline constexpr Case cases[] = {
    {"send", 181, "post", send},
    {"send_inline16", 205, "post", send_inline16},
    {"send_inline64", 206, "post", send_inline64},
    {"write", 186, "post", write},
    {"read", 158, "post", read},
    {"recv", 149, "post", recv},
    {"poll_send", 233, "poll", send},
    {"poll_recv", 224, "poll", recv},
    {"poll_read", 270, "poll", read},
    {"write_unsignaled", 186, "post", unsignaled}, // all but the last one of a batch
    {"poll_unsignaled", 233, "poll", unsignaled},
    {"wr_send", 181, "wr", wr_send}, // the old library had no such calls: beside its plain ones
    {"wr_send_inline16", 205, "wr", wr_send_inline16},
    {"wr_send_inline64", 206, "wr", wr_send_inline64},
    {"wr_write", 186, "wr", wr_write},
    {"wr_read", 158, "wr", wr_read},
    {"next_send", 233, "next", wr_send},
    {"next_recv", 224, "next", recv_extended},
    {"next_read", 270, "next", wr_read},
};
inline constexpr unsigned batches[] = {1, 4, 16, 32};

} // namespace bench
