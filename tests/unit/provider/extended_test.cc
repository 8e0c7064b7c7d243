// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_wr_*() and ibv_start_poll() beside the calls that they replace: what is in the ring, what is rung,
// what comes back and which error is given must be the same.
#include "tests/unit/provider/fake_card.hh"

#include <functional>
#include <random>

using namespace fake;

namespace {

// A QP with its CQ: requests are posted one way, completions polled one way.
struct Side {
    explicit Side(bool extended, const QpOptions& o = {}, unsigned cq_log2 = 6)
        : extended(extended), cq(cq_log2, o.needs_locks), q(cq, cq, o) {
        cxgb3_set_builders(&q.handle, false);
        cxgb3_set_readers(&cq.handle, false);
    }
    ibv_qp_ex* ex() { return &q.handle.vqp.qp_ex; }
    ibv_cq_ex* cq_ex() { return &cq.handle.vcq.cq_ex; }

    void build(const ibv_send_wr& wr) {
        ex()->wr_id = wr.wr_id;
        ex()->wr_flags = wr.send_flags;
        switch (static_cast<unsigned>(wr.opcode)) {
        case IBV_WR_SEND:
            ibv_wr_send(ex());
            break;
        case IBV_WR_SEND_WITH_INV:
            ibv_wr_send_inv(ex(), wr.invalidate_rkey);
            break;
        case IBV_WR_RDMA_WRITE:
            ibv_wr_rdma_write(ex(), wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            break;
        case IBV_WR_RDMA_READ:
            ibv_wr_rdma_read(ex(), wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            break;
        case IBV_WR_LOCAL_INV:
            ibv_wr_local_inv(ex(), wr.invalidate_rkey);
            return; // no data
        }
        const auto n = static_cast<size_t>(wr.num_sge);
        ex()->wr_id = ~0u; // taken when the request was begun
        if (wr.send_flags & IBV_SEND_INLINE && n == 1) {
            ibv_wr_set_inline_data(ex(), reinterpret_cast<void*>(wr.sg_list->addr), wr.sg_list->length);
        } else if (wr.send_flags & IBV_SEND_INLINE) {
            std::vector<ibv_data_buf> bufs;
            for (size_t i = 0; i < n; i++)
                bufs.push_back({reinterpret_cast<void*>(wr.sg_list[i].addr), wr.sg_list[i].length});
            ibv_wr_set_inline_data_list(ex(), n, bufs.data());
        } else if (n == 1) {
            ibv_wr_set_sge(ex(), wr.sg_list->lkey, wr.sg_list->addr, wr.sg_list->length);
        } else if (n || wr.wr_id & 1) { // a request without data needs no setter
            ibv_wr_set_sge_list(ex(), n, wr.sg_list);
        }
    }

    int post(std::vector<ibv_send_wr> list) {
        if (extended) {
            ibv_wr_start(ex());
            for (const ibv_send_wr& wr : list)
                build(wr);
            return ibv_wr_complete(ex());
        }
        for (size_t i = 0; i + 1 < list.size(); i++)
            list[i].next = &list[i + 1];
        ibv_send_wr* bad = nullptr;
        return q.post(list.data(), &bad);
    }
    int post_one(const SendRequest& r) { return post(std::vector{verbs(r)}); }

    // All that can be read of up to n completions.
    std::vector<ibv_wc> poll(int n = 64) {
        std::vector<ibv_wc> out(static_cast<size_t>(n));
        std::memset(static_cast<void*>(out.data()), 0xaa, out.size() * sizeof(ibv_wc));
        if (!extended) {
            out.resize(static_cast<size_t>(cxgb3_poll_cq(&cq.handle.vcq.cq, n, out.data())));
            return out;
        }
        out.clear();
        ibv_poll_cq_attr attr{};
        if (ibv_start_poll(cq_ex(), &attr))
            return out;
        do
            out.push_back(read());
        while (static_cast<int>(out.size()) < n && ibv_next_poll(cq_ex()) == 0);
        ibv_end_poll(cq_ex());
        return out;
    }
    ibv_wc read() {
        ibv_cq_ex* c = cq_ex();
        ibv_wc wc{};
        wc.wr_id = c->wr_id;
        wc.status = c->status;
        wc.opcode = ibv_wc_read_opcode(c);
        wc.vendor_err = ibv_wc_read_vendor_err(c);
        wc.byte_len = ibv_wc_read_byte_len(c);
        wc.invalidated_rkey = ibv_wc_read_invalidated_rkey(c);
        wc.qp_num = ibv_wc_read_qp_num(c);
        wc.src_qp = ibv_wc_read_src_qp(c);
        wc.wc_flags = ibv_wc_read_wc_flags(c);
        wc.slid = static_cast<uint16_t>(ibv_wc_read_slid(c));
        wc.sl = ibv_wc_read_sl(c);
        wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(c);
        return wc;
    }

    bool extended;
    CqMemory cq;
    QpMemory q;
};

class Twins : public testing::Test {
protected:
    explicit Twins(const QpOptions& o = {}) : old(false, o), ex(true, o) {}

    // Inline data that ends inside of a flit: what is behind it means nothing, and is left from another
    // request.
    static void clear_padding(QpMemory& q) {
        for (uint32_t i = 0; i < q.size.entries(); i++) {
            t3_wr_slot& slot = q.slot(i);
            const bool write = from_be<uint32_t>(slot.hdr.hi) >> 24 == T3_WR_OP_WRITE;
            if (!write && from_be<uint32_t>(slot.hdr.hi) >> 24 != T3_WR_OP_SEND)
                continue;
            if (write ? slot.write.num_sge : slot.send.num_sge)
                continue;
            const uint32_t bytes = from_be<uint32_t>(write ? slot.write.plen : slot.send.plen);
            auto* const data = reinterpret_cast<uint8_t*>(write ? slot.write.sge : slot.send.sge);
            std::memset(data + bytes, 0, -bytes & 7);
        }
    }
    void expect_same_rings(const char* when) {
        clear_padding(old.q);
        clear_padding(ex.q);
        ASSERT_EQ(std::memcmp(old.q.pages.data(), ex.q.pages.data(), size_t{old.q.size.entries()} * 128), 0)
            << when;
        ASSERT_EQ(old.q.rung(), ex.q.rung()) << when;
    }
    void expect_same_completions(int n = 64) {
        const auto a = old.poll(n), b = ex.poll(n);
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); i++)
            ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(ibv_wc)), 0)
                << "wr_id " << a[i].wr_id << ", " << b[i].wr_id;
    }
    template <class F> void both(F&& f) {
        f(old);
        f(ex);
    }

    Side old, ex;
};

