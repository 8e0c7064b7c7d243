// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Arguments, errors and results of each call, page by page.
#include "cm_pages.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cm {
namespace {

constexpr uint16_t OWN_PORT = 7600; // for binding
constexpr auto SHORT_TIME = std::chrono::milliseconds(100);

int set(rdma_cm_id* id, int option, int value, size_t length = sizeof(int)) {
    return rdma_set_option(id, RDMA_OPTION_ID, option, &value, length);
}

Id bound(rdma_event_channel* channel, const std::string& address, uint16_t port, bool reuse = false) {
    Id id(channel);
    if (reuse)
        OK(set(id, RDMA_OPTION_ID_REUSEADDR, 1));
    OK(rdma_bind_addr(id, Address(address, port)));
    return id;
}

// ---- rdma_create_id, rdma_create_event_channel, rdma_get_devices

void an_unknown_port_space(const Run&) {
    Channel channel;
    rdma_cm_id* id;
    FAILS(rdma_create_id(channel, &id, nullptr, static_cast<rdma_port_space>(0x999)), EINVAL);
}

void each_port_space(const Run&) {
    Channel channel;
    for (const rdma_port_space ps : {RDMA_PS_TCP, RDMA_PS_UDP}) {
        Id id(channel, ps);
        HOLDS(id->ps == ps && id->channel == channel && !id->verbs && rdma_get_src_port(id) == 0);
        OK(id.destroy());
    }
}

void the_devices(const Run& run) {
    int count = 0;
    ibv_context** devices = rdma_get_devices(&count);
    HOLDS(devices && count > 0 && !devices[count]);
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    HOLDS(std::find(devices, devices + count, id->verbs) != devices + count); // opened once for all
    rdma_free_devices(devices);
}

void names_of_events(const Run&) {
    HOLDS(!std::strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED"));
    HOLDS(!std::strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
}

// ---- rdma_destroy_id

void destroy_cancels_a_resolution(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, Address(run.peer.substr(0, run.peer.rfind('.')) + ".98", 7000), 5000));
    OK(id.destroy());
    channel.expect_nothing(100);
}

void destroy_waits_for_unacknowledged_events(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    rdma_cm_event* event = channel.take();
    auto destroyed = std::async(std::launch::async, [&] { return id.destroy(); });
    const bool waited = destroyed.wait_for(SHORT_TIME) == std::future_status::timeout;
    OK(rdma_ack_cm_event(event));
    OK(destroyed.get());
    HOLDS(waited);
}

void destroy_discards_unread_events(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    HOLDS(prog::wait_readable(static_cast<rdma_event_channel*>(channel)->fd, prog::in_ms(15000)));
    OK(id.destroy());
    channel.expect_nothing();
}

void destroy_while_it_connects(const Run& run, Port to, bool with_qp) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(to));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    rdma_cm_id* raw = id;
    const auto start = prog::Clock::now();
    ibv_qp* qp = with_qp ? nullptr : std::exchange(raw->qp, nullptr);
    OK(id.destroy());
    if (qp)
        OK(ibv_destroy_qp(qp));
    HOLDS(prog::Clock::now() - start < std::chrono::seconds(5));
    channel.expect_nothing();
}

// The peer has the request and does not reply. In-tree rdma_destroy_id() waits for the reply.
void destroy_the_id_before_its_qp(const Run& run) {
    if (!run.in_tree)
        destroy_while_it_connects(run, NO_REPLY, false);
}

void destroy_the_qp_before_its_id(const Run& run) {
    destroy_while_it_connects(run, NO_REPLY, true);
}

// The TCP connection is established, and no MPA reply comes.
void destroy_without_an_mpa_reply(const Run& run) {
    destroy_while_it_connects(run, NO_MPA_REPLY, true);
}

// ---- rdma_bind_addr, rdma_get_src_port

