// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Connections through librdmacm with the loaded connection manager: a server and a client in one
// process, over one device.
//
//     t3-cm-rate ADDRESS PARALLEL COUNT
//
// The client makes COUNT connections, PARALLEL of them at a time: id, address, route, QP, connect, and as
// soon as it is established disconnect and destroy; then the next one begins. The server accepts and follows.
// Prints one line of names and numbers: nanoseconds, TSC cycles, nanoseconds that the first CPU idled (where
// QEMU counts instructions, cycles without idling are instructions), and the cycles of an rdma_listen() with
// a backlog of 1024. "qp" and "tcp" are cycles that do not depend on the connection manager: a QP that is
// created, moved to INIT and destroyed, and a connection of ordinary TCP over the same address, both ends.

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace {

constexpr int backlog = 1024;
constexpr int patience_ms = 10000;
constexpr uint16_t port = 7475;
// libsiw takes the offset 0x90000 for "no queue", but the kernel assigns mmap offsets one after
// another, a page or more to each queue. The QP that would get this offset, the 72nd of a context, cannot be
// created (and errno is not set). The first CQ is so large that this page is inside its queue.
constexpr int cq_entries = 32768;
constexpr int samples = 100; // of figures that do not depend on the manager

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

void check(int result, const char* what) {
    if (result > 0) // libibverbs returns an error number, which need not be in errno
        errno = result;
    if (result)
        fail(what);
}

// Objects that all connections of a side share, so that their cost is not part of a connection.
struct Shared {
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;

    void use(ibv_context* device) {
        if (pd)
            return;
        pd = ibv_alloc_pd(device);
        cq = ibv_create_cq(device, cq_entries, nullptr, nullptr, 0);
        if (!pd || !cq)
            fail("PD and CQ");
    }
    ibv_qp_init_attr qp_attr() const {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq;
        attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
        attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
        attr.qp_type = IBV_QPT_RC;
        return attr;
    }
    void give_qp(rdma_cm_id* id) {
        use(id->verbs);
        ibv_qp_init_attr attr = qp_attr();
        check(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
    }
};

void end(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    check(rdma_destroy_id(id), "rdma_destroy_id");
}

// The next event, acknowledged: none here has anything that is wanted.
rdma_cm_event_type next(rdma_event_channel* channel, rdma_cm_id*& id) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    const rdma_cm_event_type type = event->event;
    id = event->id;
    if (event->status) {
        std::fprintf(stderr, "%s: status %d\n", rdma_event_str(type), event->status);
        std::exit(1);
    }
    check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    return type;
}

[[noreturn]] void unexpected(rdma_cm_event_type type) {
    std::fprintf(stderr, "%s was not expected\n", rdma_event_str(type));
    std::exit(1);
}

void serve(rdma_event_channel* channel, int count) {
    Shared shared;
    rdma_conn_param param{};
    for (int ended = 0; ended < count;) {
        rdma_cm_id* id = nullptr;
        const rdma_cm_event_type type = next(channel, id);
        switch (type) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            shared.give_qp(id);
            check(rdma_accept(id, &param), "rdma_accept");
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            rdma_disconnect(id);
            end(id);
            ended++;
            break;
        default:
            unexpected(type);
        }
    }
}

class Client {
public:
    Client(const sockaddr_in& server, int count) : server_(server), to_begin_(count), to_end_(count) {}

    void run(int parallel) {
        while (parallel--)
            begin();
        while (to_end_)
            step();
    }

private:
    void begin() {
        if (!to_begin_)
            return;
        to_begin_--;
        rdma_cm_id* id = nullptr;
        check(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
        check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&server_), patience_ms),
              "rdma_resolve_addr");
    }
    // A manager takes any port, and TCP may not yet have forgotten a connection that had it: another one,
    // then.
    void connect(rdma_cm_id* id) {
        rdma_conn_param param{};
        if (!rdma_connect(id, &param))
            return;
        if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
            fail("rdma_connect");
        end(id);
        to_begin_++;
        begin();
    }
    void step() {
        rdma_cm_id* id = nullptr;
        const rdma_cm_event_type type = next(channel_, id);
        switch (type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            check(rdma_resolve_route(id, patience_ms), "rdma_resolve_route");
            break;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            shared_.give_qp(id);
            connect(id);
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            check(rdma_disconnect(id), "rdma_disconnect");
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            end(id);
            to_end_--;
            begin();
            break;
        default:
            unexpected(type);
        }
    }

    sockaddr_in server_;
    int to_begin_, to_end_;
    rdma_event_channel* channel_ = rdma_create_event_channel();
    Shared shared_;
};

