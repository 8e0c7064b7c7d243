// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Sends commands to /dev/infiniband/uverbsN by write() and by ioctl(), as bytes, without any check.
#pragma once

#include "memory.hh"

#include <array>
#include <string>
#include <vector>

namespace uv {

struct Span {
    size_t at, length;
};

// The result of a call: the error, and every other effect that the caller can observe.
struct Outcome {
    int error = 0;
    std::string effect;            // the response, in hexadecimal
    std::vector<uint8_t> response; // of write()

    // Most responses begin with the handle or descriptor of the created object.
    uint32_t handle() const { return word(0); }
    uint32_t word(size_t at) const;
};

// A command of the write() ABI. Its header is right unless a malformation changes it.
struct Message {
    uint32_t command = 0;
    bool extended = false;
    bool has_response = true; // plain: the first 8 bytes are the address of the response
    std::vector<uint8_t> core, driver;
    size_t out = 0, driver_out = 0;
    std::vector<Span> changing; // bytes of the response, driver's included, that differ from run to run

    long count_off = 0, in_words_off = 0, out_words_off = 0, driver_in_off = 0, driver_out_off = 0;
    uint32_t reserved = 0;
    Where request = Where::normal, response = Where::normal;
};

struct Attribute {
    enum class Role { in, out, handle, created } role = Role::in;
    uint16_t id = 0;
    uint16_t length = 0;
    uint16_t flags = 1; // mandatory
    uint16_t reserved = 0;
    uint64_t data = 0;                 // handles, values up to 8 bytes
    std::vector<uint8_t> pointed = {}; // longer values
    Where where = Where::normal;
    bool changing = false; // an output that differs from run to run
};

struct Ioctl {
    uint16_t object = 0, method = 0;
    std::vector<Attribute> attributes;
    uint32_t driver = 0;
    long length_off = 0, number_off = 0;
    uint64_t reserved1 = 0;
    uint32_t reserved2 = 0;
    unsigned long request = 0; // another ioctl
    Where list = Where::normal;
};

class Sender {
public:
    explicit Sender(uint32_t driver) : driver_(driver) {}
    Outcome write(int fd, const Message& message);
    // The same command by the ioctl DEVICE.INVOKE_WRITE, which has no header of write().
    Outcome invoke_write(int fd, const Message& message);
    Outcome ioctl(int fd, Ioctl message);

private:
    uint32_t driver_;
    Slot request_, response_;
    std::array<Slot, 40> attributes_;
};

} // namespace uv
