// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/commands.hh"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/rig/events.hh"

namespace t3sim::commands {
namespace {

bool is_stop(const Arguments& arguments) {
    return arguments[0] == "stop" && arguments.size() == 1;
}

/// The limit of "start WHERE [SIZE]", 0: none. @p expected: the forms of the command.
std::uint64_t limit_of_start(const Arguments& arguments, const char* expected) {
    std::uint64_t limit = 0;
    if (arguments[0] != "start" || arguments.size() < 2)
        throw Refused(std::string("expected: ") + expected);
    if (arguments.size() == 3 && !parse_size(arguments[2], limit))
        throw Refused("'" + arguments[2] + "': expected a size such as 500K, 64M or 2G");
    return limit;
}

} // namespace

Json capture(Context& context, const Arguments& arguments) {
    if (is_stop(arguments)) {
        if (!context.rig.stop_capture())
            throw Refused("no capture runs");
        return nullptr;
    }
    const std::uint64_t limit = limit_of_start(arguments, "capture start DIR [SIZE] or capture stop");
    return context.rig.start_capture(arguments[1], limit);
}

Json record(Context& context, const Arguments& arguments) {
    if (is_stop(arguments)) {
        if (!context.rig.stop_recording())
            throw Refused("nothing is recorded");
        return nullptr;
    }
    const std::uint64_t limit = limit_of_start(arguments, "record start FILE [SIZE] or record stop");
    context.rig.start_recording(arguments[1], limit);
    return nullptr;
}

Json at(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    CardEvents& events = *slot.events;
    if (arguments.size() == 1)
        return on(context, slot.component, [&] { return events.commands(); });
    if (arguments.size() == 2 && arguments[1] == "off") {
        context.rig.on(slot.component, [&] { events.drop_rules(); });
        return nullptr;
    }
    Arguments selection{arguments[1]};
    std::optional<std::uint64_t> nth;
    auto word = arguments.begin() + 2;
    for (; word != arguments.end() && word->find('=') != std::string::npos; ++word)
        if (!parse_key(*word, "nth=", nth))
            selection.push_back(*word);
    if (nth == 0U)
        throw Refused("nth is counted from 1");
    EventFilter filter(selection);
    if (word == arguments.end())
        throw Refused(
            "expected a command behind the event, for example: at a cpl name=PEER_CLOSE cause a unplug");
    const std::string& command = *word;
    const Action action = action_of(context, command, {word + 1, arguments.end()});
    if (action.component != slot.component)
        throw Refused(fmt::format("no wires join the card '{}' and what '{}' is about", arguments[0],
                                  fmt::join(word, arguments.end(), " ")));
    context.rig.on(slot.component, [&] {
        events.add({.command = fmt::format("{}", fmt::join(word, arguments.end(), " ")),
                    .filter = filter,
                    .left = nth.value_or(1),
                    .at_once = action.at_once,
                    .run = [run = action.run] { (void)run(); }});
    });
    return nullptr;
}

Json subscribe(Context& context, const Arguments& arguments) {
    if (context.subscription)
        throw Refused("this connection has a subscription already");
    std::vector<const Rig::Slot*> slots;
    Arguments selection;
    for (const std::string& word : arguments) {
        if (const Rig::Slot* slot = context.rig.slot(word))
            slots.push_back(slot);
        else
            selection.push_back(word);
    }
    const auto subscription = std::make_shared<Subscription>(EventFilter(selection), context.wake);
    try {
        for (const Rig::Slot& slot : context.rig.slots())
            if (slots.empty() || std::ranges::find(slots, &slot) != slots.end())
                context.rig.on(slot.component, [&] { slot.events->subscribe(subscription); });
    } catch (...) { // a thread does not respond
        unsubscribe(context.rig, subscription);
        throw;
    }
    context.subscription = subscription;
    return nullptr;
}

void unsubscribe(const Rig& rig, const std::shared_ptr<Subscription>& gone) {
    for (const Rig::Slot& slot : rig.slots())
        rig.post(slot.component, [events = slot.events.get(), gone] { events->unsubscribe(gone); });
}

} // namespace t3sim::commands
