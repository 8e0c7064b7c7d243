// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The two sides of cm_pages: what the peer does with who connects to which of its ports, and the cases.
#pragma once

#include "cm.hh"

namespace cm {

// Ports from the first one, as --port says.
enum Port : uint16_t {
    ACCEPTS, // with the request's private data, and the depths that it asks for; waits for the other's end
    ACCEPTS_ANY, // with no parameters at all
    REJECTS,     // with the request's private data
    FORGETS,     // destroys the request without an answer
    HOLDS_BACK,  // answers nothing
    HANGS_UP,    // accepts, and disconnects when it is established
    DROPS,       // accepts, and destroys its QP and its id when it is established
    WRONG_QP,    // accepts with a QP that is not there, which must fail
    SYNCHRONOUS, // an endpoint without a channel
    NOBODY,      // nobody listens
    BABBLES,     // no RDMA: a TCP server that answers what is no MPA
    SILENT,      // no RDMA: a TCP server that answers nothing
    ENDS,        // ends the peer
};

struct Run {
    std::string peer;
    uint16_t port;
    bool in_tree; // the connection manager is Linux's
    Address to(Port which) const { return Address(peer, static_cast<uint16_t>(port + which)); }
};

struct Case {
    const char* name; // page: rule
    void (*run)(const Run& run);
};

extern const std::vector<Case> call_cases;  // what each call refuses and answers
extern const std::vector<Case> event_cases; // each event that iWARP has
extern const std::vector<Case> sync_cases;  // ids without a channel, endpoints

// Answers until the client says that it is over; what went wrong, in words.
std::vector<std::string> serve(uint16_t port);

// Steps of the active side that many cases take.
void resolve(Channel& channel, rdma_cm_id* id, Address to);
Id ready_to_connect(Channel& channel, Address to, bool with_qp = true);
std::string own_address(const Run& run);

} // namespace cm
