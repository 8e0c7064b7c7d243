// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The data path as libibverbs calls it: ibv_send_wr in, ibv_wc out.
#include "tests/unit/provider/fake_card.hh"
#include "userspace/providers/cxgb3/border.h"

#include "include/hw/t3_tpt.h"

using namespace fake;
using testing::Each;

namespace {

class VerbsPath : public testing::Test {
protected:
    VerbsPath() : cq_pages(65 * 16), ring(32 * T3_WR_SLOT_BYTES) {
        cq.ring = cq_pages.data();
        const t3_create_cq_resp cq_resp{.key = 0, .cqid = 3, .size_log2 = 6, .memsize = 8192, .reserved = 0};
        EXPECT_EQ(cxgb3_core_create_cq(&cq, true, nullptr), 0);
        cxgb3_core_cq_use_ring(&cq, &cq_resp);
        make_qp(false);
    }
    ~VerbsPath() override {
        cxgb3_core_destroy_qp(&qp);
        cxgb3_core_destroy_cq(&cq);
    }
    void make_qp(bool signal_all) {
        if (qp.core)
            cxgb3_core_destroy_qp(&qp);
        std::memset(ring.data(), 0, 32 * T3_WR_SLOT_BYTES);
        qp.vqp.qp.send_cq = qp.vqp.qp.recv_cq = &cq.vcq.cq;
        qp.ring = ring.data();
        qp.doorbell = &doorbell;
        const t3_create_qp_resp resp{
            .key = 0, .db_key = 0, .qpid = 0x21, .size_log2 = 5, .sq_size_log2 = 4, .rq_size_log2 = 4};
        EXPECT_EQ(cxgb3_core_create_qp(&qp, &resp, signal_all, true, nullptr, nullptr), 0);
    }

    int send(ibv_send_wr wr) {
        ibv_send_wr* bad = nullptr;
        const int err = cxgb3_post_send(&qp.vqp.qp, &wr, &bad);
        EXPECT_EQ(bad, err ? &wr : nullptr);
        return err;
    }
    static ibv_send_wr wr(ibv_wr_opcode op, unsigned flags = IBV_SEND_SIGNALED) {
        ibv_send_wr w{};
        w.wr_id = 0x1122334455667788;
        w.opcode = op;
        w.send_flags = flags;
        return w;
    }
    void complete(bool sq, unsigned opcode, unsigned status, uint32_t len, uint32_t hi, uint32_t lo) {
        auto* e = reinterpret_cast<t3_cqe*>(cq_pages.data()) + produced++;
        e->len = to_be(len);
        e->u.sq = {hi, lo};
        e->header = to_be(0x21u << 12 | T3_CQE_GEN | status << 5 | (sq ? T3_CQE_TYPE_SQ : 0) | opcode);
    }
    ibv_wc poll_one() {
        ibv_wc wc[2];
        std::memset(wc, 0xaa, sizeof(wc));
        EXPECT_EQ(cxgb3_poll_cq(&cq.vcq.cq, 2, wc), 1);
        return wc[0];
    }
    const t3_wr_slot& slot(unsigned i) { return reinterpret_cast<t3_wr_slot*>(ring.data())[i]; }

    Pages cq_pages, ring;
    volatile uint32_t doorbell = 0;
    cxgb3_cq cq{};
    cxgb3_qp qp{};
    uint32_t produced = 0;
};

} // namespace

// X18
TEST_F(VerbsPath, WhatIwarpDoesNotHaveIsNotSupported) {
    for (const auto op : {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
                          IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1,
                          static_cast<ibv_wr_opcode>(15)})
        EXPECT_EQ(send(wr(op)), EOPNOTSUPP) << op;
    EXPECT_EQ(doorbell, 0u);
}

