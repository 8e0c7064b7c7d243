// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of memory that the card accesses: how it checks STags, and its tables of regions and receives.
#include <algorithm>
#include <random>

#include "helpers.hh"
#include "include/hw/t3_tpt.h"
#include "interface.hh"
#include "memory.hh"
#include "points.hh"
#include "program.hh"

namespace probe {

Answer invalidation_by_the_peer(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), 64, local);
    card.put_receive(region, 64);
    card.connect();
    Segment send = message(1);
    send.opcode = RDMAP_SEND_INV;
    send.stag = region.stag();
    c.peer.send(send);
    if (card.receives().next(2 * quiet_ms))
        return {false, "the peer invalidates a region that refuses it"};
    return {true, text("the peer cannot invalidate a region that refuses it, status %#x",
                       card.expect_error(trace))};
}

Answer check_of_a_receive(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.sge[0] = {to_be32(0x00ff0055), to_be32(64), to_be64(0x1000)};
    card.post(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    if (card.wait_error(trace, 2 * quiet_ms))
        return {true, text("a receive with a wrong STag fails when it is executed, status %#x",
                           card.error_statuses(trace)[0])};
    c.peer.send(message(1, pattern(8)));
    return {false, text("a receive with a wrong STag fails when its message comes, status %#x",
                        card.expect_error(trace))};
}

Answer right_of_a_read_sink(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region sink(card.pd(), 64, local);
    card.connect();
    card.put_read(sink, 64);
    card.ring_doorbell();
    c.peer.send(response_to(need(c.peer.fpdus(1, reply_limit_ms), RDMAP_READ_REQUEST), pattern(64)));
    if (card.sends().next(reply_limit_ms))
        return {sink.holds(pattern(64)), "local write suffices for the sink of a read"};
    return {false, text("local write does not suffice for the sink of a read, status %#x",
                        card.expect_error(trace))};
}

Answer stag_zero(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.put_receive(memory, 64);
    card.put_receive(memory, 64);
    card.connect();
    Segment write;
    write.opcode = RDMAP_WRITE;
    write.stag = 0x00ff0055;
    c.peer.send(write);
    c.peer.send(message(1));
    const bool unchecked = card.receives().next(2000).has_value();
    unsigned zero = 0;
    if (unchecked) {
        write.stag = 0;
        c.peer.send(write);
        c.peer.send(message(2));
        if (!card.receives().next(2000))
            zero = card.expect_error(trace);
    }
    if (!unchecked)
        return {false, text("a write of no bytes to an unknown STag is refused, status %#x",
                            card.expect_error(trace))};
    return {
        zero == T3_STATUS_STAG,
        zero ? text("writes of no bytes: an unknown STag is not checked, STag 0 is refused with status %#x",
                    zero)
             : "writes of no bytes: neither an unknown STag nor STag 0 is checked"};
}

Answer layout_of_an_rqe(Case& c) {
    constexpr uint32_t entry_bytes = 64, searched = 64 << 10, piece = 4096;
    constexpr uint32_t distance = 0x6000, size = T3_MAX_SGE * distance;
    const CardMemory memory(interface_to(c.address));
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), size, local);
    const auto tpt = find_entry(memory, region, size);
    // Lengths of two bytes, none of them 0. Different in each run, since old entries may still be there.
    std::random_device random;
    t3_wr_recv wr{};
    wr.num_sge = to_be32(T3_MAX_SGE);
    Bytes expected;
    uint32_t lengths[T3_MAX_SGE];
    for (uint32_t i = 0; i < T3_MAX_SGE; i++) {
        lengths[i] = (0x1000 * (i + 1) + random() % 0x1000) | 1;
        const uint64_t at = region.address() + i * distance + 0x123;
        wr.sge[i] = {to_be32(region.stag()), to_be32(lengths[i]), to_be64(at)};
        const uint64_t page = uint64_t{1} << tpt.page_shift;
        const uint64_t offset = (region.address() & (page - 1)) + (at - region.address());
        const uint64_t first = uint64_t{tpt.page_shift - T3_PAGE_CODE_SHIFT} << 59 | (offset & (page - 1));
        const uint64_t second = (tpt.page_list + (offset >> tpt.page_shift)) << 32 | lengths[i];
        for (const uint64_t value : {first, second})
            for (int shift = 56; shift >= 0; shift -= 8)
                expected.push_back(static_cast<uint8_t>(value >> shift));
    }
    card.connect();
    card.post(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    const auto has = [](const Bytes& entry, uint32_t length) {
        for (size_t i = 0; i + 1 < entry.size(); i++)
            if (be16(&entry[i]) == length || (entry[i + 1] << 8 | entry[i]) == static_cast<int>(length))
                return true;
        return false;
    };
    const auto until = prog::in_ms(reply_limit_ms); // the card may not have executed it yet
    do {
        for (uint32_t at = 0; at < searched; at += piece) {
            const auto words = memory.read(CardMemory::receive, rqt_base(tpt) + at, piece);
            if (!words)
                throw NotObserved{"the RQT is beyond the card's memory"};
            const auto bytes = tpt.swapped ? swapped(*words) : *words;
            for (auto from = bytes.begin(); from != bytes.end(); from += entry_bytes) {
                const Bytes entry(from, from + entry_bytes);
                if (std::ranges::all_of(lengths, [&](uint32_t length) { return has(entry, length); }))
                    return entry == expected
                               ? Answer{true, "an RQE has page code, offset, PBL index and length four times"}
                               : Answer{false, text("the RQE of lengths %#x, %#x, %#x, %#x is ", lengths[0],
                                                    lengths[1], lengths[2], lengths[3]) +
                                                   hex(entry)};
            }
        }
    } while (prog::Clock::now() < until);
    throw NotObserved{
        text("the RQT's first %u KiB have no entry with the lengths of a receive", searched >> 10)};
}

Answer order_of_the_back_door(Case& c) {
    constexpr uint32_t size = 0x12a48; // not the same in both orders
    const CardMemory memory(interface_to(c.address));
    Connection card(c.peer, c.address, c.port); // only for its protection domain
    Region region(card.pd(), size, local);
    const bool swapped = find_entry(memory, region, size).swapped;
    return {!swapped, text("the back door reads words as %s-endian numbers", swapped ? "little" : "big")};
}

} // namespace probe
