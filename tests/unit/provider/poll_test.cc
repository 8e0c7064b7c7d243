// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completing: which entry of the card completes which request, in which order, and what is dropped.
#include "tests/unit/provider/fake_card.hh"

using namespace fake;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

class Poll : public testing::Test {
protected:
    Poll() : cq(5), q(cq, cq) {}
    CqMemory cq;
    QpMemory q;
    static constexpr uint32_t id = 0x21;
};

} // namespace

TEST_F(Poll, EmptyRing) {
    EXPECT_THAT(cq.poll(), IsEmpty());
    EXPECT_THAT(cq.poll(0), IsEmpty());
}

TEST_F(Poll, UnsignaledRunCompletesWithTheNextSignaledOne) {
    for (int lap = 0; lap < 5; lap++) {
        for (int i = 0; i < 15; i++)
            ASSERT_EQ(q.send_unsignaled(i), 0);
        ASSERT_EQ(q.send_signaled(1000 + lap), 0);
        EXPECT_EQ(q.send_signaled(0), ENOMEM);
        cq.sent(id, 16 * lap + 15);
        EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(1000 + lap));
    }
}

TEST_F(Poll, X2_SignalAllOfTheQpCountsAsSignaled) {
    CqMemory c(5);
    QpMemory all(c, c, {.qpid = 0x22, .signal_all = true});
    ASSERT_EQ(all.read(1, 8, false), 0);
    ASSERT_EQ(all.send_unsignaled(2), 0);
    EXPECT_TRUE(from_be<uint32_t>(all.slot(1).hdr.hi) & T3_WR_F_COMPLETION << 8);
    c.sent(0x22, 1); // before the read: out of order
    EXPECT_THAT(c.poll(), IsEmpty());
    c.read_done(0x22);
    EXPECT_THAT(wr_ids(c.poll()), ElementsAre(1, 2));
}

TEST_F(Poll, SendsBehindAReadWaitForIt) {
    ASSERT_EQ(q.read(1, 100), 0);
    ASSERT_EQ(q.send_signaled(2), 0);
    ASSERT_EQ(q.send_signaled(3), 0);
    cq.sent(id, 1);
    cq.sent(id, 2);
    EXPECT_THAT(cq.poll(), IsEmpty());
    cq.read_done(id);
    const auto c = cq.poll();
    ASSERT_THAT(wr_ids(c), ElementsAre(1, 2, 3));
    EXPECT_EQ(c[0].op, WorkOp::read);
    EXPECT_EQ(c[0].byte_len, 100u)
        << "A12: from posting, in host order; the entry's own length means nothing";
    EXPECT_EQ(c[1].op, WorkOp::send);
}

TEST_F(Poll, X4_CompletionsThatDoNotFitComeWithTheNextPoll) {
    ASSERT_EQ(q.read(1, 100), 0);
    for (int i = 2; i < 8; i++)
        ASSERT_EQ(q.send_signaled(i), 0);
    for (int i = 1; i < 7; i++)
        cq.sent(id, i);
    EXPECT_THAT(cq.poll(), IsEmpty());
    cq.read_done(id);
    cq.sent(id, 7); // of a request that was never posted: dropped, whatever else is going on
    EXPECT_THAT(wr_ids(cq.poll(2)), ElementsAre(1, 2));
    EXPECT_THAT(wr_ids(cq.poll(1)), ElementsAre(3));
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(cq.poll(), IsEmpty());
}

TEST_F(Poll, ReadsCompleteInTheOrderOfPosting) {
    for (int i = 0; i < 6; i++)
        ASSERT_EQ(q.read(10 + i, 100 + i, i % 2 == 0), 0);
    for (int i = 0; i < 6; i++)
        cq.read_done(id);
    const auto c = cq.poll();
    ASSERT_THAT(wr_ids(c), ElementsAre(10, 12, 14)) << "an unsignaled read completes at the card, not here";
    EXPECT_EQ(c[1].byte_len, 102u);
    for (int i = 0; i < 16; i++)
        EXPECT_EQ(q.send_unsignaled(i), 0) << "all six entries are free again";
    EXPECT_EQ(q.send_unsignaled(16), ENOMEM);
}

