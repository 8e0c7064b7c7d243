// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of connections: how they begin and end, and their state in the card.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "helpers.hh"
#include "include/hw/t3_cpl.h"
#include "interface.hh"
#include "memory.hh"
#include "points.hh"
#include "program.hh"

namespace probe {

Answer acknowledgement_of_init(Case& c) {
    size_t acks[2];
    for (const bool receives : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        Region memory(card.pd(), 64, local);
        if (receives)
            card.post_receive(memory, 64);
        card.connect();
        acks[receives] = arrivals(trace, T3_CPL_TX_DMA_ACK);
        c.peer.reset();
    }
    return {acks[0] == 1 && acks[1] == 2,
            text("acknowledgements of the MPA request and of RDMA_INIT: %zu without receives, %zu with one",
                 acks[0], acks[1])};
}

Answer acknowledgement_of_others(Case& c) {
    Trace trace;
    Case::Options options;
    options.ready_message = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    c.peer.send(response_to(need(c.peer.fpdus(1, reply_limit_ms), RDMAP_READ_REQUEST)));
    const size_t after_read = arrivals(trace, T3_CPL_TX_DMA_ACK);
    c.peer.send(message(7)); // the driver sends a TERMINATE
    need(c.peer.fpdus(1, reply_limit_ms), RDMAP_TERMINATE);
    const size_t after_terminate = arrivals(trace, T3_CPL_TX_DMA_ACK);
    return {after_read == 1 && after_terminate == 1,
            text("acknowledgements for the ready-to-receive read: %zu, for TERMINATE: %zu", after_read - 1,
                 after_terminate - after_read)};
}

Answer hold_of_the_responder(Case& c) {
    Case::Options options;
    options.passive = true;
    Connection card(c.peer, c.address, c.port, options);
    card.accept();
    card.post_send(nullptr, 0);
    const bool early = !c.peer.fpdus(1, quiet_ms).empty();
    c.peer.send(empty_read(1));
    const auto later = c.peer.fpdus(early ? 1 : 2, reply_limit_ms);
    need(later, RDMAP_READ_RESPONSE);
    if (!early)
        need(later, RDMAP_SEND);
    return {!early, early ? "a responder sends before the ready-to-receive message"
                          : "a responder's sends wait for the ready-to-receive message"};
}

Answer length_of_terminate(Case& c) {
    constexpr unsigned body = 20;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.send(terminate(body));
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(T3_CPL_RDMA_TERMINATE)};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"no RDMA_TERMINATE came"};
    const unsigned flits = number_after(trace.with(words)[0], "flits ");
    return {flits == (8 + body + 7) / 8, text("RDMA_TERMINATE with %u bytes counts %u flits", body, flits)};
}

Answer end_in_an_fpdu(Case& c) {
    size_t reports[2];
    for (const bool cut : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        card.connect();
        if (cut) {
            auto part = fpdu(message(1, pattern(40)));
            part.resize(20);
            c.peer.send(part);
        }
        c.peer.shut();
        if (!trace.wait({"t3_cpl_arrival: ", arrival(T3_CPL_PEER_CLOSE)}, reply_limit_ms))
            throw NotObserved{"no PEER_CLOSE came"};
        reports[cut] = arrivals(trace, T3_CPL_RDMA_EC_STATUS);
    }
    return {reports[0] == 0 && reports[1] == 1,
            text("RDMA_EC_STATUS after a clean close: %zu, after a FIN inside an FPDU: %zu", reports[0],
                 reports[1])};
}

Answer ring_at_the_close(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    for (int i = 0; i < 3; i++)
        card.put_send(nullptr, 0); // without a doorbell, so that only the close makes the card look
    card.disconnect();
    size_t sent = 0;
    for (const auto& segment : c.peer.fpdus(3, reply_limit_ms))
        sent += segment.opcode == RDMAP_SEND;
    return {sent == 3, text("%zu of 3 requests that were in the ring at the close were executed", sent)};
}

Answer copies_of_an_abort(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.reset();
    if (!trace.wait({"t3_cpl_arrival: ", arrival(T3_CPL_ABORT_REQ_RSS)}, reply_limit_ms))
        throw NotObserved{"no ABORT_REQ_RSS came"};
    const size_t copies = arrivals(trace, T3_CPL_ABORT_REQ_RSS);
    return c.report({copies == 2, text("ABORT_REQ_RSS comes %zu times", copies)});
}

Answer negative_advice(Case& c) {
    // cxgb3 programs four retransmissions before an advice; two more, to be sure.
    constexpr unsigned enough = 1 + 4 + 2;
    constexpr int unanswered_ms = 22000; // below probe_limit_s, with the rest
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.post_receive(memory, 64);
    c.peer.ignore_segments(true);
    const unsigned before = c.peer.info().dropped;
    card.post_send(nullptr, 0);
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(T3_CPL_ABORT_REQ_RSS)};
    const auto until = prog::in_ms(unanswered_ms);
    unsigned copies = 0;
    bool came = false;
    do {
        came = trace.wait(words, quiet_ms);
        copies = c.peer.info().dropped - before;
    } while (!came && copies < enough && prog::Clock::now() < until);
    c.peer.ignore_segments(false);
    if (!came && copies < enough)
        throw NotObserved{
            text("the card sent a message only %u times in %d s", copies, unanswered_ms / 1000)};
    if (!came)
        return {true, text("no negative advice comes although a message was sent %u times", copies)};
    // An abort is the same message, but ends the connection.
    c.peer.send(message(1, pattern(8)));
    if (!card.receives().next(3000))
        throw NotObserved{text("the connection was aborted after a message was sent %u times", copies)};
    return {false, text("a negative advice comes after a message was sent %u times", copies)};
}

Answer number_of_a_state(Case& c) {
    constexpr unsigned modelled = 3; // of ESTABLISHED
    const CardMemory memory(interface_to(c.address));
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const unsigned state = TcbEntry(memory, tid_in(trace), card.id()).field(0, 0, 4); // T_STATE
    return {state == modelled, text("T_STATE of an established connection is %u", state)};
}

Answer reuse_of_tids(Case& c) {
    constexpr size_t connections = 6;
    std::vector<unsigned> tids;
    for (size_t i = 0; i < connections; i++) {
        Trace trace;
        {
            Connection card(c.peer, c.address, c.port);
            card.connect();
            tids.push_back(tid_in(trace));
            c.peer.reset();
            arrivals(trace, T3_CPL_ABORT_REQ_RSS);
        }
    }
    const size_t distinct = std::set(tids.begin(), tids.end()).size();
    return {distinct == connections,
            text("%zu connections, one after the other, have %zu TIDs", connections, distinct)};
}

Answer order_of_terminate(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.send(terminate(4));
    const std::vector<std::string> event{"t3_async_event: ", text(" qp %u RQ opcode 7 ", card.qp())};
    const std::vector<std::string> message{"t3_cpl_arrival: ", arrival(T3_CPL_RDMA_TERMINATE)};
    if (!trace.wait(event, reply_limit_ms) || !trace.wait(message, reply_limit_ms))
        throw NotObserved{"not both of RDMA_TERMINATE and its event came"};
    const auto lines = trace.with({""});
    const auto place = [&](const std::vector<std::string>& words) {
        return std::ranges::find(lines, trace.with(words).front()) - lines.begin();
    };
    const bool first = place(message) < place(event);
    return {first, first ? "RDMA_TERMINATE comes before its async event"
                         : "RDMA_TERMINATE comes after its async event"};
}

} // namespace probe
