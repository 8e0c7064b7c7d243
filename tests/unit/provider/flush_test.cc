// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The end of a connection: everything outstanding comes back once, what had succeeded as success, all else as
// flushed, also to a program that does nothing but poll.
#include "tests/unit/provider/fake_card.hh"

#include <set>

using namespace fake;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

constexpr int ok = T3_STATUS_SUCCESS;
constexpr int flushed = T3_STATUS_FLUSH;

class Flush : public testing::Test {
protected:
    Flush() : scq(5), rcq(5), q(scq, rcq) {}

    static void kernel_reports_error(QpMemory& q) { q.kernel_flushes(); }

    CqMemory scq, rcq;
    QpMemory q;
    static constexpr uint32_t id = 0x21;
};

} // namespace

TEST_F(Flush, A2_ProgramThatOnlyPollsSeesEverythingFlushed) {
    for (int i = 0; i < 4; i++) {
        ASSERT_EQ(q.send_unsignaled(i), 0); // signaled or not: an error completes everything
        ASSERT_EQ(q.recv_empty(10 + i), 0);
    }
    EXPECT_THAT(scq.poll(), IsEmpty());
    kernel_reports_error(q);
    const auto s = scq.poll(), r = rcq.poll();
    EXPECT_THAT(wr_ids(s), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(statuses(s), ElementsAre(flushed, flushed, flushed, flushed));
    EXPECT_THAT(wr_ids(r), ElementsAre(10, 11, 12, 13));
    EXPECT_EQ(r[0].op, WorkOp::recv);
    EXPECT_EQ(r[0].qpid, id);
    EXPECT_EQ(scq.status_word() & T3_CQ_STATUS_ERROR, 0u) << "the kernel's bit; others are the library's own";
    EXPECT_THAT(scq.poll(), IsEmpty());
    EXPECT_THAT(rcq.poll(), IsEmpty());
}

// After the removal of the device one page of zeroes is in the place of all rings, so that what is posted can
// look like an entry.
TEST_F(Flush, NothingIsPolledFromTheMemoryThatReplacesTheRing) {
    ASSERT_EQ(q.send_signaled(1), 0);
    std::memset(scq.pages.data(), 0, 4096);
    scq.sent(id, 0);
    EXPECT_THAT(scq.poll(), IsEmpty());
    q.qp.stop();
    scq.cq.raise_error_flag();
    EXPECT_THAT(scq.poll(), IsEmpty());
    EXPECT_THAT(scq.poll(), IsEmpty()) << "reading the flag does not bring the ring back";
}

TEST_F(Flush, A3_ReportedTwiceFlushedOnce) {
    ASSERT_EQ(q.send_signaled(1), 0);
    q.qp.stop();
    kernel_reports_error(q);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(1));
    kernel_reports_error(q);
    q.qp.stop();
    EXPECT_THAT(scq.poll(), IsEmpty());
}

TEST_F(Flush, WhatSucceededBeforeTheErrorIsDeliveredAsSuccess) {
    for (int i = 0; i < 4; i++) {
        ASSERT_EQ(q.send_signaled(i), 0);
        ASSERT_EQ(q.recv_empty(10 + i), 0);
    }
    scq.sent(id, 0);
    scq.sent(id, 1);
    rcq.received(id, 1, 42);
    kernel_reports_error(q); // detected only now, by the poll that also finds the entries
    EXPECT_THAT(statuses(scq.poll()), ElementsAre(ok, ok, flushed, flushed));
    const auto r = rcq.poll();
    EXPECT_THAT(statuses(r), ElementsAre(ok, flushed, flushed, flushed));
    EXPECT_EQ(r[0].byte_len, 42u);
}

TEST_F(Flush, X8_UnsignaledExecutedWorkIsNotFlushed) {
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(q.send_unsignaled(i), 0);
    ASSERT_EQ(q.send_signaled(3), 0);
    ASSERT_EQ(q.send_unsignaled(4), 0);
    scq.sent(id, 3);
    kernel_reports_error(q);
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(3, 4));
    EXPECT_THAT(statuses(c), ElementsAre(ok, flushed));
}

TEST_F(Flush, X8_SendsBehindAReadThatNeverFinishes) {
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(q.read(2, 8), 0);
    ASSERT_EQ(q.send_signaled(3), 0);
    ASSERT_EQ(q.read(4, 8), 0);
    scq.sent(id, 0);
    scq.sent(id, 2);
    kernel_reports_error(q);
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(statuses(c), ElementsAre(ok, flushed, flushed, flushed))
        << "no success after the first flush";
}

