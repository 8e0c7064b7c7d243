// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What probes of several subjects use: limits of time, messages of the peer, and lines of the trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "card.hh"

namespace probe {

// quiet_ms: after so long without a message none comes any more. reply_limit_ms: for a message that must
// come.
constexpr int quiet_ms = 500;
constexpr int reply_limit_ms = 5000;

constexpr int local = IBV_ACCESS_LOCAL_WRITE;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Bytes that differ from their neighbours.
Bytes pattern(size_t size);

// A SEND with this MSN.
Segment message(uint32_t msn, const Bytes& payload = {});
// The response to a read request.
Segment response_to(const Segment& request, const Bytes& payload = {});
// A read request of no bytes.
Segment empty_read(uint32_t msn);
Segment terminate(size_t body);

// The first message of this opcode. Throws NotObserved if there is none.
Segment need(const std::vector<Segment>& got, uint8_t opcode);
// Throws NotObserved if there is no entry.
Cqe need(std::optional<Cqe> cqe, const char* what);

// How the trace shows a message of the card with this opcode.
std::string arrival(unsigned opcode);
// Messages of this opcode since the trace began; waits until no more come.
size_t arrivals(Trace& trace, unsigned opcode);
unsigned number_after(const std::string& line, const char* word);
// The TID of the connection that the trace shows.
unsigned tid_in(Trace& trace);

} // namespace probe