ibv_send_wr request(ibv_wr_opcode op, unsigned flags, const std::vector<ibv_sge>& sg, uint64_t wr_id) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = op;
    wr.send_flags = flags;
    wr.sg_list = const_cast<ibv_sge*>(sg.data());
    wr.num_sge = static_cast<int>(sg.size());
    if (op == IBV_WR_SEND_WITH_INV || op == IBV_WR_LOCAL_INV) {
        wr.invalidate_rkey = 0x99ff;
    } else {
        wr.wr.rdma.remote_addr = 0x123456789a;
        wr.wr.rdma.rkey = 0x2345ff;
    }
    return wr;
}

constexpr ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                     IBV_WR_LOCAL_INV};

// Completes whatever was fetched, as the card does.
void complete_all(Side& s) {
    while (const t3_wr_slot* slot = s.q.fetch()) {
        const uint32_t hi = from_be<uint32_t>(slot->hdr.hi);
        switch (hi >> 24) {
        case T3_WR_OP_READ:
            s.cq.read_done(s.q.qp.qpid());
            break;
        default:
            if (hi & T3_WR_F_COMPLETION << 8)
                s.cq.sent(s.q.qp.qpid(), slot->send.id.hi,
                          hi >> 24 == T3_WR_OP_WRITE ? T3_RDMA_WRITE : T3_RDMA_SEND);
        }
    }
}

} // namespace

