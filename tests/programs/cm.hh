// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The common part of the programs that test the connection manager: ids and channels with destructors, events
// with a timeout, and checks that throw a description of the failure.
#pragma once

#include "program.hh"

#include <string>
#include <vector>

namespace cm {

// A failed check; it ends the case, destroys its ids, and the next case runs.
struct Failure {
    std::string what;
};

[[noreturn]] void failed(const char* fmt, ...) __attribute__((format(printf, 1, 2)));

// A call of the library: must return 0, or fail with this errno.
void ok(const char* call, int result);
void fails(const char* call, int result, int error);
void fails_with_one_of(const char* call, int result, std::initializer_list<int> errors);
#define OK(call) ::cm::ok(#call, call)
#define FAILS(call, error) ::cm::fails(#call, call, error)
#define FAILS_WITH_ONE_OF(call, ...) ::cm::fails_with_one_of(#call, call, {__VA_ARGS__})
#define HOLDS(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ::cm::failed("line %d: %s", __LINE__, #condition);                                               \
    } while (0)

// The content of an acknowledged event.
struct Event {
    rdma_cm_event_type type;
    int status;
    rdma_cm_id* id;
    rdma_cm_id* listener;
    std::vector<uint8_t> data;
    unsigned responder_resources, initiator_depth;
};

class Channel {
public:
    Channel();
    ~Channel();
    Channel(const Channel&) = delete;
    operator rdma_event_channel*() const { return channel_; }

    rdma_cm_event* take(int ms = 15000); // not acknowledged; fails after the timeout
    Event next(int ms = 15000);
    Event expect(rdma_cm_event_type type, int status = 0, int ms = 15000);
    void expect_nothing(int ms = 50);

private:
    rdma_event_channel* channel_;
};

// An id with its QP. Without a channel its calls are synchronous.
inline constexpr rdma_event_channel* SYNCHRONOUSLY = nullptr;

class Id {
public:
    explicit Id(rdma_event_channel* channel, rdma_port_space ps = RDMA_PS_TCP);
    explicit Id(rdma_cm_id* id) : id_(id) {}
    Id(Id&& other) : id_(other.release()) {}
    ~Id();
    operator rdma_cm_id*() const { return id_; }
    rdma_cm_id* operator->() const { return id_; }
    rdma_cm_id* release();
    int destroy(); // returns the result of rdma_destroy_id()

    void create_qp();

private:
    rdma_cm_id* id_ = nullptr;
};

struct Address {
    sockaddr_storage storage{};
    Address(const std::string& numeric, uint16_t port);
    operator sockaddr*() { return reinterpret_cast<sockaddr*>(&storage); }
};

ibv_qp_init_attr small_qp();
rdma_conn_param parameters(const std::vector<uint8_t>& data = {}, unsigned depth = 4);
std::vector<uint8_t> pattern(size_t length);
Event event_of(const rdma_cm_event& event);

} // namespace cm
