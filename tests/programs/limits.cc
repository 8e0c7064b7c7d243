// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What differs between devices: a list with empty SGEs is sent (Linux's siw stops the machine). And what a T3
// does as docs/limits.md describes, unless --lists:
//
//   - a SEND that is posted in INIT is accepted, and sent once the QP is connected
//   - a move to SQD closes the connection
//   - completions that were not polled are discarded with their QP
#include "program.hh"

#include <cerrno>
#include <cstring>

using namespace prog;

namespace {

constexpr size_t early = 24, unpolled = 4;
constexpr size_t parts[] = {8, 6000}; // siw sends the larger ones without a copy
constexpr size_t message = 16 << 10;  // at most
constexpr uint8_t seed = 0x51;

enum : uint64_t { early_id, list_id, unpolled_id };

ibv_send_wr send_wr(uint64_t id) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
}

Caps caps() {
    Caps out;
    out.inline_data = 0;
    return out;
}

[[noreturn]] void serve(const Args& args) {
    Endpoint end(caps());
    end.await_request(args);
    std::vector<size_t> lengths;
    if (!args.has("lists"))
        lengths.push_back(early);
    for (const size_t part : parts)
        lengths.push_back(2 * part);
    if (!args.has("lists"))
        lengths.insert(lengths.end(), unpolled, 1);
    Memory memory(end, lengths.size() * message, IBV_ACCESS_LOCAL_WRITE);
    for (size_t n = 0; n < lengths.size(); n++)
        if (end.post_recv(n, {memory.sge(n * message, message)}))
            fail("ibv_post_recv");
    end.accept();
    unsigned intact = 0;
    for (size_t n = 0; n < lengths.size(); n++)
        intact +=
            end.expect(IBV_WC_RECV).byte_len == lengths[n] && memory.matches(seed, n * message, lengths[n]);
    // The client knows then that all its messages have arrived.
    if (end.post_send(send_wr(0)))
        fail("ibv_post_send");
    const bool disconnected = end.wait_disconnected(20000);
    Json()
        .add("messages", lengths.size())
        .add("intact", intact)
        .add("disconnected", disconnected)
        .finish(intact == lengths.size() && disconnected);
}

[[noreturn]] void ask(const Args& args) {
    const bool lists_only = args.has("lists");
    Endpoint end(caps());
    end.resolve(args);
    Memory memory(end, message, IBV_ACCESS_LOCAL_WRITE);
    memory.fill(seed);
    if (end.post_recv(0, {memory.sge(0, 1)})) // siw takes no receive without an SGE
        fail("ibv_post_recv");
    if (!lists_only && end.post_send(send_wr(early_id), {memory.sge(0, early)}))
        fail("ibv_post_send in INIT");
    if (!end.connect())
        fail("rdma_connect");
    for (const size_t part : parts)
        if (end.post_send(send_wr(list_id),
                          {memory.sge(40, 0), memory.sge(0, part), memory.sge(3, 0), memory.sge(part, part)}))
            fail("ibv_post_send of a list with empty SGEs");
    const auto next_sent = [&] {
        ibv_wc wc;
        const auto until = in_ms(20000);
        while (ibv_poll_cq(end.send_cq, 1, &wc) == 0)
            if (Clock::now() > until)
                fail("timeout waiting for a SEND");
        if (wc.status != IBV_WC_SUCCESS)
            fail("a SEND: %s", ibv_wc_status_str(wc.status));
        return wc.wr_id;
    };
    if (!lists_only && next_sent() != early_id)
        fail("the order of completions");
    for (size_t n = 0; n < std::size(parts); n++)
        if (next_sent() != list_id)
            fail("the order of completions");
    for (size_t n = 0; !lists_only && n < unpolled; n++)
        if (end.post_send(send_wr(unpolled_id), {memory.sge(0, 1)}))
            fail("ibv_post_send");
    ibv_wc wc;
    const auto until = in_ms(20000);
    while (ibv_poll_cq(end.recv_cq, 1, &wc) == 0)
        if (Clock::now() > until)
            fail("the server did not answer");
    if (lists_only) {
        rdma_disconnect(end.id);
        Json().finish(true);
    }

    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    const int moved = ibv_modify_qp(end.id->qp, &attr, IBV_QP_STATE);
    const bool disconnected = end.wait_disconnected(20000);
    rdma_destroy_qp(end.id);
    int left = 0;
    while (ibv_poll_cq(end.send_cq, 1, &wc) > 0)
        left++;
    Json()
        .add("to_sqd", moved)
        .add("disconnected", disconnected)
        .add("left", left)
        .finish(!moved && disconnected && !left);
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "[--lists]");
    args.server ? serve(args) : ask(args);
}