// In the old library the send completed the read's entry; the late response then completed another request.
TEST_F(Poll, UnfinishedUnsignaledReadHoldsItsEntry) {
    ASSERT_EQ(q.read(1, 8, false), 0);
    ASSERT_EQ(q.send_signaled(2), 0);
    cq.sent(id, 1);
    EXPECT_THAT(cq.poll(), IsEmpty());
    for (int i = 0; i < 14; i++)
        ASSERT_EQ(q.send_signaled(100 + i), 0);
    EXPECT_EQ(q.send_signaled(0), ENOMEM);
    cq.read_done(id);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(2));
}

TEST_F(Poll, A10_ResponseToTheKernelsOwnReadIsSwallowed) {
    ASSERT_EQ(q.read(1, 8), 0);
    cq.read_done(id, T3_RTR_STAG);
    EXPECT_THAT(cq.poll(), IsEmpty());
    cq.read_done(id);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(1));
}

TEST_F(Poll, StrayReadResponseCompletesNothing) {
    ASSERT_EQ(q.send_signaled(1), 0);
    cq.read_done(id);
    EXPECT_THAT(cq.poll(), IsEmpty());
    cq.sent(id, 0);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(1));
}

TEST_F(Poll, ReceivesInOrderWithLengthAndInvalidate) {
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(q.recv_empty(70 + i), 0);
    cq.received(id, 1, 5, T3_RDMA_SEND);
    cq.received(id, 2, 6, T3_RDMA_SEND_INV, 0x9988ff);
    cq.received(id, 3, 7, T3_RDMA_SEND_SE, 0x5555);
    const auto c = cq.poll();
    ASSERT_THAT(wr_ids(c), ElementsAre(70, 71, 72));
    EXPECT_EQ(c[0].byte_len, 5u);
    EXPECT_FALSE(c[0].with_invalidate);
    EXPECT_TRUE(c[1].with_invalidate);
    EXPECT_EQ(c[1].invalidated_stag, 0x9988ffu);
    EXPECT_FALSE(c[2].with_invalidate) << "A14: nothing is left over from the one before";
    EXPECT_EQ(c[2].invalidated_stag, 0u);
}

TEST_F(Poll, MessageOutOfSequenceIsAnError) {
    ASSERT_EQ(q.recv_empty(70), 0);
    ASSERT_EQ(q.recv_empty(71), 0);
    cq.received(id, 17, 5); // the card compares four bits: 17 looks like 1 to it
    const auto c = cq.poll();
    ASSERT_THAT(wr_ids(c), ElementsAre(70));
    EXPECT_THAT(statuses(c), ElementsAre(T3_STATUS_MSN));
    EXPECT_EQ(c[0].byte_len, 0u);
    EXPECT_EQ(q.aborts, 1u);
    q.kernel_flushes();
    EXPECT_THAT(statuses(cq.poll()), ElementsAre(T3_STATUS_FLUSH));
}

TEST_F(Poll, MessageWithoutReceiveIsAnErrorAndNoUnderflow) {
    cq.received(id, 1, 5);
    EXPECT_THAT(cq.poll(), IsEmpty());
    EXPECT_EQ(q.aborts, 1u);
}

TEST_F(Poll, X11_TerminateIsNoCompletion) {
    ASSERT_EQ(q.recv_empty(70), 0);
    cq.write(id, false, T3_RDMA_TERMINATE, 0, 40, 0, to_be(uint32_t{1}));
    EXPECT_THAT(cq.poll(), IsEmpty());
    EXPECT_EQ(q.aborts, 0u) << "the card reports it to the kernel, which closes";
    q.kernel_flushes();
    EXPECT_THAT(statuses(cq.poll()), ElementsAre(T3_STATUS_FLUSH));
}

