// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Ids without a channel, whose calls wait for their event; rdma_getaddrinfo and rdma_create_ep.
#include "cm_pages.hh"

#include <cerrno>
#include <cstring>
#include <netdb.h>

namespace cm {
namespace {

// ---- rdma_getaddrinfo

struct Info {
    rdma_addrinfo* list = nullptr;
    Info(const Run& run, Port which, int flags = 0) {
        rdma_addrinfo hints{};
        hints.ai_flags = flags;
        hints.ai_port_space = RDMA_PS_TCP;
        const std::string service = std::to_string(run.port + which);
        OK(rdma_getaddrinfo(run.peer.c_str(), service.c_str(), &hints, &list));
    }
    ~Info() { rdma_freeaddrinfo(list); }
};

void addrinfo_of_a_peer(const Run& run) {
    const Info info(run, ACCEPTS, RAI_NUMERICHOST);
    HOLDS(info.list && info.list->ai_family == AF_INET && info.list->ai_qp_type == IBV_QPT_RC);
    HOLDS(info.list->ai_port_space == RDMA_PS_TCP && info.list->ai_dst_len == sizeof(sockaddr_in));
    HOLDS(!std::memcmp(info.list->ai_dst_addr, static_cast<sockaddr*>(run.to(ACCEPTS)), 8));
}

void addrinfo_to_listen(const Run&) {
    rdma_addrinfo hints{}, *info;
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_TCP;
    OK(rdma_getaddrinfo(nullptr, "7700", &hints, &info));
    const bool right = info->ai_flags & RAI_PASSIVE && info->ai_src_len && !info->ai_dst_len;
    rdma_freeaddrinfo(info);
    HOLDS(right);
}

void addrinfo_errors(const Run&) {
    rdma_addrinfo hints{}, *info;
    FAILS(rdma_getaddrinfo(nullptr, nullptr, nullptr, &info), EINVAL);
    hints.ai_flags = RAI_NUMERICHOST;
    hints.ai_port_space = RDMA_PS_TCP;
    HOLDS(rdma_getaddrinfo("no number", "7700", &hints, &info) == EAI_NONAME);
}

// ---- synchronous ids

// Whether the id's last event has this type.
bool last_event_is(rdma_cm_id* id, rdma_cm_event_type type) {
    return id->event && id->event->event == type;
}

void a_synchronous_connection(const Run& run) {
    Id id(SYNCHRONOUSLY);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    HOLDS(id->verbs && last_event_is(id, RDMA_CM_EVENT_ADDR_RESOLVED));
    OK(rdma_resolve_route(id, 2000));
    HOLDS(last_event_is(id, RDMA_CM_EVENT_ROUTE_RESOLVED));
    id.create_qp();
    const auto data = pattern(30);
    rdma_conn_param param = parameters(data);
    OK(rdma_connect(id, &param));
    HOLDS(last_event_is(id, RDMA_CM_EVENT_ESTABLISHED) && event_of(*id->event).data == data);
    OK(rdma_disconnect(id));
    HOLDS(last_event_is(id, RDMA_CM_EVENT_DISCONNECTED));
    OK(id.destroy());
}

void a_failed_resolution(const Run& run) {
    Id id(SYNCHRONOUSLY);
    FAILS(rdma_resolve_addr(id, nullptr, Address(run.peer.substr(0, run.peer.rfind('.')) + ".96", 7000), 200),
          ETIMEDOUT);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    OK(id.destroy());
}

void refused(const Run& run) {
    const auto data = pattern(10);
    for (const Port which : {NO_LISTENER, REJECTS}) {
        Id id(SYNCHRONOUSLY);
        OK(rdma_resolve_addr(id, nullptr, run.to(which), 2000));
        OK(rdma_resolve_route(id, 2000));
        id.create_qp();
        rdma_conn_param param = parameters(data);
        FAILS(rdma_connect(id, &param), ECONNREFUSED);
        HOLDS(last_event_is(id, RDMA_CM_EVENT_REJECTED));
        HOLDS(which == NO_LISTENER || event_of(*id->event).data == data);
        OK(id.destroy());
    }
}

void get_request_without_a_listener(const Run&) {
    Channel channel;
    Id async(channel), sync(SYNCHRONOUSLY);
    rdma_cm_id* request;
    FAILS_WITH_ONE_OF(rdma_get_request(async, &request), EPERM, EINVAL);
    HOLDS(rdma_listen(sync, 1) == 0 && rdma_get_src_port(sync) != 0);
}

// ---- rdma_create_ep

void endpoint_to_endpoint(const Run& run) {
    const Info info(run, SYNCHRONOUS);
    ibv_qp_init_attr attr = small_qp();
    rdma_cm_id* id;
    OK(rdma_create_ep(&id, info.list, nullptr, &attr));
    const bool ready = id->qp && id->verbs && id->pd && id->send_cq && id->recv_cq;
    const int connected = rdma_connect(id, nullptr);
    const bool established = !connected && last_event_is(id, RDMA_CM_EVENT_ESTABLISHED);
    const int disconnected = established ? rdma_disconnect(id) : -1;
    rdma_destroy_ep(id);
    HOLDS(ready && established);
    HOLDS(disconnected == 0 || errno == EINVAL); // the peer does so too
}

void endpoint_to_a_channel(const Run& run) {
    const Info info(run, ACCEPTS);
    ibv_qp_init_attr attr = small_qp();
    rdma_cm_id* raw;
    OK(rdma_create_ep(&raw, info.list, nullptr, &attr));
    Channel channel;
    Id id(raw);
    OK(rdma_migrate_id(id, channel));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    OK(rdma_disconnect(id));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_ep(id.release());
}

} // namespace

const std::vector<Case> sync_cases = {
    {"getaddrinfo: a peer", addrinfo_of_a_peer},
    {"getaddrinfo: to listen", addrinfo_to_listen},
    {"getaddrinfo: errors", addrinfo_errors},
    {"synchronous: a connection", a_synchronous_connection},
    {"synchronous: a failed resolution", a_failed_resolution},
    {"synchronous: refused", refused},
    {"synchronous: requests", get_request_without_a_listener},
    {"create_ep: both sides", endpoint_to_endpoint},
    {"create_ep: then asynchronous", endpoint_to_a_channel},
};

} // namespace cm
