// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The open files and objects of a worker that runs a sequence, and the system call for each call of it.
#pragma once

#include "sequence.hh"

#include <array>
#include <mutex>
#include <string>

namespace fuzz {

// Memory of one thread: requests, responses and data, a read-only page, and an inaccessible one.
class Arena {
public:
    Arena();
    ~Arena();
    Arena(const Arena&) = delete;

    uint8_t* request() const { return base_; }
    uint8_t* response() const { return base_ + 2 * page; }
    uint8_t* read_only() const { return base_ + 8 * page; }
    uint8_t* hole() const { return base_ + 9 * page; } // the page before it is read_only()
    // An address by a number; most numbers give mapped memory.
    uint64_t pointer(uint64_t value) const;

    static constexpr size_t page = 4096;

private:
    uint8_t* base_;
};

struct Targets {
    std::string uverbs = "/dev/infiniband/uverbs0";
    std::string cm = "/dev/infiniband/rdma_cm";
    uint32_t driver_id = 3;     // RDMA_DRIVER_CXGB3
    uint32_t own = 0, peer = 0; // addresses, in network order
};

class World {
public:
    explicit World(const Targets& targets) : targets_(targets) {}
    ~World() { close_all(); }
    World(const World&) = delete;

    void open_all();
    void close_all();
    // 0 or an errno.
    int run(const Call& call, const Arena& arena);

private:
    struct Mapping {
        void* at;
        size_t length;
    };

    int file(Path path, const Call& call);
    uint64_t object(Kind kind, uint64_t selector);
    void remember(Kind kind, uint64_t handle);
    void forget(Kind kind, uint64_t handle);
    void put(const Field& field, uint64_t value, uint8_t* at, const Arena& arena);

    int write(const Command& command, const Call& call, const Arena& arena);
    int ioctl(const Command& command, const Call& call, const Arena& arena);
    int action(const Command& command, const Call& call, const Arena& arena);
    void take_results(const Command& command, const uint8_t* response, size_t size);
    void read_events(const Arena& arena);

    const Targets& targets_;
    std::mutex mutex_; // protects the members below; never held across a system call
    int uverbs_[2] = {-1, -1}, cm_[2] = {-1, -1};
    std::array<std::vector<uint64_t>, Kinds> objects_;
    std::vector<Mapping> mappings_;
};

} // namespace fuzz
