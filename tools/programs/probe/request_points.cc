// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of work requests: doorbells, when requests are executed, and requests that no driver makes.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "helpers.hh"
#include "interface.hh"
#include "memory.hh"
#include "points.hh"

namespace probe {

Answer doorbell_page(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const auto rings = [&](uint32_t add, size_t offset) {
        card.put_send(nullptr, 0);
        card.ring_doorbell(add, offset);
        const bool seen = !c.peer.fpdus(1, 2 * quiet_ms).empty();
        if (!seen) { // execute it, for the next one
            card.ring_doorbell();
            c.peer.fpdus(1, reply_limit_ms);
        }
        return seen;
    };
    if (!rings(0, 0))
        throw NotObserved{"the usual doorbell has no effect"};
    const bool offset = rings(0, 64);
    const bool value = rings(1 << 16, 0); // the same id in the page, in no page that exists
    std::ifstream resources(std::string(card.id()->verbs->device->ibdev_path) + "/device/resource");
    std::string line;
    unsigned long long from = 0, to = 0;
    for (int bar = 0; bar <= 2 && std::getline(resources, line); bar++)
        std::sscanf(line.c_str(), "%llx %llx", &from, &to);
    const unsigned long long size = to ? to - from + 1 : 0;
    return {offset && value && size == 8 << 20,
            text("BAR2 has %llu KiB; a doorbell at offset 64 of its page %s; a value of another page %s",
                 size >> 10, offset ? "works" : "is ignored",
                 value ? "counts modulo the page's ids" : "is ignored")};
}

Answer receive_behind_a_send(Case& c) {
    Trace trace;
    Case::Options options;
    options.reads = 1;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.put_read(memory, 16);
    card.put_read(memory, 16); // waits: ORD is 1
    card.put_receive(memory, 64);
    card.ring_doorbell();
    const auto sent = c.peer.fpdus(2, quiet_ms);
    need(sent, RDMAP_READ_REQUEST);
    if (sent.size() > 1)
        throw NotObserved{"the card sends more reads than ORD"};
    c.peer.send(message(1, pattern(8)));
    if (card.receives().next(2000))
        return {false, "a receive is executed although a read in front of it waits"};
    return {card.expect_error(trace) == T3_STATUS_NO_RECV, "receives wait after a read that waits"};
}

Answer completion_and_fence_of_reads(Case& c) {
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.put_read(memory, 16, T3_WR_F_COMPLETION);
    card.put_read(memory, 16, T3_WR_F_READ_FENCE);
    card.ring_doorbell();
    auto sent = c.peer.fpdus(2, quiet_ms);
    const bool fenced = sent.size() == 1;
    c.peer.send(response_to(need(sent, RDMAP_READ_REQUEST), pattern(16)));
    need(card.sends().next(reply_limit_ms), "a read");
    if (fenced)
        sent = c.peer.fpdus(1, reply_limit_ms);
    c.peer.send(response_to(sent.back(), pattern(16)));
    need(card.sends().next(reply_limit_ms), "a read");
    const bool more = card.sends().next(quiet_ms).has_value();
    return {fenced && !more,
            text("a read fence %s; the completion flag of a read %s", fenced ? "is honoured" : "is ignored",
                 more ? "gives a second entry" : "is ignored")};
}

Answer requests_before_init(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.post_send(nullptr, 0);
    card.connect();
    const bool sent = !c.peer.fpdus(1, 2 * quiet_ms).empty();
    return {sent, sent ? "requests from before RDMA_INIT are executed after it"
                       : "requests from before RDMA_INIT need another doorbell"};
}

Answer two_slots(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    t3_wr_send wr{};
    wr.rdma_op = T3_RDMA_SEND;
    card.put(&wr, 4, T3_WR_OP_SEND, T3_WR_F_COMPLETION, T3_WR_SOP);
    card.ring_doorbell();
    if (const auto sent = c.peer.fpdus(1, quiet_ms); !sent.empty() && sent[0].opcode == RDMAP_SEND)
        return {false, "a request without the end mark is executed"};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL, text("a request without the end mark has status %#x", status)};
}

Answer long_inline(Case& c) {
    constexpr uint32_t length = 72;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    uint8_t slot[T3_WR_SLOT_BYTES] = {};
    t3_wr_send wr{};
    wr.rdma_op = T3_RDMA_SEND;
    wr.plen = to_be32(length);
    std::memcpy(slot, &wr, sizeof(wr));
    std::memset(slot + 32, 0x55, length);
    card.put(slot, 4 + length / 8, T3_WR_OP_SEND, T3_WR_F_COMPLETION);
    card.ring_doorbell();
    if (const auto sent = c.peer.fpdus(1, 2 * quiet_ms); !sent.empty() && sent[0].opcode == RDMAP_SEND)
        return {false, text("%u bytes of inline data are sent as %zu", length, sent[0].payload.size())};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL, text("%u bytes of inline data have status %#x", length, status)};
}

// Zeroes for entry 0 of the TPT, which is always zero.
Answer memory_write_in_a_ring(Case& c) {
    constexpr uint32_t size = 0x12a48;
    const CardMemory memory(interface_to(c.address));
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), size, local);
    const auto tpt = find_entry(memory, region, size);
    card.connect();
    t3_wr_bypass wr{};
    wr.cmd_addr = to_be32(T3_MEM_CMD_WRITE << 28 | tpt.base / T3_MEM_UNIT);
    wr.cmd_len = to_be32(1U << 28 | 5);
    card.post(&wr, 7, T3_WR_OP_BYPASS, T3_WR_F_COMPLETION);
    if (card.sends().next(2 * quiet_ms))
        return {false, "a memory write in the ring of a queue pair is executed"};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL,
            text("a memory write in the ring of a queue pair has status %#x", status)};
}

} // namespace probe