TEST_F(Twins, EveryRequestOfEveryShape) {
    static const std::vector<char> data(80, 'x');
    const auto inside = reinterpret_cast<uintptr_t>(data.data());
    const std::vector<std::vector<ibv_sge>> lists = {
        {},
        {{inside, 64, 0x1234ff}},
        {{inside, 0, 0x1234ff}},
        {{inside, 5, 0x1234ff}, {inside + 9, 20, 0x1235ff}},
        {{inside, 5, 1}, {inside + 9, 0, 2}, {inside + 30, 13, 3}, {inside + 44, 20, 4}},
        {{inside, 1, 1}, {inside, 1, 1}, {inside, 1, 1}, {inside, 1, 1}, {inside, 1, 1}}, // refused
        {{inside, 65, 1}},                                                                // refused if inline
        {{0x1000, 0xfffffff0, 1}, {0x1000, 0x20, 1}},                                     // X1
    };
    unsigned refused = 0;
    uint64_t id = 0;
    for (const auto op : opcodes) {
        for (const auto& sg : lists) {
            for (unsigned flags = 0; flags < 16; flags++) {
                // Pieces of inline data are no elements: there may be more of them.
                if (flags & IBV_SEND_INLINE &&
                    (op == IBV_WR_RDMA_READ || sg.size() > T3_MAX_SGE || sg.empty()))
                    continue;
                const auto wr = request(op, flags, sg, id++);
                const int error = old.post({wr});
                refused += error != 0;
                ASSERT_EQ(ex.post({wr}), error)
                    << op << " with " << sg.size() << " elements, flags " << flags;
                if (error) // the old call has begun to build in the ring
                    std::memcpy(old.q.pages.data(), ex.q.pages.data(), size_t{old.q.size.entries()} * 128);
                expect_same_rings("posted");
                both(complete_all);
                expect_same_completions();
            }
        }
    }
    EXPECT_GT(refused, 50u);
}

TEST_F(Twins, TheBuilderTakesMorePiecesOfInlineDataThanElements) {
    char text[] = "0123456789";
    std::vector<ibv_data_buf> bufs;
    for (char& c : text)
        bufs.push_back({&c, 1});
    ibv_wr_start(ex.ex());
    ex.ex()->wr_id = 1;
    ex.ex()->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex.ex());
    ibv_wr_set_inline_data_list(ex.ex(), bufs.size(), bufs.data());
    ASSERT_EQ(ibv_wr_complete(ex.ex()), 0);
    const Sge sge{reinterpret_cast<uintptr_t>(text), sizeof(text), 0};
    ASSERT_EQ(old.post_one({.wr_id = 1, .signaled = true, .inline_data = true, .sg = {&sge, 1}}), 0);
    expect_same_rings("posted");
}

TEST_F(Twins, RandomListsThroughManyLaps) {
    std::mt19937 random(5040);
    static char data[64];
    uint64_t id = 0;
    for (int round = 0; round < 3000; round++) {
        std::vector<std::vector<ibv_sge>> sges(1 + random() % 6);
        std::vector<ibv_send_wr> list;
        for (auto& sg : sges) {
            const auto op = opcodes[random() % std::size(opcodes)];
            const size_t most = op == IBV_WR_RDMA_READ ? 1 : 4;
            sg.resize(random() % (most + 1));
            for (auto& s : sg)
                s = {reinterpret_cast<uintptr_t>(data), static_cast<uint32_t>(random() % 17), 0x77ff};
            unsigned flags = random() % 16;
            if (op == IBV_WR_RDMA_READ)
                flags &= ~unsigned{IBV_SEND_INLINE};
            list.push_back(request(op, flags, sg, id++));
        }
        // The old call posts what fits, so what does not fit is compared elsewhere.
        const uint32_t used = old.q.qp.sq().tail_relaxed() - old.q.qp.sq().head_relaxed();
        if (used + list.size() <= 16) {
            ASSERT_EQ(old.post(list), 0);
            ASSERT_EQ(ex.post(list), 0);
        }
        if (random() % 3 == 0) {
            ASSERT_EQ(old.q.recv_empty(id), ex.q.recv_empty(id));
        }
        expect_same_rings("posted");
        if (random() % 2) {
            // The receives that were fetched get a message each.
            both([](Side& s) {
                complete_all(s);
                auto& rq = s.q.qp.rq();
                for (uint32_t at = rq.head_relaxed(); rq.holds(at); at++)
                    s.cq.received(s.q.qp.qpid(), rq.msn(at), 7, T3_RDMA_SEND_INV, 0x4567ff);
            });
            expect_same_completions(64);
            expect_same_completions(64);
        }
        ASSERT_EQ(old.cq.cq.consumed(), ex.cq.cq.consumed());
    }
}

