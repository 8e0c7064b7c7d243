// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Each event of iWARP, with its status and data; afterwards the id can be destroyed. DEVICE_REMOVAL is tested
// in tests/system/test_rdma_cm.py. iWARP has no ROUTE_ERROR, ADDR_CHANGE, TIMEWAIT_EXIT and multicast events.
#include "cm_pages.hh"

#include <cerrno>
#include <cstring>
#include <utility>

namespace cm {
namespace {

// An id that connects, and its events.
struct Attempt {
    Channel channel;
    Id id;
    explicit Attempt(const Run& run, Port which, const std::vector<uint8_t>& data = {}, unsigned depth = 4)
        : id(ready_to_connect(channel, run.to(which))) {
        rdma_conn_param param = parameters(data, depth);
        OK(rdma_connect(id, &param));
    }
    // The end of every case: no further event, and the id can be destroyed.
    void finish() {
        channel.expect_nothing();
        OK(id.destroy());
    }
    void disconnect() {
        OK(rdma_disconnect(id));
        const Event end = channel.expect(RDMA_CM_EVENT_DISCONNECTED);
        HOLDS(end.id == id && end.data.empty());
        finish();
    }
};

void addr_resolved_and_route_resolved(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    Event event = channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    HOLDS(event.id == id && !event.listener && event.data.empty());
    OK(rdma_resolve_route(id, 2000));
    event = channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    HOLDS(event.id == id && event.data.empty());
    OK(id.destroy());
}

// No host has the address. Afterwards the id can resolve another one.
void addr_error(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, Address(run.peer.substr(0, run.peer.rfind('.')) + ".97", 7000), 200));
    channel.expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    resolve(channel, id, run.to(ACCEPTS));
    OK(id.destroy());
}

// The peer accepts with the private data and depths of the request.
void established_with_data(const Run& run) {
    for (const size_t length : {size_t(0), size_t(1), size_t(56), size_t(255)}) {
        Attempt attempt(run, ACCEPTS, pattern(length), 3);
        const Event event = attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
        HOLDS(event.id == attempt.id && event.data == pattern(length));
        HOLDS(attempt.id->verbs && attempt.id->qp);
        attempt.disconnect();
    }
}

void established_without_parameters(const Run& run) {
    Attempt attempt(run, ACCEPTS_ANY);
    HOLDS(attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED).data.empty());
    attempt.disconnect();
}

void rejected_with_data(const Run& run) {
    for (const size_t length : {size_t(0), size_t(1), size_t(148)}) {
        Attempt attempt(run, REJECTS, pattern(length));
        HOLDS(attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED).data == pattern(length));
        attempt.finish();
    }
}

void rejected_by_an_id_that_is_destroyed(const Run& run) {
    Attempt attempt(run, DESTROYS_REQUEST);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.finish();
}

void rejected_because_the_accept_failed(const Run& run) {
    Attempt attempt(run, WRONG_QP);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.finish();
}

void rejected_without_a_listener(const Run& run) {
    Attempt attempt(run, NO_LISTENER);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.finish();
}

void connect_error(const Run& run) {
    Attempt attempt(run, NOT_MPA);
    attempt.channel.expect(RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
    attempt.finish();
}

// The test has set the driver's timeout to two seconds.
void unreachable(const Run& run) {
    Attempt attempt(run, NO_MPA_REPLY);
    attempt.channel.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 30000);
    attempt.finish();
}

void disconnected_by_the_peer(const Run& run) {
    for (const auto& [which, status] :
         {std::pair(DISCONNECTS, 0), std::pair(DESTROYS_CONNECTION, -ECONNRESET)}) {
        Attempt attempt(run, which);
        attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
        attempt.channel.expect(RDMA_CM_EVENT_DISCONNECTED, status);
        attempt.finish();
    }
}

// A second disconnect, whose error may be ignored.
void disconnect_after_the_end(const Run& run) {
    Attempt attempt(run, DISCONNECTS);
    attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    attempt.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    if (rdma_disconnect(attempt.id))
        HOLDS(errno == EINVAL);
    attempt.finish();
}

// With a QP that is not the id's the consumer gets CONNECT_RESPONSE and calls rdma_establish(). In-tree iWARP
// does not implement this.
void connect_response(const Run& run) {
    Channel channel;
    Id owner = ready_to_connect(channel, run.to(ACCEPTS)), id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    OK(rdma_resolve_route(id, 2000));
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    const auto data = pattern(20);
    rdma_conn_param param = parameters(data);
    param.qp_num = owner->qp->qp_num;
    OK(rdma_connect(id, &param));
    if (!run.in_tree) {
        HOLDS(channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE).data == data);
        OK(rdma_establish(id));
        FAILS(rdma_establish(id), EINVAL);
    } else {
        channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    }
    OK(rdma_disconnect(id));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    OK(id.destroy());
}

void connect_response_that_is_rejected(const Run& run) {
    if (run.in_tree)
        return;
    Channel channel;
    Id owner = ready_to_connect(channel, run.to(ACCEPTS)),
       id = ready_to_connect(channel, run.to(ACCEPTS), false);
    rdma_conn_param param = parameters();
    param.qp_num = owner->qp->qp_num;
    OK(rdma_connect(id, &param));
    channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    OK(rdma_reject(id, nullptr, 0));
    FAILS(rdma_establish(id), EINVAL);
    OK(id.destroy());
    channel.expect_nothing();
}

} // namespace

const std::vector<Case> event_cases = {
    {"ADDR_RESOLVED, ROUTE_RESOLVED", addr_resolved_and_route_resolved},
    {"ADDR_ERROR: then another address", addr_error},
    {"ESTABLISHED: with data of each length", established_with_data},
    {"ESTABLISHED: accepted without parameters", established_without_parameters},
    {"REJECTED: with data", rejected_with_data},
    {"REJECTED: the request's id was destroyed", rejected_by_an_id_that_is_destroyed},
    {"REJECTED: the accept failed", rejected_because_the_accept_failed},
    {"REJECTED: no listener", rejected_without_a_listener},
    {"CONNECT_ERROR: not MPA", connect_error},
    {"UNREACHABLE: no MPA reply", unreachable},
    {"DISCONNECTED: by the peer", disconnected_by_the_peer},
    {"DISCONNECTED: and a disconnect afterwards", disconnect_after_the_end},
    {"CONNECT_RESPONSE: and establish", connect_response},
    {"CONNECT_RESPONSE: and reject", connect_response_that_is_rejected},
};

} // namespace cm
