// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The peer of the cases: one thread and one channel for ids with events, and one thread each for the others.
#include "cm_pages.hh"

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace cm {
namespace {

std::mutex guard; // of failures
std::vector<std::string> failures;

void add_failure(const std::string& what) {
    const std::lock_guard lock(guard);
    failures.push_back(what);
}

Port port_of(const rdma_cm_id* id) {
    return static_cast<Port>(reinterpret_cast<uintptr_t>(id->context));
}

void accept(const Event& request) {
    Id id(request.id);
    id.create_qp();
    rdma_conn_param param = parameters(request.data);
    param.responder_resources = static_cast<uint8_t>(request.responder_resources);
    param.initiator_depth = static_cast<uint8_t>(request.initiator_depth);
    OK(rdma_accept(id, port_of(id) == ACCEPTS_ANY ? nullptr : &param));
    id.release();
}

void reject(const Event& request) {
    const Id id(request.id);
    OK(rdma_reject(id, request.data.data(), static_cast<uint8_t>(request.data.size())));
    FAILS(rdma_reject(id, nullptr, 0), EINVAL);
}

void accept_without_qp(const Event& request) {
    const Id id(request.id);
    rdma_conn_param param = parameters();
    param.qp_num = 0xbeef;
    FAILS(rdma_accept(id, &param), EINVAL);
}

void handle_request(const Event& request) {
    HOLDS(request.status == 0 && request.listener && request.listener != request.id && request.id->verbs);
    switch (port_of(request.id)) {
    case ACCEPTS:
    case ACCEPTS_ANY:
    case DISCONNECTS:
    case DESTROYS_CONNECTION:
        return accept(request);
    case REJECTS:
        return reject(request);
    case WRONG_QP:
        return accept_without_qp(request);
    case NO_REPLY:
        return;
    default: {
        const Id destroyed(request.id);
    }
    }
}

void handle(const Event& event) {
    switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return handle_request(event);
    case RDMA_CM_EVENT_ESTABLISHED:
        if (port_of(event.id) == DISCONNECTS)
            OK(rdma_disconnect(event.id));
        if (port_of(event.id) == DESTROYS_CONNECTION)
            const Id destroyed(event.id);
        return;
    case RDMA_CM_EVENT_DISCONNECTED: {
        const Id destroyed(event.id);
        return;
    }
    default:
        failed("%s, %d on port %d", rdma_event_str(event.type), event.status, port_of(event.id));
    }
}

// ---- peers without events

// rdma_create_ep(), rdma_get_request(): all without a channel.
void serve_synchronously(uint16_t port) {
    try {
        rdma_addrinfo hints{}, *info;
        hints.ai_flags = RAI_PASSIVE;
        hints.ai_port_space = RDMA_PS_TCP;
        OK(rdma_getaddrinfo(nullptr, std::to_string(port).c_str(), &hints, &info));
        HOLDS(info->ai_dst_len == 0 && info->ai_src_len != 0);
        ibv_qp_init_attr attr = small_qp();
        rdma_cm_id* listener;
        OK(rdma_create_ep(&listener, info, nullptr, &attr));
        rdma_freeaddrinfo(info);
        OK(rdma_listen(listener, 4));
        for (;;) {
            rdma_cm_id* id;
            OK(rdma_get_request(listener, &id));
            HOLDS(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
            OK(rdma_accept(id, nullptr));
            HOLDS(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
            OK(rdma_disconnect(id)); // waits for DISCONNECTED
            rdma_destroy_ep(id);
        }
    } catch (const Failure& failure) {
        add_failure("synchronous peer: " + failure.what);
    }
}

int tcp_listen(uint16_t port) {
    Address any("0.0.0.0", port);
    const int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, any, sizeof(sockaddr_in)) || listen(fd, 8))
        prog::fail("TCP port %u: %s", port, std::strerror(errno));
    return fd;
}

void serve_http(int listener) {
    for (int fd; (fd = ::accept(listener, nullptr, nullptr)) >= 0;) {
        static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
        if (write(fd, text, sizeof(text)) < 0)
            add_failure("HTTP peer");
        close(fd);
    }
}

void serve_without_reply(int listener) {
    while (::accept(listener, nullptr, nullptr) >= 0) {
    }
}

} // namespace

std::vector<std::string> serve(uint16_t port) {
    auto* channel = new Channel; // released at exit
    for (const Port which : {ACCEPTS, ACCEPTS_ANY, REJECTS, DESTROYS_REQUEST, NO_REPLY, DISCONNECTS,
                             DESTROYS_CONNECTION, WRONG_QP, STOP}) {
        auto* listener = new Id(*channel);
        (*listener)->context = reinterpret_cast<void*>(static_cast<uintptr_t>(which));
        Address any("0.0.0.0", static_cast<uint16_t>(port + which));
        try {
            OK(rdma_bind_addr(*listener, any));
            OK(rdma_listen(*listener, 0));
        } catch (const Failure& failure) {
            prog::fail("%s", failure.what.c_str());
        }
    }
    std::thread(serve_http, tcp_listen(static_cast<uint16_t>(port + NOT_MPA))).detach();
    std::thread(serve_without_reply, tcp_listen(static_cast<uint16_t>(port + NO_MPA_REPLY))).detach();
    std::thread(serve_synchronously, static_cast<uint16_t>(port + SYNCHRONOUS)).detach();
    for (bool stop = false; !stop;) {
        const Event event = channel->next(1000000);

        stop = port_of(event.id) == STOP;
        try {
            handle(event);
        } catch (const Failure& failure) {
            add_failure("peer: " + failure.what);
        }
    }
    const std::lock_guard lock(guard);
    return failures;
}

} // namespace cm