TEST_F(Poll, X10_EntriesOfUnknownKindNeverStopTheQueue) {
    CqMemory other_cq(5);
    QpMemory bystander(cq, cq, {.qpid = 0x23});
    ASSERT_EQ(bystander.send_signaled(9), 0);
    ASSERT_EQ(q.send_signaled(1), 0);
    cq.write(id, false, 15, 0, 0, 0, 0);    // no such opcode
    cq.write(0x7fff, true, 3, 0, 0, 0, 0);  // no such QP
    cq.write(0x7fffe, true, 3, 0, 0, 0, 0); // no QP can have this id
    cq.sent(0x23, 0);
    const auto c = cq.poll();
    ASSERT_EQ(c.size(), 1u);
    EXPECT_EQ(c[0].wr_id, 9u);
    EXPECT_EQ(c[0].status, T3_STATUS_SUCCESS);
    EXPECT_EQ(q.aborts, 1u) << "it got something that no card writes";
    q.kernel_flushes();
    EXPECT_THAT(statuses(cq.poll()), ElementsAre(T3_STATUS_FLUSH));
}

TEST_F(Poll, EveryStatusOfTheCardIsDelivered) {
    for (unsigned status = 1; status < 32; status++) {
        CqMemory c(5);
        QpMemory p(c, c);
        ASSERT_EQ(p.send_signaled(1), 0);
        ASSERT_EQ(p.send_signaled(2), 0);
        c.sent(id, 0, T3_RDMA_SEND, status);
        EXPECT_THAT(statuses(c.poll()), ElementsAre(status));
        p.kernel_flushes();
        EXPECT_THAT(statuses(c.poll()), ElementsAre(T3_STATUS_FLUSH));
    }
}

TEST_F(Poll, GenerationOfTheRingThroughManyLaps) {
    uint32_t pos = 0, msn = 0;
    for (int i = 0; i < 500; i++) {
        ASSERT_EQ(q.send_signaled(i), 0);
        ASSERT_EQ(q.recv_empty(i), 0);
        cq.sent(id, pos++);
        EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(i));
        cq.received(id, ++msn, 1);
        EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(i));
    }
}

// E15
TEST_F(Poll, TwoEntryRing) {
    CqMemory small(1);
    QpMemory p(small, small);
    for (int i = 0; i < 20; i += 2) {
        ASSERT_EQ(p.send_signaled(i), 0);
        ASSERT_EQ(p.send_signaled(i + 1), 0);
        small.sent(id, i);
        small.sent(id, i + 1);
        EXPECT_THAT(wr_ids(small.poll()), ElementsAre(i, i + 1));
    }
}

TEST_F(Poll, FullRingIsNoOverflow) {
    CqMemory small(2);
    QpMemory p(small, small);
    for (int lap = 0; lap < 4; lap++) {
        for (int i = 0; i < 4; i++) {
            ASSERT_EQ(p.send_signaled(i), 0);
            small.sent(id, 4 * lap + i);
        }
        EXPECT_EQ(small.poll().size(), 4u);
    }
    EXPECT_FALSE(p.qp.in_error());
}

TEST_F(Poll, OverflowOfTheRingFlushesInsteadOfHanging) {
    for (uint32_t written = 5; written <= 7; written++) { // of 4 entries; 8 would look like one whole lap
        CqMemory small(2);
        QpMemory p(small, small);
        for (uint32_t i = 0; i < written; i++) {
            ASSERT_EQ(p.send_signaled(i), 0);
            small.sent(id, i);
        }
        std::vector<t3::Completion> got;
        for (int i = 0; i < 20; i++) {
            for (const auto& c : small.poll(2))
                got.push_back(c);
            if (p.aborts)
                p.kernel_flushes();
        }
        EXPECT_EQ(got.size(), written) << "each request exactly once";
        EXPECT_EQ(p.aborts, 1u);
    }
}

// The consumer's counter is what the kernel compares with the card's index when it arms the CQ.
// Position and lap are all that it looks at.
TEST_F(Poll, ConsumerCounterCountsEveryEntryOfTheCard) {
    ASSERT_EQ(q.send_signaled(1), 0);
    cq.read_done(id, T3_RTR_STAG);
    cq.sent(id, 0);
    cq.poll();
    cq.cq.publish_consumed();
    uint32_t counter;
    std::memcpy(&counter, cq.cq.consumer_counter(), sizeof(counter));
    EXPECT_EQ(counter, 2u);
}

