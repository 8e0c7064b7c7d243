// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The commands of the control socket. commands.cc has a table of them all and executes requests; what each
// command does is in card_commands.cc, wire_commands.cc and event_commands.cc. control.hh has the sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/number.hh"
#include "sim/rig/rig.hh"
#include "sim/rig/tables.hh"

namespace t3sim::commands {

using Arguments = std::vector<std::string>;

/// Of the protocol. It grows when a reply changes in a way that an older client would misread.
constexpr unsigned protocol_version = 1;

/// A request that fails; the client receives the text.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Context {
    EventLoop& loop;
    Rig& rig;
    std::string command;
    std::string card; ///< where a part of a table begins; empty: at the start
    std::uint32_t number = 0;
    Json next; ///< of the reply: where the next part begins
    std::shared_ptr<Subscription>& subscription;
    std::function<void()> wake; ///< the client
};

/// What a command does in the thread of one component.
struct Action {
    unsigned component;
    std::function<Json()> run; ///< throws std::exception: the reason why it failed
    bool at_once = false;      ///< may run from within an event of a card
};

struct Row {
    const char* name;
    std::size_t min_arguments, max_arguments;
    Json (*handler)(Context&, const Arguments&);
    const char* usage;
    bool is_table = false;
    Action (*prepare)(Context&, const Arguments&) = nullptr; ///< instead of a handler; also for `at`
};

[[nodiscard]] std::span<const Row> rows();
/// nullptr: there is no such command.
[[nodiscard]] const Row* find_row(std::string_view command);
/// Executes a request, an object of JSON in one line, and returns the result. Throws Refused, or
/// std::invalid_argument of a card.
[[nodiscard]] Json execute(Context& context, const std::string& line);
/// Of a command that may run at an event.
[[nodiscard]] Action action_of(Context& context, const std::string& command, const Arguments& arguments);

// ---- For the commands

[[nodiscard]] const Rig::Slot& find_card(Context& context, const std::string& name);

/// What @p f returns, in the thread of a component.
template <typename F> Json on(Context& context, unsigned component, F&& f) {
    Json result;
    context.rig.on(component, [&] { result = f(); });
    return result;
}

/// The number behind @p key ("nth="), if @p text begins with it.
template <typename Number>
bool parse_key(const std::string& text, std::string_view key, std::optional<Number>& to) {
    if (!text.starts_with(key))
        return false;
    to = parse_number<Number>(text.substr(key.size()));
    if (!to)
        throw Refused("'" + text + "': expected a number");
    return true;
}

// ---- The commands

// card_commands.cc
Json cards(Context& context, const Arguments& arguments);
Json counters(Context& context, const Arguments& arguments);
Json table(Context& context, const Arguments& arguments);
Action reset(Context& context, const Arguments& arguments);
Action cause(Context& context, const Arguments& arguments);
Action lie(Context& context, const Arguments& arguments);
Action guess(Context& context, const Arguments& arguments);
Action time(Context& context, const Arguments& arguments);
Action pause(Context& context, const Arguments& arguments);
Json step(Context& context, const Arguments& arguments);
Json run(Context& context, const Arguments& arguments);

// wire_commands.cc
Json wires(Context& context, const Arguments& arguments);
Action wire(Context& context, const Arguments& arguments);
Action impair(Context& context, const Arguments& arguments);

// event_commands.cc: what is captured, recorded, reported
Json capture(Context& context, const Arguments& arguments);
Json record(Context& context, const Arguments& arguments);
Json at(Context& context, const Arguments& arguments);
Json subscribe(Context& context, const Arguments& arguments);
/// Ends it at all cards, without waiting for them.
void unsubscribe(const Rig& rig, const std::shared_ptr<Subscription>& gone);

} // namespace t3sim::commands
