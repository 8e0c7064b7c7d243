// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The two sides of cm_pages: the behaviour of the peer by port, and the cases.
#pragma once

#include "cm.hh"

namespace cm {

// Ports relative to --port.
enum Port : uint16_t {
    ACCEPTS,             // with the request's private data and depths; waits for the disconnect
    ACCEPTS_ANY,         // without parameters
    REJECTS,             // with the request's private data
    DESTROYS_REQUEST,    // destroys the request's id without a reply
    NO_REPLY,            // does not reply
    DISCONNECTS,         // accepts, and disconnects once established
    DESTROYS_CONNECTION, // accepts, and destroys its QP and id once established
    WRONG_QP,            // accepts with an unknown QP, which must fail
    SYNCHRONOUS,         // an endpoint without a channel
    NO_LISTENER,         // no listener
    NOT_MPA,             // a TCP server whose reply is not MPA
    NO_MPA_REPLY,        // a TCP server that does not reply
    STOP,                // stops the peer
};

struct Run {
    std::string peer;
    uint16_t port;
    bool in_tree; // Linux's connection manager
    Address to(Port which) const { return Address(peer, static_cast<uint16_t>(port + which)); }
};

struct Case {
    const char* name; // page: rule
    void (*run)(const Run& run);
};

extern const std::vector<Case> call_cases;  // arguments, errors and results of each call
extern const std::vector<Case> event_cases; // each event that iWARP has
extern const std::vector<Case> sync_cases;  // ids without a channel, endpoints

// Serves until the client connects to STOP; returns descriptions of failures.
std::vector<std::string> serve(uint16_t port);

// Common steps of the active side.
void resolve(Channel& channel, rdma_cm_id* id, Address to);
Id ready_to_connect(Channel& channel, Address to, bool with_qp = true);
std::string own_address(const Run& run);

} // namespace cm
