// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Two threads post to one QP while a third polls its CQ and a fourth is the card. Run under the thread
// sanitizer too (tests/unit/provider/CMakeLists.txt).
#include "tests/unit/provider/fake_card.hh"

#include <atomic>
#include <functional>
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
            else if (hi >> 24 == T3_WR_OP_READ)
                cq_.read_done(q_.qp.qpid());
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

namespace {

int post_batch(QpMemory& q, uint64_t wr_id);

// One thread posts sends, of which every n-th is signaled, another receives.
void two_posters_one_poller(uint64_t n, const std::function<int(QpMemory&, uint64_t)>& send) {
    CqMemory cq(6);
    QpMemory q(cq, cq);
    ASSERT_EQ(cxgb3_set_builders(&q.handle, false), 0);
    CardThread card(q, cq);

    std::thread sender([&] {
        for (uint64_t i = 0; i < per_thread;) {
            if (send(q, i) == 0)
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
    while (sends < per_thread / n || recvs < per_thread) {
        uint64_t bad = 0;
        const auto got = cq.poll(8);
        for (const Completion& c : got) {
            if (c.op == WorkOp::recv)
                bad += c.wr_id != 1000000 + recvs++;
            else
                bad += c.wr_id != n * sends++ + n - 1;
            bad += c.status != T3_STATUS_SUCCESS;
        }
        ASSERT_EQ(bad, 0u) << "after " << sends << " sends, " << recvs << " receives";
        if (got.empty())
            std::this_thread::yield();
    }
    sender.join();
    receiver.join();
}

} // namespace

TEST(Threads, TwoPostersOnePollerLoseNothing) {
    two_posters_one_poller(
        4, [](QpMemory& q, uint64_t i) { return q.send({.wr_id = i, .signaled = i % 4 == 3}); });
}
// Reads complete apart from other requests, so the queue completes by another path, unsignaled requests with
// it.
TEST(Threads, ReadsAmongUnsignaledSendsLoseNothing) {
    two_posters_one_poller(4, [](QpMemory& q, uint64_t i) {
        return i % 4 == 1 ? q.read(i, 64, false) : q.send({.wr_id = i, .signaled = i % 4 == 3});
    });
}
TEST(Threads, BatchesBesideReceivesLoseNothing) {
    two_posters_one_poller(1, post_batch);
}

// A thread that has a batch open waits for another thread, which posts a receive first:
// neither waits for ever.
TEST(Threads, AReceiveDoesNotWaitForAnOpenBatch) {
    CqMemory cq(6);
    QpMemory q(cq, cq);
    ASSERT_EQ(cxgb3_set_builders(&q.handle, false), 0);
    ibv_qp_ex* ex = &q.handle.vqp.qp_ex;
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    std::thread([&] { EXPECT_EQ(q.recv_empty(1), 0); }).join();
    EXPECT_NE(q.fetch(), nullptr);
    EXPECT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_NE(q.fetch(), nullptr);
}

// The error comes while three threads post: each request whose post returned 0 completes exactly once.
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
        std::thread receiver([&] {
            for (uint64_t i = 0; !stop; i++) {
                if (q.recv_empty(2000000 + i) == 0)
                    posted++;
                else
                    std::this_thread::yield();
            }
        });
        uint64_t delivered = 0;
        std::thread kernel([&] {
            std::this_thread::yield();
            q.kernel_flushes();
        });
        while (delivered < 200)
            delivered += cq.poll(4).size();
        stop = true;
        one.join();
        two.join();
        receiver.join();
        kernel.join();
        while (delivered < posted) {
            const auto more = cq.poll(4).size();
            ASSERT_GT(more, 0u) << delivered << " of " << posted;
            delivered += more;
        }
        EXPECT_EQ(cq.poll().size(), 0u);
    }
}

namespace {

// Ways to post one request and to poll some.
int post_batch(QpMemory& q, uint64_t wr_id) {
    ibv_qp_ex* ex = &q.handle.vqp.qp_ex;
    ibv_wr_start(ex);
    ex->wr_id = wr_id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    if (wr_id % 5 == 0) { // a thread aborts its batch
        ibv_wr_abort(ex);
        ibv_wr_start(ex);
        ibv_wr_send(ex);
    }
    char data[4] = {1, 2, 3, 4};
    ibv_wr_set_inline_data(ex, data, sizeof(data));
    return ibv_wr_complete(ex);
}
size_t poll_extended(CqMemory& cq, const std::function<void(uint64_t)>& take) {
    ibv_cq_ex* ex = &cq.handle.vcq.cq_ex;
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(ex, &attr))
        return 0;
    size_t n = 0;
    do {
        take(ex->wr_id);
        n++;
    } while (n < 8 && ibv_next_poll(ex) == 0);
    ibv_end_poll(ex);
    return n;
}
size_t poll_old(CqMemory& cq, const std::function<void(uint64_t)>& take) {
    ibv_wc wc[8];
    const int got = cxgb3_poll_cq(&cq.handle.vcq.cq, 8, wc);
    for (int i = 0; i < got; i++)
        take(wc[i].wr_id);
    return static_cast<size_t>(got);
}

} // namespace