TEST_F(Twins, SignalAllOfTheQp) {
    both([](Side& s) { ASSERT_EQ(s.post_one(SendRequest{.wr_id = 4}), 0); });
    both(complete_all);
    expect_same_completions();
}

TEST(Builder, NothingIsSeenBeforeComplete) {
    Side s(true);
    ibv_wr_start(s.ex());
    for (uint64_t i = 0; i < 3; i++)
        s.build(verbs(SendRequest{.wr_id = i, .signaled = true}));
    EXPECT_EQ(s.q.fetch(), nullptr);
    EXPECT_FALSE(s.q.rung());
    ASSERT_EQ(ibv_wr_complete(s.ex()), 0);
    EXPECT_TRUE(s.q.rung());
    EXPECT_EQ(s.q.fetch_all(), 3u);
}

// Receives between the start and the end of a batch: the card sees them at once, whatever becomes of the
// batch, and the batch comes behind them, whole and in order. From the same thread, with and without a lock.
TEST(Builder, ReceivesInsideOfABatchAreSeenAtOnce) {
    for (const bool threads : {true, false}) {
        Side s(true, {.needs_locks = threads});
        uint32_t sends = 0, receives = 0;
        for (unsigned round = 0; round < 200; round++) { // many laps of the ring
            const unsigned before = round % 3, behind = round % 4, requests = 1 + round % 5;
            const bool abort = round % 7 == 6;
            auto receive = [&] {
                ASSERT_EQ(s.q.recv_empty(1000 + receives), 0);
                EXPECT_TRUE(s.q.rung());
                const t3_wr_slot* slot = s.q.fetch();
                ASSERT_NE(slot, nullptr) << "the card sees the receive at once";
                EXPECT_EQ(from_be<uint32_t>(slot->hdr.hi) >> 24, unsigned{T3_WR_OP_RECV});
                s.cq.received(s.q.qp.qpid(), ++receives, 0);
            };
            ibv_wr_start(s.ex());
            for (unsigned i = 0; i < before; i++)
                receive();
            for (unsigned i = 0; i < requests; i++) {
                s.ex()->wr_id = i;
                s.ex()->wr_flags = IBV_SEND_SIGNALED;
                ibv_wr_send(s.ex());
                if (i == 0 && behind)
                    receive(); // between a request and its data
                ibv_wr_set_sge(s.ex(), 0x1234ff, 0x1000 + i, 64);
            }
            for (unsigned i = 1; i < behind; i++)
                receive();
            EXPECT_EQ(s.q.fetch(), nullptr);
            if (abort) {
                ibv_wr_abort(s.ex());
                EXPECT_EQ(s.q.fetch(), nullptr);
                EXPECT_FALSE(s.q.rung());
            } else {
                ASSERT_EQ(ibv_wr_complete(s.ex()), 0);
                EXPECT_TRUE(s.q.rung());
                for (unsigned i = 0; i < requests; i++) {
                    const t3_wr_slot* slot = s.q.fetch();
                    ASSERT_NE(slot, nullptr) << "request " << i << " of round " << round;
                    EXPECT_EQ(from_be<uint32_t>(slot->hdr.hi) >> 24, unsigned{T3_WR_OP_SEND});
                    EXPECT_EQ(from_be<uint64_t>(slot->send.sge[0].to), 0x1000 + i);
                    s.cq.sent(s.q.qp.qpid(), sends++);
                }
            }
            std::vector<uint64_t> got_sends, got_receives;
            for (const ibv_wc& wc : s.poll()) {
                EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                (wc.opcode == IBV_WC_RECV ? got_receives : got_sends).push_back(wc.wr_id);
            }
            EXPECT_EQ(got_receives.size(), before + behind);
            EXPECT_EQ(got_sends.size(), abort ? 0 : requests);
        }
    }
}

