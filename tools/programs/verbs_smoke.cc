// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// One connection, every kind of work request, one check after the other. The server has a window of memory
// that the client writes and reads, and replies to each message with its length, checksum and invalidated
// key.
#include "program.hh"

#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>

using namespace prog;

namespace {

constexpr size_t window = 64 * 1024;

struct Answer {
    uint32_t bytes;
    uint32_t sum;
    uint32_t invalidated; // rkey, or 0
    uint32_t rkey;        // of a new window or region for the next send with invalidate
};

uint32_t checksum(const uint8_t* data, size_t n) {
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++)
        s = s * 31 + data[i];
    return s;
}

Caps caps(const Args& args) {
    Caps caps;
    caps.extended = args.has("extended");
    return caps;
}

int serve(const Args& args) {
    Endpoint end(caps(args));
    end.await_request(args);
    Memory memory(end, window, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    Memory inbox(end, 8 * 8192, IBV_ACCESS_LOCAL_WRITE);
    Memory outbox(end, sizeof(Answer), IBV_ACCESS_LOCAL_WRITE);
    Memory victim(end, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    memory.fill(5);
    // Receives with four SGEs each.
    auto post = [&](uint64_t slot) {
        const size_t at = slot * 8192;
        if (end.post_recv(slot, {inbox.sge(at, 1), inbox.sge(at + 1, 31), inbox.sge(at + 32, 4064),
                                 inbox.sge(at + 4096, 4096)}))
            fail("ibv_post_recv");
    };
    for (uint64_t i = 0; i < 8; i++)
        post(i);
    const Target target = memory.target();
    end.accept(&target, sizeof(target));
    unsigned served = 0;
    std::optional<ibv_wc> early; // the next message may complete before the last reply
    for (;; served++) {
        const auto wc = early ? std::exchange(early, std::nullopt) : end.next_completion(in_ms(20000));
        if (!wc)
            fail("no completion for 20 s after %u messages", served);
        if (wc->status == IBV_WC_WR_FLUSH_ERR)
            break;
        if (wc->status != IBV_WC_SUCCESS)
            fail("receive: %s", ibv_wc_status_str(wc->status));
        const Answer a{wc->byte_len, checksum(&inbox.bytes[wc->wr_id * 8192], wc->byte_len),
                       wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0, victim.mr->rkey};
        std::memcpy(outbox.bytes.data(), &a, sizeof(a));
        post(wc->wr_id);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (end.post_send(wr, {outbox.sge(0, sizeof(a))}))
            break;
        auto sent = end.next_completion(in_ms(10000));
        if (sent && sent->status == IBV_WC_SUCCESS && sent->opcode == IBV_WC_RECV) {
            early = sent;
            sent = end.next_completion(in_ms(10000));
        }
        if (!sent || sent->status != IBV_WC_SUCCESS || sent->opcode != IBV_WC_SEND)
            break;
    }
    Json().add("served", served).add("disconnected", end.wait_disconnected(20000)).finish(served > 0);
}

class Client {
public:
    explicit Client(const Args& args) : end(caps(args)) {
        end.resolve(args);
        local = std::make_unique<Memory>(end, window, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        answer = std::make_unique<Memory>(end, sizeof(Answer), IBV_ACCESS_LOCAL_WRITE);
        back = std::make_unique<Memory>(end, window, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        local->fill(1);
        post_answer();
        if (!end.connect())
            fail("rejected");
        target = read_target(end.peer_data);
    }

    void check(bool good, const std::string& what) {
        checks++;
        if (!good)
            failed.push_back(what);
    }

    void post_answer() {
        if (end.post_recv(100, {answer->sge(0, sizeof(Answer))}))
            fail("ibv_post_recv");
    }

    ibv_send_wr wr(ibv_wr_opcode op, unsigned flags = IBV_SEND_SIGNALED) {
        ibv_send_wr w{};
        w.opcode = op;
        w.wr_id = ++next_id;
        w.send_flags = flags;
        return w;
    }
    ibv_send_wr remote(ibv_wr_opcode op, uint64_t offset, unsigned flags = IBV_SEND_SIGNALED) {
        ibv_send_wr w = wr(op, flags);
        w.wr.rdma.remote_addr = target.addr + offset;
        w.wr.rdma.rkey = target.rkey;
        return w;
    }
    void post(const ibv_send_wr& w, const std::vector<ibv_sge>& sg, const char* what) {
        if (const int err = end.post_send(w, sg))
            fail("%s: ibv_post_send: %s", what, std::strerror(err));
    }
    void done(ibv_wc_opcode op, uint64_t id, const char* what) {
        const ibv_wc wc = end.expect(op);
        check(wc.wr_id == id, std::string(what) + ": wr_id");
    }

    // Sends the SGEs and compares the reply with their content.
    Answer send(ibv_send_wr w, const std::vector<ibv_sge>& sg, const std::string& what) {
        std::vector<uint8_t> flat;
        for (const auto& s : sg) {
            const auto* p = reinterpret_cast<const uint8_t*>(s.addr);
            flat.insert(flat.end(), p, p + s.length);
        }
        post(w, sg, what.c_str());
        std::optional<ibv_wc> got;
        for (int i = 0; i < 2; i++) { // own completion and reply, in either order
            const auto wc = end.next_completion(in_ms(10000));
            if (!wc || wc->status != IBV_WC_SUCCESS)
                fail("%s: %s", what.c_str(), wc ? ibv_wc_status_str(wc->status) : "timeout");
            if (wc->opcode == IBV_WC_RECV)
                got = wc;
            else
                check(wc->opcode == IBV_WC_SEND && wc->wr_id == w.wr_id, what + ": send completion");
        }
        if (!got)
            fail("%s: no reply", what.c_str());
        Answer a;
        std::memcpy(&a, answer->bytes.data(), sizeof(a));
        check(got->byte_len == sizeof(a), what + ": length of the answer");
        check(a.bytes == flat.size(), what + ": length " + std::to_string(a.bytes));
        check(a.sum == checksum(flat.data(), flat.size()), what + ": content");
        post_answer();
        return a;
    }

    // Reads `length` bytes of the server's window and compares them with the client's own at `from`.
    void read_back(size_t offset, size_t length, size_t from, const std::string& what) {
        std::fill(back->bytes.begin(), back->bytes.end(), uint8_t{0});
        const ibv_send_wr w = remote(IBV_WR_RDMA_READ, offset);
        post(w, {back->sge(0, length)}, what.c_str());
        const ibv_wc wc = end.expect(IBV_WC_RDMA_READ);
        check(wc.byte_len == length, what + ": byte_len");
        check(std::memcmp(back->bytes.data(), &local->bytes[from], length) == 0, what + ": content");
        check(back->bytes[length] == 0, what + ": nothing beyond");
    }

    Endpoint end;
    std::unique_ptr<Memory> local, answer, back;
    Target target{};
    uint64_t next_id = 0;
    unsigned checks = 0;
    std::vector<std::string> failed;
};

void check_sends(Client& c) {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{64}, size_t{1000}, size_t{8192}})
        c.send(c.wr(IBV_WR_SEND), n ? std::vector{c.local->sge(3, n)} : std::vector<ibv_sge>{},
               "send of " + std::to_string(n));
    c.send(c.wr(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), {c.local->sge(0, 5)}, "solicited send");
    c.send(c.wr(IBV_WR_SEND),
           {c.local->sge(0, 1), c.local->sge(4090, 100), c.local->sge(7, 0), c.local->sge(9, 33)},
           "send of four SGEs");
    for (size_t n = 0; n <= c.end.caps.inline_data && n <= 64; n++)
        c.send(c.wr(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE), {c.local->sge(11, n)},
               "inline send of " + std::to_string(n));
    c.check(c.end.post_send(c.wr(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
                            {c.local->sge(0, c.end.caps.inline_data + 1)}) != 0,
            "inline beyond the limit is refused");
}

void check_writes(Client& c) {
    for (const size_t n : {size_t{1}, size_t{41}, size_t{1460}, size_t{20000}}) {
        const ibv_send_wr w = c.remote(IBV_WR_RDMA_WRITE, 100);
        c.post(w, {c.local->sge(5, n)}, "write");
        c.done(IBV_WC_RDMA_WRITE, w.wr_id, "write");
        c.read_back(100, n, 5, "write of " + std::to_string(n));
    }
    ibv_send_wr w = c.remote(IBV_WR_RDMA_WRITE, 200, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    c.post(w, {c.local->sge(30, 20), c.local->sge(50, 17)}, "inline write");
    c.done(IBV_WC_RDMA_WRITE, w.wr_id, "inline write");
    c.read_back(200, 37, 30, "inline write");

    w = c.remote(IBV_WR_RDMA_WRITE, 0);
    w.wr.rdma.rkey = 0; // ignored
    c.post(w, {}, "zero-length write");
    c.done(IBV_WC_RDMA_WRITE, w.wr_id, "zero-length write");
    w = c.remote(IBV_WR_RDMA_READ, 0);
    w.wr.rdma.rkey = 0;
    c.post(w, {}, "zero-length read");
    c.check(c.end.expect(IBV_WC_RDMA_READ).byte_len == 0, "zero-length read: byte_len");
}

// Reads have CQEs without a work request id; order and lengths of completions must be right.
void check_order(Client& c) {
    std::vector<uint64_t> want;
    for (int i = 0; i < 4; i++) {
        ibv_send_wr w = c.remote(IBV_WR_RDMA_READ, 0);
        c.post(w, {c.back->sge(static_cast<size_t>(i) * 1000, 900 + static_cast<size_t>(i))}, "read");
        want.push_back(w.wr_id);
        w = c.remote(IBV_WR_RDMA_WRITE, 30000, 0);
        c.post(w, {c.local->sge(0, 10)}, "unsignaled write");
        w = c.remote(IBV_WR_RDMA_WRITE, 30000, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
        c.post(w, {c.local->sge(0, 10)}, "fenced write");
        want.push_back(w.wr_id);
    }
    for (size_t i = 0; i < want.size(); i++) {
        const auto wc = c.end.next_completion(in_ms(10000));
        if (!wc || wc->status != IBV_WC_SUCCESS)
            fail("reads and writes: %s", wc ? ibv_wc_status_str(wc->status) : "timeout");
        c.check(wc->wr_id == want[i], "order of reads and writes");
        c.check(i % 2 || wc->byte_len == 900 + i / 2, "byte_len of reads in a row");
    }
    // Long runs of unsignaled requests do not fill the queue.
    for (unsigned i = 0; i < 5 * c.end.caps.send_wr; i++) {
        const bool last = i % c.end.caps.send_wr == c.end.caps.send_wr - 1;
        const ibv_send_wr w = c.remote(IBV_WR_RDMA_WRITE, 40000, last ? IBV_SEND_SIGNALED : 0);
        c.post(w, {c.local->sge(0, 8)}, "unsignaled run");
        if (last)
            c.done(IBV_WC_RDMA_WRITE, w.wr_id, "unsignaled run");
    }
}

void check_refused(Client& c) {
    c.check(c.end.post_send(c.wr(IBV_WR_SEND_WITH_IMM), {c.local->sge(0, 4)}) == EOPNOTSUPP,
            "immediate data");
    c.check(c.end.post_send(c.remote(IBV_WR_ATOMIC_FETCH_AND_ADD, 0), {c.back->sge(0, 8)}) == EOPNOTSUPP,
            "atomic");
    c.check(c.end.post_send(c.wr(IBV_WR_SEND), std::vector<ibv_sge>(5, c.local->sge(0, 1))) == EINVAL,
            "five SGEs");
    c.check(c.end.post_send(c.remote(IBV_WR_RDMA_READ, 0), std::vector<ibv_sge>(2, c.back->sge(0, 1))) ==
                EINVAL,
            "read into two SGEs");
}

void check_queries(Client& c) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int err = ibv_query_qp(c.end.id->qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init);
    c.check(err == 0 && attr.qp_state == IBV_QPS_RTS, "query QP returns RTS");
    c.check(ibv_resize_cq(c.end.send_cq, 64) == EOPNOTSUPP, "resize CQ returns EOPNOTSUPP");
}

void check_window(Client& c, Json& out) {
    ibv_mw* mw = ibv_alloc_mw(c.end.pd, IBV_MW_TYPE_1);
    if (!mw) {
        out.add("memory_window", std::strerror(errno));
        return;
    }
    // In one piece of physical memory, if there is one: the binder has of the region's pages only that
    // they are of the usual size, so the driver may not make it of larger ones.
    constexpr size_t huge = 2 << 20;
    auto* memory = static_cast<uint8_t*>(std::aligned_alloc(huge, huge));
    if (!memory)
        fail("no memory");
    madvise(memory, huge, MADV_HUGEPAGE);
    std::memset(memory, 1, huge);
    ibv_mr* mr = ibv_reg_mr(c.end.pd, memory, huge, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    c.check(mr != nullptr, "region for a window");
    if (mr) {
        ibv_mw_bind bind{};
        bind.wr_id = ++c.next_id;
        bind.send_flags = IBV_SEND_SIGNALED;
        bind.bind_info = {mr, reinterpret_cast<uintptr_t>(memory) + 5 * 4096 + 100, 10000,
                          IBV_ACCESS_REMOTE_READ};
        const int err = ibv_bind_mw(c.end.id->qp, mw, &bind);
        c.check(err == 0, "bind: " + std::string(std::strerror(err)));
        if (!err)
            c.done(IBV_WC_BIND_MW, bind.wr_id, "bind");
        out.add("memory_window", err ? "refused" : "bound");
    }
    c.check(ibv_dealloc_mw(mw) == 0, "window freed");
    if (mr)
        c.check(ibv_dereg_mr(mr) == 0, "region of the window freed");
    std::free(memory);
}

// Last, since it takes a region away from the server, or the connection: a T3 refuses it.
void check_invalidate(Client& c, Json& out) {
    const Answer a = c.send(c.wr(IBV_WR_SEND), {c.local->sge(0, 1)}, "ask for a key");
    ibv_send_wr w = c.wr(IBV_WR_SEND_WITH_INV);
    w.invalidate_rkey = a.rkey;
    c.post(w, {c.local->sge(0, 9)}, "send with invalidate");
    for (;;) {
        const auto wc = c.end.next_completion(in_ms(10000));
        if (!wc)
            fail("send with invalidate: neither a reply nor an error");
        if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_SEND)
            continue;
        if (wc->status == IBV_WC_SUCCESS) {
            Answer reply;
            std::memcpy(&reply, c.answer->bytes.data(), sizeof(reply));
            c.check(reply.invalidated == a.rkey, "the key is invalidated");
        }
        out.add("send_with_invalidate", wc->status == IBV_WC_SUCCESS ? "invalidated" : "refused");
        return;
    }
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "[--no-window] [--extended]");
    if (args.server)
        return serve(args);
    Client c(args);
    Json out;
    check_queries(c);
    check_refused(c);
    check_sends(c);
    check_writes(c);
    check_order(c);
    if (!args.has("no-window"))
        check_window(c, out);
    check_invalidate(c, out);
    rdma_disconnect(c.end.id);
    c.check(c.end.wait_disconnected(20000), "disconnected");
    out.add("checks", c.checks).add("failed", c.failed).finish(c.failed.empty());
}
