// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "commands.hh"

#include "../program.hh"

#include <cstring>

namespace fuzz {

static std::vector<Command> acts() {
    const auto act = [](const char* name, Act what) {
        return Command{
            name, Door::Act, what, 0, 0,
            0,    -1,        0,    0, {{Role::Number, Kinds, 0, 8, 0}, {Role::Number, Kinds, 0, 8, 0}},
            {},   Kinds};
    };
    return {act("reopen", Reopen),  act("read_events", ReadEvents),
            act("map", Map),        act("touch", Touch),
            act("unmap", Unmap),    act("fork", Fork),
            act("wait", Wait),      act("close_events", CloseEvents),
            act("garbage", Garbage)};
}

const std::vector<Command>& commands() {
    static const std::vector<Command> all = [] {
        auto list = acts();
        for (auto& part : {uverbs_commands(), cm_commands()})
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
