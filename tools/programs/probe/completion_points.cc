// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of completion queues and events: what the card reports of a request or an error.
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include "helpers.hh"
#include "points.hh"
#include "program.hh"

namespace probe {

Answer length_in_entries(Case& c) {
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, all_access);
    card.connect();
    card.post_send(&memory, 48);
    const auto sent = need(card.sends().next(reply_limit_ms), "a send");
    card.put_read(memory, 32);
    card.ring_doorbell();
    c.peer.send(response_to(need(c.peer.fpdus(2, reply_limit_ms), RDMAP_READ_REQUEST), pattern(32)));
    const auto read = need(card.sends().next(reply_limit_ms), "a read");
    return {sent.length == 0 && read.length == 0 && read.word3 == 0,
            text("length of the entry of a send of 48 bytes: %u, of a read of 32: %u, its MSN: %u",
                 sent.length, read.length, read.word3)};
}

namespace {

// A completion with an armed queue: the line of its async event.
std::string event_line(Trace& trace, Connection& card) {
    if (ibv_req_notify_cq(card.sends().cq(), 0))
        throw NotObserved{"ibv_req_notify_cq failed"};
    card.post_send(nullptr, 0);
    need(card.sends().next(reply_limit_ms), "a send");
    const std::vector<std::string> words{"t3_async_event: ", text(" qp %u ", card.qp())};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"an armed completion queue gave no event"};
    return trace.with(words).front();
}

} // namespace

Answer words_of_an_event(Case& c) {
    Trace trace;
    Case::Options options;
    options.events = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    const auto line = event_line(trace, card);
    const unsigned flags = number_after(line, "flags "), index = number_after(line, "index ");
    const bool expected = (flags & T3_AE_ASYNC) && (flags & T3_AE_GEN) &&
                          !(flags & (T3_AE_NOTIFY | T3_AE_SOLICITED | T3_AE_OVERFLOW));
    return {expected && index == 1,
            text("the event of a queue's first entry has the flags %#x and the index %u", flags, index)};
}

Answer full_completion_queue(Case& c) {
    constexpr unsigned requests = 48; // fit the ring of the queue pair
    Case::Options options;
    options.cqe = 8;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    for (unsigned i = 0; i < requests; i++)
        card.put_send(nullptr, 0);
    card.ring_doorbell();
    if (c.peer.fpdus(requests, reply_limit_ms).size() < requests)
        throw NotObserved{"the card did not execute all requests"};
    const auto& cq = card.sends();
    const auto until = prog::in_ms(quiet_ms);
    while (cq.generation(0) && prog::Clock::now() < until)
        usleep(1000);
    unsigned size = 0; // after the ring there are zeros
    while (size < requests && cq.at(size).header)
        size++;
    if (size == requests)
        throw NotObserved{text("a completion queue has %u entries at least", size)};
    const bool overwritten = !cq.generation(0);
    return {overwritten,
            text("of a completion queue of %u entries %s", size,
                 overwritten ? "the first ones are overwritten" : "the last ones are not written")};
}

Answer arming_with_an_entry(Case& c) {
    Trace trace;
    Case::Options options;
    options.events = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    const unsigned cq = number_after(event_line(trace, card), "cq ");
    const std::vector<std::string> words{"t3_async_event: ", text("cq %u ", cq)};
    card.post_send(nullptr, 0); // without arming: an entry, and no event
    need(card.sends().next(reply_limit_ms), "a send");
    const size_t before = trace.with(words).size();
    // The provider passes no second arming to the kernel before the program has read the event.
    pollfd readable{card.channel()->fd, POLLIN, 0};
    ibv_cq* cq_of_event = nullptr;
    void* context = nullptr;
    if (poll(&readable, 1, reply_limit_ms) != 1 || ibv_get_cq_event(card.channel(), &cq_of_event, &context))
        throw NotObserved{"the completion channel has no event"};
    ibv_ack_cq_events(cq_of_event, 1);
    if (ibv_req_notify_cq(card.sends().cq(), 0))
        throw NotObserved{"ibv_req_notify_cq failed"};
    const bool at_once = trace.wait(words, quiet_ms, before + 1);
    card.post_send(nullptr, 0);
    if (!trace.wait(words, reply_limit_ms, before + 1))
        throw NotObserved{"the second arming had no effect"};
    return {before == 1 && !at_once,
            before != 1 ? "an event disarms nothing: the next entry gave one too"
            : at_once   ? "arming with entries in the queue gives an event at once"
                        : "an event disarms the queue; arming with entries in it gives no event"};
}

Answer error_statuses(Case& c) {
    unsigned status[2];
    for (const bool too_long : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        Region memory(card.pd(), 64, local);
        card.put_receive(memory, 16);
        card.connect();
        c.peer.send(too_long ? message(1, pattern(64)) : message(3, pattern(8)));
        status[too_long] = card.expect_error(trace);
    }
    return {status[0] == T3_STATUS_MSN && status[1] == T3_STATUS_PDU_LEN,
            text("a wrong MSN has status %#x, a message longer than its receive %#x", status[0], status[1])};
}

Answer events_of_an_error(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    auto both = fpdu(message(5));
    const auto second = fpdu(message(6));
    both.insert(both.end(), second.begin(), second.end());
    c.peer.send(both);
    card.expect_error(trace);
    trace.wait({"t3_async_event: ", text(" qp %u ", card.qp()), "never"}, quiet_ms);
    const size_t events = card.error_statuses(trace).size();
    return {events == 1, text("two errors of a queue pair give %zu error events", events)};
}

Answer time_of_a_completion(Case& c) {
    constexpr uint32_t size = 48 << 10;
    Case::Options options;
    options.receive_buffer = 2048;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), size, local);
    card.connect();
    card.post_send(&memory, size); // far more than the peer's window
    const bool early = card.sends().next(2 * quiet_ms).has_value();
    const auto all = c.peer.fpdus(size, 1); // reads a part, so that the rest comes
    if (!early) {
        for (int i = 0; i < 200 && !card.sends().next(1); i++)
            c.peer.fpdus(8, 100);
    }
    return {early, early ? "a send completes before the peer has acknowledged it"
                         : "a send completes when the peer has acknowledged it"};
}

Answer opcode_of_a_send(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    card.post_send(nullptr, 0, T3_WR_F_COMPLETION, T3_RDMA_SEND_SE);
    const auto cqe = need(card.sends().next(reply_limit_ms), "a send");
    return {cqe.opcode() == T3_RDMA_SEND_SE,
            text("a send with solicited event completes with opcode %u", cqe.opcode())};
}

} // namespace probe
