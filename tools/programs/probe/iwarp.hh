// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Frames of MPA, DDP and RDMAP as the other end of the connection under test sends and reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "include/wire/ddp.h"
#include "include/wire/mpa.h"
#include "include/wire/rdmap.h"

namespace probe {

using Bytes = std::vector<uint8_t>;

std::string hex(const Bytes& bytes);
Bytes from_hex(const std::string& text);

uint16_t be16(const uint8_t* at);
uint32_t be32(const uint8_t* at);
uint64_t be64(const uint8_t* at);

// An MPA request or reply.
struct Startup {
    uint8_t flags = MPA_FLAG_CRC;
    uint8_t revision = MPA_REVISION_1;
    uint16_t ird = 0, ord = 0; // with their flags; only with MPA_FLAG_ENHANCED
};
Bytes startup_frame(const char* key, const Startup& startup);
// The first frame in the stream, which is removed from it.
std::optional<Startup> take_startup(Bytes& stream);

// One DDP segment.
struct Segment {
    uint8_t opcode = RDMAP_SEND;
    bool last = true;
    uint32_t stag = 0; // tagged; untagged: the STag to invalidate
    uint64_t to = 0;
    uint32_t msn = 1, mo = 0;
    Bytes payload{};

    bool tagged() const { return opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE; }
};
Bytes fpdu(const Segment& segment);
// The complete FPDUs at the front of a stream without markers; they are removed from it.
std::vector<Segment> take_fpdus(Bytes& stream);

} // namespace probe