// Completions that QPs hold back have no entry in the ring any more; for them as many entries less count as
// consumed, so that the kernel raises an event when the CQ is armed.
TEST_F(Poll, CompletionsThatAreHeldCountAsEntriesForTheKernel) {
    const auto for_kernel = [&] {
        uint32_t counter;
        cq.cq.publish_consumed();
        std::memcpy(&counter, cq.cq.consumer_counter(), sizeof(counter));
        return counter;
    };
    ASSERT_EQ(q.read(1, 10), 0);
    for (uint64_t i = 2; i < 6; i++)
        ASSERT_EQ(i == 3 ? q.send_unsignaled(i) : q.send_signaled(i), 0);
    for (uint32_t pos : {1u, 3u, 4u})
        cq.sent(id, pos);
    EXPECT_EQ(cq.poll().size(), 0u);
    EXPECT_EQ(for_kernel(), 3u) << "nothing can be had before the read";
    cq.read_done(id);
    cq.sent(id, 0x99); // another entry, not read yet
    EXPECT_EQ(for_kernel(), 3u);
    EXPECT_EQ(cq.poll(1).size(), 1u);
    for (uint32_t held = 3; held; held--) {
        EXPECT_EQ(for_kernel(), 4 - held);
        EXPECT_EQ(cq.poll(1).size(), 1u);
    }
    EXPECT_EQ(for_kernel(), 4u);
    EXPECT_EQ(cq.poll(1).size(), 0u);
    EXPECT_EQ(for_kernel(), 5u);
}

TEST_F(Poll, AFlushCountsAsEntriesForTheKernel) {
    const auto for_kernel = [&] {
        uint32_t counter;
        cq.cq.publish_consumed();
        std::memcpy(&counter, cq.cq.consumer_counter(), sizeof(counter));
        return static_cast<int32_t>(counter);
    };
    for (uint64_t i = 0; i < 15; i++) {
        ASSERT_EQ(q.send_unsignaled(i), 0);
        ASSERT_EQ(q.recv_empty(i), 0);
    }
    EXPECT_EQ(for_kernel(), 0);
    q.kernel_flushes();
    for (int held = 30; held; held--) {
        EXPECT_EQ(for_kernel(), -held);
        EXPECT_EQ(cq.poll(1).size(), 1u);
    }
    EXPECT_EQ(for_kernel(), 0);
    // A thread that polls keeps the lock, perhaps until it calls ibv_end_poll() behind this.
    ASSERT_EQ(q.recv_empty(1), 0);
    ASSERT_TRUE(cq.cq.try_lock());
    EXPECT_EQ(for_kernel(), 0);
    cq.cq.unlock();
    EXPECT_EQ(for_kernel(), -1);
}

// Never more than the ring has: the kernel has the count modulo its size.
TEST(SmallCq, NoMoreIsHeldThanTheRingHasEntries) {
    CqMemory cq(2);
    QpMemory q(cq, cq);
    for (uint64_t i = 0; i < 15; i++)
        ASSERT_EQ(q.recv_empty(i), 0);
    q.kernel_flushes();
    cq.received(0x21, 1, 0);
    cq.cq.publish_consumed();
    int32_t counter;
    std::memcpy(&counter, cq.cq.consumer_counter(), sizeof(counter));
    EXPECT_EQ(counter, -3);
}

TEST_F(Poll, SharedQueueKeepsQpsApart) {
    QpMemory other(cq, cq, {.qpid = 0x140});
    for (int i = 0; i < 8; i++) {
        ASSERT_EQ(q.send_signaled(i), 0);
        ASSERT_EQ(other.send_signaled(100 + i), 0);
        cq.sent(0x140, i);
        cq.sent(id, i);
    }
    for (const auto& c : cq.poll())
        EXPECT_EQ(c.qpid, c.wr_id >= 100 ? 0x140u : id);
}

