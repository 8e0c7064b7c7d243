// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A file of the device with one object of each kind, to which commands refer.
#pragma once

#include "commands.hh"
#include "sender.hh"

#include <array>
#include <string>

namespace uv {

class World {
public:
    // others: how many objects are created first, so that the handles of this world are unused in another
    // one.
    World(Sender& sender, std::string device, unsigned others = 0);
    World(const World&) = delete;
    ~World();

    // Creates all objects again.
    void renew();

    int fd() const { return fd_; }
    uint64_t of(Object object) const { return objects_.at(static_cast<size_t>(object)); }
    // Well-formed commands.
    Message message(const Command& command) const;
    Ioctl call(const Method& method) const;
    // The numbers of the file's objects of each kind and of the process's open files.
    std::string census() const;

    int open_device() const;
    // Closes files that commands opened.
    void close_new_files() const;

    // A handle that no object has.
    static constexpr uint64_t unused_handle = 0x5555;

private:
    void make();
    void close_from(int first) const;

    Sender& sender_;
    std::string device_;
    unsigned others_;
    int fd_ = -1;
    int after_ = -1; // first descriptor that is not part of this world
    std::array<uint64_t, static_cast<size_t>(Object::count)> objects_{};
};

// The number of open descriptors.
unsigned open_files();

// Memory for commands that take an address.
uint64_t some_memory();

} // namespace uv
