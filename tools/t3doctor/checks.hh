// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// What can be wrong between a card in its slot and a connection, one check each, in the order in which one
/// depends on the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/machine.hh"

namespace t3doctor {

/// What the kernel must be asked by system calls. Tests have answers of their own.
class Probe {
public:
    struct Interface {
        bool up = false;
        bool carrier = false;
        std::vector<std::string> addresses; // IPv4
        std::string firmware;               // of the card, as the NIC driver read it
    };
    struct Memlock {
        bool unlimited = false; // no limit, or the right to ignore it
        std::uint64_t bytes = 0;
    };
    struct Verbs {
        std::vector<std::string> devices; // that libibverbs can use
        std::string warnings;             // what it said meanwhile
    };
    struct Route {
        std::string source; // address of the way out; empty: no way
        std::string error;
    };
    struct Connection {
        enum class End { accepted, refused, no_address, no_device, no_answer, other } end = End::other;
        std::string device;
        std::string said;
    };

    virtual ~Probe() = default;
    virtual Interface interface(const std::string& name) = 0;
    virtual Memlock memlock() = 0;
    virtual Verbs verbs() = 0;
    virtual Route route(const std::string& address) = 0;
    virtual Connection connect(const std::string& address, int port) = 0;
    virtual bool may_open(const std::string& node) = 0;
};

enum class State { fine, note, wrong, skipped };

struct Finding {
    State state = State::fine;
    std::string what; // one sentence
    std::string cure; // what to do; empty if nothing
};

struct Question {
    std::string address; // of the other end; empty: only this machine
    int port = 7174;
};

struct Result {
    std::string check;
    std::string title;
    Finding finding;
};

/// Names and titles of all checks, in their order.
std::vector<std::pair<std::string, std::string>> all_checks();

/// Runs them. After one that is wrong, those that need it are skipped.
std::vector<Result> examine(const t3tools::Machine& machine, Probe& probe, const Question& question);

} // namespace t3doctor
