// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "commands.hh"

#include "program.hh"

#include <cstring>

namespace fuzz {

static std::vector<Command> actions() {
    const auto action = [](const char* name, Action what) {
        return Command{
            name, Path::Action, what, 0, 0,
            0,    -1,           0,    0, {{Role::Number, Kinds, 0, 8, 0}, {Role::Number, Kinds, 0, 8, 0}},
            {},   Kinds};
    };
    return {action("reopen", Reopen),  action("read_events", ReadEvents),
            action("map", Map),        action("touch", Touch),
            action("unmap", Unmap),    action("fork", Fork),
            action("wait", Wait),      action("close_events", CloseEvents),
            action("garbage", Garbage)};
}

static bool only_roce;

void use_roce() {
    only_roce = true;
}

bool roce() {
    return only_roce;
}

const std::vector<Command>& commands() {
    static const std::vector<Command> all = [] {
        auto list = actions();
        if (roce())
            std::erase_if(list, [](const Command& command) {
                return command.number != Reopen && command.number != Fork && command.number != Wait &&
                       command.number != Garbage;
            });
        auto verbs = roce() ? std::vector<Command>{} : uverbs_commands();
        for (const auto& part : {verbs, cm_commands()})
            list.insert(list.end(), part.begin(), part.end());
        for (const auto& command : list) {
            if (command.fields.size() > max_fields)
                prog::fail("%s has too many fields", command.name);
        }
        return list;
    }();
    return all;
}

uint16_t command_named(const char* name) {
    for (size_t i = 0; i < commands().size(); i++) {
        if (!std::strcmp(commands()[i].name, name))
            return static_cast<uint16_t>(i);
    }
    prog::fail("there is no command %s", name);
}

} // namespace fuzz