TEST_F(Poll, X13_EntriesOfADestroyedQpAreNotTheNextOnes) {
    auto old = std::make_unique<QpMemory>(cq, cq, QpOptions{.qpid = 0x50});
    ASSERT_EQ(old->send_signaled(1), 0);
    ASSERT_EQ(old->recv_empty(2), 0);
    cq.sent(0x50, 0);
    cq.received(0x50, 1, 100);
    ASSERT_EQ(q.send_signaled(3), 0);
    cq.sent(id, 0);
    old.reset();
    QpMemory young(cq, cq, {.qpid = 0x50});
    ASSERT_EQ(young.send_signaled(11), 0);
    ASSERT_EQ(young.recv_empty(12), 0);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(3));
    cq.sent(0x50, 0);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(11));
}

// The kernel has destroyed a QP and given its id to the next one. The thread that destroys has not come to
// its CQ yet.
TEST_F(Poll, X13_AnIdIsReusedBeforeTheOldQpHasLeft) {
    auto old = std::make_unique<QpMemory>(cq, cq, QpOptions{.qpid = 0x50});
    ASSERT_EQ(old->read(1, 4), 0);
    ASSERT_EQ(old->send_signaled(2), 0);
    ASSERT_EQ(old->recv_empty(3), 0);
    cq.sent(0x50, 1);
    cq.read_done(0x50);
    EXPECT_THAT(wr_ids(cq.poll(1)), ElementsAre(1)); // the second is ready, and remembered
    cq.received(0x50, 1, 100);
    QpMemory young(cq, cq, {.qpid = 0x50});
    ASSERT_EQ(young.recv_empty(11), 0);
    EXPECT_EQ(cq.waiting(), 0u);
    old->kernel_flushes();
    EXPECT_THAT(cq.poll(), IsEmpty()) << "what the old one had posted";
    cq.received(0x50, 1, 7);
    old.reset();
    const auto c = cq.poll();
    ASSERT_THAT(wr_ids(c), ElementsAre(11));
    EXPECT_EQ(c[0].byte_len, 7u);
    EXPECT_EQ(young.aborts, 0u);
}

// As before, but the next QP uses another CQ: entries of the old one stay until it leaves.
TEST_F(Poll, X13_AnIdIsReusedOverAnotherCq) {
    CqMemory other(5);
    auto old = std::make_unique<QpMemory>(cq, cq, QpOptions{.qpid = 0x50});
    ASSERT_EQ(old->recv_empty(1), 0);
    cq.received(0x50, 1, 100);
    QpMemory young(other, cq, {.qpid = 0x51}), same(other, other, {.qpid = 0x50});
    EXPECT_EQ(cq.waiting(), 1u);
    old.reset();
    EXPECT_EQ(cq.waiting(), 0u);
    ASSERT_EQ(same.recv_empty(2), 0);
    other.received(0x50, 1, 8);
    EXPECT_THAT(wr_ids(other.poll()), ElementsAre(2));
}

TEST_F(Poll, X6_QpDestroyedBetweenPollsWithWorkReady) {
    auto victim = std::make_unique<QpMemory>(cq, cq, QpOptions{.qpid = 0x50});
    ASSERT_EQ(victim->read(1, 4), 0);
    ASSERT_EQ(victim->send_signaled(2), 0);
    cq.sent(0x50, 1);
    cq.read_done(0x50);
    EXPECT_THAT(wr_ids(cq.poll(1)), ElementsAre(1)); // the second is ready, and remembered
    victim.reset();
    EXPECT_THAT(cq.poll(), IsEmpty());
}

