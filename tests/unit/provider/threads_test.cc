// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Two threads post to one QP while a third polls its CQ and a fourth is the card. Run under the thread
// sanitizer too (tests/unit/provider/CMakeLists.txt).
#include "tests/unit/provider/fake_card.hh"

#include <atomic>
#include <thread>

using namespace fake;

namespace {

constexpr uint64_t per_thread = 20000;

// Executes what it finds in the ring, in order, and completes everything signaled.
class CardThread {
public:
    CardThread(QpMemory& q, CqMemory& cq) : q_(q), cq_(cq), thread_([this] { run(); }) {}
    ~CardThread() {
        stop_ = true;
        thread_.join();
    }

private:
    void run() {
        uint32_t msn = 0;
        while (!stop_) {
            // The ring of the CQ has 64 entries and no flow control: the card waits for the poller.
            if (cq_.waiting() >= 60) {
                std::this_thread::yield();
                continue;
            }
            const t3_wr_slot* s = q_.fetch();
            if (!s) {
                std::this_thread::yield();
                continue;
            }
            const uint32_t hi = from_be<uint32_t>(s->hdr.hi);
            if (hi >> 24 == T3_WR_OP_RECV)
                cq_.received(q_.qp.qpid(), ++msn, 1);
            else if (hi & T3_WR_F_COMPLETION << 8)
                cq_.sent(q_.qp.qpid(), s->send.id.hi);
        }
    }

    QpMemory& q_;
    CqMemory& cq_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace

TEST(Threads, TwoPostersOnePollerLoseNothing) {
    CqMemory cq(6);
    QpMemory q(cq, cq);
    CardThread card(q, cq);

    std::thread sender([&] {
        for (uint64_t i = 0; i < per_thread;) {
            if (q.send({.wr_id = i, .signaled = i % 4 == 3}) == 0)
                i++;
            else
                std::this_thread::yield();
        }
    });
    std::thread receiver([&] {
        for (uint64_t i = 0; i < per_thread;) {
            if (q.recv({.wr_id = 1000000 + i}) == 0)
                i++;
            else
                std::this_thread::yield();
        }
    });

    uint64_t sends = 0, recvs = 0;
    while (sends < per_thread / 4 || recvs < per_thread) {
        uint64_t bad = 0;
        const auto got = cq.poll(8);
        for (const Completion& c : got) {
            if (c.op == WorkOp::recv)
                bad += c.wr_id != 1000000 + recvs++;
            else
                bad += c.wr_id != 4 * sends++ + 3;
            bad += c.status != T3_STATUS_SUCCESS;
        }
        ASSERT_EQ(bad, 0u) << "after " << sends << " sends, " << recvs << " receives";
        if (got.empty())
            std::this_thread::yield();
    }
    sender.join();
    receiver.join();
}

// The error strikes while two threads post: what each was told is posted comes back exactly once.
TEST(Threads, ErrorWhilePostingLosesNothing) {
    for (int round = 0; round < 20; round++) {
        CqMemory cq(6);
        QpMemory q(cq, cq);
        std::atomic<uint64_t> posted{0};
        std::atomic<bool> stop{false};
        auto post = [&](uint64_t tag) {
            for (uint64_t i = 0; !stop; i++) {
                if (q.send_signaled(tag + i) == 0)
                    posted++;
                else
                    std::this_thread::yield();
            }
        };
        std::thread one(post, 0), two(post, 1000000);
        uint64_t delivered = 0;
        std::thread kernel([&] {
            std::this_thread::yield();
            q.qp.set_error();
        });
        while (delivered < 200)
            delivered += cq.poll(4).size();
        stop = true;
        one.join();
        two.join();
        kernel.join();
        while (delivered < posted) {
            const auto more = cq.poll(4).size();
            ASSERT_GT(more, 0u) << delivered << " of " << posted;
            delivered += more;
        }
        EXPECT_EQ(cq.poll().size(), 0u);
    }
}

// E9, X6
TEST(Threads, QpsComeAndGoWhileTheirCqIsPolled) {
    CqMemory cq(6);
    std::atomic<bool> stop{false};
    std::thread poller([&] {
        while (!stop)
            cq.poll(8);
    });
    for (int i = 0; i < 300; i++) {
        QpMemory q(cq, cq, {.qpid = 0x20u + i % 3});
        ASSERT_EQ(q.send_signaled(1), 0);
        q.qp.set_error();
    }
    stop = true;
    poller.join();
}
