// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Remote access that the server must refuse: --case=wrong_rkey, out_of_bounds, no_permission, each with
// --op=write or read. It succeeds if no byte of the server's memory is written or read, both QPs go to the
// error state, the server gets an asynchronous event, and the client's request completes once.
#include "program.hh"

using namespace prog;

namespace {

constexpr size_t window = 4096;

int access_for(const std::string& what, bool write) {
    if (what != "no_permission")
        return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    return IBV_ACCESS_LOCAL_WRITE | (write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--case=wrong_rkey|out_of_bounds|no_permission --op=write|read");
    const std::string what = args.value("case", "wrong_rkey");
    const bool write = args.value("op", "write") == "write";
    Endpoint end({});
    Json out;
    out.add("case", what).add("op", write ? "write" : "read");
    if (args.server) {
        end.await_request(args);
        Memory memory(end, window, access_for(what, write));
        memory.fill(1);
        const Target target = memory.target();
        end.accept(&target, sizeof(target));
        const auto event = end.next_async_event(20000);
        const bool gone = end.wait_disconnected(20000);
        const auto state = end.query_state();
        const bool intact = memory.matches(1, 0, window);
        out.add("async_event", event ? ibv_event_type_str(*event) : "none").add("disconnected", gone);
        out.add("qp_state", state).add("memory_intact", intact);
        out.finish(event && gone && intact && state != IBV_QPS_RTS);
    }
    end.resolve(args);
    Memory memory(end, window, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    memory.fill(2);
    if (!end.connect())
        fail("rejected");
    const Target target = read_target(end.peer_data);
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = target.addr + (what == "out_of_bounds" ? window - 8 : 0);
    wr.wr.rdma.rkey = what == "wrong_rkey" ? target.rkey ^ 0x55 : target.rkey;
    if (const int err = end.post_send(wr, {memory.sge(0, 64)}))
        fail("ibv_post_send: %d", err);
    const auto wc = end.next_completion(in_ms(20000));
    const bool gone = end.wait_disconnected(20000);
    const auto event = end.next_async_event(2000);
    const auto extra = end.next_completion(in_ms(100));
    const bool intact = memory.matches(2, 0, window);
    out.add("status", wc ? ibv_wc_status_str(wc->status) : "none").add("disconnected", gone);
    out.add("async_event", event ? ibv_event_type_str(*event) : "none").add("memory_intact", intact);
    out.add("completed_twice", extra.has_value()).add("qp_state", end.query_state());
    // A write completes when its data have been sent, so it may succeed; a read may not.
    out.finish(wc && gone && intact && !extra && (write || wc->status != IBV_WC_SUCCESS));
}
