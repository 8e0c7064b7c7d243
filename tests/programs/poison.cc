// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The card does not access flushed buffers: the server moves its QP to ERR during traffic, at once or after a
// disconnect (--how=error or disconnect), overwrites each buffer as soon as its completion is polled, and
// checks all of them at the end. Meanwhile the peer keeps sending and the server keeps reading from it. It
// succeeds if no byte of an overwritten buffer changes and the peer receives none of them.
#include "program.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <thread>

using namespace prog;

namespace {

constexpr uint8_t from_peer = 0x11, read_from_peer = 0x22, from_server = 0x33, poison = 0xee;
constexpr size_t small = 4096, large = 16384, read_size = 65536;
constexpr unsigned receives = 32, sends = 24, reads = 4, credit = 24;

enum Kind : uint64_t { receive, send, read };

// Buffers of one kind, one for each request that can be outstanding.
struct Buffers {
    Buffers(Endpoint& end, Kind kind, unsigned count, size_t size, uint8_t fill)
        : kind(kind), size(size), memory(end, count * size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
          out(count), poisoned(count) {
        std::fill(memory.bytes.begin(), memory.bytes.end(), fill);
    }
    uint64_t wr_id(size_t i) const { return kind << 32 | i; }
    ibv_sge sge(size_t i) const { return memory.sge(i * size, size); }
    uint8_t* at(size_t i) { return memory.bytes.data() + i * size; }
    size_t outstanding() const { return static_cast<size_t>(std::count(out.begin(), out.end(), true)); }
    std::optional<size_t> idle() const {
        const auto it = std::find(out.begin(), out.end(), false);
        return it == out.end() ? std::nullopt : std::optional(static_cast<size_t>(it - out.begin()));
    }
    void overwrite(size_t i) {
        std::memset(at(i), poison, size);
        poisoned[i] = true;
    }
    size_t changed() {
        size_t n = 0;
        for (size_t i = 0; i < poisoned.size(); i++)
            n += poisoned[i] && std::any_of(at(i), at(i) + size, [](uint8_t b) { return b != poison; });
        return n;
    }

    const Kind kind;
    const size_t size;
    Memory memory;
    std::vector<bool> out, poisoned;
};

bool post_receive(Endpoint& end, Buffers& b, size_t i) {
    if (end.post_recv(b.wr_id(i), {b.sge(i)}))
        return false;
    return b.out[i] = true;
}

bool post_send(Endpoint& end, Buffers& b, size_t i) {
    ibv_send_wr wr{};
    wr.wr_id = b.wr_id(i);
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (end.post_send(wr, {b.sge(i)}))
        return false;
    return b.out[i] = true;
}

bool post_read(Endpoint& end, Buffers& b, size_t i, const Target& target) {
    ibv_send_wr wr{};
    wr.wr_id = b.wr_id(i);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = target.addr;
    wr.wr.rdma.rkey = target.rkey;
    if (end.post_send(wr, {b.sge(i)}))
        return false;
    return b.out[i] = true;
}

void fail_to_error(Endpoint& end) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    if (ibv_modify_qp(end.id->qp, &attr, IBV_QP_STATE))
        fail("ibv_modify_qp to ERR failed");
}

void serve(const Args& args, const Caps& caps) {
    const bool disconnect = args.value("how", "error") == "disconnect";
    const int enough = args.number("messages", 100);
    Endpoint end(caps);
    end.await_request(args);
    const Target target = read_target(end.peer_data);
    Buffers in(end, receive, receives, small, 0), out(end, send, sends, large, from_server),
        sink(end, read, reads, read_size, 0);
    for (unsigned i = 0; i < receives; i++)
        post_receive(end, in, i);
    end.accept();

    int got = 0;
    auto until = in_ms(30000);
    unsigned pending_replies = 0;
    for (bool first = true; got < enough; first = false) {
        for (unsigned i = 0; first && i < reads; i++)
            post_read(end, sink, i, target);
        const auto wc = end.next_completion(until);
        if (!wc || wc->status != IBV_WC_SUCCESS)
            fail("%s before the end", wc ? ibv_wc_status_str(wc->status) : "no completion");
        const size_t i = wc->wr_id & 0xffffffff;
        switch (wc->wr_id >> 32) {
        case receive:
            got++;
            pending_replies++;
            in.out[i] = false;
            post_receive(end, in, i);
            break;
        case send:
            out.out[i] = false;
            break;
        case read:
            sink.out[i] = false;
            post_read(end, sink, i, target);
        }
        for (auto free = out.idle(); pending_replies && free; free = out.idle()) {
            post_send(end, out, *free);
            pending_replies--;
        }
    }
    // Requests of all kinds, so that some are flushed.
    for (auto free = out.idle(); free; free = out.idle())
        if (!post_send(end, out, *free))
            break;
    if (disconnect)
        rdma_disconnect(end.id);
    fail_to_error(end);

    until = in_ms(30000);
    size_t flushed = 0;
    while (in.outstanding() + out.outstanding() + sink.outstanding()) {
        const auto wc = end.next_completion(until);
        if (!wc)
            break;
        Buffers& b = wc->wr_id >> 32 == receive ? in : wc->wr_id >> 32 == send ? out : sink;
        const size_t i = wc->wr_id & 0xffffffff;
        flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
        b.out[i] = false;
        b.overwrite(i);
    }
    const size_t lost = in.outstanding() + out.outstanding() + sink.outstanding();
    const bool gone = end.wait_disconnected(20000);
    std::this_thread::sleep_for(std::chrono::milliseconds(500)); // for late accesses
    const size_t changed = in.changed() + sink.changed();
    Json()
        .add("got", got)
        .add("flushed", flushed)
        .add("lost", lost)
        .add("changed_receives", in.changed())
        .add("changed_sinks", sink.changed())
        .add("disconnected", gone)
        .finish(!lost && !changed && gone && flushed > 0);
}

void connect(const Args& args, const Caps& caps) {
    Endpoint end(caps);
    end.resolve(args);
    Memory source(end, read_size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    std::fill(source.bytes.begin(), source.bytes.end(), read_from_peer);
    Buffers in(end, receive, 64, large, 0), out(end, send, sends, small, from_peer);
    for (unsigned i = 0; i < 64; i++)
        post_receive(end, in, i);
    const Target target = source.target();
    if (!end.connect(&target, sizeof(target)))
        fail("rejected");
    for (unsigned i = 0; i < credit; i++)
        post_send(end, out, i);
    size_t got = 0, leaked = 0;
    unsigned pending_replies = 0;
    const auto until = in_ms(40000);
    for (;;) {
        const auto wc = end.next_completion(until);
        if (!wc)
            fail("the connection does not end");
        if (wc->status != IBV_WC_SUCCESS)
            break;
        const size_t i = wc->wr_id & 0xffffffff;
        if (wc->wr_id >> 32 == send) {
            out.out[i] = false;
        } else {
            got++;
            pending_replies++;
            leaked += std::any_of(in.at(i), in.at(i) + wc->byte_len, [](uint8_t b) { return b == poison; });
            in.out[i] = false;
            post_receive(end, in, i);
        }
        for (auto free = out.idle(); pending_replies && free; free = out.idle()) {
            post_send(end, out, *free);
            pending_replies--;
        }
    }
    const bool gone = end.wait_disconnected(20000);
    Json().add("got", got).add("leaked", leaked).add("disconnected", gone).finish(!leaked && gone);
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--how=error|disconnect [--messages=N]");
    Caps caps;
    caps.recv_wr = 64;
    caps.send_wr = 32;
    if (args.server)
        serve(args, caps);
    connect(args, caps);
}