// B2
TEST_F(Flush, OneByOne) {
    for (int i = 0; i < 5; i++)
        ASSERT_EQ(q.send_signaled(i), 0);
    scq.sent(id, 0);
    kernel_reports_error(q);
    for (int i = 0; i < 5; i++)
        EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(i));
    EXPECT_THAT(scq.poll(1), IsEmpty());
}

TEST_F(Flush, X7_MoreWorkThanTheCqHasEntries) {
    CqMemory small(1);
    QpMemory p(small, small, {.qpid = 0x30});
    for (int i = 0; i < 15; i++) {
        ASSERT_EQ(p.send_signaled(i), 0);
        ASSERT_EQ(p.recv_empty(100 + i), 0);
    }
    kernel_reports_error(p);
    std::set<uint64_t> seen;
    for (const auto& c : small.poll())
        EXPECT_TRUE(seen.insert(c.wr_id).second);
    EXPECT_EQ(seen.size(), 30u);
}

TEST_F(Flush, B1_SharedCqFlushesEachDeadQpAndNoLiveOne) {
    QpMemory second(scq, rcq, {.qpid = 0x22}), live(scq, rcq, {.qpid = 0x23});
    for (QpMemory* p : {&q, &second, &live})
        ASSERT_EQ(p->send_signaled(p->qp.qpid()), 0);
    q.status_word() |= T3_QP_STATUS_ERROR;
    second.status_word() |= T3_QP_STATUS_ERROR;
    scq.status_word() = rcq.status_word() = 1;
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(0x21, 0x22));
    scq.sent(0x23, 0);
    EXPECT_THAT(statuses(scq.poll()), ElementsAre(ok));
}

TEST_F(Flush, BusyNeighbourDoesNotHoldTheFlushBack) {
    QpMemory busy(scq, rcq, {.qpid = 0x22});
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(busy.send_signaled(50), 0);
    scq.sent(0x22, 0);
    kernel_reports_error(q);
    EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(50)) << "was in the ring before";
    ASSERT_EQ(busy.send_signaled(51), 0);
    scq.sent(0x22, 1);
    EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(1));
    EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(51));
}

TEST_F(Flush, WorkPostedToADeadQpComesBackAndTheCardIsLeftAlone) {
    kernel_reports_error(q);
    EXPECT_THAT(scq.poll(), IsEmpty());
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(q.recv_empty(2), 0);
    EXPECT_FALSE(q.rung());
    EXPECT_EQ(q.fetch_all(), 0u);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(1));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(2));
    for (int i = 0; i < 100; i++) { // a drain loop may go on for ever
        ASSERT_EQ(q.send_unsignaled(i), 0);
        EXPECT_THAT(statuses(scq.poll()), ElementsAre(flushed));
    }
}

// B18
TEST_F(Flush, DeadQpStillHasLimits) {
    kernel_reports_error(q);
    for (int i = 0; i < 16; i++)
        ASSERT_EQ(q.send_signaled(i), 0);
    EXPECT_EQ(q.send_signaled(16), ENOMEM);
    const fake::Sge five[5] = {};
    EXPECT_EQ(q.recv({.sg = five}), EINVAL);
}

TEST_F(Flush, PostNoticesTheErrorBeforeAnyPoll) {
    ASSERT_EQ(q.recv_empty(7), 0);
    q.status_word() |= T3_QP_STATUS_ERROR; // the flags of the CQs are still to come
    ASSERT_EQ(q.send_signaled(1), 0);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(1));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(7));
}

TEST_F(Flush, LateEntriesOfAFlushedQpAreDropped) {
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(q.read(2, 8), 0);
    ASSERT_EQ(q.recv_empty(3), 0);
    kernel_reports_error(q);
    EXPECT_EQ(scq.poll().size(), 2u);
    EXPECT_EQ(rcq.poll().size(), 1u);
    ASSERT_EQ(q.send_signaled(4), 0);
    ASSERT_EQ(q.recv_empty(5), 0);
    scq.sent(id, 0);
    scq.read_done(id);
    rcq.received(id, 1, 10);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(4));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(5));
    EXPECT_THAT(scq.poll(), IsEmpty());
}

