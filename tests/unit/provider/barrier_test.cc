// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// X12: the order of a work request, the barrier and the doorbell. The provider is compiled with a barrier
// that calls the test: the request must be complete then, and the doorbell not rung yet.
#include "tests/unit/provider/fake_card.hh"

#include <functional>

using namespace fake;

namespace {

class Barrier : public testing::Test {
protected:
    Barrier() : cq(6), q(cq, cq) {
        cxgb3_set_builders(&q.handle, false);
        test = this;
        common::barrier_observer = [] { test->at_barrier(); };
    }
    ~Barrier() override { common::barrier_observer = nullptr; }

    void at_barrier() {
        EXPECT_EQ(q.doorbell, 0U) << "the doorbell was rung before the barrier";
        visible += q.fetch_all();
        ring.assign(q.pages.data(), q.pages.data() + ring_bytes);
    }
    ibv_qp_ex* ex() { return &q.handle.vqp.qp_ex; }

    /// @p post posts requests and rings once.
    void check(unsigned requests, const std::function<int()>& post) {
        const unsigned long before = common::barriers_passed;
        visible = 0;
        ASSERT_EQ(post(), 0);
        EXPECT_TRUE(q.rung());
        EXPECT_EQ(common::barriers_passed, before + 1);
        EXPECT_EQ(visible, requests) << "requests that were complete at the barrier";
        EXPECT_EQ(std::memcmp(ring.data(), q.pages.data(), ring_bytes), 0) << "stores behind the barrier";
    }

    static constexpr size_t ring_bytes = 32 * T3_WR_SLOT_BYTES;
    static inline Barrier* test = nullptr;
    CqMemory cq;
    QpMemory q;
    std::vector<uint8_t> ring;
    unsigned visible = 0;
};

} // namespace

TEST_F(Barrier, X12_IsBetweenEachRequestAndTheDoorbell) {
    const Sge sge{0x1000, 64, 0x1234ff};
    for (SendOp op : {SendOp::send, SendOp::send_inv, SendOp::write, SendOp::read})
        check(1, [&] {
            return q.send({.op = op, .signaled = true, .sg = {&sge, 1}, .remote_stag = 0x2345ff});
        });
    check(1, [&] { return q.recv({.sg = {&sge, 1}}); });
}

TEST_F(Barrier, X12_ComesOnceBehindAList) {
    ibv_send_wr send[3]{}, *bad_send = nullptr;
    ibv_recv_wr recv[3]{}, *bad_recv = nullptr;
    for (int i = 0; i < 3; i++) {
        send[i].opcode = IBV_WR_SEND;
        send[i].next = i < 2 ? &send[i + 1] : nullptr;
        recv[i].next = i < 2 ? &recv[i + 1] : nullptr;
    }
    check(3, [&] { return q.post(send, &bad_send); });
    check(3, [&] { return q.post(recv, &bad_recv); });
}

TEST_F(Barrier, X12_ComesOnceBehindABatch) {
    check(3, [&] {
        ibv_wr_start(ex());
        for (int i = 0; i < 3; i++)
            ibv_wr_send(ex());
        return ibv_wr_complete(ex());
    });
}
