// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A sequence of commands, the element of the corpus. It is plain data, because the corpus is in memory that
// all workers share.
#pragma once

#include "commands.hh"

#include <random>

namespace fuzz {

using Random = std::mt19937_64;

// Malformations of a request.
enum Malformation : uint8_t {
    WellFormed,
    Shorter,         // request
    Longer,          // with zeros
    LongerGarbage,   // with something else
    ResponseShorter, // space for the response
    ResponseLonger,
    ResponseInHole, // in unmapped memory
    ResponseReadOnly,
    RequestInHole, // its end
    WrongCount,    // words and bytes differ
    WrongHeader,   // undefined bits
    NoDriverPart,
    AttrDropped, // ioctl, as all following ones
    AttrTwice,
    AttrLength,
    AttrReserved,
    AttrUnknown,
    ManyAttrs,
    Malformations
};

struct Call {
    uint16_t command;
    uint8_t file; // which of the two open files of its device
    uint8_t malformation;
    uint32_t malformation_arg;
    uint64_t value[max_fields]; // of the command's fields
};

constexpr unsigned max_calls = 28;

struct Sequence {
    uint32_t count = 0;
    Call calls[max_calls];

    void add(const Call& call) {
        if (count < max_calls)
            calls[count++] = call;
    }
};

// The two sides of a connection; over RoCE also those of datagrams. Each is the role of a worker.
std::vector<Sequence> roles();

// Well-formed sequences, with which the corpus begins.
std::vector<Sequence> seeds();

Call random_call(Random& random);
void mutate(Sequence& sequence, const Sequence& other, Random& random);

} // namespace fuzz
