// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A send into an empty receive queue. iWARP has no "receiver not ready": the receiver terminates the
// connection. It succeeds if the client's QP goes to the error state and later requests are flushed, and the
// server's QP goes to the error state with an asynchronous event.
#include "program.hh"

using namespace prog;

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    Endpoint end({});
    Json out;
    if (args.server) {
        end.await_request(args);
        end.accept();
        const auto event = end.next_async_event(20000);
        const bool gone = end.wait_disconnected(20000);
        const auto state = end.query_state();
        out.add("async_event", event ? ibv_event_type_str(*event) : "none");
        out.add("disconnected", gone).add("qp_state", state);
        out.finish(event && gone && state != IBV_QPS_RTS);
    }
    end.resolve(args);
    Memory memory(end, 4096, IBV_ACCESS_LOCAL_WRITE);
    if (!end.connect())
        fail("rejected");
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (const int err = end.post_send(wr, {memory.sge(0, 64)}))
        fail("ibv_post_send: %d", err);
    const auto first = end.next_completion(in_ms(10000)); // may succeed, since the data have been sent
    const bool gone = end.wait_disconnected(20000);
    wr.wr_id = 2;
    const int err = end.post_send(wr, {memory.sge(0, 64)});
    std::optional<ibv_wc> second;
    if (!err)
        second = end.next_completion(in_ms(5000));
    out.add("first", first ? ibv_wc_status_str(first->status) : "none").add("disconnected", gone);
    out.add("post_after", err).add("after", second ? ibv_wc_status_str(second->status) : "none");
    out.finish(first && gone &&
               (err || (second && second->wr_id == 2 && second->status == IBV_WC_WR_FLUSH_ERR)));
}
