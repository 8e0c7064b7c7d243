// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Snapshots of a card's objects, for people: the rows of `t3sim ctl SOCKET connections`, `qps`, `cqs`,
// `regions` and `rings`. No code of a card depends on them.
#pragma once

#include <cstdint>
#include <optional>

namespace t3sim {

/// An offloaded TCP connection, by TID.
struct ConnectionState {
    const char* state = ""; ///< of TCP, as in RFC 9293; or "closed": the host has not released the TID
    bool rdma = false;      ///< RDMA_INIT was executed
    unsigned port = 0;
    std::uint32_t local_ip = 0, peer_ip = 0;
    std::uint16_t local_port = 0, peer_port = 0;
    std::uint16_t mss = 0;
    std::uint64_t unacknowledged = 0; ///< bytes queued or in flight
    std::uint32_t send_window = 0, receive_window = 0, congestion_window = 0;
    std::uint64_t rto = 0; ///< nanoseconds
    unsigned retries = 0;  ///< retransmissions in a row
    unsigned waiting = 0;  ///< work requests that wait for send buffer space
};

/// A connected QP, by id.
struct QpState {
    const char* state = "";
    std::uint32_t tid = 0, pd = 0, send_cq = 0, receive_cq = 0;
    std::uint32_t rq_size = 0, receives_posted = 0; ///< the latter: not consumed yet
    std::uint32_t ord = 0, reads = 0;               ///< the latter: of this QP, outstanding
    std::uint32_t ird = 0, inbound_reads = 0;       ///< the latter: of the peer, unanswered
    std::uint32_t messages = 0;                     ///< queued
};

/// A completion queue with a ring, by id.
struct CqState {
    std::uint64_t base = 0;
    std::uint32_t size = 0, index = 0;
    unsigned generation = 0;
    const char* armed = ""; ///< "no", "any", "solicited"
    unsigned response_queue = 0;
};

/// A region or window, by TPT index.
struct RegionState {
    std::uint32_t stag = 0;
    const char* type = "";
    bool valid = false;
    char rights[5] = "----"; ///< local read and write, remote read and write: "rwRW"
    std::uint32_t pd = 0, qp = 0;
    bool va_based = false;
    std::uint64_t va = 0;
    std::uint32_t length = 0;
    std::uint64_t page_size = 0;
    std::uint32_t pbl_index = 0;
    std::uint32_t windows = 0; ///< bound to the region
};

/// A ring in host memory: of an egress context, a free list or a response queue.
struct RingState {
    const char* type = "";
    std::uint32_t id = 0; ///< within the type
    std::uint64_t base = 0;
    std::uint32_t size = 0, index = 0;
    unsigned generation = 0;
    std::optional<std::uint32_t> tid;            ///< of a QP
    std::optional<unsigned> response_queue;      ///< of an egress ring
    std::optional<std::uint32_t> credits, waits; ///< of a response queue: free entries, messages that wait
};

} // namespace t3sim