TEST_F(VerbsPath, EveryOpcodeReachesTheRingAndComesBack) {
    ibv_sge sge{0x7000, 8, 0x1234ff};
    const struct {
        ibv_wr_opcode op;
        unsigned wr_op;
        bool read;
        unsigned cqe_op;
        ibv_wc_opcode wc_op;
    } rows[] = {
        {IBV_WR_SEND, T3_WR_OP_SEND, false, T3_RDMA_SEND, IBV_WC_SEND},
        {IBV_WR_SEND_WITH_INV, T3_WR_OP_SEND, false, T3_RDMA_SEND_INV, IBV_WC_SEND},
        {IBV_WR_RDMA_WRITE, T3_WR_OP_WRITE, false, T3_RDMA_WRITE, IBV_WC_RDMA_WRITE},
        {IBV_WR_RDMA_READ, T3_WR_OP_READ, true, T3_RDMA_READ_RESP, IBV_WC_RDMA_READ},
        {IBV_WR_LOCAL_INV, T3_WR_OP_LOCAL_INV, false, T3_RDMA_LOCAL_INV, IBV_WC_LOCAL_INV},
    };
    unsigned i = 0;
    for (const auto& row : rows) {
        ibv_send_wr w = wr(row.op);
        w.sg_list = &sge;
        w.num_sge = 1;
        if (row.op == IBV_WR_SEND_WITH_INV || row.op == IBV_WR_LOCAL_INV) {
            w.invalidate_rkey = 0x99ff;
        } else {
            w.wr.rdma.remote_addr = 0x123456789a;
            w.wr.rdma.rkey = 0x2345ff;
        }
        ASSERT_EQ(send(w), 0);
        EXPECT_EQ(from_be<uint32_t>(slot(i).hdr.hi) >> 24, row.wr_op);
        if (row.read)
            complete(false, row.cqe_op, 0, 0, to_be(0x1234ffu), 0);
        else
            complete(true, row.cqe_op, 0, 0, i, 0);
        const ibv_wc wc = poll_one();
        EXPECT_EQ(wc.opcode, row.wc_op);
        EXPECT_EQ(wc.wr_id, w.wr_id);
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.byte_len, row.read ? 8u : 0u);
        i++;
    }
    EXPECT_EQ(from_be<uint32_t>(slot(1).send.inv_stag), 0x99ffu);
    EXPECT_EQ(from_be<uint64_t>(slot(2).write.sink_to), 0x123456789aull);
    EXPECT_EQ(from_be<uint32_t>(slot(4).local_inv.stag), 0x99ffu);
}

TEST_F(VerbsPath, A14_EveryFieldOfTheCompletionIsWritten) {
    ibv_recv_wr r{}, *bad = nullptr;
    r.wr_id = 5;
    ASSERT_EQ(cxgb3_post_recv(&qp.vqp.qp, &r, &bad), 0);
    complete(false, T3_RDMA_SEND, 0, 77, 0, to_be(1u));
    const ibv_wc wc = poll_one();
    EXPECT_EQ(wc.wr_id, 5u);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, 77u);
    EXPECT_EQ(wc.qp_num, 0x21u);
    EXPECT_EQ(wc.vendor_err, 0u);
    EXPECT_EQ(wc.wc_flags, 0u);
    EXPECT_EQ(wc.imm_data, 0u);
    EXPECT_EQ(wc.src_qp | wc.pkey_index | wc.slid | wc.sl | wc.dlid_path_bits, 0u);
}

TEST_F(VerbsPath, ReceiveOfAMessageWithInvalidateReportsTheStag) {
    ibv_recv_wr r{}, *bad = nullptr;
    ASSERT_EQ(cxgb3_post_recv(&qp.vqp.qp, &r, &bad), 0);
    complete(false, T3_RDMA_SEND_SE_INV, 0, 4, to_be(0x4567ffu), to_be(1u));
    const ibv_wc wc = poll_one();
    EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_INV});
    EXPECT_EQ(wc.invalidated_rkey, 0x4567ffu);
}

TEST_F(VerbsPath, StatusOfTheCardInVerbs) {
    const struct {
        unsigned card;
        ibv_wc_status verbs;
    } rows[] = {{T3_STATUS_STAG, IBV_WC_LOC_ACCESS_ERR},
                {T3_STATUS_PDID, IBV_WC_LOC_PROT_ERR},
                {T3_STATUS_QPID, IBV_WC_LOC_ACCESS_ERR},
                {T3_STATUS_ACCESS, IBV_WC_LOC_ACCESS_ERR},
                {T3_STATUS_WRAP, IBV_WC_GENERAL_ERR},
                {T3_STATUS_BOUND, IBV_WC_LOC_LEN_ERR},
                {T3_STATUS_INV_BOUND_MR, IBV_WC_MW_BIND_ERR},
                {T3_STATUS_ECC, IBV_WC_FATAL_ERR},
                {0x0d, IBV_WC_FATAL_ERR},
                {T3_STATUS_CRC, IBV_WC_FATAL_ERR},
                {T3_STATUS_NO_RECV, IBV_WC_FATAL_ERR},
                {T3_STATUS_INTERNAL, IBV_WC_FATAL_ERR}};
    for (const auto& row : rows) {
        make_qp(false);
        ASSERT_EQ(send(wr(IBV_WR_SEND)), 0);
        complete(true, T3_RDMA_SEND, row.card, 0, 0, 0);
        const ibv_wc wc = poll_one();
        EXPECT_EQ(wc.status, row.verbs) << row.card;
        EXPECT_EQ(wc.vendor_err, row.card);
    }
}