// A batch that fills the send queue, and receives that fill theirs, in a ring that is just large enough.
TEST(Builder, AFullBatchBesideAFullReceiveQueue) {
    Side s(true);
    ibv_wr_start(s.ex());
    for (uint64_t i = 0; i < 16; i++) {
        if (i < 15) {
            ASSERT_EQ(s.q.recv_empty(100 + i), 0);
        }
        s.build(verbs(SendRequest{.wr_id = i, .signaled = true}));
    }
    EXPECT_EQ(s.q.recv_empty(115), ENOMEM);
    EXPECT_EQ(s.q.fetch_all(), 15u);
    ASSERT_EQ(ibv_wr_complete(s.ex()), 0);
    EXPECT_EQ(s.q.fetch_all(), 16u);
}

// The QP goes to error while a batch is open: its requests and the receives come back flushed.
TEST(Builder, TheQpFailsInsideOfABatch) {
    Side s(true);
    ibv_wr_start(s.ex());
    s.build(verbs(SendRequest{.wr_id = 1, .signaled = true}));
    s.q.kernel_flushes();
    ASSERT_EQ(s.q.recv_empty(2), 0);
    s.build(verbs(SendRequest{.wr_id = 3}));
    ASSERT_EQ(ibv_wr_complete(s.ex()), 0);
    EXPECT_EQ(s.q.fetch(), nullptr);
    EXPECT_FALSE(s.q.rung());
    const auto got = s.poll();
    ASSERT_EQ(got.size(), 3u);
    for (const ibv_wc& wc : got)
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Builder, AbortLeavesNothingBehind) {
    Side s(true), untouched(true);
    for (int round = 0; round < 70; round++) { // more than a lap of the ring
        ibv_wr_start(s.ex());
        for (uint64_t i = 0; i < 1 + static_cast<uint64_t>(round) % 7; i++)
            s.build(verbs(SendRequest{.wr_id = 1000 + i, .op = i & 1 ? SendOp::read : SendOp::send}));
        ibv_wr_abort(s.ex());
        EXPECT_EQ(s.q.fetch(), nullptr);
        EXPECT_FALSE(s.q.rung());
        ASSERT_EQ(s.post_one({.wr_id = 5, .signaled = true}), 0);
        ASSERT_EQ(s.q.fetch_all(), 1u);
        s.q.rung();
        s.cq.sent(s.q.qp.qpid(), static_cast<uint32_t>(round));
        const auto got = s.poll();
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].wr_id, 5u);
    }
}

TEST(Builder, AnEmptyBatchRingsNoDoorbell) {
    Side s(true);
    ibv_wr_start(s.ex());
    EXPECT_EQ(ibv_wr_complete(s.ex()), 0);
    EXPECT_FALSE(s.q.rung());
}

