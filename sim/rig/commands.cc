// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/commands.hh"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace t3sim::commands {
namespace {

Json version(Context&, const Arguments&) {
    return {{"protocol", protocol_version}, {"program", program_version}};
}

Json quit(Context& context, const Arguments&) {
    context.loop.stop();
    return nullptr;
}

Json help(Context&, const Arguments&);

constexpr Row table_of_commands[] = {
    {"cards", 0, 0, cards, "cards                 cards and their sockets"},
    {"counters", 0, 1, counters, "counters [CARD]       all counters"},
    {"connections", 0, 1, table, "connections [CARD]    offloaded TCP connections", true},
    {"qps", 0, 1, table, "qps [CARD]            connected queue pairs", true},
    {"cqs", 0, 1, table, "cqs [CARD]            completion queues", true},
    {"regions", 0, 1, table, "regions [CARD]        memory regions and windows", true},
    {"rings", 0, 1, table, "rings [CARD]          rings in host memory: of QPs and of the NIC driver", true},
    {"reset", 1, 1, nullptr, "reset CARD            resets the card, as a reset of its PCI function does",
     false, reset},
    {"wires", 0, 0, wires, "wires                 state and statistics of the wires"},
    {"wire", 2, 2, nullptr, "wire up|down NAME     plugs or pulls a cable", false, wire},
    {"capture", 1, 3, capture,
     "capture start DIR [SIZE] | capture stop\n                      writes DIR/WIRE.pcapng for each wire"},
    {"record", 1, 3, record,
     "record start FILE [SIZE] | record stop\n                      records events of all cards, for t3sim "
     "trace"},
    {"impair", 3, 16, nullptr,
     "impair WIRE END|all KEY=VALUE... | none\n                      impairs frames of END: loss, duplicate, "
     "reorder, corrupt (0 to 1), delay,\n                      jitter, reorder-delay (50us), rate (1G), "
     "queue (64K), seed",
     false, impair},
    {"cause", 1, 4, nullptr,
     "cause CARD FAULT [TIMES|TIME|tid=N|qp=N|nth=N] | cause --list\n                      injects a fault "
     "into the card, see docs/faults.md",
     false, cause},
    {"at", 1, 24, at,
     "at CARD EVENT [name=NAME] [tid=N] [qp=N] [nth=N] COMMAND... | at CARD [off]\n                      "
     "runs "
     "cause, lie, guess, time, pause, impair, wire or reset at the nth such event, see\n                     "
     " "
     "docs/script.md"},
    {"subscribe", 0, 24, subscribe,
     "subscribe [CARD] [EVENT] [name=NAME] [tid=N] [qp=N]\n                      prints what the cards do, a "
     "line of JSON each, until it is interrupted"},
    {"lie", 1, 10, nullptr,
     "lie CARD SEED [RATE] [KIND...] | lie CARD off | lie --list\n                      makes the card lie "
     "to its "
     "driver, see docs/faults.md",
     false, lie},
    {"guess", 1, 16, nullptr,
     "guess CARD [Gn=other|Gn=modelled...] | guess --list\n                      selects the card's answers "
     "to "
     "open questions, and shows those that are not usual",
     false, guess},
    {"time", 1, 8, nullptr,
     "time CARD [t3|instant|KEY=TIME...]\n                      sets and shows the time that the card takes: "
     "fetch, write, command, jitter\n                      (2us), seed, see docs/faults.md",
     false, time},
    {"pause", 1, 1, nullptr,
     "pause CARD            stops the time of the card and of those that wires join to it", false, pause},
    {"step", 1, 2, step, "step CARD [N]         runs the next event, or N, of cards that are paused"},
    {"run", 1, 1, run, "run CARD              ends pause"},
    {"version", 0, 0, version, "version               of the protocol and of the program"},
    {"quit", 0, 0, quit, "quit                  ends t3sim"},
    {"help", 0, 0, help, "help                  this list"},
};

Json help(Context&, const Arguments&) {
    Json result = Json::array();
    for (const Row& row : table_of_commands)
        result.push_back(row.usage);
    return result;
}

const Row& find_row_of(const std::string& command, const Arguments& arguments) {
    const Row* const row = find_row(command);
    if (!row)
        throw Refused("unknown command '" + command + "'; try help");
    if (arguments.size() < row->min_arguments || arguments.size() > row->max_arguments)
        throw Refused(std::string("usage: ") + row->usage);
    return *row;
}

} // namespace

std::span<const Row> rows() {
    return table_of_commands;
}

const Row* find_row(std::string_view command) {
    const auto* row =
        std::ranges::find_if(table_of_commands, [&](const Row& r) { return command == r.name; });
    return row == std::end(table_of_commands) ? nullptr : row;
}

const Rig::Slot& find_card(Context& context, const std::string& name) {
    if (const auto* slot = context.rig.slot(name))
        return *slot;
    throw Refused("there is no card '" + name + "'");
}

Action action_of(Context& context, const std::string& command, const Arguments& arguments) {
    const Row& row = find_row_of(command, arguments);
    if (!row.prepare)
        throw Refused("'" + command +
                      "' cannot run at an event; cause, lie, guess, time, pause, impair, wire and reset can");
    return row.prepare(context, arguments);
}

Json execute(Context& context, const std::string& line) {
    // A Json, which keeps the order of keys, compares each new one with all earlier ones.
    const auto request = nlohmann::json::parse(line, nullptr, false);
    if (!request.is_object() || !request.contains("command") || !request["command"].is_string())
        throw Refused(R"(expected one JSON object such as {"command": "wire", "args": ["down", "a.0-b.0"]})");
    if (request.contains("version") &&
        (!request["version"].is_number_unsigned() || request["version"] > protocol_version))
        throw Refused(fmt::format("this t3sim speaks version {} of the protocol", protocol_version));
    if (request.contains("from")) {
        // Only its members are copied. A copy of arrays in each other, of which a line may have 4,000, would
        // need the stack for each.
        const auto& from = request["from"];
        if (!from.is_object() || !from.contains("card") || !from["card"].is_string() ||
            !from.contains("number") || !from["number"].is_number_unsigned())
            throw Refused(R"("from" must be the "next" of the reply before)");
        context.card = from["card"];
        context.number = from["number"];
    }
    Arguments arguments;
    if (request.contains("args")) {
        if (!request["args"].is_array())
            throw Refused(R"("args" must be an array of strings)");
        for (const auto& argument : request["args"]) {
            if (!argument.is_string())
                throw Refused(R"("args" must be an array of strings)");
            arguments.push_back(argument.get<std::string>());
        }
    }
    context.command = request["command"].get<std::string>();
    const Row& row = find_row_of(context.command, arguments);
    if (!row.prepare)
        return row.handler(context, arguments);
    const Action action = row.prepare(context, arguments);
    return on(context, action.component, action.run);
}

} // namespace t3sim::commands
