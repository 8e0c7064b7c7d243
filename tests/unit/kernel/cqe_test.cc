// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completion entries: from the bytes that the card writes to the completions of the consumer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "kernel/iw_cxgb3/card/wr.h"
#include "kernel/iw_cxgb3/verbs/cqe.h"
}
#include "send.hh"
#include "words.hh"

namespace {

t3_cqe cqe(std::uint32_t header, std::uint32_t len, std::uint32_t word2, std::uint32_t word3) {
    t3_cqe e{};
    e.header = htobe32(header);
    e.len = htobe32(len);
    e.u.rq.stag = htobe32(word2);
    e.u.rq.msn = htobe32(word3);
    return e;
}

constexpr std::uint32_t header(bool sq, unsigned opcode, unsigned status = 0) {
    return 0x21 << 12 | T3_CQE_GEN | status << 5 | (sq ? T3_CQE_TYPE_SQ : 0) | opcode;
}

/// A send-side entry of the card: the WR id comes back as it was posted.
t3_cqe sent(std::uint32_t ptr, unsigned opcode = T3_RDMA_SEND, unsigned status = 0) {
    t3_cqe e = cqe(header(true, opcode, status), 0, 0, 0);
    e.u.sq.wrid_hi = ptr;
    return e;
}

t3_cqe received(std::uint32_t msn, std::uint32_t len, unsigned opcode = T3_RDMA_SEND,
                std::uint32_t stag = 0) {
    return cqe(header(false, opcode), len, stag, msn);
}

t3_cqe read_response(std::uint32_t stag = 0x001234ff) {
    return cqe(header(false, T3_RDMA_READ_RESP), 0, stag, 0);
}

class Completions : public ::testing::Test {
protected:
    Completions() {
        wq.slots = slots_.data();
        wq.sq = sq_.data();
        wq.rq = rq_.data();
        wq.slots_log2 = 5;
        wq.sq_log2 = 3;
        wq.rq_log2 = 4;
    }

    void post(std::uint64_t id, std::uint8_t op, bool signaled = true) {
        Send req{};
        req.wr_id = id;
        req.rdma_op = op;
        req.op = op == T3_RDMA_READ_REQ ? T3_WR_OP_READ
                 : op == T3_RDMA_WRITE  ? T3_WR_OP_WRITE
                                        : T3_WR_OP_SEND;
        req.flags = signaled ? T3_WR_F_COMPLETION : 0;
        req.num_sge = 1;
        req.sge[0] = {0x1000, 50, 0x001234ff};
        ASSERT_EQ(post_send(wq, req), 0);
    }

    void post_recv(std::uint64_t id) {
        t3_recv req{};
        req.wr_id = id;
        req.num_sge = 2;
        req.sge[0] = {0x1000, 80, 0x001234ff};
        req.sge[1] = {0x2000, 20, 0x001234ff};
        ASSERT_EQ(t3_wq_post_recv(&wq, &req), 0);
    }

    /// The completions that the consumer polls now, as "id:status", of the send or the receive side.
    std::string sends() { return drain(t3_sq_next_completion, t3_sq_has_completion); }
    std::string recvs() { return drain(t3_rq_next_completion, t3_rq_has_completion); }

    t3_cqe_result apply(const t3_cqe& e) { return t3_wq_apply(&wq, &e); }

    t3_wq wq{};
    t3_completion last{};

private:
    template <typename Next, typename Has> std::string drain(Next next_completion, Has has_completion) {
        std::string all;
        for (;;) {
            const bool announced = has_completion(&wq);
            const bool got = next_completion(&wq, &last);
            EXPECT_EQ(announced, got);
            if (!got)
                return all;
            all += (all.empty() ? "" : " ") + std::to_string(last.wr_id) + ":" + std::to_string(last.status);
        }
    }

    std::array<t3_wr_slot, 32> slots_{};
    std::array<t3_sq_entry, 8> sq_{};
    std::array<t3_rq_entry, 16> rq_{};
};

// Random entries: each request completes once, in posting order, and no access is outside of the arrays.
class RandomEntries : public Completions {
protected:
    void post_some() {
        for (auto n = random() % 5; n && t3_sq_avail(&wq); n--)
            post(sent_++, ops[random() % ops.size()]);
        for (auto n = random() % 4; n && t3_rq_avail(&wq); n--)
            post_recv(received_++);
    }