TEST(Builder, OneErrorAndNothingIsPosted) {
    Side s(true);
    ibv_qp_ex* ex = s.ex();
    char data[65] = {};
    const std::vector<std::pair<int, std::function<void()>>> wrong = {
        {EOPNOTSUPP, [&] { ibv_wr_send_imm(ex, 0); }},
        {EOPNOTSUPP, [&] { ibv_wr_rdma_write_imm(ex, 1, 2, 3); }},
        {EOPNOTSUPP, [&] { ibv_wr_atomic_cmp_swp(ex, 1, 2, 3, 4); }},
        {EOPNOTSUPP, [&] { ibv_wr_atomic_fetch_add(ex, 1, 2, 3); }},
        {EOPNOTSUPP, [&] { ibv_wr_send_tso(ex, data, 1, 1); }},
        {EOPNOTSUPP, [&] { ex->wr_atomic_write(ex, 1, 2, data); }},
        {EOPNOTSUPP, [&] { ibv_wr_send(ex), ibv_wr_set_ud_addr(ex, nullptr, 1, 1); }},
        {EOPNOTSUPP, [&] { ibv_wr_send(ex), ibv_wr_set_xrc_srqn(ex, 1); }},
        {EINVAL, [&] { ibv_wr_send(ex), ibv_wr_set_inline_data(ex, data, 65); }},
        {EINVAL, [&] { ibv_wr_send(ex), ibv_wr_set_inline_data(ex, data, size_t{1} << 32); }},
        {EINVAL, [&] { ibv_wr_rdma_read(ex, 1, 2), ibv_wr_set_inline_data(ex, data, 1); }},
        {EINVAL, [&] { ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 5, nullptr); }},
        {EINVAL, [&] { ibv_wr_send(ex), ibv_wr_set_sge_list(ex, size_t{1} << 32, nullptr); }},
        {EINVAL, [&] { ibv_wr_set_sge(ex, 1, 2, 3); }}, // of which request?
        {EINVAL, [&] { ibv_wr_send(ex), ibv_wr_set_sge(ex, 1, 2, 3), ibv_wr_set_sge(ex, 1, 2, 3); }},
        {EINVAL,
         [&] {
             const ibv_data_buf bufs[] = {{data, 60}, {data, 5}};
             ibv_wr_send(ex), ibv_wr_set_inline_data_list(ex, 2, bufs);
         }},
        {ENOMEM,
         [&] {
             for (int i = 0; i < 17; i++)
                 ibv_wr_send(ex);
         }},
    };
    for (const auto& [error, call] : wrong) {
        ibv_wr_start(ex);
        s.build(verbs(SendRequest{.wr_id = 1, .signaled = true}));
        call();
        s.build(verbs(SendRequest{.wr_id = 2, .signaled = true}));
        EXPECT_EQ(ibv_wr_complete(ex), error) << &call - &wrong[0].second;
        EXPECT_EQ(s.q.fetch(), nullptr);
        EXPECT_FALSE(s.q.rung());
    }
    ASSERT_EQ(s.post_one({.wr_id = 3, .signaled = true}), 0);
    EXPECT_EQ(s.q.fetch_all(), 1u);
    s.cq.sent(s.q.qp.qpid(), 0);
    EXPECT_EQ(s.poll().size(), 1u);
}

// A read that a batch has built takes the place of the one that the queue remembers as its last.
TEST(Builder, AReadThatIsNotPostedYetHidesNoOther) {
    Side s(true);
    ASSERT_EQ(s.q.read(1, 10), 0);
    ASSERT_EQ(s.q.send_signaled(2), 0);
    ibv_wr_start(s.ex());
    s.build(verbs(SendRequest{.wr_id = 3, .op = SendOp::read, .signaled = true}));
    s.cq.sent(s.q.qp.qpid(), 1);
    EXPECT_EQ(s.poll().size(), 0u) << "the send is behind a read that has not finished";
    s.cq.read_done(s.q.qp.qpid());
    EXPECT_EQ(s.poll().size(), 2u);
    ASSERT_EQ(ibv_wr_complete(s.ex()), 0);
    s.cq.read_done(s.q.qp.qpid());
    EXPECT_EQ(s.poll().size(), 1u);
}

TEST_F(Twins, WorkOfADeadQpComesBackFlushed) {
    both([](Side& s) {
        ASSERT_EQ(s.post_one({.wr_id = 1, .signaled = true}), 0);
        s.q.kernel_flushes();
        ASSERT_EQ(s.post_one({.wr_id = 2}), 0);
        ASSERT_EQ(s.q.recv_empty(3), 0);
        ASSERT_EQ(s.post_one({.wr_id = 4, .op = SendOp::write}), 0);
        EXPECT_EQ(s.q.fetch_all(), 1u);
    });
    expect_same_completions(2);
    expect_same_completions();
    expect_same_completions();
}

