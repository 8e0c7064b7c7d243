// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The provider's data path as a program calls it, against memory in place of a card.
//
//   provider_bench CASE COUNT   does one case COUNT times and nothing else: bench/run counts instructions
//   with it provider_bench --times      nanoseconds per request of each case, on this machine
#include "userspace/providers/cxgb3/border.h"

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"
#include "userspace/common/be.hh"
#include "userspace/common/ring.hh"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr unsigned batch = 16;

// A QP and a CQ over plain memory. The card's part, writing completion entries, is kept as short as possible.
class Rig {
public:
    Rig() {
        cq_.ring = zeroed(size_t{257} * T3_CQE_BYTES);
        qp_.ring = zeroed(size_t{128} * T3_WR_SLOT_BYTES);
        qp_.doorbell = &doorbell_;
        qp_.vqp.qp.send_cq = qp_.vqp.qp.recv_cq = &cq_.vcq.cq;
        t3_create_cq_resp cq{};
        cq.size_log2 = cq_size_.log2();
        t3_create_qp_resp qp{};
        qp.qpid = qpid;
        qp.size_log2 = 7;
        qp.sq_size_log2 = qp.rq_size_log2 = 6;
        if (cxgb3_core_create_cq(&cq_, true, nullptr))
            std::abort();
        cxgb3_core_cq_use_ring(&cq_, &cq);
        if (cxgb3_core_create_qp(&qp_, &qp, false, true, nullptr))
            std::abort();
        for (auto& s : sge_)
            s = {reinterpret_cast<uintptr_t>(data_), 16, 0x1234ff};
        for (unsigned i = 0; i < batch; i++) {
            send_[i] = {};
            send_[i].sg_list = sge_;
            send_[i].next = i + 1 < batch ? &send_[i + 1] : nullptr;
            send_[i].wr.rdma.remote_addr = 0x2000;
            send_[i].wr.rdma.rkey = 0x5678ff;
            recv_[i] = {i, i + 1 < batch ? &recv_[i + 1] : nullptr, sge_, 1};
        }
    }

    // One list of n requests.
    void post_send(unsigned n, ibv_wr_opcode op, unsigned flags = IBV_SEND_SIGNALED, int sges = 1) {
        for (unsigned i = 0; i < n; i++) {
            send_[i].opcode = op;
            send_[i].send_flags = flags;
            send_[i].num_sge = sges;
        }
        ibv_send_wr* bad;
        if (cxgb3_post_send(&qp_.vqp.qp, &send_[0], &bad) && bad != &send_[n])
            std::abort();
        sent_ += n;
    }
    void post_recv(unsigned n) {
        ibv_recv_wr* bad;
        if (cxgb3_post_recv(&qp_.vqp.qp, &recv_[batch - n], &bad))
            std::abort();
    }
    void complete_sends(unsigned n) {
        for (uint32_t pos = sent_ - n; pos != sent_; pos++)
            write(T3_CQE_TYPE_SQ | T3_RDMA_SEND, pos, 0);
    }
    void complete_read() { write(T3_RDMA_READ_RESP, common::to_be(0x1234ffu), 0); }
    void complete_recvs(unsigned n) {
        while (n--)
            write(T3_RDMA_SEND, 0, common::to_be(++received_));
    }
    void poll(unsigned n, unsigned want) {
        if (cxgb3_poll_cq(&cq_.vcq.cq, static_cast<int>(n), wc_) != static_cast<int>(want))
            std::abort();
    }
    // The list ends after n requests.
    void cut(unsigned n) {
        for (unsigned i = 0; i < batch; i++)
            send_[i].next = i + 1 < n ? &send_[i + 1] : nullptr;
    }

private:
    static constexpr uint32_t qpid = 33;

    static void* zeroed(size_t bytes) {
        const size_t whole = (bytes + 4095) / 4096 * 4096;
        return std::memset(std::aligned_alloc(4096, whole), 0, whole);
    }
    void write(uint32_t header, uint32_t hi, uint32_t lo) {
        auto& e = static_cast<t3_cqe*>(cq_.ring)[cq_size_.index(produced_)];
        e.u.sq = {hi, lo};
        e.header = common::to_be(qpid << 12 | (cq_size_.lap_bit(produced_) ? T3_CQE_GEN : 0) | header);
        produced_++;
    }

    const common::RingSize cq_size_{8};
    cxgb3_cq cq_{};
    cxgb3_qp qp_{};
    volatile uint32_t doorbell_ = 0;
    uint32_t produced_ = 0, sent_ = 0, received_ = 0;
    uint8_t data_[64] = {};
    ibv_sge sge_[4];
    ibv_send_wr send_[batch];
    ibv_recv_wr recv_[batch];
    ibv_wc wc_[batch];
};

void sends(Rig& r, unsigned n, ibv_wr_opcode op, unsigned flags = IBV_SEND_SIGNALED, int sges = 1) {
    r.cut(n);
    r.post_send(n, op, flags, sges);
    r.complete_sends(n);
    r.poll(batch, n);
}

void recvs(Rig& r, unsigned n) {
    r.post_recv(n);
    r.complete_recvs(n);
    r.poll(n, n);
}

// One round posts and completes that many requests.
struct Case {
    const char* name;
    unsigned requests;
    std::function<void(Rig&)> round;
};

const std::vector<Case> cases = {
    {"poll-empty", 1, [](Rig& r) { r.poll(1, 0); }},
    {"send", 1, [](Rig& r) { sends(r, 1, IBV_WR_SEND); }},
    {"send-4-sges", 1, [](Rig& r) { sends(r, 1, IBV_WR_SEND, IBV_SEND_SIGNALED, 4); }},
    {"send-inline-16", 1, [](Rig& r) { sends(r, 1, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE); }},
    {"write", 1, [](Rig& r) { sends(r, 1, IBV_WR_RDMA_WRITE); }},
    {"write-list-of-16", 16, [](Rig& r) { sends(r, 16, IBV_WR_RDMA_WRITE); }},
    {"write-15-unsignaled", 16,
     [](Rig& r) {
         r.cut(15);
         r.post_send(15, IBV_WR_RDMA_WRITE, 0);
         r.cut(1);
         r.post_send(1, IBV_WR_RDMA_WRITE);
         r.complete_sends(1);
         r.poll(1, 1);
     }},
    {"read", 1,
     [](Rig& r) {
         r.cut(1);
         r.post_send(1, IBV_WR_RDMA_READ);
         r.complete_read();
         r.poll(1, 1);
     }},
    {"recv", 1, [](Rig& r) { recvs(r, 1); }},
    {"recv-list-of-16", 16, [](Rig& r) { recvs(r, 16); }},
};

void print_times() {
    for (const auto& c : cases) {
        Rig rig;
        constexpr unsigned rounds = 200000;
        const auto start = std::chrono::steady_clock::now();
        for (unsigned i = 0; i < rounds; i++)
            c.round(rig);
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        std::printf("%-22s %8.1f\n", c.name, took.count() / rounds / c.requests);
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "--list") {
        for (const auto& c : cases)
            std::printf("%s %u\n", c.name, c.requests);
        return 0;
    }
    if (what == "--times") {
        print_times();
        return 0;
    }
    for (const auto& c : cases) {
        if (argc == 3 && c.name == what) {
            Rig rig;
            for (long i = std::atol(argv[2]); i > 0; i--)
                c.round(rig);
            return 0;
        }
    }
    std::fprintf(stderr, "usage: %s --list | --times | CASE COUNT\n", argv[0]);
    return 2;
}
