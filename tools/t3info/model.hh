// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// What t3info shows, as the kernel's RDMA netlink reports it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/common/machine.hh"

namespace t3info {

/// The creator of an object: a process, or a part of the kernel (pid 0).
struct Owner {
    std::uint32_t pid = 0;
    std::string name;
};

struct Port {
    std::uint32_t number = 0;
    std::string state;
    std::string physical;
    std::string interface;
};

struct QueuePair {
    std::uint32_t number = 0;
    std::string type;
    std::string state;
    Owner owner;
};

struct CmId {
    std::uint32_t number = 0;
    std::uint32_t qp = 0; // 0: none
    std::string state;
    std::string local;
    std::string remote;
    Owner owner;
};

struct Region {
    std::uint32_t number = 0;
    std::uint64_t length = 0;
    std::uint32_t rkey = 0; // reported to root only
    Owner owner;
};

struct CompletionQueue {
    std::uint32_t number = 0;
    std::uint32_t entries = 0;
    std::uint64_t users = 0;
    Owner owner;
};

struct Domain {
    std::uint32_t number = 0;
    std::uint64_t users = 0;
    Owner owner;
};

struct Device {
    std::uint32_t index = 0;
    std::string name;
    std::string firmware;
    std::string guid;
    std::string protocol;
    std::vector<Port> ports;
    std::vector<QueuePair> queue_pairs;
    std::vector<CmId> cm_ids;
    std::vector<Region> regions;
    std::vector<CompletionQueue> completion_queues;
    std::vector<Domain> domains;
    std::map<std::string, std::uint64_t> counters;
};

/// The kernel's side of RDMA netlink. Tests override it.
class Source {
public:
    using Message = std::vector<std::byte>; ///< attributes, without the netlink header
    virtual ~Source() = default;
    /// All messages of a dump; device: its index, or -1 for all.
    virtual std::vector<Message> dump(int command, int device) = 0;
};

/// All T3s (or the one with this name) with their objects. Names of processes and counters are read from
/// files.
std::vector<Device> collect(Source& source, const t3tools::Machine& machine, const std::string& only = "");

} // namespace t3info
