// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The table of commands: one row for each command of write() and each method of ioctl(), with the layout of
// its request. The kinds of the fields determine the malformations, see malform.hh.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace uv {

// The objects of a World. No other object uses the spare ones, so they can be destroyed.
enum class Object { none, pd, spare_pd, cq, spare_cq, qp, mr, mw, channel, async, count };

enum class Kind {
    response, // address of the response
    handle,   // of `object`
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
    Object object = Object::none;
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
    std::vector<Changing> changing = {}; // keys and numbers in the response that differ from run to run
    bool fresh = false;                  // to a file that has no context yet
};

enum class AttrKind { handle, fd, created, number, constant, flags, address, out };

struct Attr {
    AttrKind kind;
    uint16_t id;
    uint16_t bytes = 0;
    uint64_t value = 0;
    Object object = Object::none;
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