TEST_F(Twins, DoorbellIsLeftToTheKernelWhileOff) {
    both([](Side& s) {
        s.q.status_word() = T3_QP_STATUS_DB_OFF;
        ASSERT_EQ(s.post_one({.wr_id = 1, .signaled = true}), 0);
        EXPECT_FALSE(s.q.rung());
        s.q.status_word() = 0;
        ASSERT_EQ(s.post_one({.wr_id = 2, .signaled = true}), 0);
        EXPECT_TRUE(s.q.rung());
        EXPECT_EQ(s.q.fetch_all(), 2u);
    });
}

TEST_F(Twins, BindingAWindow) {
    ibv_pd pd{};
    cxgb3_mr mr{};
    mr.vmr.ibv_mr = {.context = nullptr,
                     .pd = &pd,
                     .addr = nullptr,
                     .length = 0x3000,
                     .handle = 0,
                     .lkey = 0x1234ff,
                     .rkey = 0};
    mr.hca_va = 0x7f0012345678;
    mr.pbl_addr = 0x20;
    ibv_mw mw{};
    mw.pd = &pd;
    mw.rkey = 0x777701;
    mw.type = IBV_MW_TYPE_1;
    const ibv_mw_bind_info infos[] = {
        {&mr.vmr.ibv_mr, mr.hca_va + 0x988, 100, IBV_ACCESS_REMOTE_WRITE},
        {&mr.vmr.ibv_mr, mr.hca_va, 0x3000, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE},
        {&mr.vmr.ibv_mr, mr.hca_va, 0x3001, IBV_ACCESS_REMOTE_READ}, // EINVAL
        {&mr.vmr.ibv_mr, mr.hca_va, 1, IBV_ACCESS_REMOTE_ATOMIC},    // EINVAL
        {nullptr, 0, 0, 0},                                          // taken back
    };
    for (const auto& info : infos) {
        ibv_mw_bind bind{9, IBV_SEND_SIGNALED, info};
        const uint32_t before = mw.rkey, rkey = info.length ? ibv_inc_rkey(before) : before;
        const int error = cxgb3_bind_mw(old.q.ibqp(), &mw, &bind);
        EXPECT_EQ(mw.rkey, error ? before : rkey);
        mw.rkey = before;
        ibv_wr_start(ex.ex());
        ex.ex()->wr_id = 9;
        ex.ex()->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_bind_mw(ex.ex(), &mw, rkey, &info);
        EXPECT_EQ(ibv_wr_complete(ex.ex()), error);
        EXPECT_EQ(mw.rkey, error ? before : rkey);
        expect_same_rings("bound");
    }
    const std::array opcodes = {T3_RDMA_BIND_MW, T3_RDMA_BIND_MW, T3_RDMA_LOCAL_INV};
    both([&](Side& s) {
        for (uint32_t pos = 0; pos < opcodes.size(); pos++) {
            s.cq.sent(0x21, pos, static_cast<unsigned>(opcodes[pos]));
            EXPECT_EQ(s.poll().at(0).opcode, IBV_WC_BIND_MW) << pos;
        }
    });
    for (const uint32_t rkey : {mw.rkey, mw.rkey + 0x100}) {
        ibv_wr_start(ex.ex());
        ibv_wr_bind_mw(ex.ex(), &mw, rkey, &infos[0]);
        EXPECT_EQ(ibv_wr_complete(ex.ex()), EINVAL) << "the present key, and one of another window";
    }
}

// ---- polling

TEST(ExtendedPoll, NothingThereTakesNoLock) {
    Side s(true);
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(s.cq_ex(), &attr), ENOENT);
    EXPECT_TRUE(s.cq.cq.try_lock());
    EXPECT_EQ(ibv_start_poll(s.cq_ex(), &attr), ENOENT) << "although another thread polls";
    s.cq.cq.unlock();
    attr.comp_mask = 1;
    EXPECT_EQ(ibv_start_poll(s.cq_ex(), &attr), EINVAL);
}

