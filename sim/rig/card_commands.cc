// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/commands.hh"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/core/time.hh"

namespace t3sim::commands {
namespace {

/// Of a command that has its result already.
Action result_of(Json result) {
    return {0, [result = std::move(result)] { return result; }};
}

Json faults() {
    constexpr std::array amounts{"", "[TIMES]", "[TIME]", "[nth=N]"};
    Json result = Json::array();
    for (const Card::Fault& fault : Card::faults())
        result.push_back({{"name", fault.name},
                          {"amount", amounts.at(static_cast<std::size_t>(fault.amount))},
                          {"target", fault.object != Card::Fault::Object::none},
                          {"what", fault.what}});
    return result;
}

/// A count is a plain number, a time has a unit; the catalogue states which one a fault takes.
std::uint64_t parse_amount(const Card::Fault& fault, const std::string& text) {
    switch (fault.amount) {
    case Card::Fault::Amount::times:
        if (const auto times = parse_number<std::uint64_t>(text))
            return *times;
        throw Refused("'" + text + "': expected a number of times, for example 3");
    case Card::Fault::Amount::time:
        if (const auto time = parse_time(text))
            return *time;
        throw Refused("'" + text + "': expected a time such as 200ms");
    case Card::Fault::Amount::nth:
        throw Refused("'" + text + "': expected tid=N, qp=N or nth=N");
    case Card::Fault::Amount::none:
        break;
    }
    throw Refused(fmt::format("the fault '{}' has no amount", fault.name));
}

} // namespace

Json cards(Context& context, const Arguments&) {
    Json result = Json::array();
    for (const auto& slot : context.rig.slots()) {
        const auto& mac = slot.description.mac;
        result.push_back({{"name", slot.description.name},
                          {"socket", slot.description.socket},
                          {"mac", fmt::format("{:02x}", fmt::join(mac, ":"))},
                          {"serial", slot.description.serial},
                          {"guest", on(context, slot.component, [&] { return slot.server->connected(); })}});
    }
    return result;
}

Json counters(Context& context, const Arguments& arguments) {
    Json result = Json::object();
    if (!arguments.empty())
        (void)find_card(context, arguments[0]);
    for (const auto& slot : context.rig.slots()) {
        if (!arguments.empty() && arguments[0] != slot.description.name)
            continue;
        Json& card = result[slot.description.name] = Json::object();
        const auto add = [&](const std::string& name, Counter value) { card[name] = value; };
        context.rig.on(slot.component, [&] {
            slot.card->counters().for_each(add);
            slot.server->counters().for_each(add);
        });
    }
    return result;
}

Json table(Context& context, const Arguments& arguments) {
    if (!arguments.empty())
        (void)find_card(context, arguments[0]);
    const std::string& card = context.card;
    // A part has cards of one component.
    std::vector<NamedCard> cards;
    std::string next_card;
    unsigned component = 0;
    for (const auto& slot : context.rig.slots()) {
        const std::string& name = slot.description.name;
        if ((!arguments.empty() && arguments[0] != name) || (cards.empty() && !card.empty() && card != name))
            continue;
        if (!cards.empty() && slot.component != component) {
            next_card = name;
            break;
        }
        component = slot.component;
        cards.push_back({name, slot.card.get()});
    }
    TablePart part;
    context.rig.on(component, [&] { part = table_part(context.command, cards, card, context.number); });
    if (part.card.empty())
        part.card = next_card;
    if (!part.card.empty())
        context.next = {{"card", part.card}, {"number", part.number}};
    return std::move(part.rows);
}

Action reset(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    return {slot.component, [&slot] {
                slot.server->reset_device();
                return nullptr;
            }};
}

Action cause(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1)
        return result_of(faults());
    const Rig::Slot& slot = find_card(context, arguments[0]);
    if (arguments.size() < 2)
        throw Refused("expected: cause CARD FAULT; cause --list shows the faults");
    const auto all = Card::faults();
    const auto fault =
        std::find_if(all.begin(), all.end(), [&](const Card::Fault& f) { return arguments[1] == f.name; });
    if (fault == all.end())
        throw Refused("there is no fault '" + arguments[1] + "'; cause --list shows all");
    std::optional<std::uint64_t> amount;
    Card::Target target;
    for (std::size_t i = 2; i < arguments.size(); i++) {
        const std::string& text = arguments[i];
        const bool nth = fault->amount == Card::Fault::Amount::nth && parse_key(text, "nth=", amount);
        if (!nth && !parse_key(text, "tid=", target.tid) && !parse_key(text, "qp=", target.qp))
            amount = parse_amount(*fault, text);
    }
    return {slot.component,
            [&slot, name = fault->name, amount, target] {
                slot.card->inject(name, amount, target);
                return nullptr;
            },
            fault->at_once};
}

