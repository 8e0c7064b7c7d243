// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A completion queue that is too small for its requests. The card overwrites unread entries, which ends the
// connection ("overflowed"). It succeeds if the program does not hang, and each request completes once: a
// send before another that has succeeded as a success, the others as flushed.
#include "program.hh"

#include <thread>

using namespace prog;

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    constexpr unsigned requests = 40; // the ring has 32 entries: it overruns, by less than one round
    Caps caps;
    caps.send_wr = caps.recv_wr = requests;
    caps.cqe = args.server ? 128 : 8;
    Endpoint end(caps);
    if (args.server) {
        end.await_request(args);
        Memory memory(end, 4096, IBV_ACCESS_LOCAL_WRITE);
        for (unsigned i = 0; i < requests; i++)
            end.post_recv(i, {memory.sge(0, 64)});
        end.accept();
        unsigned got = 0;
        while (got < requests && end.next_completion(in_ms(15000)))
            got++;
        Json().add("received", got).add("disconnected", end.wait_disconnected(20000)).finish(got == requests);
    }
    end.resolve(args);
    Memory memory(end, 4096, IBV_ACCESS_LOCAL_WRITE);
    if (!end.connect())
        fail("rejected");
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    for (unsigned i = 0; i < requests; i++) {
        wr.wr_id = i;
        if (end.post_send(wr, {memory.sge(0, 64)}))
            fail("ibv_post_send of request %u", i);
    }
    std::this_thread::sleep_for(std::chrono::seconds(3)); // all of them complete meanwhile
    unsigned ok = 0, flushed = 0, other = 0;
    std::vector<bool> seen(requests);
    bool doubled = false, ordered = true; // no success behind a request that was flushed
    while (const auto wc = end.next_completion(in_ms(2000))) {
        doubled |= wc->wr_id >= requests || seen[wc->wr_id];
        if (wc->wr_id < requests)
            seen[wc->wr_id] = true;
        ordered &= wc->status != IBV_WC_SUCCESS || flushed == 0;
        (wc->status == IBV_WC_SUCCESS ? ok : wc->status == IBV_WC_WR_FLUSH_ERR ? flushed : other)++;
    }
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(end.id->qp, &attr, IBV_QP_STATE, &init))
        fail("ibv_query_qp");
    const bool overflowed = attr.qp_state == IBV_QPS_ERR;
    rdma_disconnect(end.id);
    Json()
        .add("cqe", end.send_cq->cqe)
        .add("ok", ok)
        .add("flushed", flushed)
        .add("other", other)
        .add("doubled", doubled)
        .add("overflowed", overflowed)
        .finish(ok + flushed == requests && ordered && !doubled);
}
