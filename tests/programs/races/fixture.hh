// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The fixture of a pair of operations: an open verbs device (not over RoCE) with an object of each kind and,
// for operations on connections, an open connection manager with an id in each state. It exists in a process
// of its own, the subject, which is created for each pair.
#pragma once

#include "../uverbs/world.hh"
#include "device.hh"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <sys/types.h>

namespace races {

// QPs beside that of the verbs commands, by the state of their connection.
enum class Queue { routed, connecting, connected, requested, accepting, count };

enum class Id {
    idle,
    bound,
    resolved,
    routed,
    connecting,
    connected,
    wildcard,
    listener,
    requested,
    accepting,
    datagram, // with a route; only over RoCE, as the next one
    joined,   // to a multicast group
    count
};

const char* name_of(Id id);
// Those that the device has.
size_t ids();

// Written by the subject before the operations begin, read by operations outside it.
struct Facts {
    std::array<uint32_t, static_cast<size_t>(Queue::count)> qpn;
    uint32_t world_qpn;
};

constexpr uint16_t wildcard_port = 7001, listener_port = 7002;
constexpr uint16_t peer_port = 9000; // of the listener to which connections are made

// Where a process that cannot create its fixture writes the reason.
extern std::span<char> fixture_error;

class Fixture {
public:
    struct Needs {

        bool files;       // needed by all others; without files the modules are unused
        bool connections; // the connection manager, with ids
        bool mapped;      // a page of the device
    };
    // Exits if it cannot be created.
    Fixture(const Needs& needs, Facts& facts);

    uv::World& world() { return *world_; }
    uint32_t queue(Queue queue) const { return qp_handle_.at(static_cast<size_t>(queue)); }
    const Facts& facts() const { return facts_; }

    int cm = -1, other_cm = -1;
    int fresh = -1; // a file of the device without a context
    void* mapping = nullptr;
    uint32_t id(Id id) const { return ids_.at(static_cast<size_t>(id)); }
    uint32_t group() const { return group_; } // handle of the group that `joined` has joined

    // A child that has the mapping until the operations have ended; returns 0 or an errno.
    int start_child();
    // Whether the mapping, of this process or of the child, shows a page of a device that was removed.
    bool shows_removed_device();

private:
    bool shows_removed_device_here() const;
    void make_numbers();
    void make_connections();
    uint32_t make_id(Id id);
    void resolve(Id id, bool route);
    void make_datagrams();
    uint32_t next_event(uint32_t expected);

    uv::Sender sender_{3};
    uv::World* world_ = nullptr; // never destroyed: that would close files in use
    Facts& facts_;
    std::array<uint32_t, static_cast<size_t>(Queue::count)> qp_handle_{};
    std::array<uint32_t, static_cast<size_t>(Id::count)> ids_{};
    uint32_t group_ = 0;
    pid_t child_ = -1;
    int child_waits_ = -1; // the child looks when this pipe is closed
};

// Events of <rdma/rdma_cma.h>: in the order of the ABI.
enum : uint32_t {
    addr_resolved = 0,
    route_resolved = 2,
    connect_request = 4,
    connect_response = 5,
    established = 9,
    multicast_join = 12
};

// Commands of one thread to the connection manager; they return 0 or an errno.
class CmClient {
public:
    int create(int fd, uint32_t* id, bool datagram = false);
    int destroy(int fd, uint32_t id);
    int bind(int fd, uint32_t id, uint32_t address, uint16_t port);
    int bind_sockaddr(int fd, uint32_t id, uint32_t address, uint16_t port);
    int resolve(int fd, uint32_t id, uint32_t destination, uint32_t timeout_ms) {
        return resolve_to(fd, id, destination, peer_port, timeout_ms);
    }
    int resolve_to(int fd, uint32_t id, uint32_t destination, uint16_t port, uint32_t timeout_ms);
    int resolve_sockaddr(int fd, uint32_t id, uint32_t destination, uint32_t timeout_ms);
    int route(int fd, uint32_t id);
    int listen(int fd, uint32_t id);
    int connect(int fd, uint32_t id, uint32_t qpn);
    int accept(int fd, uint32_t id, uint32_t qpn);
    int establish(int fd, uint32_t id); // sends RTU, over RoCE
    int reject(int fd, uint32_t id);
    int disconnect(int fd, uint32_t id);
    int attributes(int fd, uint32_t id, uint32_t state);
    int query_route(int fd, uint32_t id);
    int query(int fd, uint32_t id, uint32_t option);
    int option(int fd, uint32_t id);
    int notify(int fd, uint32_t id);
    int join_ip(int fd, uint32_t id);
    int join(int fd, uint32_t id, uint32_t* group = nullptr);
    int leave(int fd, uint32_t group);
    // number: the first word of the private data of a connect request or response.
    int event(int fd, uint32_t* event, uint32_t* id, uint32_t* number = nullptr);
    int migrate(int fd, uint32_t id, int from);
    int write_event(int fd, uint32_t id);

private:
    int send(int fd, uint32_t command, const void* request, size_t length, size_t response = 0);
    uv::Slot request_, response_, option_;
};

std::string verbs_path();

} // namespace races
