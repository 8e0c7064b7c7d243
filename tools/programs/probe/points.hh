// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A point is an open question that has a probe: a function that uses the card so that it shows which of the
// answers holds. It throws NotObserved if the card shows none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "card.hh"

namespace probe {

struct Answer {
    bool as_modelled;
    std::string text;
};

struct Case {
    Peer& peer;
    std::string address; // of the peer
    uint16_t port;
    // Prints the answer at once. For a probe whose objects may never end with one of the answers.
    std::function<Answer(const Answer&)> report;

    using Options = Connection::Options;
};

// connection_points.cc
Answer acknowledgement_of_init(Case& c);
Answer acknowledgement_of_others(Case& c);
Answer hold_of_the_responder(Case& c);
Answer length_of_terminate(Case& c);
Answer end_in_an_fpdu(Case& c);
Answer ring_at_the_close(Case& c);
Answer copies_of_an_abort(Case& c);
Answer negative_advice(Case& c);
Answer number_of_a_state(Case& c);
Answer reuse_of_tids(Case& c);
Answer order_of_terminate(Case& c);

// memory_points.cc
Answer invalidation_by_the_peer(Case& c);
Answer check_of_a_receive(Case& c);
Answer right_of_a_read_sink(Case& c);
Answer stag_zero(Case& c);
Answer layout_of_an_rqe(Case& c);
Answer order_of_the_back_door(Case& c);

// page_list_points.cc
Answer form_of_a_receive(Case& c);
Answer region_of_a_receive(Case& c);
Answer page_list_of_a_bind(Case& c);
Answer region_of_a_window(Case& c);

// completion_points.cc
Answer length_in_entries(Case& c);
Answer words_of_an_event(Case& c);
Answer full_completion_queue(Case& c);
Answer arming_with_an_entry(Case& c);
Answer error_statuses(Case& c);
Answer events_of_an_error(Case& c);
Answer time_of_a_completion(Case& c);
Answer opcode_of_a_send(Case& c);

// request_points.cc
Answer doorbell_page(Case& c);
Answer receive_behind_a_send(Case& c);
Answer completion_and_fence_of_reads(Case& c);
Answer requests_before_init(Case& c);
Answer two_slots(Case& c);
Answer long_inline(Case& c);
Answer memory_write_in_a_ring(Case& c);

// wire_points.cc
Answer origin_of_markers(Case& c);
Answer octets_of_a_frame(Case& c);
Answer segment_of_an_fpdu(Case& c);
Answer options_of_tcp(Case& c);

} // namespace probe
