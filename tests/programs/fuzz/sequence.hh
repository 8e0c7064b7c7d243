// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A sequence of commands: what is kept in the corpus, and changed. Plain data, because the corpus is in
// memory that all workers share and outlives each of them.
#pragma once

#include "commands.hh"

#include <random>

namespace fuzz {

using Random = std::mt19937_64;

// What is wrong with the form of a request.
enum Twist : uint8_t {
    Straight,
    Shorter,       // request
    Longer,        // with zeros
    LongerGarbage, // with something else
    AnswerShorter, // room for the response
    AnswerLonger,
    AnswerInHole, // where nothing is
    AnswerReadOnly,
    RequestInHole, // its end
    WrongCount,    // words and bytes do not agree
    WrongHeader,   // bits that nobody knows
    NoDriverPart,
    AttrDropped, // ioctl, as all that follow
    AttrTwice,
    AttrLength,
    AttrReserved,
    AttrUnknown,
    ManyAttrs,
    Twists
};

struct Call {
    uint16_t command;
    uint8_t file; // which of the two open files of its door
    uint8_t twist;
    uint32_t twist_arg;
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

// The two sides of a connection.
Sequence connecting();
Sequence listening();

// Well-formed ones, with which a corpus begins.
std::vector<Sequence> seeds();

Call random_call(Random& random);
void mutate(Sequence& sequence, const Sequence& other, Random& random);

} // namespace fuzz
