// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The connection ends during traffic: --closer=client, server or both, by --how=disconnect, kill (the process
// is killed) or error (modify QP to ERR). --events sleeps on the completion channel; without it the program
// only polls and reads no events while it waits. It succeeds if every posted request completes exactly once,
// in order, first successful and then flushed.
#include "program.hh"

#include <algorithm>
#include <unistd.h>

using namespace prog;

namespace {

constexpr uint64_t recv_tag = uint64_t{1} << 32;

struct Count {
    uint64_t posted = 0, ok = 0, flushed = 0, other = 0, wrong_order = 0, ok_after_flush = 0;
    void take(const ibv_wc& wc) {
        wrong_order += (wc.wr_id & ~recv_tag) != ok + flushed + other;
        if (wc.status == IBV_WC_SUCCESS) {
            ok_after_flush += flushed > 0;
            ok++;
        } else if (wc.status == IBV_WC_WR_FLUSH_ERR) {
            flushed++;
        } else {
            other++;
        }
    }
    uint64_t done() const { return ok + flushed + other; }
    bool right() const { return done() == posted && !wrong_order && !ok_after_flush; }
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv,
                    "--closer=client|server|both --how=disconnect|kill|error [--events] [--messages=N]");
    const std::string by = args.value("closer", "client");
    const bool closer = by == "both" || (by == "server") == args.server;
    const std::string how = args.value("how", "disconnect");
    const uint64_t enough = static_cast<uint64_t>(args.number("messages", 200));
    Caps caps;
    caps.recv_wr = 64;
    caps.send_wr = 32;
    caps.events = args.has("events");
    Endpoint end(caps);

    if (args.server)
        end.await_request(args);
    else
        end.resolve(args);
    Memory memory(end, 8192, IBV_ACCESS_LOCAL_WRITE);
    Count sends, recvs;
    bool refused = false;
    auto post_recv = [&] {
        if (end.post_recv(recv_tag | recvs.posted, {memory.sge(4096, 4096)}))
            return refused = true;
        recvs.posted++;
        return false;
    };
    auto post_send = [&] {
        ibv_send_wr wr{};
        wr.wr_id = sends.posted;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (end.post_send(wr, {memory.sge(0, 512)}))
            return refused = true;
        sends.posted++;
        return false;
    };
    for (int i = 0; i < 60; i++)
        post_recv();
    if (args.server)
        end.accept();
    else if (!end.connect())
        fail("rejected");

    // Traffic in both directions, with fewer messages in flight than the peer has receives, until the time is
    // over or the connection ends.
    auto until = in_ms(30000);
    uint64_t answered = 0;
    for (int i = 0; i < 16 && !args.server; i++)
        post_send();
    while (!recvs.flushed && !sends.flushed && !refused) {
        if (closer && recvs.ok >= enough)
            break;
        const auto wc = end.next_completion(until);
        if (!wc)
            fail("no completion for 30 s: %llu sends and %llu receives are outstanding",
                 static_cast<unsigned long long>(sends.posted - sends.done()),
                 static_cast<unsigned long long>(recvs.posted - recvs.done()));
        (wc->wr_id & recv_tag ? recvs : sends).take(*wc);
        if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV) {
            post_recv();
            answered++;
        }
        while (answered && sends.posted - sends.done() < 16 && !refused) {
            post_send();
            answered--;
        }
    }
    if (closer && how == "kill")
        _exit(0);
    if (closer && how == "disconnect")
        rdma_disconnect(end.id);
    if (closer && how == "error") {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        if (ibv_modify_qp(end.id->qp, &attr, IBV_QP_STATE))
            fail("ibv_modify_qp to ERR failed");
    }

    until = in_ms(10000);
    while (sends.done() < sends.posted || recvs.done() < recvs.posted) {
        const auto wc = end.next_completion(until);
        if (!wc)
            break;
        (wc->wr_id & recv_tag ? recvs : sends).take(*wc);
    }
    const bool doubled = end.next_completion(in_ms(100)).has_value();
    const bool gone = end.wait_disconnected(10000);
    Json()
        .add("sends", sends.posted)
        .add("sends_flushed", sends.flushed)
        .add("sends_lost", sends.posted - sends.done())
        .add("recvs", recvs.posted)
        .add("recvs_flushed", recvs.flushed)
        .add("recvs_lost", recvs.posted - recvs.done())
        .add("other_errors", sends.other + recvs.other)
        .add("wrong_order", sends.wrong_order + recvs.wrong_order)
        .add("doubled", doubled)
        .add("disconnected", gone)
        .finish(sends.right() && recvs.right() && !doubled && gone && recvs.ok > 0);
}