void bind_to_a_wildcard(const Run&) {
    Channel channel;
    const Id id = bound(channel, "0.0.0.0", 0);
    HOLDS(rdma_get_src_port(id) != 0 && !id->verbs);
}

void bind_to_an_address(const Run& run) {
    Channel channel;
    const Id id = bound(channel, own_address(run), OWN_PORT);
    HOLDS(ntohs(rdma_get_src_port(id)) == OWN_PORT && id->verbs && id->port_num);
}

void bind_to_a_remote_address(const Run& run) {
    Channel channel;
    Id id(channel);
    FAILS_WITH_ONE_OF(rdma_bind_addr(id, run.to(ACCEPTS)), ENODEV, EADDRNOTAVAIL);
    OK(rdma_bind_addr(id, Address("0.0.0.0", OWN_PORT))); // the failure changed nothing
}

void bind_to_no_address(const Run&) {
    Channel channel;
    Id id(channel);
    sockaddr_storage none{};
    FAILS(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&none)), EINVAL);
    none.ss_family = AF_UNIX;
    FAILS(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&none)), EINVAL);
}

void bind_twice(const Run&) {
    Channel channel;
    const Id id = bound(channel, "0.0.0.0", OWN_PORT);
    FAILS(rdma_bind_addr(id, Address("0.0.0.0", OWN_PORT + 1)), EINVAL);
}

void bind_to_a_port_in_use(const Run& run) {
    Channel channel;
    const std::string own = own_address(run);
    const Id first = bound(channel, own, OWN_PORT);
    Id second(channel), any(channel);
    FAILS(rdma_bind_addr(second, Address(own, OWN_PORT)), EADDRINUSE);
    FAILS(rdma_bind_addr(any, Address("0.0.0.0", OWN_PORT)), EADDRNOTAVAIL);
    OK(rdma_bind_addr(second, Address(own, OWN_PORT + 1)));
}

// Runs a function in a child process as an ordinary user; its result, or -1 if the process failed.
int as_ordinary_user(int (*run)()) {
    const pid_t child = fork();
    if (!child)
        _exit(setuid(65534) ? 255 : run());
    int status = 0;
    HOLDS(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void bind_to_a_privileged_port(const Run&) {
    HOLDS(as_ordinary_user([] {
              Channel channel;
              Id id(channel);
              const int result = rdma_bind_addr(id, Address("0.0.0.0", 80));
              return result ? errno : 0;
          }) == EACCES);
    Channel channel;
    bound(channel, "0.0.0.0", 80);
}

// ---- rdma_resolve_addr, rdma_resolve_route

void resolve_binds_to_the_device(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    HOLDS(id->verbs && id->port_num && rdma_get_src_port(id) &&
          ntohs(rdma_get_dst_port(id)) == run.port + ACCEPTS);
    HOLDS(reinterpret_cast<sockaddr_in*>(rdma_get_peer_addr(id))->sin_addr.s_addr ==
          reinterpret_cast<sockaddr_in*>(static_cast<sockaddr*>(run.to(ACCEPTS)))->sin_addr.s_addr);
    HOLDS(reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(id))->sin_addr.s_addr != 0);
}

void resolve_from_a_source(const Run& run) {
    Channel channel;
    Address own(own_address(run), 0);
    Id id(channel), wrong(channel), mixed(channel);
    OK(rdma_resolve_addr(id, own, run.to(ACCEPTS), 2000));
    channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    HOLDS(reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(id))->sin_addr.s_addr ==
          reinterpret_cast<sockaddr_in*>(static_cast<sockaddr*>(own))->sin_addr.s_addr);
    FAILS_WITH_ONE_OF(rdma_resolve_addr(wrong, Address("203.0.113.1", 0), run.to(ACCEPTS), 2000), ENODEV,
                      EADDRNOTAVAIL);
    FAILS(rdma_resolve_addr(mixed, Address("::", 0), run.to(ACCEPTS), 2000), EINVAL);
}