TEST_F(VerbsPath, AfterModifyOrAnEventTheFlushIsTheKernels) {
    ASSERT_EQ(send(wr(IBV_WR_SEND, 0)), 0);
    cxgb3_core_stop_qp(&qp);
    ibv_wc none[1];
    EXPECT_EQ(cxgb3_poll_cq(&cq.vcq.cq, 1, none), 0) << "the card may still send from its buffer";
    reinterpret_cast<uint64_t*>(ring.data())[T3_QP_STATUS_OFFSET / 8] |= T3_QP_STATUS_ERROR;
    reinterpret_cast<uint32_t*>(cq_pages.data())[64 * 4] = T3_CQ_STATUS_ERROR;
    const ibv_wc wc = poll_one();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, 0x21u);
    cxgb3_core_reset_qp(&qp);
    ASSERT_EQ(send(wr(IBV_WR_SEND)), 0);
    complete(true, T3_RDMA_SEND, 0, 0, 0, 0);
    EXPECT_EQ(poll_one().status, IBV_WC_SUCCESS);
}

TEST_F(VerbsPath, SignalAllOfTheQp) {
    make_qp(true);
    ASSERT_EQ(send(wr(IBV_WR_RDMA_WRITE, 0)), 0);
    EXPECT_TRUE(from_be<uint32_t>(slot(0).hdr.hi) & T3_WR_F_COMPLETION << 8);
    complete(true, T3_RDMA_WRITE, 0, 0, 0, 0);
    EXPECT_EQ(poll_one().opcode, IBV_WC_RDMA_WRITE);
}

TEST_F(VerbsPath, NegativeNumberOfSges) {
    ibv_send_wr w = wr(IBV_WR_SEND);
    w.num_sge = -1;
    EXPECT_EQ(send(w), EINVAL);
    ibv_recv_wr r{}, *bad = nullptr;
    r.num_sge = -1;
    EXPECT_EQ(cxgb3_post_recv(&qp.vqp.qp, &r, &bad), EINVAL);
    EXPECT_EQ(bad, &r);
}

namespace {

class Bind : public VerbsPath {
protected:
    Bind() {
        mr.vmr.ibv_mr.pd = &pd;
        mr.vmr.ibv_mr.lkey = 0x1234ff;
        mr.vmr.ibv_mr.length = 0x3000;
        mr.hca_va = 0x7f0012345678;
        mr.pbl_addr = 0x20;
        mw.pd = &pd;
        mw.rkey = 0x777701;
        mw.type = IBV_MW_TYPE_1;
    }
    int bind(uint64_t addr, uint64_t length, unsigned access = IBV_ACCESS_REMOTE_WRITE) {
        ibv_mw_bind b{};
        b.wr_id = 9;
        b.send_flags = IBV_SEND_SIGNALED;
        b.bind_info = {&mr.vmr.ibv_mr, addr, length, access};
        return cxgb3_bind_mw(&qp.vqp.qp, &mw, &b);
    }
    ibv_pd pd{};
    cxgb3_mr mr{};
    ibv_mw mw{};
};

} // namespace

TEST_F(Bind, FindsThePageOfTheWindow) {
    const struct {
        uint64_t offset;
        uint32_t page;
    } rows[] = {{0, 0x20}, {0x987, 0x20}, {0x988, 0x21}, {0x1987, 0x21}, {0x1988, 0x22}, {0x2fff, 0x23}};
    unsigned i = 0;
    for (const auto& row : rows) {
        ASSERT_EQ(bind(mr.hca_va + row.offset, 1), 0);
        EXPECT_EQ(from_be<uint32_t>(slot(i++).bind_mw.mr_pbl_addr), row.page) << row.offset;
    }
    EXPECT_EQ(slot(0).bind_mw.perms, T3_PERM_REMOTE_WRITE);
}

// The region begins at 0x678 of a page of 4 KiB, at 0x1678 of one of 16 KiB and at 0x5678 of one of 64 KiB.
TEST_F(Bind, PagesHaveTheSizeOfTheSystems) {
    const struct {
        uint8_t page_code;
        uint64_t page, first; // bytes of the region's first page
    } sizes[] = {{0, 0x1000, 0x988}, {2, 0x4000, 0x2988}, {4, 0x10000, 0xa988}};
    unsigned i = 0;
    for (const auto& size : sizes) {
        mr.page_code = size.page_code;
        mr.vmr.ibv_mr.length = 3 * size.page;
        const std::pair<uint64_t, uint32_t> rows[] = {{0, 0x20},
                                                      {size.first - 1, 0x20},
                                                      {size.first, 0x21},
                                                      {size.first + size.page - 1, 0x21},
                                                      {size.first + size.page, 0x22}};
        for (const auto& [offset, page] : rows) {
            ASSERT_EQ(bind(mr.hca_va + offset, 1), 0);
            EXPECT_EQ(slot(i).bind_mw.mr_pagesz, size.page_code);
            EXPECT_EQ(from_be<uint32_t>(slot(i++).bind_mw.mr_pbl_addr), page) << size.page << " " << offset;
        }
    }
}

