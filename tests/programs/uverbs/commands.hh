// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The table of commands: one row for each command and door, with the layout of what is sent. What can be
// malformed follows from the kinds of the fields, see malform.hh.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace uv {

// Objects that a caller has at hand. Those called spare are used by nothing, so they can be destroyed.
enum class Thing { none, pd, spare_pd, cq, spare_cq, qp, mr, mw, channel, async, count };

enum class Kind {
    response, // address of the response
    handle,   // of `thing`
    fd,       // of an event file, or -1
    number,
    flags,
    reserved,
    address, // of memory that can be read and written
};

struct Field {
    Kind kind;
    std::string_view name;
    uint8_t bytes;
    uint64_t value = 0;
    Thing thing = Thing::none;
};

struct Changing {
    uint16_t at, length;
};

struct Command {
    std::string_view name;
    uint32_t number;
    bool extended;
    std::vector<Field> fields;
    uint16_t out = 0;
    std::vector<Field> driver = {};
    uint16_t driver_out = 0;
    std::vector<Changing> changing = {}; // keys and numbers in the response that no two runs have in common
    bool fresh = false;                  // to a file that has no context yet
};

enum class AttrKind { handle, fd, created, number, constant, flags, address, out };

struct Attr {
    AttrKind kind;
    uint16_t id;
    uint16_t bytes = 0;
    uint64_t value = 0;
    Thing thing = Thing::none;
    std::vector<uint32_t> words = {}; // a value of more than 8 bytes
    bool changing = false;
};

struct Method {
    std::string_view name;
    uint16_t object, method;
    std::vector<Attr> attributes;
    bool fresh = false;
};

std::span<const Command> commands();
std::span<const Method> methods();
const Command& command(std::string_view name);

} // namespace uv
