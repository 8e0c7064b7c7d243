// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the fuzzer needs of each command: its system call and file, the layout of its request, and the handles
// in its response. It does not describe which values are valid.
#pragma once

#include <cstdint>
#include <vector>

namespace fuzz {

// Kinds of objects that commands create and use.
enum Kind : uint8_t { Pd, Mr, Mw, Cq, Qp, Srq, Ah, Channel, Async, CmId, QpNumber, Key, Kinds };

enum class Path : uint8_t { Write, WriteEx, Ioctl, Cm, Action };

enum class Role : uint8_t {
    Number,  // as it is
    Handle,  // of an object; 0: the newest, 1: the one before it, ...; with the top bit set: as it is
    Pointer, // to one of several kinds of memory, see Arena::pointer()
    Words,   // a structure, in which every 32-bit word has this value
    Address, // of a socket, see make_address()
    NewId,   // ioctl: the attribute for the new handle
    Output,  // ioctl: an output attribute
};

struct Field {
    Role role;
    Kind kind;
    uint16_t at;   // offset in the request, or id of the attribute
    uint16_t size; // bytes
    uint64_t usual;
};

// A handle in the response: `at` bytes from its start; ioctl: in the attribute of this id.
struct Made {
    Kind kind;
    uint16_t at;
    uint8_t size = 4;
};

// System calls that are not commands.
enum Action : uint16_t { Reopen, ReadEvents, Map, Touch, Unmap, Fork, CloseEvents, Wait, Garbage };

constexpr unsigned max_fields = 22;

struct Command {
    const char* name;
    Path path;
    uint16_t number; // ioctl: the object
    uint16_t method;
    uint16_t request, response; // bytes
    int16_t response_at;        // offset of its address in the request; -1: none
    uint16_t driver_in, driver_out;
    std::vector<Field> fields;
    std::vector<Made> made;
    Kind ends = Kinds; // destroys the object of its first field
};

const std::vector<Command>& commands();

// From now on, and before the first use of commands(): only the connection manager is fuzzed, over a RoCE
// device. There it does not look QPs up, so a connection needs no verbs.
void use_roce();
bool roce();

// The place of a command in commands().
uint16_t command_named(const char* name);

std::vector<Command> uverbs_commands();
std::vector<Command> cm_commands();

} // namespace fuzz
