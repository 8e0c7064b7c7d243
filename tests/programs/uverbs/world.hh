// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A file of the device with one object of each kind, for commands to be about.
#pragma once

#include "commands.hh"
#include "doors.hh"

#include <array>
#include <string>

namespace uv {

class World {
public:
    // others: how many objects come before those that count, so that handles of another world are not handles
    // here.
    World(Doors& doors, std::string device, unsigned others = 0);
    World(const World&) = delete;
    ~World();

    // Makes all objects anew.
    void renew();

    int fd() const { return fd_; }
    uint64_t of(Thing thing) const { return things_.at(static_cast<size_t>(thing)); }
    // Well-formed commands.
    Message message(const Command& command) const;
    Ioctl call(const Method& method) const;
    // How many objects of each kind the file has, and how many files the process.
    std::string census() const;

    int open_device() const;
    // Closes what a command has opened.
    void close_new_files() const;

    // A handle that is none.
    static constexpr uint64_t no_handle = 0x5555;

private:
    void make();
    void close_from(int first) const;

    Doors& doors_;
    std::string device_;
    unsigned others_;
    int fd_ = -1;
    int after_ = -1; // first descriptor that is not of this world
    std::array<uint64_t, static_cast<size_t>(Thing::count)> things_{};
};

// Descriptors that are open.
unsigned open_files();

// Memory that commands may name.
uint64_t some_memory();

} // namespace uv