void resolve_without_a_route(const Run&) {
    Channel channel;
    Id id(channel);
    sockaddr_storage none{};
    FAILS(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&none), 2000), EINVAL);
    // Without a route: an error, or an event.
    if (rdma_resolve_addr(id, nullptr, Address("203.0.113.9", 7000), 2000))
        HOLDS(errno == ENETUNREACH || errno == ENODEV);
    else
        channel.expect(RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
}

void resolve_twice(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    FAILS(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000), EINVAL);
    OK(rdma_resolve_route(id, 2000));
    FAILS(rdma_resolve_route(id, 2000), EINVAL);
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    FAILS(rdma_resolve_route(id, 2000), EINVAL);
}

void a_route_before_the_address(const Run& run) {
    Channel channel;
    Id id(channel); // with a device, since the library crashes without one
    const Id listener = bound(channel, own_address(run), OWN_PORT);
    FAILS(rdma_resolve_route(listener, 2000), EINVAL);
    resolve(channel, id, run.to(ACCEPTS));
    FAILS(rdma_resolve_route(id, 0), EINVAL);
    OK(rdma_resolve_route(id, 2000));
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

// ---- rdma_connect

void connect_before_the_route(const Run& run) {
    Channel channel;
    Id id(channel); // with a device, since the library crashes without one
    rdma_conn_param param = parameters();
    resolve(channel, id, run.to(ACCEPTS));
    id.create_qp();
    FAILS(rdma_connect(id, &param), EINVAL);
    channel.expect_nothing();
}

void connect_with_an_unknown_qp(const Run& run) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(ACCEPTS), false);
    rdma_conn_param param = parameters();
    param.qp_num = 0xbeef;
    FAILS(rdma_connect(id, &param), EINVAL);
    // No event, and a second connect succeeds.
    channel.expect_nothing();
    id.create_qp();
    OK(rdma_connect(id, &param));
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    OK(rdma_disconnect(id));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

void connect_with_depths_above_the_limit(const Run& run) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(ACCEPTS));
    ibv_device_attr attr{};
    OK(ibv_query_device(id->verbs, &attr));
    rdma_conn_param param = parameters();
    param.responder_resources = static_cast<uint8_t>(attr.max_qp_rd_atom + 1);
    FAILS(rdma_connect(id, &param), EINVAL);
    param = parameters();
    param.initiator_depth = static_cast<uint8_t>(attr.max_qp_init_rd_atom + 1);
    FAILS(rdma_connect(id, &param), EINVAL);
}

void connect_twice(const Run& run) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(ACCEPTS));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    FAILS(rdma_connect(id, &param), EINVAL);
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    FAILS(rdma_connect(id, &param), EINVAL);
    OK(rdma_disconnect(id));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    FAILS(rdma_connect(id, &param), EINVAL);
}