TEST(ExtendedPoll, TheLockIsHeldFromStartToEnd) {
    Side s(true);
    ASSERT_EQ(s.q.send_signaled(1), 0);
    s.cq.sent(s.q.qp.qpid(), 0);
    ibv_poll_cq_attr attr{};
    ASSERT_EQ(ibv_start_poll(s.cq_ex(), &attr), 0);
    EXPECT_FALSE(s.cq.cq.try_lock());
    EXPECT_EQ(ibv_next_poll(s.cq_ex()), ENOENT);
    EXPECT_EQ(s.cq_ex()->wr_id, 1u) << "what was read stays";
    EXPECT_FALSE(s.cq.cq.try_lock());
    ibv_end_poll(s.cq_ex());
    EXPECT_TRUE(s.cq.cq.try_lock());
    s.cq.cq.unlock();
}

// A thread domain: nothing is locked, so a thread that breaks the promise does not wait.
TEST(ExtendedPoll, OneThreadTakesNoLock) {
    Side s(true, {.needs_locks = false});
    ASSERT_EQ(s.q.send_signaled(1), 0);
    s.cq.sent(s.q.qp.qpid(), 0);
    ibv_poll_cq_attr attr{};
    ASSERT_EQ(ibv_start_poll(s.cq_ex(), &attr), 0);
    EXPECT_TRUE(s.cq.cq.try_lock());
    ibv_end_poll(s.cq_ex());
    ibv_wr_start(s.ex());
    EXPECT_EQ(s.q.recv_empty(2), 0);
    EXPECT_EQ(s.q.send_signaled(3), EBUSY) << "no send inside of a batch, but no waiting either";
    ibv_wr_abort(s.ex());
    EXPECT_EQ(s.q.send_signaled(4), 0);
}

TEST_F(Twins, BadEntriesAndStrangeOnes) {
    both([](Side& s) {
        const uint32_t qpid = s.q.qp.qpid();
        for (uint64_t i = 0; i < 6; i++)
            ASSERT_EQ(s.q.send_unsignaled(i), 0);
        ASSERT_EQ(s.q.recv_empty(10), 0);
        ASSERT_EQ(s.q.recv_empty(11), 0);
        s.cq.read_done(qpid, T3_RTR_STAG);                    // the kernel's own
        s.cq.sent(0x99, 0);                                   // of no QP
        s.cq.received(qpid, 1, 44, T3_RDMA_SEND_INV, 0x55ff); // a message
        s.cq.sent(qpid, 3, T3_RDMA_SEND, T3_STATUS_ACCESS);   // refused: those behind it are flushed
    });
    expect_same_completions(1);
    expect_same_completions(2);
    expect_same_completions();
}

TEST(ExtendedPoll, CountsAsTheOldOne) {
    cxgb3_counters counters{};
    CqMemory cq(4, true, &counters);
    QpMemory q(cq, cq, {.qpid = 0x22, .counters = &counters});
    cxgb3_set_builders(&q.handle, true);
    cxgb3_set_readers(&cq.handle, true);
    ibv_qp_ex* ex = &q.handle.vqp.qp_ex;
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex), ibv_wr_send(ex);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    ibv_wr_start(ex);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    ibv_cq_ex* cq_ex = &cq.handle.vcq.cq_ex;
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(cq_ex, &attr), ENOENT);
    cq.sent(0x22, 0);
    EXPECT_EQ(ibv_start_poll(cq_ex, &attr), 0);
    EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
    ibv_end_poll(cq_ex);
    EXPECT_EQ(counters.post_send, 2u);
    EXPECT_EQ(counters.send_requests, 2u);
    EXPECT_EQ(counters.doorbells, 1u);
    EXPECT_EQ(counters.poll, 3u);
    EXPECT_EQ(counters.empty_poll, 2u);
    EXPECT_EQ(counters.completions, 1u);
}
