// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Random work on two QPs of one CQ, against what the verbs promise: each request comes back at most once, in
// the order of posting; signaled ones exactly once; success for what the card did, flushed for all else; and
// never a success after a flush.
#include "tests/unit/provider/fake_card.hh"

#include <deque>
#include <random>

using namespace fake;

namespace {

struct Request {
    uint64_t wr_id;
    t3::WorkOp op;
    bool signaled;
    uint32_t bytes;
};

// One QP, the card behind it, and the requests that have not completed yet.
class Party {
public:
    Party(CqMemory& cq, uint32_t id) : q(cq, cq, {.qpid = id}), cq_(cq), id_(id) {}

    void post(std::mt19937& rng) {
        const bool signaled = rng() % 3 == 0;
        const uint64_t wr_id = next_id_++;
        switch (rng() % 4) {
        case 0:
            if (q.read(wr_id, static_cast<uint32_t>(wr_id % 5000), signaled) == 0)
                sends.push_back({wr_id, t3::WorkOp::read, signaled, static_cast<uint32_t>(wr_id % 5000)});
            break;
        case 1:
            if (q.recv_empty(wr_id) == 0)
                recvs.push_back({wr_id, t3::WorkOp::recv, true, 0});
            break;
        default:
            if (q.send({.wr_id = wr_id, .signaled = signaled}) == 0)
                sends.push_back({wr_id, t3::WorkOp::send, signaled, 0});
        }
    }

    // The card does one thing: executes the next slot, responds to a read, or takes a message.
    void work(std::mt19937& rng) {
        if (dead || cq_.waiting() >= 60)
            return;
        switch (rng() % 3) {
        case 0:
            if (reads_ && reads_--)
                cq_.read_done(id_);
            break;
        case 1:
            if (receives_) {
                receives_--;
                msn_++;
                cq_.received(id_, msn_, msn_ * 3);
            }
            break;
        default:
            if (const t3_wr_slot* s = q.fetch()) {
                const uint32_t hi = from_be<uint32_t>(s->hdr.hi);
                if (hi >> 24 == T3_WR_OP_READ)
                    reads_++;
                else if (hi >> 24 == T3_WR_OP_RECV)
                    receives_++;
                else if (hi & T3_WR_F_COMPLETION << 8)
                    cq_.sent(id_, s->send.id.hi);
            }
        }
    }

    void die() {
        dead = true;
        q.status_word() |= T3_QP_STATUS_ERROR;
        cq_.status_word() = 1;
    }

    void check(const t3::Completion& c) {
        auto& pending = c.op == t3::WorkOp::recv ? recvs : sends;
        bool& flushing = c.op == t3::WorkOp::recv ? recv_flushing_ : send_flushing_;
        // Unsignaled requests in front complete without an entry, unless there is flushing.
        while (!pending.empty() && pending.front().wr_id != c.wr_id) {
            ASSERT_FALSE(pending.front().signaled) << "request " << pending.front().wr_id << " was skipped";
            ASSERT_FALSE(flushing) << "request " << pending.front().wr_id << " was not flushed";
            pending.pop_front();
        }
        ASSERT_FALSE(pending.empty()) << "request " << c.wr_id << " came twice, or was never posted";
        const Request r = pending.front();
        pending.pop_front();
        ASSERT_EQ(c.op, r.op);
        if (c.status == T3_STATUS_SUCCESS) {
            ASSERT_TRUE(r.signaled) << "unsignaled success " << r.wr_id;
            ASSERT_FALSE(flushing) << "success after a flush";
            if (r.op == t3::WorkOp::recv)
                received_++;
            const uint32_t bytes = r.op == t3::WorkOp::recv ? received_ * 3 : r.bytes;
            ASSERT_EQ(c.byte_len, bytes);
        } else {
            ASSERT_TRUE(dead);
            ASSERT_EQ(c.status, T3_STATUS_FLUSH);
            flushing = true;
        }
    }

    QpMemory q;
    bool dead = false;
    std::deque<Request> sends, recvs;

private:
    CqMemory& cq_;
    const uint32_t id_;
    uint64_t next_id_ = 1;
    unsigned reads_ = 0, receives_ = 0;
    uint32_t msn_ = 0, received_ = 0;
    bool recv_flushing_ = false, send_flushing_ = false;
};

} // namespace

TEST(Random, EveryRequestComesBackAsItShould) {
    for (unsigned seed = 1; seed <= 1000; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 rng(seed);
        CqMemory cq(6);
        Party a(cq, 0x21), b(cq, 0x22);
        auto poll = [&](int n) {
            for (const auto& c : cq.poll(n))
                (c.qpid == 0x21 ? a : b).check(c);
        };
        const unsigned steps = 200 + rng() % 400, end_of_a = rng() % 800;
        for (unsigned step = 0; step < steps && !testing::Test::HasFatalFailure(); step++) {
            Party& p = rng() % 2 ? a : b;
            switch (rng() % 8) {
            case 0:
            case 1:
            case 2:
                p.post(rng);
                break;
            case 3:
                poll(1 + static_cast<int>(rng() % 6));
                break;
            default:
                p.work(rng);
            }
            if (step == end_of_a)
                a.die();
        }
        a.die();
        b.die();
        for (int i = 0; i < 100 && !testing::Test::HasFatalFailure(); i++)
            poll(1 + static_cast<int>(rng() % 6));
        ASSERT_FALSE(testing::Test::HasFatalFailure());
        for (const Party* p : {&a, &b}) {
            EXPECT_TRUE(p->recvs.empty()) << p->recvs.size() << " receives were lost";
            for (const auto& r : p->sends)
                EXPECT_FALSE(r.signaled) << "request " << r.wr_id << " was lost";
        }
    }
}