// Two connections must differ in their 4-tuple.
void connect_with_a_4_tuple_in_use(const Run& run) {
    Channel channel;
    const std::string own = own_address(run);
    Id ids[2] = {bound(channel, own, OWN_PORT + 2, true), bound(channel, own, OWN_PORT + 2, true)};
    for (Id& id : ids) {
        resolve(channel, id, run.to(ACCEPTS));
        OK(rdma_resolve_route(id, 2000));
        channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
        id.create_qp();
    }
    rdma_conn_param param = parameters();
    OK(rdma_connect(ids[0], &param));
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    if (rdma_connect(ids[1], &param))
        HOLDS(errno == EADDRINUSE);
    else
        channel.expect(RDMA_CM_EVENT_CONNECT_ERROR, -EADDRINUSE);
    OK(rdma_disconnect(ids[0]));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

// ---- rdma_listen

void listen_without_an_address(const Run&) {
    Channel channel;
    const Id id(channel);
    OK(rdma_listen(id, 4));
    FAILS(rdma_listen(id, 4), EINVAL);
}

void listen_with_any_backlog(const Run&) {
    Channel channel;
    for (const int backlog : {0, 1, -1, 1 << 30}) {
        const Id id = bound(channel, "0.0.0.0", OWN_PORT + 3);
        OK(rdma_listen(id, backlog));
    }
}

void listen_on_a_port_in_use(const Run& run) {
    Channel channel;
    const std::string own = own_address(run);
    const Id first = bound(channel, own, OWN_PORT + 4, true),
             second = bound(channel, own, OWN_PORT + 4, true);
    FAILS(rdma_listen(first, 4), EADDRINUSE); // a shared port cannot have a listener
    Id alone = bound(channel, own, OWN_PORT + 5, true);
    OK(rdma_listen(alone, 4));
    Id late(channel);
    OK(set(late, RDMA_OPTION_ID_REUSEADDR, 1));
    FAILS(rdma_bind_addr(late, Address(own, OWN_PORT + 5)), EADDRINUSE);
    OK(alone.destroy());
    OK(rdma_bind_addr(late, Address(own, OWN_PORT + 5)));
    OK(rdma_listen(late, 4));
}

void listen_with_a_resolved_id(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    FAILS(rdma_listen(id, 4), EINVAL);
}

// ---- rdma_accept, rdma_reject, rdma_establish, rdma_notify, rdma_disconnect in the wrong state

void calls_on_an_id_without_a_connection(const Run& run) {
    Channel channel;
    Id fresh(channel), listener = bound(channel, own_address(run), OWN_PORT + 6);
    OK(rdma_listen(listener, 4));
    rdma_conn_param param = parameters();
    FAILS(rdma_accept(listener, &param), EINVAL);
    for (rdma_cm_id* id : {static_cast<rdma_cm_id*>(fresh), static_cast<rdma_cm_id*>(listener)}) {
        FAILS(rdma_reject(id, nullptr, 0), EINVAL);
        FAILS(rdma_establish(id), EINVAL);
        FAILS(rdma_disconnect(id), EINVAL);
    }
    FAILS(rdma_notify(fresh, IBV_EVENT_COMM_EST), EINVAL);
    if (!run.in_tree) // which accepts a listener
        FAILS(rdma_notify(listener, IBV_EVENT_COMM_EST), EINVAL);
}

void calls_on_a_connection(const Run& run) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(ACCEPTS));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    FAILS(rdma_accept(id, &param), EINVAL);
    FAILS(rdma_reject(id, nullptr, 0), EINVAL);
    FAILS(rdma_establish(id), EINVAL);
    FAILS(rdma_listen(id, 1), EINVAL);
    if (rdma_notify(id, IBV_EVENT_COMM_EST))
        HOLDS(errno == EISCONN);
    OK(rdma_disconnect(id));
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    channel.expect_nothing();
}

void one_qp_for_an_id(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    id.create_qp();
    ibv_qp_init_attr attr = small_qp();
    FAILS(rdma_create_qp(id, nullptr, &attr), EINVAL);
}

// ---- rdma_get_cm_event

void get_event_nonblocking(const Run& run) {
    Channel channel;
    const int fd = static_cast<rdma_event_channel*>(channel)->fd;
    HOLDS(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    rdma_cm_event* event;
    FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    pollfd ready{fd, POLLIN, 0};
    HOLDS(poll(&ready, 1, 15000) == 1 && ready.revents == POLLIN);
    OK(rdma_get_cm_event(channel, &event));
    OK(rdma_ack_cm_event(event));
    HOLDS(poll(&ready, 1, 0) == 0);
    FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
}

void get_event_blocks(const Run& run) {
    Channel channel;
    auto taken = std::async(std::launch::async, [&] { return channel.next().type; });
    HOLDS(taken.wait_for(SHORT_TIME) == std::future_status::timeout);
    Id id(channel);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    HOLDS(taken.get() == RDMA_CM_EVENT_ADDR_RESOLVED);
}

void a_signal_while_it_waits(const Run&) {
    Channel channel;
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr); // without SA_RESTART
    const pid_t parent = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 100; i++) {
            usleep(20000);
            kill(parent, SIGUSR1);
        }
        _exit(0);
    }
    rdma_cm_event* event;
    const int result = rdma_get_cm_event(channel, &event), error = errno;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    HOLDS(result == -1 && error == EINTR);
}

