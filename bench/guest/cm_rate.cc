// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Connections with librdmacm, for bench/cm: server and client in one process, or one of them only ("server",
// "client"). With "own-qps" each side has made its QPs before, and connects them again and again: these
// connections have the cost of the manager, of librdmacm and of no QP.
//
// The client makes COUNT connections, PARALLEL at a time: id, address, route, QP, connect, and as soon as it
// is established disconnect and destroy; then the next one begins. The server accepts and follows. The first
// connections, twice PARALLEL, warm up caches on both sides and are in no figure.
//
// Prints one line of names and numbers:
//
//   ns         nanoseconds
//   cycles     of the TSC
//   idle       nanoseconds that the first CPU idled: where QEMU counts instructions, cycles without idling
//   are
//              instructions
//   switches   context switches of the machine
//   listen     cycles of an rdma_listen() with a backlog of 1024, the lowest of some
//   qp         cycles of a QP that is created, moved to INIT and destroyed
//   tcp        cycles of a connection of ordinary TCP over the same address, both ends
//
// The last two do not depend on the manager. A client prints the first four. A server prints "listens" when
// the client may begin, and at the end its switches.

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int backlog = 1024;
constexpr int patience_ms = 10000;
constexpr uint16_t port = 7475;
// libsiw takes the offset 0x90000 for "no queue", but the kernel assigns mmap offsets one after
// another, a page or more to each queue. The QP that would get this offset, the 72nd of a context, cannot be
// created (and errno is not set). The first CQ is so large that this page is inside its queue.
constexpr int cq_entries = 32768;
constexpr int samples = 100; // of figures that do not depend on the manager
constexpr int listens = 7;

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

bool own_qps;

// Objects that all connections of a side share, so that their cost is not part of a connection.
struct Shared {
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    std::vector<ibv_qp*> free;