// Two threads poll, each in its own way; two post, each in its own way. Each request comes back once.
TEST(Threads, TwoPollersOnOneCqShareWhatThereIs) {
    CqMemory cq(6);
    QpMemory q(cq, cq);
    cxgb3_set_builders(&q.handle, false);
    cxgb3_set_readers(&cq.handle, false);
    CardThread card(q, cq);
    constexpr uint64_t each = per_thread / 8; // five threads take turns on few CPUs
    std::vector<std::atomic<uint8_t>> seen(2 * each);
    std::atomic<uint64_t> delivered{0};
    auto take = [&](uint64_t wr_id) {
        seen.at(wr_id)++;
        delivered++;
    };
    auto poll = [&](auto&& way) {
        while (delivered < seen.size()) {
            if (way(cq, take) == 0)
                std::this_thread::yield();
        }
    };
    auto post = [&](uint64_t first, auto&& way) {
        for (uint64_t i = 0; i < each;) {
            if (way(q, first + i) == 0)
                i++;
            else
                std::this_thread::yield();
        }
    };
    std::thread batches([&] { post(0, post_batch); });
    std::thread lists([&] { post(each, [](QpMemory& to, uint64_t id) { return to.send_signaled(id); }); });
    std::thread extended([&] { poll(poll_extended); });
    poll(poll_old);
    batches.join();
    lists.join();
    extended.join();
    for (size_t i = 0; i < seen.size(); i++)
        ASSERT_EQ(seen[i], 1u) << i;
    EXPECT_EQ(cq.poll().size(), 0u);
}

TEST(Threads, ErrorInTheMiddleOfBatchesLosesNothing) {
    for (int round = 0; round < 20; round++) {
        CqMemory cq(6);
        QpMemory q(cq, cq);
        cxgb3_set_builders(&q.handle, false);
        cxgb3_set_readers(&cq.handle, false);
        std::atomic<uint64_t> posted{0};
        std::atomic<bool> stop{false};
        std::thread poster([&] {
            for (uint64_t i = 0; !stop; i++) {
                if (post_batch(q, i) == 0)
                    posted++;
                else
                    std::this_thread::yield();
            }
        });
        std::thread kernel([&] {
            std::this_thread::yield();
            q.kernel_flushes();
        });
        uint64_t next = 0, wrong = 0, last = 0;
        auto take = [&](uint64_t wr_id) {
            wrong += next != 0 && wr_id <= last; // in order, and none twice
            last = wr_id;
            next++;
        };
        while (next < 200) {
            if (poll_extended(cq, take) == 0)
                std::this_thread::yield();
        }
        stop = true;
        poster.join();
        kernel.join();
        while (next < posted)
            ASSERT_GT(poll_extended(cq, take), 0u) << next << " of " << posted;
        EXPECT_EQ(wrong, 0u);
        EXPECT_EQ(poll_extended(cq, take), 0u);
    }
}

// What CXGB3_SINGLE_THREADED=1 and thread domains switch off: one thread per QP and its CQ, many of them.
TEST(Threads, EachWithItsOwnQpNeedsNoLocks) {
    std::vector<std::thread> threads;
    for (uint32_t n = 0; n < 3; n++) {
        threads.emplace_back([n] {
            CqMemory cq(6, false);
            QpMemory q(cq, cq, {.qpid = 0x20 + n, .needs_locks = false});
            cxgb3_set_builders(&q.handle, false);
            cxgb3_set_readers(&cq.handle, false);
            uint64_t got = 0;
            for (uint64_t i = 0; i < 2000; i++) {
                ASSERT_EQ(i & 1 ? post_batch(q, i) : q.send_signaled(i), 0);
                const t3_wr_slot* slot = q.fetch();
                ASSERT_NE(slot, nullptr);
                cq.sent(q.qp.qpid(), slot->send.id.hi);
                const auto check = [&](uint64_t wr_id) { EXPECT_EQ(wr_id, got++); };
                ASSERT_EQ(i & 2 ? poll_extended(cq, check) : poll_old(cq, check), 1u);
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
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
        q.kernel_flushes();
    }
    stop = true;
    poller.join();
}