void events_of_one_id_in_their_order(const Run& run) {
    Channel channel;
    Id id = ready_to_connect(channel, run.to(DISCONNECTS));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    channel.expect_nothing();
}

// ---- rdma_migrate_id

void migrate_moves_events(const Run& run) {
    Channel from, to;
    Id id(from);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    HOLDS(prog::wait_readable(static_cast<rdma_event_channel*>(from)->fd, prog::in_ms(15000)));
    OK(rdma_migrate_id(id, to));
    HOLDS(id->channel == to);
    from.expect_nothing();
    to.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    OK(rdma_resolve_route(id, 2000));
    to.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void migrate_waits_for_unacknowledged_events(const Run& run) {
    Channel from, to;
    Id id(from);
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000));
    rdma_cm_event* event = from.take();
    auto moved = std::async(std::launch::async, [&] { return rdma_migrate_id(id, to); });
    const bool waited = moved.wait_for(SHORT_TIME) == std::future_status::timeout;
    OK(rdma_ack_cm_event(event));
    OK(moved.get());
    HOLDS(waited);
}

void migrate_to_no_channel_and_back(const Run& run) {
    Channel channel;
    Id id(channel);
    OK(rdma_migrate_id(id, nullptr));
    OK(rdma_resolve_addr(id, nullptr, run.to(ACCEPTS), 2000)); // waits
    HOLDS(id->verbs && id->event && id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
    OK(rdma_migrate_id(id, channel));
    OK(rdma_resolve_route(id, 2000));
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void migrate_a_connection(const Run& run) {
    Channel from, to;
    Id id = ready_to_connect(from, run.to(ACCEPTS));
    rdma_conn_param param = parameters();
    OK(rdma_connect(id, &param));
    from.expect(RDMA_CM_EVENT_ESTABLISHED);
    OK(rdma_migrate_id(id, to));
    OK(rdma_disconnect(id));
    to.expect(RDMA_CM_EVENT_DISCONNECTED);
    from.expect_nothing();
}

// ---- rdma_set_option

void options(const Run&) {
    Channel channel;
    Id id(channel), datagram(channel, RDMA_PS_UDP);
    OK(set(id, RDMA_OPTION_ID_TOS, 0x10, 1));
    FAILS(set(id, RDMA_OPTION_ID_TOS, 0x10, 4), EINVAL);
    OK(set(id, RDMA_OPTION_ID_REUSEADDR, 1));
    OK(set(id, RDMA_OPTION_ID_REUSEADDR, 0));
    FAILS(set(id, RDMA_OPTION_ID_REUSEADDR, 1, 1), EINVAL);
    OK(set(id, RDMA_OPTION_ID_AFONLY, 1));
    FAILS(set(id, RDMA_OPTION_ID_AFONLY, 1, 2), EINVAL);
    OK(set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 5, 1));
    FAILS(set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 5, 4), EINVAL);
    FAILS(set(datagram, RDMA_OPTION_ID_ACK_TIMEOUT, 5, 1), EINVAL);
    FAILS(set(id, 99, 1), ENOSYS);
    FAILS(rdma_set_option(id, 99, 0, &id, 4), ENOSYS);
}

