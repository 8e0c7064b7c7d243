// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The checks from a card in its slot to a connection. Each check needs those before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/machine.hh"

namespace t3doctor {

/// Information that needs system calls. Tests override it.
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
        std::string warnings;             // that it printed
    };
    struct Route {
        std::string source; // address of the route; empty: no route
        std::string error;
    };
    struct Connection {
        enum class End { accepted, refused, no_address, no_device, no_answer, other } end = End::other;
        std::string device;
        std::string error;
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

struct Target {
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

/// Runs all checks. After a failed one, those that need it are skipped.
std::vector<Result> examine(const t3tools::Machine& machine, Probe& probe, const Target& target);

} // namespace t3doctor