// A QP that is destroyed leaves no entry in the ring: the kernel lends the entries of such a QP to the next
// one at once. Without that, QPs that connect and go over a CQ that is never polled fill it.
TEST(SmallCq, EntriesOfDestroyedQpsTakeNoPlaceInTheRing) {
    CqMemory cq(2);
    QpMemory q(cq, cq, {.sq_log2 = 1, .rq_log2 = 1});
    for (uint32_t i = 0; i < 10; i++) {
        QpMemory brief(cq, cq, {.qpid = 0x50 + i, .sq_log2 = 1, .rq_log2 = 1});
        cq.read_done(0x50 + i, T3_RTR_STAG);
    }
    EXPECT_EQ(cq.waiting(), 0u);
    // Nor behind and before an entry of another QP, through both generations.
    ASSERT_EQ(q.send_signaled(1), 0);
    cq.read_done(0x50); // of a QP that is attached below
    {
        QpMemory brief(cq, cq, {.qpid = 0x50, .sq_log2 = 1, .rq_log2 = 1});
        cq.sent(0x21, 0);
        cq.read_done(0x50);
    }
    EXPECT_EQ(cq.waiting(), 1u);
    for (uint32_t i = 0; i < 10; i++) {
        QpMemory brief(cq, cq, {.qpid = 0x50, .sq_log2 = 1, .rq_log2 = 1});
        cq.read_done(0x50);
        cq.read_done(0x50);
        EXPECT_EQ(cq.waiting(), 3u);
    }
    EXPECT_EQ(cq.waiting(), 1u);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(1));
    EXPECT_THAT(cq.poll(), IsEmpty());
    EXPECT_EQ(q.aborts, 0u);
    ASSERT_EQ(q.send_signaled(2), 0);
    cq.sent(0x21, 1);
    EXPECT_THAT(wr_ids(cq.poll()), ElementsAre(2));
}

namespace {

constexpr uint32_t id = 0x21;

void push(t3::SendQueue& sq, uint32_t pos, uint32_t i, bool read, bool signaled) {
    if (read)
        sq.record_read(pos, t3::SendEntry::of_read(i, i, signaled));
    else
        sq.record(pos, t3::SendEntry::of(i, WorkOp::send, signaled ? t3::SendEntry::signaled_flag : 0));
    sq.publish(pos + 1);
}

} // namespace

// Counters run freely; nothing happens at 2^32. Rather than post four thousand million requests, start close.
TEST(PollWrap, A11_SendCountersThroughTwoToThe32) {
    for (unsigned log2 = 0; log2 <= 6; log2++) {
        t3::SendQueue sq(log2, id);
        const uint32_t start = 0u - 3;
        sq.reset(start);
        Completion c;
        for (uint32_t i = 0; i < 200; i++) {
            const bool read = i % 3 == 0;
            ASSERT_FALSE(sq.full(start + i));
            push(sq, start + i, i, read, true);
            EXPECT_EQ(sq.full(start + i + 1), log2 == 0);
            ASSERT_TRUE(sq.holds(start + i));
            EXPECT_EQ(sq.reads_outstanding(), read);
            if (read)
                ASSERT_TRUE(sq.read_arrived());
            else
                sq.executed(start + i);
            ASSERT_TRUE(sq.next_done(c)) << "log2 " << log2 << " i " << i;
            EXPECT_EQ(c.wr_id, i);
            EXPECT_EQ(c.byte_len, read ? i : 0);
            EXPECT_FALSE(sq.holds(start + i));
            EXPECT_FALSE(sq.next_done(c));
        }
    }
}

TEST(PollWrap, A11_FlushAcrossTwoToThe32) {
    t3::SendQueue sq(4, id);
    sq.reset(0u - 8);
    for (uint32_t i = 0; i < 16; i++)
        push(sq, i - 8, i, i % 4 == 0, i % 2);
    Completion c;
    int n = 0;
    while (sq.next_flushed(c))
        EXPECT_EQ(c.wr_id, static_cast<uint64_t>(n++));
    EXPECT_EQ(n, 16);
}

TEST(PollWrap, ReceiveSequenceNumberThroughTwoToThe32) {
    t3::RecvQueue rq(4, id);
    rq.reset(0u - 2);
    for (uint32_t i = 0; i < 5; i++) {
        rq.push(i - 2, i);
        const uint32_t head = rq.head_relaxed();
        EXPECT_TRUE(rq.holds(head));
        EXPECT_EQ(rq.msn(head), 0u - 1 + i);
        EXPECT_EQ(rq.wr_id(head), i);
        rq.complete(head);
    }
}