Action lie(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1) {
        Json result = Json::array();
        for (const Card::LieKind& kind : Card::lie_kinds())
            result.push_back({{"name", kind.name}, {"what", kind.what}});
        return result_of(std::move(result));
    }
    const Rig::Slot& slot = find_card(context, arguments[0]);
    if (arguments.size() == 2 && arguments[1] == "off")
        return {slot.component, [&slot] {
                    slot.card->stop_lies();
                    return nullptr;
                }};
    constexpr double usual_rate = 0.01;
    const auto seed = arguments.size() < 2 ? std::nullopt : parse_number<std::uint64_t>(arguments[1]);
    if (!seed)
        throw Refused("expected: lie CARD SEED [RATE] [KIND...] or lie CARD off; lie --list shows the kinds");
    const auto given_rate = arguments.size() > 2 ? parse_number<double>(arguments[2]) : std::nullopt;
    const double rate = given_rate.value_or(usual_rate);
    if (!(rate > 0 && rate <= 1))
        throw Refused("'" + arguments[2] + "': expected a rate above 0, and 1 at most");
    Arguments kinds(arguments.begin() + (given_rate ? 3 : 2), arguments.end());
    return {slot.component, [&slot, seed = *seed, rate, kinds = std::move(kinds)] {
                slot.card->lie(seed, rate, kinds);
                return nullptr;
            }};
}

Action guess(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1) {
        Json result = Json::array();
        for (const Card::Question& row : Card::questions())
            result.push_back(
                {{"name", fmt::format("G{}", row.number)}, {"modelled", row.modelled}, {"other", row.other}});
        return result_of(std::move(result));
    }
    const Rig::Slot& slot = find_card(context, arguments[0]);
    return {slot.component, [&slot, arguments] {
                for (std::size_t i = 1; i < arguments.size(); i++)
                    slot.card->guess(arguments[i]);
                return slot.card->guesses();
            }};
}

Action time(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    for (std::size_t i = 1; i < arguments.size(); i++)
        Card::check_time(arguments[i]); // all of them or none
    return {slot.component, [&slot, arguments] {
                for (std::size_t i = 1; i < arguments.size(); i++)
                    slot.card->set_time(arguments[i]);
                return slot.card->time();
            }};
}

// ---- The time of a card and of all that wires join to it

Action pause(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    return {slot.component, [&loop = context.rig.loop(slot.component)] {
                loop.pause();
                return loop.queue().now();
            }};
}

Json step(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    constexpr unsigned most = 1000; // other cards may have the same thread
    unsigned events = 1;
    if (arguments.size() > 1) {
        const auto number = parse_number<unsigned>(arguments[1]);
        if (!number || *number == 0 || *number > most)
            throw Refused(fmt::format("'{}': expected a number of events, at most {}", arguments[1], most));
        events = *number;
    }
    EventLoop& loop = context.rig.loop(slot.component);
    return on(context, slot.component, [&]() -> Json {
        if (!loop.paused())
            throw Refused("the cards run; pause them first");
        const unsigned done = loop.step(events);
        return {{"events", done}, {"time", loop.queue().now()}};
    });
}

Json run(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    EventLoop& loop = context.rig.loop(slot.component);
    return on(context, slot.component, [&] {
        loop.resume();
        return Json(nullptr);
    });
}

} // namespace t3sim::commands