uint64_t idle_ns() {
    std::ifstream file("/proc/timer_list");
    std::string word, colon;
    uint64_t value = 0;
    while (file >> word)
        if (word == ".idle_sleeptime" && file >> colon >> value)
            return value;
    return 0;
}

// Figures that do not depend on the connection manager.

void make_qp(const Shared& shared) {
    ibv_qp_init_attr attr = shared.qp_attr();
    ibv_qp_attr to_init{};
    to_init.qp_state = IBV_QPS_INIT;
    to_init.port_num = 1;
    ibv_qp* qp = ibv_create_qp(shared.pd, &attr);
    if (!qp)
        fail("ibv_create_qp");
    check(ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "ibv_modify_qp");
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
}

// A socket whose port may be in TIME_WAIT, and may be bound again while it is in TIME_WAIT later.
int tcp_socket() {
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    check(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), "SO_REUSEADDR");
    return made;
}

void connect_tcp(int listening, const sockaddr_in& address) {
    const int client = tcp_socket();
    check(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "connect");
    const int server = accept(listening, nullptr, nullptr);
    if (client < 0 || server < 0)
        fail("accept");
    close(client);
    close(server);
}

template <typename Work> uint64_t cycles_each(Work work) {
    work();
    const uint64_t before = __rdtsc();
    for (int i = 0; i < samples; i++)
        work();
    return (__rdtsc() - before) / samples;
}

uint64_t cycles_of_tcp(sockaddr_in address) {
    address.sin_port = htons(port + 1);
    const int listening = tcp_socket();
    check(bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "bind");
    check(listen(listening, 1), "listen");
    const uint64_t cycles = cycles_each([&] { connect_tcp(listening, address); });
    close(listening);
    return cycles;
}

uint64_t ns_now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

} // namespace

int main(int argc, char** argv) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (argc != 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
        std::fprintf(stderr, "usage: %s ADDRESS PARALLEL COUNT\n", argv[0]);
        return 2;
    }
    const int parallel = std::atoi(argv[2]), count = std::atoi(argv[3]);

    rdma_event_channel* channel = rdma_create_event_channel();
    rdma_cm_id* listener = nullptr;
    if (!channel || rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP))
        fail("rdma_create_id");
    check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
    const uint64_t before_listen = __rdtsc();
    check(rdma_listen(listener, backlog), "rdma_listen");
    const uint64_t listen_cycles = __rdtsc() - before_listen;

    // The first connections warm up caches on both sides, and are not counted.
    std::thread server(serve, channel, 2 * parallel + count);
    Client(address, 2 * parallel).run(parallel);
    const uint64_t idle = idle_ns(), started = ns_now(), cycles = __rdtsc();
    Client(address, count).run(parallel);
    const uint64_t spent_cycles = __rdtsc() - cycles, spent = ns_now() - started, idled = idle_ns() - idle;
    server.join();
    Shared shared;
    shared.use(listener->verbs);
    const uint64_t qp = cycles_each([&] { make_qp(shared); }), tcp = cycles_of_tcp(address);
    const std::pair<const char*, uint64_t> found[] = {{"ns", spent},   {"cycles", spent_cycles},
                                                      {"idle", idled}, {"listen", listen_cycles},
                                                      {"qp", qp},      {"tcp", tcp}};
    for (const auto& [name, number] : found)
        std::printf("%s %llu ", name, static_cast<unsigned long long>(number));
    std::puts("");
    return 0;
}