    t3_cqe entry(unsigned round) {
        t3_cqe e;
        auto* bytes = reinterpret_cast<std::uint8_t*>(&e);
        std::generate(bytes, bytes + sizeof(e), [this] { return static_cast<std::uint8_t>(random()); });
        if (round & 1) // success: nearly all random entries are errors
            e.header &= ~htobe32(T3_CQE_STATUS);
        // Sometimes the expected value, which is never random.
        if (round % 3 == 0)
            e.u.rq.msn = htobe32(wq.rq_done + 1);
        if (round % 5 == 0)
            e.u.sq.wrid_hi = wq.sq_rptr;
        return e;
    }

    void poll_all() {
        while (t3_sq_next_completion(&wq, &last))
            ASSERT_EQ(last.wr_id, sends_back_++);
        while (t3_rq_next_completion(&wq, &last))
            ASSERT_EQ(last.wr_id, receives_back_++);
        ASSERT_LE(sends_back_, sent_);
        ASSERT_LE(receives_back_, received_);
    }

    bool all_complete() const { return sends_back_ == sent_ && receives_back_ == received_; }

    std::mt19937 random{5041};

private:
    static constexpr std::array<std::uint8_t, 3> ops{T3_RDMA_SEND, T3_RDMA_WRITE, T3_RDMA_READ_REQ};
    std::uint64_t sent_ = 0, received_ = 0, sends_back_ = 0, receives_back_ = 0;
};

TEST_F(RandomEntries, CompleteEachRequestOnce) {
    std::array<unsigned, T3_CQE_BAD + 1> seen{};
    for (unsigned life = 0; life < 50; life++) {
        wq.rtr_expected = life % 5 == 0;
        for (unsigned round = 0; round < 30; round++) {
            post_some();
            const auto e = entry(round);
            const auto result = apply(e);
            ASSERT_LE(result, T3_CQE_BAD);
            seen[result]++;
            if (round % 7 == 0)
                t3_wq_record_error(&wq, &e);
            if (round % 3)
                poll_all();
        }
        t3_wq_flush(&wq);
        poll_all();
        ASSERT_TRUE(all_complete());
    }
    for (const auto result : {T3_CQE_SEND_DONE, T3_CQE_RECV_DONE, T3_CQE_STALE, T3_CQE_BAD})
        EXPECT_NE(seen[result], 0u) << result;
}

TEST(CqeDecode, DocumentedHeaders) {
    const auto receive = cqe(0x00020403, 0, 0, 0);
    EXPECT_EQ(t3_cqe_qpid(&receive), 0x20u);
    EXPECT_FALSE(t3_cqe_is_sq(&receive));
    EXPECT_TRUE(t3_cqe_valid(receive.header, true));
    EXPECT_EQ(t3_cqe_opcode(&receive), T3_RDMA_SEND);
    const auto write_error = cqe(0x00020080, 0, 0, 0);
    EXPECT_EQ(t3_cqe_status(&write_error), T3_STATUS_ACCESS);
    EXPECT_EQ(t3_ae_classify(&write_error), T3_AE_REQUEST);
    const auto control = cqe(0x0fff701d, 0, 0, 0);
    EXPECT_EQ(t3_cqe_qpid(&control), T3_CTRL_QP_CONTEXT);
    EXPECT_EQ(t3_cqe_opcode(&control), T3_RDMA_BYPASS);
}

// The async event of the documented registration: WR id low is the raw counter 1.
TEST(CqeDecode, DocumentedAsyncEvent) {
    const auto ae = from_words<t3_async_event>(
        "00040000 00000000 84000000 00000000 0fff701d 00000000 00000000 " + raw(1));
    EXPECT_EQ(t3_cqe_qpid(&ae.cqe), T3_CTRL_QP_CONTEXT);
    EXPECT_EQ(ae.cqe.u.sq.wrid_lo, 1u);
    const auto armed =
        from_words<t3_async_event>("00050000 00060005 84000000 00000000 00040403 00000064 00000000 00000006");
    EXPECT_EQ(be32toh(armed.cq) & T3_AE_CQ_ID, 5u);
    EXPECT_EQ(t3_ae_classify(&armed.cqe), T3_AE_COMPLETION);
}

// The documented send, write and read: entries 5, 6 and 7 of CQ 1.
TEST_F(Completions, DocumentedSendWriteRead) {
    wq.sq_wptr = wq.sq_rptr = 5;
    wq.wptr = 6;
    post(100, T3_RDMA_SEND);
    post(101, T3_RDMA_WRITE);
    post(102, T3_RDMA_READ_REQ);
    EXPECT_EQ(apply(from_words<t3_cqe>("00021413 00000000 " + raw(5) + " 00000000")), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "100:0");
    EXPECT_EQ(apply(from_words<t3_cqe>("00021410 00000000 " + raw(6) + " 00000000")), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "101:0");
    EXPECT_EQ(apply(from_words<t3_cqe>("00021402 00000000 001234ff 00000000")), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "102:0");
    EXPECT_EQ(last.len, 50u);
    EXPECT_EQ(last.rdma_op, T3_RDMA_READ_REQ);
    EXPECT_EQ(wq.sq_rptr, 8u);
}

TEST_F(Completions, DocumentedReceive) {
    wq.rq_wptr = wq.rq_rptr = wq.rq_done = 5;
    wq.wptr = 5;
    post_recv(77);
    EXPECT_EQ(apply(from_words<t3_cqe>("00040403 00000064 00000000 00000006")), T3_CQE_RECV_DONE);
    EXPECT_EQ(recvs(), "77:0");
    EXPECT_EQ(last.len, 100u);
    EXPECT_EQ(last.inv_stag, 0u);
}

TEST_F(Completions, ReceiveWithInvalidateNamesTheStag) {
    post_recv(1);
    EXPECT_EQ(apply(received(1, 8, T3_RDMA_SEND_SE_INV, 0x00334455)), T3_CQE_RECV_DONE);
    EXPECT_EQ(recvs(), "1:0");
    EXPECT_EQ(last.inv_stag, 0x00334455u);
}

// Sends complete in posting order, although a read's data comes late.
TEST_F(Completions, ReadAtTheHeadDelaysLaterCompletions) {
    post(1, T3_RDMA_READ_REQ);
    post(2, T3_RDMA_SEND);
    post(3, T3_RDMA_WRITE);
    EXPECT_EQ(apply(sent(1)), T3_CQE_SEND_DONE);
    EXPECT_EQ(apply(sent(2, T3_RDMA_WRITE)), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "");
    EXPECT_EQ(apply(read_response()), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "1:0 2:0 3:0");
}

TEST_F(Completions, ReadsCompleteInPostingOrder) {
    post(1, T3_RDMA_READ_REQ);
    post(2, T3_RDMA_READ_REQ);
    apply(read_response());
    EXPECT_EQ(sends(), "1:0");
    apply(read_response());
    EXPECT_EQ(sends(), "2:0");
    EXPECT_EQ(apply(read_response()), T3_CQE_STALE);
}

TEST_F(Completions, UnsignaledRequestsAreNotReported) {
    post(1, T3_RDMA_SEND, false);
    post(2, T3_RDMA_WRITE, false);
    post(3, T3_RDMA_SEND);
    apply(sent(2));
    EXPECT_EQ(sends(), "3:0");
    EXPECT_EQ(wq.sq_rptr, 3u);
}

// X2: an unsignaled read has an entry too. It is not reported, and later requests wait for it.
TEST_F(Completions, UnsignaledReadDelaysLaterCompletions) {
    post(1, T3_RDMA_READ_REQ, false);
    post(2, T3_RDMA_SEND);
    apply(sent(1));
    EXPECT_EQ(sends(), "");
    apply(read_response());
    EXPECT_EQ(sends(), "2:0");
}

// A10: the response to the zero-length RTR read is not reported to the consumer.
TEST_F(Completions, RtrResponseIsDiscardedOnce) {
    wq.rtr_expected = true;
    post(1, T3_RDMA_READ_REQ);
    EXPECT_EQ(apply(read_response(T3_RTR_STAG)), T3_CQE_RTR_DONE);
    EXPECT_EQ(sends(), "");
    EXPECT_EQ(apply(read_response()), T3_CQE_SEND_DONE);
    EXPECT_EQ(sends(), "1:0");
}

TEST_F(Completions, EntriesOfCompletedRequestsAreStale) {
    post(1, T3_RDMA_SEND);
    apply(sent(0));
    EXPECT_EQ(sends(), "1:0");
    EXPECT_EQ(apply(sent(0)), T3_CQE_STALE);
    EXPECT_EQ(apply(sent(5)), T3_CQE_STALE);
    EXPECT_EQ(apply(sent(0xffffffff)), T3_CQE_STALE);
    EXPECT_EQ(wq.sq_rptr, 1u);
}

TEST_F(Completions, EntryForAnotherKindOfRequestIsAnError) {
    post(1, T3_RDMA_WRITE);
    EXPECT_EQ(apply(sent(0, T3_RDMA_SEND)), T3_CQE_BAD);
}

TEST_F(Completions, MessageWithoutAReceiveIsAnError) {
    EXPECT_EQ(apply(received(1, 8)), T3_CQE_BAD);
    EXPECT_EQ(recvs(), "");
}

// The card compares four bits of the MSN, software all of them.
TEST_F(Completions, GapInTheMsnIsAnError) {
    post_recv(1);
    EXPECT_EQ(apply(received(17, 8)), T3_CQE_BAD);
    EXPECT_EQ(recvs(), "1:" + std::to_string(T3_STATUS_MSN));
    EXPECT_EQ(last.len, 0u);
}

// A consumer would read behind its buffers.
TEST_F(Completions, MessageLongerThanItsBuffersIsAnError) {
    post_recv(1);
    post_recv(2);
    EXPECT_EQ(apply(received(1, 101)), T3_CQE_BAD);
    EXPECT_EQ(recvs(), "1:" + std::to_string(T3_STATUS_RQE_BOUND));
    EXPECT_EQ(last.len, 0u);
    t3_wq_flush(&wq);
    EXPECT_EQ(recvs(), "2:" + std::to_string(T3_STATUS_FLUSH));
    EXPECT_EQ(last.len, 0u);
}

// X10, X11: invalid entries must not block the queue.
TEST_F(Completions, InvalidEntriesAreErrors) {
    for (const unsigned opcode : {0U, 1U, 7U, 8U, 13U, 15U})
        EXPECT_EQ(apply(cqe(header(false, opcode), 0, 0, 0)), T3_CQE_BAD) << opcode;
}

// B2
TEST_F(Completions, FlushCompletesOutstandingRequestsInOrder) {
    post(1, T3_RDMA_SEND);
    post(2, T3_RDMA_SEND, false);
    post(3, T3_RDMA_READ_REQ);
    post_recv(11);
    post_recv(12);
    apply(sent(0));
    apply(received(1, 8));
    t3_wq_flush(&wq);
    const auto flushed = std::to_string(T3_STATUS_FLUSH);
    EXPECT_EQ(sends(), "1:0 2:" + flushed + " 3:" + flushed);
    EXPECT_EQ(recvs(), "11:0 12:" + flushed);
}

// A3, X8: a second flush completes nothing, and late entries have no effect.
TEST_F(Completions, SecondFlushAndLateEntriesCompleteNothing) {
    post(1, T3_RDMA_SEND);
    post_recv(11);
    t3_wq_flush(&wq);
    t3_wq_flush(&wq);
    EXPECT_EQ(apply(sent(0)), T3_CQE_STALE);
    EXPECT_EQ(apply(received(1, 8)), T3_CQE_BAD);
    const auto flushed = std::to_string(T3_STATUS_FLUSH);
    EXPECT_EQ(sends(), "1:" + flushed);
    EXPECT_EQ(recvs(), "11:" + flushed);
    EXPECT_EQ(sends(), "");
    EXPECT_EQ(recvs(), "");
}

// Draining posts to a queue in error: the request completes at the next flush.
TEST_F(Completions, DeferredRequestsAreFlushed) {
    t3_wq_flush(&wq);
    Send req{};
    req.wr_id = 9;
    req.flags = T3_WR_F_COMPLETION;
    const auto slots_used = wq.wptr;
    ASSERT_EQ(defer_send(wq, req), 0);
    EXPECT_EQ(wq.wptr, slots_used);
    t3_wq_flush(&wq);
    EXPECT_EQ(sends(), "9:" + std::to_string(T3_STATUS_FLUSH));
}

TEST_F(Completions, FlushKeepsTheStatusOfALocalError) {
    post(1, T3_RDMA_SEND);
    post(2, T3_RDMA_WRITE);
    post(3, T3_RDMA_SEND);
    const auto error = sent(1, T3_RDMA_WRITE, T3_STATUS_ACCESS);
    t3_wq_record_error(&wq, &error);
    t3_wq_flush(&wq);
    const auto flushed = std::to_string(T3_STATUS_FLUSH);
    EXPECT_EQ(sends(), "1:" + flushed + " 2:" + std::to_string(T3_STATUS_ACCESS) + " 3:" + flushed);
}

TEST_F(Completions, SendCounterWraps) {
    wq.sq_wptr = wq.sq_rptr = 0xfffffffc;
    for (std::uint32_t i = 0; i < 16; i++) {
        const auto ptr = wq.sq_wptr;
        post(i, T3_RDMA_SEND);
        EXPECT_EQ(apply(sent(ptr)), T3_CQE_SEND_DONE);
        EXPECT_EQ(sends(), std::to_string(i) + ":0");
    }
}

struct StatusCase {
    std::uint8_t status;
    ib_wc_status wc;
    t3_ae_class event;
};

// Documented table; send-side opcode, so that no special case applies.
TEST(CqeStatus, WorkCompletionAndEvent) {
    const std::vector<StatusCase> cases = {
        {0x00, IB_WC_SUCCESS, T3_AE_COMPLETION},    {0x01, IB_WC_LOC_ACCESS_ERR, T3_AE_ACCESS},
        {0x02, IB_WC_LOC_PROT_ERR, T3_AE_ACCESS},   {0x03, IB_WC_LOC_ACCESS_ERR, T3_AE_ACCESS},
        {0x04, IB_WC_LOC_ACCESS_ERR, T3_AE_ACCESS}, {0x05, IB_WC_GENERAL_ERR, T3_AE_ACCESS},
        {0x06, IB_WC_LOC_LEN_ERR, T3_AE_ACCESS},    {0x07, IB_WC_MW_BIND_ERR, T3_AE_ACCESS},
        {0x08, IB_WC_MW_BIND_ERR, T3_AE_ACCESS},    {0x09, IB_WC_FATAL_ERR, T3_AE_DEVICE},
        {0x0a, IB_WC_FATAL_ERR, T3_AE_DEVICE},      {0x0b, IB_WC_FATAL_ERR, T3_AE_FATAL},
        {0x0d, IB_WC_FATAL_ERR, T3_AE_FATAL},       {0x10, IB_WC_FATAL_ERR, T3_AE_FATAL},
        {0x18, IB_WC_FATAL_ERR, T3_AE_FATAL},       {0x1e, IB_WC_FATAL_ERR, T3_AE_FATAL},
        {0x1f, IB_WC_FATAL_ERR, T3_AE_FATAL},
    };
    for (const auto& row : cases) {
        const auto e = sent(0, T3_RDMA_SEND, row.status);
        EXPECT_EQ(t3_wc_status(row.status), row.wc) << unsigned{row.status};
        EXPECT_EQ(t3_ae_classify(&e), row.event) << unsigned{row.status};
    }
    EXPECT_EQ(t3_wc_status(T3_STATUS_FLUSH), IB_WC_WR_FLUSH_ERR);
    for (unsigned status = 0; status < 256; status++)
        EXPECT_NE(t3_status_name(static_cast<std::uint8_t>(status)), nullptr);
}

// The card's fields have more values than the documents name.
TEST(CqeStatus, EveryStatusAndOpcodeHasAnEventAndATerminate) {
    for (unsigned status = 0; status <= 0x1f; status++)
        for (unsigned opcode = 0; opcode < 16; opcode++) {
            const auto e = cqe(header(false, opcode, status), 0, 0, 0);
            EXPECT_LE(t3_ae_classify(&e), T3_AE_TERM_RCVD);
            EXPECT_LE(t3_term_for(status, opcode, opcode & 1).layer_type >> 4, 2) << "RDMAP, DDP or MPA";
        }
}

TEST(CqeStatus, TerminateSentAndReceived) {
    const auto sent_entry = cqe(header(true, T3_RDMA_TERMINATE), 0, 0, 0);
    const auto received_entry = cqe(header(false, T3_RDMA_TERMINATE), 0, 0, 0);
    const auto bad_read = cqe(header(true, T3_RDMA_READ_RESP, T3_STATUS_BOUND), 0, 0, 0);
    EXPECT_EQ(t3_ae_classify(&sent_entry), T3_AE_TERM_SENT);
    EXPECT_EQ(t3_ae_classify(&received_entry), T3_AE_TERM_RCVD);
    EXPECT_EQ(t3_ae_classify(&bad_read), T3_AE_REQUEST);
}

struct TermCase {
    unsigned status, opcode;
    bool sq;
    unsigned layer_type, code;
};

// By RFC 5040, 5041 and 5044.
TEST(CqeTerminate, ControlWord) {
    const std::vector<TermCase> cases = {
        // The peer's tagged messages
        {0x01, T3_RDMA_WRITE, false, 0x11, 0x00},
        {0x01, T3_RDMA_READ_RESP, false, 0x11, 0x00},
        {0x02, T3_RDMA_WRITE, false, 0x11, 0x02},
        {0x03, T3_RDMA_WRITE, false, 0x11, 0x02},
        {0x04, T3_RDMA_WRITE, false, 0x01, 0x02},
        {0x05, T3_RDMA_WRITE, false, 0x11, 0x03},
        {0x06, T3_RDMA_WRITE, false, 0x11, 0x01},
        {0x06, T3_RDMA_READ_RESP, false, 0x11, 0x01},
        {0x0b, T3_RDMA_WRITE, false, 0x11, 0x01},
        // its read requests
        {0x01, T3_RDMA_READ_RESP, true, 0x01, 0x00},
        {0x02, T3_RDMA_READ_RESP, true, 0x01, 0x03},
        {0x03, T3_RDMA_READ_RESP, true, 0x01, 0x03},
        {0x04, T3_RDMA_READ_RESP, true, 0x01, 0x02},
        {0x05, T3_RDMA_READ_RESP, true, 0x01, 0x04},
        {0x06, T3_RDMA_READ_RESP, true, 0x01, 0x01},
        // its SENDs that invalidate
        {0x01, T3_RDMA_SEND_INV, false, 0x02, 0x09},
        {0x02, T3_RDMA_SEND_INV, false, 0x01, 0x09},
        {0x03, T3_RDMA_SEND_SE_INV, false, 0x01, 0x09},
        {0x04, T3_RDMA_SEND_SE_INV, false, 0x02, 0x09},
        {0x07, T3_RDMA_SEND_INV, false, 0x02, 0x09},
        {0x08, T3_RDMA_SEND_INV, false, 0x02, 0x09},
        // our own work requests and receive buffers
        {0x01, T3_RDMA_WRITE, true, 0x00, 0x00},
        {0x06, T3_RDMA_SEND, true, 0x00, 0x00},
        {0x01, T3_RDMA_SEND, false, 0x00, 0x00},
        {0x0b, T3_RDMA_SEND, false, 0x00, 0x00},
        {0x06, T3_RDMA_SEND_INV, false, 0x00, 0x00},
        {0x09, T3_RDMA_SEND, false, 0x00, 0x00},
        {0x1e, T3_RDMA_SEND, false, 0x00, 0x00},
        {0x1f, T3_RDMA_SEND, false, 0x00, 0x00},
        // framing and headers
        {0x10, T3_RDMA_SEND, false, 0x20, 0x02},
        {0x11, T3_RDMA_SEND, false, 0x20, 0x03},
        {0x12, T3_RDMA_SEND, false, 0x12, 0x05},
        {0x13, T3_RDMA_SEND, false, 0x12, 0x02},
        {0x14, T3_RDMA_WRITE, false, 0x11, 0x04},
        {0x14, T3_RDMA_SEND, false, 0x12, 0x06},
        {0x15, T3_RDMA_SEND, false, 0x02, 0x05},
        {0x16, T3_RDMA_SEND, false, 0x02, 0x06},
        {0x17, T3_RDMA_SEND, false, 0x12, 0x01},
        {0x18, T3_RDMA_SEND, false, 0x12, 0x03},
        {0x1d, T3_RDMA_READ_RESP, true, 0x12, 0x03},
        {0x19, T3_RDMA_SEND, false, 0x10, 0x00},
        {0x1a, T3_RDMA_SEND, false, 0x12, 0x04},
    };
    for (const auto& row : cases) {
        const auto term = t3_term_for(row.status, row.opcode, row.sq);
        EXPECT_EQ(term.layer_type, row.layer_type) << row.status << ' ' << row.opcode;
        EXPECT_EQ(term.code, row.code) << row.status << ' ' << row.opcode;
    }
}

} // namespace
