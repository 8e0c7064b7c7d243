// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Each event that iWARP can have, with its status and its data; afterwards the id can be destroyed.
// DEVICE_REMOVAL is tested where a device goes (tests/system/test_rdma_cm.py). iWARP never says ROUTE_ERROR,
// ADDR_CHANGE, TIMEWAIT_EXIT, and nothing of multicast.
#include "cm_pages.hh"

#include <cerrno>
#include <cstring>
#include <utility>

namespace cm {
namespace {

// Connects; what is said about it.
struct Attempt {
    Channel channel;
    Id id;
    explicit Attempt(const Run& run, Port which, const std::vector<uint8_t>& data = {}, unsigned depth = 4)
        : id(ready_to_connect(channel, run.to(which))) {
        rdma_conn_param param = parameters(data, depth);
        OK(rdma_connect(id, &param));
    }
    // The end of every case: no more is said, and the id goes.
    void over() {
        channel.expect_nothing();
        OK(id.destroy());
    }
    void disconnect() {
        OK(rdma_disconnect(id));
        const Event end = channel.expect(RDMA_CM_EVENT_DISCONNECTED);
        HOLDS(end.id == id && end.data.empty());
        over();
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

// Nobody has the address. Then the id is as before, and may look for another one.
void addr_error(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, Address(run.peer.substr(0, run.peer.rfind('.')) + ".97", 7000), 200));
    channel.expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    resolve(channel, id, run.to(ACCEPTS));
    OK(id.destroy());
}

// The request and its answer carry the same data: what the peer was told is told back.
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
        attempt.over();
    }
}

void rejected_by_an_id_that_is_destroyed(const Run& run) {
    Attempt attempt(run, FORGETS);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.over();
}

void rejected_because_the_accept_failed(const Run& run) {
    Attempt attempt(run, WRONG_QP);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.over();
}

void rejected_where_nobody_listens(const Run& run) {
    Attempt attempt(run, NOBODY);
    attempt.channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    attempt.over();
}

void connect_error(const Run& run) {
    Attempt attempt(run, BABBLES);
    attempt.channel.expect(RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
    attempt.over();
}

// The test has set the driver's patience to two seconds.
void unreachable(const Run& run) {
    Attempt attempt(run, SILENT);
    attempt.channel.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 30000);
    attempt.over();
}

void disconnected_by_the_peer(const Run& run) {
    for (const auto& [which, status] : {std::pair(HANGS_UP, 0), std::pair(DROPS, -ECONNRESET)}) {
        Attempt attempt(run, which);
        attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
        attempt.channel.expect(RDMA_CM_EVENT_DISCONNECTED, status);
        attempt.over();
    }
}

// "May safely be ignored", as all say it.
void disconnect_after_the_end(const Run& run) {
    Attempt attempt(run, HANGS_UP);
    attempt.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    attempt.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    if (rdma_disconnect(attempt.id))
        HOLDS(errno == EINVAL);
    attempt.over();
}

// A QP that is not the id's: the response is told, the consumer says when it is ready. In-tree iWARP leaves
// that out.
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
    {"ADDR_ERROR: and once more", addr_error},
    {"ESTABLISHED: with data of each length", established_with_data},
    {"ESTABLISHED: accepted without parameters", established_without_parameters},
    {"REJECTED: with data", rejected_with_data},
    {"REJECTED: the request's id was destroyed", rejected_by_an_id_that_is_destroyed},
    {"REJECTED: the accept failed", rejected_because_the_accept_failed},
    {"REJECTED: nobody listens", rejected_where_nobody_listens},
    {"CONNECT_ERROR: no MPA", connect_error},
    {"UNREACHABLE: no answer", unreachable},
    {"DISCONNECTED: by the peer", disconnected_by_the_peer},
    {"DISCONNECTED: and a disconnect afterwards", disconnect_after_the_end},
    {"CONNECT_RESPONSE: and establish", connect_response},
    {"CONNECT_RESPONSE: and reject", connect_response_that_is_rejected},
};

} // namespace cm