void options_after_listen(const Run&) {
    Channel channel;
    const Id id = bound(channel, "0.0.0.0", OWN_PORT + 7);
    OK(rdma_listen(id, 1));
    FAILS(set(id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
    FAILS(set(id, RDMA_OPTION_ID_AFONLY, 1), EINVAL);
}

void ipv4_and_ipv6_on_one_port(const Run&) {
    Channel channel;
    Id six(channel), four(channel), both(channel);
    OK(set(six, RDMA_OPTION_ID_AFONLY, 1));
    OK(rdma_bind_addr(six, Address("::", OWN_PORT + 8)));
    OK(rdma_bind_addr(four, Address("0.0.0.0", OWN_PORT + 8)));
    OK(set(both, RDMA_OPTION_ID_AFONLY, 0));
    FAILS(rdma_bind_addr(both, Address("::", OWN_PORT + 8)), EADDRNOTAVAIL);
}

// ---- not supported by iWARP

void multicast(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    HOLDS(rdma_join_multicast(id, Address("224.0.0.9", 0), nullptr) == -1);
    HOLDS(rdma_leave_multicast(id, Address("224.0.0.9", 0)) == -1);
    channel.expect_nothing();
}

} // namespace

const std::vector<Case> call_cases = {
    {"create_id: an unknown port space", an_unknown_port_space},
    {"create_id: each port space", each_port_space},
    {"get_devices: all, opened once", the_devices},
    {"event_str: names", names_of_events},
    {"destroy_id: cancels a resolution", destroy_cancels_a_resolution},
    {"destroy_id: waits for unacknowledged events", destroy_waits_for_unacknowledged_events},
    {"destroy_id: discards unread events", destroy_discards_unread_events},
    {"destroy_id: while it connects", destroy_the_id_before_its_qp},
    {"destroy_qp: while it connects", destroy_the_qp_before_its_id},
    {"destroy_qp: without an MPA reply", destroy_without_an_mpa_reply},
    {"bind_addr: a wildcard", bind_to_a_wildcard},
    {"bind_addr: an address", bind_to_an_address},
    {"bind_addr: a remote address", bind_to_a_remote_address},
    {"bind_addr: no address", bind_to_no_address},
    {"bind_addr: twice", bind_twice},
    {"bind_addr: a port in use", bind_to_a_port_in_use},
    {"bind_addr: a privileged port", bind_to_a_privileged_port},
    {"resolve_addr: binds to the device", resolve_binds_to_the_device},
    {"resolve_addr: from a source", resolve_from_a_source},
    {"resolve_addr: without a route", resolve_without_a_route},
    {"resolve_addr: twice", resolve_twice},
    {"resolve_route: before the address", a_route_before_the_address},
    {"connect: before the route", connect_before_the_route},
    {"connect: an unknown QP", connect_with_an_unknown_qp},
    {"connect: depths above the limit", connect_with_depths_above_the_limit},
    {"connect: twice", connect_twice},
    {"connect: a 4-tuple in use", connect_with_a_4_tuple_in_use},
    {"listen: without an address", listen_without_an_address},
    {"listen: any backlog", listen_with_any_backlog},
    {"listen: a port in use", listen_on_a_port_in_use},
    {"listen: with a resolved id", listen_with_a_resolved_id},
    {"accept, reject, establish, notify, disconnect: no connection", calls_on_an_id_without_a_connection},
    {"accept, reject, establish, notify, disconnect: a connection", calls_on_a_connection},
    {"create_qp: one for an id", one_qp_for_an_id},
    {"get_cm_event: nonblocking", get_event_nonblocking},
    {"get_cm_event: blocks", get_event_blocks},
    {"get_cm_event: a signal while it waits", a_signal_while_it_waits},
    {"get_cm_event: in their order", events_of_one_id_in_their_order},
    {"migrate_id: moves events", migrate_moves_events},
    {"migrate_id: waits for unacknowledged events", migrate_waits_for_unacknowledged_events},
    {"migrate_id: to no channel and back", migrate_to_no_channel_and_back},
    {"migrate_id: a connection", migrate_a_connection},
    {"set_option: each", options},
    {"set_option: after listen", options_after_listen},
    {"set_option: IPv4 and IPv6 on one port", ipv4_and_ipv6_on_one_port},
    {"join_multicast: not over iWARP", multicast},
};

} // namespace cm
