// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "helpers.hh"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace probe {

std::string text(const char* format, ...) {
    char out[256];
    va_list list;
    va_start(list, format);
    std::vsnprintf(out, sizeof(out), format, list);
    va_end(list);
    return out;
}

Bytes pattern(size_t size) {
    Bytes out(size);
    for (size_t i = 0; i < size; i++)
        out[i] = static_cast<uint8_t>(0x41 + i % 23);
    return out;
}

Segment message(uint32_t msn, const Bytes& payload) {
    Segment out;
    out.msn = msn;
    out.payload = payload;
    return out;
}

Segment response_to(const Segment& request, const Bytes& payload) {
    Segment out;
    out.opcode = RDMAP_READ_RESPONSE;
    out.stag = be32(&request.payload.at(0));
    out.to = be64(&request.payload.at(4));
    out.payload = payload;
    return out;
}

Segment empty_read(uint32_t msn) {
    Segment out;
    out.opcode = RDMAP_READ_REQUEST;
    out.msn = msn;
    out.payload.assign(sizeof(rdmap_read_request), 0);
    out.payload[3] = out.payload[19] = 2; // both STags
    return out;
}

Segment terminate(size_t body) {
    Segment out;
    out.opcode = RDMAP_TERMINATE;
    out.payload.assign(body, 0);
    out.payload[0] = RDMAP_TERM_LAYER_RDMAP << RDMAP_TERM_LAYER_SHIFT | RDMAP_ETYPE_OPERATION;
    out.payload[1] = RDMAP_OP_UNSPECIFIED;
    return out;
}

Segment need(const std::vector<Segment>& got, uint8_t opcode) {
    for (const auto& segment : got)
        if (segment.opcode == opcode)
            return segment;
    throw NotObserved{text("the card sent no message of opcode %u", opcode)};
}

Cqe need(std::optional<Cqe> cqe, const char* what) {
    if (!cqe)
        throw NotObserved{text("no completion of %s", what)};
    return *cqe;
}

std::string arrival(unsigned opcode) {
    return text(" 0x%02x flits", opcode);
}

size_t arrivals(Trace& trace, unsigned opcode) {
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(opcode)};
    size_t seen = trace.with(words).size();
    while (trace.wait(words, quiet_ms, seen + 1))
        seen = trace.with(words).size();
    return seen;
}

unsigned number_after(const std::string& line, const char* word) {
    const auto at = line.find(word);
    if (at == line.npos)
        throw NotObserved{text("the trace has no '%s'", word)};
    return static_cast<unsigned>(std::strtoul(line.c_str() + at + std::strlen(word), nullptr, 0));
}

unsigned tid_in(Trace& trace) {
    const std::vector<std::string> words{"t3_ep_transition: ", "established"};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"the trace shows no TID"};
    return number_after(trace.with(words).front(), "tid=");
}

} // namespace probe