TEST_F(Flush, A16_X9_ResetGivesANewLife) {
    for (int life = 0; life < 3; life++) {
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(q.send_signaled(i), 0);
            ASSERT_EQ(q.recv_empty(10 + i), 0);
        }
        EXPECT_EQ(q.fetch_all(), 6u) << "first lap, first generation";
        scq.sent(id, 0);
        rcq.received(id, 1, 9);
        EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(0));
        EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(10));
        kernel_reports_error(q);
        EXPECT_THAT(statuses(scq.poll()), ElementsAre(flushed, flushed));
        EXPECT_THAT(statuses(rcq.poll()), ElementsAre(flushed, flushed));

        ASSERT_EQ(q.send_signaled(99), 0);
        q.kernel_resets();
        q.qp.reset();
        EXPECT_FALSE(q.qp.in_error());
        EXPECT_THAT(scq.poll(), IsEmpty()) << "work of the old life is gone";
    }
}

TEST_F(Flush, ResetDropsEntriesThatWereNotPolled) {
    ASSERT_EQ(q.send_signaled(1), 0);
    scq.sent(id, 0);
    q.kernel_resets();
    q.qp.reset();
    ASSERT_EQ(q.send_signaled(2), 0);
    EXPECT_THAT(scq.poll(), IsEmpty());
    scq.sent(id, 0);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(2));
}

// The kernel has reset the QP. Before the library's part of it, another thread moves the QP to the error
// state, and a third switches the doorbells off.
TEST_F(Flush, ResetKeepsWhatTheKernelHasSetSince) {
    q.kernel_resets();
    q.kernel_stops();
    q.kernel_flushes();
    __atomic_fetch_or(&q.status_word(), T3_QP_STATUS_DB_OFF, __ATOMIC_SEQ_CST);
    EXPECT_THAT(rcq.poll(), IsEmpty()); // the flag of the CQ is taken
    q.qp.reset();
    EXPECT_EQ(q.status_word(), T3_QP_STATUS_STOPPED | T3_QP_STATUS_ERROR | T3_QP_STATUS_DB_OFF);
    ASSERT_EQ(q.recv_empty(1), 0);
    EXPECT_FALSE(q.rung());
    const auto r = rcq.poll();
    EXPECT_THAT(wr_ids(r), ElementsAre(1));
    EXPECT_THAT(statuses(r), ElementsAre(flushed));
}

// A program may free the buffers of what came back, so nothing comes back before the card has let go of it:
// not when the kernel begins to end the connection, not when the library finds an error, not when a neighbour
// is flushed.
TEST_F(Flush, B3_NothingIsFlushedBeforeTheKernelReportsTheError) {
    QpMemory neighbour(scq, rcq, {.qpid = 0x22});
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(q.recv_empty(2), 0);
    q.rung();
    q.kernel_stops();
    q.qp.stop();
    ASSERT_EQ(q.send_signaled(3), 0);
    ASSERT_EQ(q.recv_empty(4), 0);
    EXPECT_EQ(q.fetch_all(), 2u) << "late work is kept from the card";
    EXPECT_FALSE(q.rung());
    EXPECT_THAT(scq.poll(), IsEmpty());
    neighbour.kernel_flushes();
    EXPECT_THAT(scq.poll(), IsEmpty());
    EXPECT_THAT(rcq.poll(), IsEmpty());
    rcq.received(id, 1, 7); // placed after the stop
    EXPECT_THAT(statuses(rcq.poll()), ElementsAre(ok));
    q.kernel_flushes();
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(1, 3));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(4));
    EXPECT_EQ(q.aborts, 0u);
}

TEST_F(Flush, RefusalCompletesOneRequestAndFlushesNone) {
    ASSERT_EQ(q.send_unsignaled(1), 0);
    ASSERT_EQ(q.read(2, 8), 0);
    ASSERT_EQ(q.send_signaled(3), 0);
    ASSERT_EQ(q.send_signaled(4), 0);
    ASSERT_EQ(q.recv_empty(5), 0);
    scq.sent(id, 2, T3_RDMA_SEND, T3_STATUS_BOUND);
    EXPECT_THAT(scq.poll(), IsEmpty()) << "behind a read, whose data may still come";
    scq.sent(id, 3);
    EXPECT_THAT(scq.poll(), IsEmpty()) << "nothing is executed behind a refusal";
    scq.read_done(id);
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(2, 3));
    EXPECT_THAT(statuses(c), ElementsAre(ok, T3_STATUS_BOUND));
    EXPECT_THAT(rcq.poll(), IsEmpty());
    q.kernel_flushes();
    EXPECT_THAT(statuses(scq.poll()), ElementsAre(flushed));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(5));
}

TEST_F(Flush, RefusalBehindAReadThatNeverFinishesKeepsItsStatus) {
    ASSERT_EQ(q.read(1, 8), 0);
    ASSERT_EQ(q.send_signaled(2), 0);
    ASSERT_EQ(q.send_signaled(3), 0);
    scq.sent(id, 1, T3_RDMA_SEND, T3_STATUS_BOUND);
    EXPECT_THAT(scq.poll(), IsEmpty());
    q.kernel_flushes();
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(1, 2, 3));
    EXPECT_THAT(statuses(c), ElementsAre(flushed, T3_STATUS_BOUND, flushed));
}