// What had the window's key before the bind must not reach the new memory.
TEST_F(Bind, EachBindGivesANewKey) {
    for (unsigned i = 0; i < 3; i++) {
        const uint32_t before = mw.rkey;
        ASSERT_EQ(bind(mr.hca_va, 1), 0);
        EXPECT_EQ(mw.rkey >> 8, before >> 8);
        EXPECT_NE(mw.rkey, before);
        EXPECT_EQ(from_be<uint32_t>(slot(i).bind_mw.mw_stag), mw.rkey);
    }
    const uint32_t before = mw.rkey;
    EXPECT_EQ(bind(mr.hca_va, 0x3001), EINVAL);
    EXPECT_EQ(mw.rkey, before);
}

TEST_F(Bind, OutsideTheRegionIsRefused) {
    EXPECT_EQ(bind(mr.hca_va, 0x3001), EINVAL);
    EXPECT_EQ(bind(mr.hca_va - 1, 2), EINVAL);
    EXPECT_EQ(bind(mr.hca_va + 0x3000, 1), EINVAL);
    EXPECT_EQ(bind(mr.hca_va + 0x2fff, 2), EINVAL);
    EXPECT_EQ(bind(mr.hca_va + 1, ~0ull), EINVAL);
    EXPECT_EQ(bind(mr.hca_va, 1, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
    ibv_pd other{};
    other.handle = pd.handle + 1;
    mw.pd = &other;
    EXPECT_EQ(bind(mr.hca_va, 1), EINVAL);
    EXPECT_EQ(doorbell, 0u);
}

TEST_F(Bind, NoBytesTakesTheWindowBack) {
    ASSERT_EQ(bind(0, 0), 0);
    EXPECT_EQ(from_be<uint32_t>(slot(0).hdr.hi) >> 24, unsigned{T3_WR_OP_LOCAL_INV});
    EXPECT_EQ(from_be<uint32_t>(slot(0).local_inv.stag), 0x777701u);
    complete(true, T3_RDMA_LOCAL_INV, T3_STATUS_SUCCESS, 0, 0, 0);
    const ibv_wc wc = poll_one();
    EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW) << "the program has called ibv_bind_mw()";
    EXPECT_EQ(wc.wr_id, 9u);
}

TEST_F(Bind, OfAFullQueueAndOfAQpInErrorIsAsForSends) {
    for (int i = 0; i < 16; i++)
        ASSERT_EQ(bind(mr.hca_va, i & 1), 0);
    EXPECT_EQ(bind(mr.hca_va, 1), ENOMEM);
    EXPECT_EQ(bind(0, 0), ENOMEM);
    make_qp(false);
    cxgb3_core_stop_qp(&qp);
    doorbell = 0;
    ASSERT_EQ(bind(mr.hca_va, 1), 0);
    EXPECT_EQ(slot(0).hdr.hi, 0u) << "kept from the card";
    EXPECT_EQ(doorbell, 0u);
}

// What CXGB3_COUNTERS counts.
TEST(Counters, PostsDoorbellsAndPolls) {
    cxgb3_counters counters{};
    CqMemory cq(4, true, &counters);
    QpMemory q(cq, cq, {.qpid = 0x22, .counters = &counters});

    ibv_send_wr wr[3], *bad;
    for (int i = 0; i < 3; i++) {
        wr[i] = verbs(SendRequest{.wr_id = static_cast<uint64_t>(i), .signaled = true});
        wr[i].next = i < 2 ? &wr[i + 1] : nullptr;
    }
    ibv_recv_wr recv{}, *bad_recv;
    ASSERT_EQ(cxgb3_post_send_counted(q.ibqp(), wr, &bad), 0);
    ASSERT_EQ(cxgb3_post_recv_counted(q.ibqp(), &recv, &bad_recv), 0);
    ASSERT_EQ(cxgb3_post_send_counted(q.ibqp(), nullptr, &bad), 0);
    ibv_wc wc[4];
    EXPECT_EQ(cxgb3_poll_cq_counted(&cq.handle.vcq.cq, 4, wc), 0);
    cq.sent(0x22, 0);
    EXPECT_EQ(cxgb3_poll_cq_counted(&cq.handle.vcq.cq, 4, wc), 1);

    EXPECT_EQ(counters.post_send, 2u);
    EXPECT_EQ(counters.send_requests, 3u);
    EXPECT_EQ(counters.post_recv, 1u);
    EXPECT_EQ(counters.recv_requests, 1u);
    EXPECT_EQ(counters.doorbells, 2u);
    EXPECT_EQ(counters.poll, 2u);
    EXPECT_EQ(counters.empty_poll, 1u);
    EXPECT_EQ(counters.completions, 1u);
}
