// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the fuzzer of the kernel's doors knows of each command: where it goes in, what its request is made of,
// and which handles come back. Nothing here says what is allowed: that is the kernel's to find out.
#pragma once

#include <cstdint>
#include <vector>

namespace fuzz {

// Things that commands make and take.
enum Kind : uint8_t { Pd, Mr, Mw, Cq, Qp, Srq, Ah, Channel, Async, CmId, QpNumber, Key, Kinds };

enum class Door : uint8_t { Write, WriteEx, Ioctl, Cm, Act };

enum class Role : uint8_t {
    Number,  // as it is
    Handle,  // of a thing; 0: the youngest, 1: the one before it, ...; with the top bit set: as it is
    Pointer, // to memory of several sorts, see Arena::pointer()
    Words,   // a structure, in which every 32-bit word has this value
    Address, // of a socket, see make_address()
    NewId,   // ioctl: where the handle comes back
    Answer,  // ioctl: where a result goes
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

// What is no command.
enum Act : uint16_t { Reopen, ReadEvents, Map, Touch, Unmap, Fork, CloseEvents, Wait, Garbage };

constexpr unsigned max_fields = 22;

struct Command {
    const char* name;
    Door door;
    uint16_t number; // ioctl: the object
    uint16_t method;
    uint16_t request, response; // bytes
    int16_t response_at;        // of its address in the request; -1: none
    uint16_t driver_in, driver_out;
    std::vector<Field> fields;
    std::vector<Made> made;
    Kind ends = Kinds; // destroys the thing of its first field
};

const std::vector<Command>& commands();

// The place of a command in commands().
uint16_t command_named(const char* name);

std::vector<Command> uverbs_commands();
std::vector<Command> cm_commands();

} // namespace fuzz