// The card reports errors to the kernel. For those that only the library sees, it requests an abort of the
// kernel.
TEST_F(Flush, WhatOnlyTheLibrarySeesEndsTheConnectionOnce) {
    ASSERT_EQ(q.recv_empty(1), 0);
    ASSERT_EQ(q.recv_empty(2), 0);
    rcq.received(id, 7, 0); // not the message that is due
    EXPECT_THAT(statuses(rcq.poll()), ElementsAre(T3_STATUS_MSN));
    EXPECT_EQ(q.aborts, 1u);
    EXPECT_THAT(rcq.poll(), IsEmpty());
    rcq.received(id, 9, 0);
    rcq.received(id, 9, 0); // and one for which there is no receive
    EXPECT_EQ(rcq.poll().size(), 1u);
    EXPECT_EQ(q.aborts, 1u);

    QpMemory reported(scq, rcq, {.qpid = 0x22});
    ASSERT_EQ(reported.send_signaled(1), 0);
    scq.sent(0x22, 0, T3_RDMA_SEND, T3_STATUS_BOUND);
    EXPECT_EQ(scq.poll().size(), 1u);
    EXPECT_EQ(reported.aborts, 0u) << "it ends by a TERMINATE, not by a reset";
}

TEST_F(Flush, FailedRequestOfTheRingThenTheRest) {
    ASSERT_EQ(q.send_unsignaled(1), 0);
    ASSERT_EQ(q.send_unsignaled(2), 0);
    ASSERT_EQ(q.send_unsignaled(3), 0);
    ASSERT_EQ(q.recv_empty(4), 0);
    scq.sent(id, 1, T3_RDMA_SEND, T3_STATUS_BOUND);
    q.kernel_flushes();
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(2, 3)) << "delivered though unsignaled, because it failed";
    EXPECT_THAT(statuses(c), ElementsAre(T3_STATUS_BOUND, flushed));
    EXPECT_THAT(wr_ids(rcq.poll()), ElementsAre(4)) << "the other CQ has been flagged";
}

TEST_F(Flush, FailedReadKeepsItsStatus) {
    ASSERT_EQ(q.read(1, 8), 0);
    ASSERT_EQ(q.read(2, 8), 0);
    scq.read_done(id, 0x1234ff, T3_STATUS_ACCESS);
    q.kernel_flushes();
    const auto c = scq.poll();
    EXPECT_THAT(wr_ids(c), ElementsAre(1, 2));
    EXPECT_THAT(statuses(c), ElementsAre(T3_STATUS_ACCESS, flushed));
    EXPECT_EQ(c[0].byte_len, 0u);
}

TEST_F(Flush, DestroyedDeadQpLeavesNothingBehind) {
    auto dead = std::make_unique<QpMemory>(scq, rcq, QpOptions{.qpid = 0x60});
    ASSERT_EQ(dead->send_signaled(1), 0);
    ASSERT_EQ(dead->send_signaled(2), 0);
    kernel_reports_error(*dead);
    EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(1));
    dead.reset();
    EXPECT_THAT(scq.poll(), IsEmpty());
}

// Entries that were in the ring before the error are delivered before the flush. Those of a QP that is
// destroyed meanwhile no longer count.
TEST_F(Flush, DestroyedQpDoesNotDelayTheFlush) {
    auto gone = std::make_unique<QpMemory>(scq, rcq, QpOptions{.qpid = 0x60});
    QpMemory other(scq, rcq, {.qpid = 0x61});
    ASSERT_EQ(q.send_signaled(1), 0);
    ASSERT_EQ(other.send_signaled(2), 0);
    ASSERT_EQ(other.send_signaled(3), 0);
    ASSERT_EQ(other.send_signaled(4), 0);
    for (uint32_t pos = 0; pos < 2; pos++) {
        ASSERT_EQ(gone->send_signaled(9), 0);
        scq.sent(0x61, pos);
        scq.sent(0x60, pos);
    }
    kernel_reports_error(q);
    EXPECT_THAT(wr_ids(scq.poll(1)), ElementsAre(2)); // and three entries before the flush
    scq.sent(0x61, 2);
    gone.reset();
    EXPECT_EQ(scq.waiting(), 2u);
    EXPECT_THAT(wr_ids(scq.poll()), ElementsAre(3, 1, 4));
}