    void use(ibv_context* device) {
        if (pd)
            return;
        ibv_device_attr limits{};
        check(ibv_query_device(device, &limits), "ibv_query_device");
        pd = ibv_alloc_pd(device);
        cq = ibv_create_cq(device, std::min(cq_entries, limits.max_cqe), nullptr, nullptr, 0);
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
    // The parameters of a connection over a QP that `id` has now.
    rdma_conn_param give_qp(rdma_cm_id* id) {
        rdma_conn_param param{};
        use(id->verbs);
        ibv_qp_init_attr attr = qp_attr();
        if (!own_qps) {
            check(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
            return param;
        }
        if (free.empty())
            free.push_back(ibv_create_qp(pd, &attr));
        ibv_qp* const qp = free.back();
        if (!qp)
            fail("ibv_create_qp");
        free.pop_back();
        id->context = qp;
        param.qp_num = qp->qp_num;
        // As for any QP that a program moves itself. It also has the manager report ESTABLISHED at once.
        ibv_qp_attr to_init{};
        to_init.qp_state = IBV_QPS_INIT;
        int mask = 0;
        check(rdma_init_qp_attr(id, &to_init, &mask), "rdma_init_qp_attr");
        return param;
    }
    void end(rdma_cm_id* id) {
        if (own_qps)
            free.push_back(static_cast<ibv_qp*>(id->context));
        else
            rdma_destroy_qp(id);
        check(rdma_destroy_id(id), "rdma_destroy_id");
    }
};

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

// All context switches of the machine.
uint64_t switches_now() {
    std::ifstream file("/proc/stat");
    std::string word;
    uint64_t value = 0;
    while (file >> word)
        if (word == "ctxt" && file >> value)
            return value;
    return 0;
}

// Returns the context switches of all but the first connections.
uint64_t serve(rdma_event_channel* channel, int first, int count) {
    Shared shared;
    rdma_conn_param param{};
    uint64_t switches = 0;
    for (int ended = 0; ended < first + count;) {
        rdma_cm_id* id = nullptr;
        const rdma_cm_event_type type = next(channel, id);
        switch (type) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            param = shared.give_qp(id);
            check(rdma_accept(id, &param), "rdma_accept");
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            rdma_disconnect(id);
            shared.end(id);
            if (++ended == first)
                switches = switches_now();
            break;
        default:
            unexpected(type);
        }
    }
    return switches_now() - switches;
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
        rdma_conn_param param = shared_.give_qp(id);
        if (!rdma_connect(id, &param))
            return;
        if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
            fail("rdma_connect");
        shared_.end(id);
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
            connect(id);
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            check(rdma_disconnect(id), "rdma_disconnect");
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            shared_.end(id);
            to_end_--;
            begin();
            break;
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
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
    int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (qp->context->device->transport_type == IBV_TRANSPORT_IB)
        mask |= IBV_QP_PKEY_INDEX;
    check(ibv_modify_qp(qp, &to_init, mask), "ibv_modify_qp");
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

rdma_cm_id* bound(rdma_event_channel* channel, sockaddr_in address) {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    check(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
    return id;
}

// An interrupt or a new page of memory adds to some rounds.
uint64_t cycles_of_listen(rdma_event_channel* channel, sockaddr_in address) {
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < listens; i++) {
        address.sin_port = htons(port + 2 + i);
        rdma_cm_id* id = bound(channel, address);
        const uint64_t before = __rdtsc();
        check(rdma_listen(id, backlog), "rdma_listen");
        lowest = std::min<uint64_t>(lowest, __rdtsc() - before);
        check(rdma_destroy_id(id), "rdma_destroy_id");
    }
    return lowest;
}

using Figures = std::vector<std::pair<const char*, uint64_t>>;

Figures run_client(const sockaddr_in& address, int parallel, int count) {
    Client(address, 2 * parallel).run(parallel);
    const uint64_t switches = switches_now(), idle = idle_ns(), started = ns_now(), cycles = __rdtsc();
    Client(address, count).run(parallel);
    const uint64_t spent_cycles = __rdtsc() - cycles, spent = ns_now() - started, idled = idle_ns() - idle;
    return {
        {"ns", spent}, {"cycles", spent_cycles}, {"idle", idled}, {"switches", switches_now() - switches}};
}

Figures run_both(const sockaddr_in& address, int parallel, int count) {
    rdma_event_channel* channel = rdma_create_event_channel();
    const uint64_t listen = cycles_of_listen(channel, address);
    rdma_cm_id* listener = bound(channel, address);
    check(rdma_listen(listener, backlog), "rdma_listen");
    std::thread server(serve, channel, 2 * parallel, count);
    Figures found = run_client(address, parallel, count);
    server.join();
    Shared shared;
    shared.use(listener->verbs);
    found.emplace_back("listen", listen);
    found.emplace_back("qp", cycles_each([&] { make_qp(shared); }));
    found.emplace_back("tcp", cycles_of_tcp(address));
    return found;
}

Figures run_server(const sockaddr_in& address, int parallel, int count) {
    rdma_event_channel* channel = rdma_create_event_channel();
    rdma_cm_id* listener = bound(channel, address);
    check(rdma_listen(listener, backlog), "rdma_listen");
    std::puts("listens");
    std::fflush(stdout);
    return {{"switches", serve(channel, 2 * parallel, count)}};
}

} // namespace

int main(int argc, char** argv) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    const std::string_view side = argc == 5 ? argv[4] : "both";
    own_qps = side == "own-qps";
    if (argc < 4 || argc > 5 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 ||
        (side != "both" && side != "server" && side != "client" && !own_qps)) {
        std::fprintf(stderr, "usage: %s ADDRESS PARALLEL COUNT [server | client | own-qps]\n", argv[0]);
        return 2;
    }
    auto* const run = side == "server" ? run_server : side == "client" ? run_client : run_both;
    for (const auto& [name, number] : run(address, std::atoi(argv[2]), std::atoi(argv[3])))
        std::printf("%s %llu ", name, static_cast<unsigned long long>(number));
    std::puts("");
    return 0;
}
