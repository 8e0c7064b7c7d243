// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/commands.hh"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/net/impairments.hh"

namespace t3sim::commands {
namespace {

Json impairments_of(const Impairer& impairer) {
    const Impairments& i = impairer.what();
    const auto& s = impairer.statistics();
    return {{"loss", i.loss},
            {"duplicate", i.duplicate},
            {"reorder", i.reorder},
            {"corrupt", i.corrupt},
            {"delay_ns", i.delay},
            {"jitter_ns", i.jitter},
            {"reorder_delay_ns", i.reorder_delay},
            {"rate", i.rate},
            {"queue", i.queue},
            {"seed", i.seed},
            {"done",
             {{"lost", s.lost},
              {"overflowed", s.overflowed},
              {"duplicated", s.duplicated},
              {"reordered", s.reordered},
              {"corrupted", s.corrupted}}}};
}

Json wire_state(const Wire& wire) {
    Json impaired = Json::object();
    for (unsigned port = 0; port < wire.labels().size(); port++)
        if (const Impairer* impairer = wire.impairer(port))
            impaired[wire.labels()[port]] = impairments_of(*impairer);
    const auto& s = wire.statistics();
    return {{"name", wire.name()}, {"up", wire.up()},          {"ends", wire.labels()},  {"frames", s.frames},
            {"bytes", s.bytes},    {"lost_down", s.lost_down}, {"impairments", impaired}};
}

Wire& find_wire(Context& context, const std::string& name) {
    if (Wire* wire = context.rig.wire(name))
        return *wire;
    std::string known;
    for (const auto& wire : context.rig.wires())
        known += (known.empty() ? "" : ", ") + wire->name();
    throw Refused(fmt::format("there is no wire '{}'; wires are: {}", name, known.empty() ? "none" : known));
}

} // namespace

Json wires(Context& context, const Arguments&) {
    Json result = Json::array();
    for (const auto& wire : context.rig.wires())
        result.push_back(on(context, context.rig.component(*wire), [&] { return wire_state(*wire); }));
    return result;
}

Action wire(Context& context, const Arguments& arguments) {
    if (arguments[0] != "up" && arguments[0] != "down")
        throw Refused("expected: wire up NAME or wire down NAME");
    Wire& wire = find_wire(context, arguments[1]);
    return {context.rig.component(wire), [&wire, up = arguments[0] == "up"] {
                wire.set_up(up);
                return wire_state(wire);
            }};
}

Action impair(Context& context, const Arguments& arguments) {
    Wire& wire = find_wire(context, arguments[0]);
    const auto& labels = wire.labels();
    const std::string& end = arguments[1];
    if (std::ranges::find(labels, end) == labels.end() && end != "all")
        throw Refused(fmt::format("wire '{}' has no end '{}'; its ends are: all, {}", wire.name(), end,
                                  fmt::join(labels, ", ")));
    Impairments impairments;
    std::string wrong;
    for (std::size_t i = 2; i < arguments.size(); i++)
        if (!parse_impairment(arguments[i], impairments, wrong))
            throw Refused(wrong);
    return {context.rig.component(wire), [&wire, end, impairments]() mutable {
                for (unsigned port = 0; port < wire.labels().size(); port++) {
                    if (end != "all" && wire.labels()[port] != end)
                        continue;
                    wire.impair(port, impairments);
                    impairments.seed++; // with equal seeds both directions would lose the same frames
                }
                return wire_state(wire);
            }};
}

} // namespace t3sim::commands
