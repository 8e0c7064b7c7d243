// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fixture.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace races {

std::span<char> fixture_error;

namespace {

constexpr uint32_t write_event_command = 24; // newer than some <rdma/rdma_user_cm.h>
constexpr uint32_t user_event = 18;
constexpr int event_ms = 15000;            // for an event that needs the peer
constexpr uint32_t multicast = 0xe0010203; // 224.1.2.3

[[noreturn]] void fail(const char* what, int error) {
    std::snprintf(fixture_error.data(), fixture_error.size(), "%s: %s", what, std::strerror(error));
    _exit(9);
}

void must(const char* what, int error) {
    if (error)
        fail(what, error);
}

sockaddr_in6 address(uint32_t ip, uint16_t port) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(ip);
    v4.sin_port = htons(port);
    sockaddr_in6 storage{};
    std::memcpy(&storage, &v4, sizeof(v4));
    return storage;
}

void set_parameters(rdma_ucm_conn_param& param, uint32_t qpn) {
    param.qp_num = qpn;
    param.responder_resources = 1;
    param.initiator_depth = 1;
    // The peer knows the connection by the number of its QP.
    std::memcpy(param.private_data, &qpn, sizeof(qpn));
    param.private_data_len = sizeof(qpn);
    param.valid = 1;
}

} // namespace

const char* name_of(Id id) {
    static constexpr std::array<const char*, static_cast<size_t>(Id::count)> names = {
        "idle",     "bound",    "resolved",  "routed",    "connecting", "connected",
        "wildcard", "listener", "requested", "accepting", "datagram",   "joined"};
    return names.at(static_cast<size_t>(id));
}

size_t ids() {
    return static_cast<size_t>(device().roce ? Id::count : Id::datagram);
}

std::string verbs_path() {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/infiniband"))
        if (entry.path().filename().string().starts_with("uverbs"))
            return entry.path();
    return "/dev/infiniband/uverbs0";
}

// ---- commands of the connection manager

int CmClient::send(int fd, uint32_t command, const void* request, size_t length, size_t response) {
    std::vector<uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + length);
    const rdma_ucm_cmd_hdr header{command, static_cast<uint16_t>(length), static_cast<uint16_t>(response)};
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(&bytes[sizeof(header)], request, length);
    if (response) {
        // The address of the response is at the start of the request unless the command is listed here.
        const uint64_t at = response_.place(uv::Where::normal, response);
        size_t where = sizeof(header);
        if (command == RDMA_USER_CM_CMD_CREATE_ID)
            where += offsetof(rdma_ucm_create_id, response);
        else if (command == RDMA_USER_CM_CMD_MIGRATE_ID)
            where += offsetof(rdma_ucm_migrate_id, response);
        else if (command == RDMA_USER_CM_CMD_INIT_QP_ATTR)
            where += offsetof(rdma_ucm_init_qp_attr, response);
        else if (command == RDMA_USER_CM_CMD_QUERY_ROUTE || command == RDMA_USER_CM_CMD_QUERY)
            where += offsetof(rdma_ucm_query, response);
        std::memcpy(&bytes[where], &at, sizeof(at));
    }
    const uint64_t at = request_.place(uv::Where::normal, bytes.size(), bytes);
    return write(fd, reinterpret_cast<const void*>(at), bytes.size()) < 0 ? errno : 0;
}

int CmClient::create(int fd, uint32_t* id, bool datagram) {
    rdma_ucm_create_id cmd{};
    cmd.uid = 77;
    cmd.ps = datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
    cmd.qp_type = datagram ? IB_UVERBS_QPT_UD : IB_UVERBS_QPT_RC;
    const int error =
        send(fd, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(rdma_ucm_create_id_resp));
    if (!error && id)
        std::memcpy(id, response_.content().data(), sizeof(*id));
    return error;
}

int CmClient::destroy(int fd, uint32_t id) {
    rdma_ucm_destroy_id cmd{};
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(rdma_ucm_destroy_id_resp));
}

int CmClient::bind(int fd, uint32_t id, uint32_t ip, uint16_t port) {
    rdma_ucm_bind_ip cmd{};
    const sockaddr_in6 at = address(ip, port);
    std::memcpy(&cmd.addr, &at, sizeof(at));
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_BIND_IP, &cmd, sizeof(cmd));
}

int CmClient::resolve_to(int fd, uint32_t id, uint32_t destination, uint16_t port, uint32_t timeout_ms) {
    rdma_ucm_resolve_ip cmd{};
    const sockaddr_in6 to = address(destination, port);
    std::memcpy(&cmd.dst_addr, &to, sizeof(to));
    cmd.id = id;
    cmd.timeout_ms = timeout_ms;
    return send(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd));
}

// The variants of both with an address size, as librdmacm sends them.
int CmClient::bind_sockaddr(int fd, uint32_t id, uint32_t ip, uint16_t port) {
    rdma_ucm_bind cmd{};
    const sockaddr_in6 at = address(ip, port);
    std::memcpy(&cmd.addr, &at, sizeof(at));
    cmd.addr_size = sizeof(sockaddr_in);
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_BIND, &cmd, sizeof(cmd));
}

int CmClient::resolve_sockaddr(int fd, uint32_t id, uint32_t destination, uint32_t timeout_ms) {
    rdma_ucm_resolve_addr cmd{};
    const sockaddr_in6 to = address(destination, peer_port);
    std::memcpy(&cmd.dst_addr, &to, sizeof(to));
    cmd.dst_size = sizeof(sockaddr_in);
    cmd.id = id;
    cmd.timeout_ms = timeout_ms;
    return send(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &cmd, sizeof(cmd));
}

int CmClient::route(int fd, uint32_t id) {
    rdma_ucm_resolve_route cmd{};
    cmd.id = id;
    cmd.timeout_ms = 1000;
    return send(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &cmd, sizeof(cmd));
}

int CmClient::listen(int fd, uint32_t id) {
    rdma_ucm_listen cmd{};
    cmd.id = id;
    cmd.backlog = 8;
    return send(fd, RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd));
}

int CmClient::connect(int fd, uint32_t id, uint32_t qpn) {
    rdma_ucm_connect cmd{};
    cmd.id = id;
    set_parameters(cmd.conn_param, qpn);
    return send(fd, RDMA_USER_CM_CMD_CONNECT, &cmd, sizeof(cmd));
}

int CmClient::accept(int fd, uint32_t id, uint32_t qpn) {
    rdma_ucm_accept cmd{};
    cmd.uid = 78;
    cmd.id = id;
    set_parameters(cmd.conn_param, qpn);
    return send(fd, RDMA_USER_CM_CMD_ACCEPT, &cmd, sizeof(cmd));
}

int CmClient::establish(int fd, uint32_t id) {
    rdma_ucm_accept cmd{};
    cmd.uid = 78;
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_ACCEPT, &cmd, sizeof(cmd));
}

int CmClient::reject(int fd, uint32_t id) {
    rdma_ucm_reject cmd{};
    cmd.id = id;
    cmd.private_data_len = 4;
    return send(fd, RDMA_USER_CM_CMD_REJECT, &cmd, sizeof(cmd));
}

int CmClient::disconnect(int fd, uint32_t id) {
    rdma_ucm_disconnect cmd{};
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_DISCONNECT, &cmd, sizeof(cmd));
}

int CmClient::attributes(int fd, uint32_t id, uint32_t state) {
    rdma_ucm_init_qp_attr cmd{};
    cmd.id = id;
    cmd.qp_state = state;
    return send(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &cmd, sizeof(cmd), sizeof(ib_uverbs_qp_attr));
}

int CmClient::query_route(int fd, uint32_t id) {
    rdma_ucm_query cmd{};
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, &cmd, sizeof(cmd), sizeof(rdma_ucm_query_route_resp));
}

int CmClient::query(int fd, uint32_t id, uint32_t option) {
    rdma_ucm_query cmd{};
    cmd.id = id;
    cmd.option = option;
    return send(fd, RDMA_USER_CM_CMD_QUERY, &cmd, sizeof(cmd), 1024);
}

int CmClient::option(int fd, uint32_t id) {
    rdma_ucm_set_option cmd{};
    const std::array<uint8_t, 4> on = {1, 0, 0, 0};
    cmd.optval = option_.place(uv::Where::normal, on.size(), on);
    cmd.id = id;
    cmd.level = RDMA_OPTION_ID;
    cmd.optname = RDMA_OPTION_ID_REUSEADDR;
    cmd.optlen = on.size();
    return send(fd, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd));
}

int CmClient::notify(int fd, uint32_t id) {
    rdma_ucm_notify cmd{};
    cmd.id = id;
    cmd.event = 4;
    return send(fd, RDMA_USER_CM_CMD_NOTIFY, &cmd, sizeof(cmd));
}

int CmClient::join_ip(int fd, uint32_t id) {
    rdma_ucm_join_ip_mcast cmd{};
    const sockaddr_in6 group = address(multicast, 0);
    std::memcpy(&cmd.addr, &group, sizeof(group));
    cmd.id = id;
    return send(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, &cmd, sizeof(cmd), sizeof(rdma_ucm_create_id_resp));
}

int CmClient::join(int fd, uint32_t id, uint32_t* group) {
    rdma_ucm_join_mcast cmd{};
    const sockaddr_in6 to = address(multicast, 0);
    std::memcpy(&cmd.addr, &to, sizeof(to));
    cmd.addr_size = sizeof(sockaddr_in);
    cmd.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
    cmd.id = id;
    const int error =
        send(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &cmd, sizeof(cmd), sizeof(rdma_ucm_create_id_resp));
    if (!error && group)
        std::memcpy(group, response_.content().data(), sizeof(*group));
    return error;
}

int CmClient::leave(int fd, uint32_t group) {
    rdma_ucm_destroy_id cmd{};
    cmd.id = group;
    return send(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, &cmd, sizeof(cmd), sizeof(rdma_ucm_destroy_id_resp));
}

int CmClient::event(int fd, uint32_t* event, uint32_t* id, uint32_t* number) {
    rdma_ucm_get_event cmd{};
    const int error = send(fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(rdma_ucm_event_resp));
    rdma_ucm_event_resp response{};
    std::memcpy(&response, response_.content().data(),
                std::min(sizeof(response), response_.content().size()));
    if (event)
        *event = response.event;
    if (id)
        *id = response.id;
    if (number)
        std::memcpy(number, response.param.conn.private_data, sizeof(*number));
    return error;
}

int CmClient::migrate(int fd, uint32_t id, int from) {
    rdma_ucm_migrate_id cmd{};
    cmd.id = id;
    cmd.fd = static_cast<uint32_t>(from);
    return send(fd, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), sizeof(rdma_ucm_migrate_resp));
}

int CmClient::write_event(int fd, uint32_t id) {
    struct {
        uint32_t id, reserved, event, status;
        uint8_t param[304];
    } cmd{};
    cmd.id = id;
    cmd.event = user_event;
    return send(fd, write_event_command, &cmd, sizeof(cmd));
}

// ---- the fixture

int Fixture::start_child() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    const pid_t child = fork();
    const int error = child < 0 ? errno : 0;
    if (child == 0) {
        close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            ;
        _exit(shows_removed_device_here());
    }
    close(ends[0]);
    if (error) {
        close(ends[1]);
        return error;
    }
    child_ = child;
    child_waits_ = ends[1];
    return 0;
}

bool Fixture::shows_removed_device_here() const {
    if (!world_ || !mapping)
        return false;
    // The file of a removed device cannot be mapped any more.
    void* more = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, world_->fd(), 0);
    if (more != MAP_FAILED)
        munmap(more, 4096);
    return more == MAP_FAILED && errno == EIO &&
           static_cast<const volatile uint32_t*>(mapping)[1] == T3_RACES_PAGE;
}

bool Fixture::shows_removed_device() {
    int status = 0;
    if (child_ > 0) {
        close(child_waits_);
        waitpid(child_, &status, 0);
    }
    return shows_removed_device_here() || (WIFEXITED(status) && WEXITSTATUS(status));
}

Fixture::Fixture(const Needs& needs, Facts& facts) : facts_(facts) {
    if (!needs.files)
        return;
    if (device().roce) {
        make_numbers();
        if (needs.connections)
            make_connections();
        return;
    }
    const std::string path = verbs_path();
    world_ = new uv::World(sender_, path);
    fresh = world_->open_device();
    // The second word of the response is the QP's number.
    const auto create = [this](uint32_t* handle, uint32_t* number) {
        const uv::Outcome made = sender_.write(world_->fd(), world_->message(uv::command("create_qp")));
        must("create_qp", made.error);
        *handle = made.handle();
        *number = made.word(4);
    };
    facts_.world_qpn = 1;
    device().report(T3_RACES_EV_QP_EVENT, facts_.world_qpn);
    device().report(T3_RACES_EV_COMPLETION, facts_.world_qpn);
    if (needs.mapped) {
        mapping = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, world_->fd(), 0);
        if (mapping == MAP_FAILED)
            fail("mmap", errno);
    }
    if (!needs.connections)
        return;
    for (size_t i = 0; i < qp_handle_.size(); i++)
        create(&qp_handle_.at(i), &facts_.qpn.at(i));
    make_connections();
}

// Over RoCE the manager passes the number of a QP on and does not look it up. There is no file of the verbs
// device: ib_uverbs would not remove the device while one is open. ib_cm at the peer refuses the number of an
// earlier connection for some seconds.
void Fixture::make_numbers() {
    const auto first = static_cast<uint32_t>(getpid() * 16) & 0xffffff;
    for (uint32_t i = 0; i < facts_.qpn.size(); i++)
        facts_.qpn.at(i) = first + i;
    facts_.world_qpn = first + static_cast<uint32_t>(facts_.qpn.size());
}

uint32_t Fixture::make_id(Id id) {
    CmClient client;
    must("create an id", client.create(cm, &ids_.at(static_cast<size_t>(id)), id >= Id::datagram));
    return ids_.at(static_cast<size_t>(id));
}

uint32_t Fixture::next_event(uint32_t expected) {
    CmClient client;
    uint32_t event, id;
    pollfd ready{cm, POLLIN, 0};
    if (poll(&ready, 1, event_ms) != 1) {
        std::snprintf(fixture_error.data(), fixture_error.size(), "no event %u after %d s", expected,
                      event_ms / 1000);
        _exit(9);
    }
    must("get an event", client.event(cm, &event, &id));
    if (event != expected) {
        std::snprintf(fixture_error.data(), fixture_error.size(), "event %u instead of %u", event, expected);
        _exit(9);
    }
    return id;
}

void Fixture::resolve(Id which, bool route) {
    CmClient client;
    const uint32_t id = make_id(which);
    must("resolve an address", client.resolve(cm, id, device().peer, 1000));
    next_event(addr_resolved);
    if (!route)
        return;
    must("resolve a route", client.route(cm, id));
    next_event(route_resolved);
}

void Fixture::make_connections() {
    CmClient client;
    const auto qpn = [this](Queue queue) { return facts_.qpn.at(static_cast<size_t>(queue)); };

    cm = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
    other_cm = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
    if (cm < 0 || other_cm < 0)
        fail("/dev/infiniband/rdma_cm", errno);
    must("earlier connections", device().end_earlier_connections());

    make_id(Id::idle);
    must("bind", client.bind(cm, make_id(Id::bound), device().here, 0));
    resolve(Id::resolved, false);
    resolve(Id::routed, true);
    resolve(Id::connecting, true);
    must("connect", client.connect(cm, id(Id::connecting), qpn(Queue::connecting)));
    resolve(Id::connected, true);
    must("init_qp_attr", client.attributes(cm, id(Id::connected), 1));
    must("connect", client.connect(cm, id(Id::connected), qpn(Queue::connected)));
    must("reply", device().report(T3_RACES_EV_REPLY, qpn(Queue::connected)));
    if (device().roce) {
        next_event(connect_response);
        must("establish", client.establish(cm, id(Id::connected)));
    } else {
        next_event(established);
    }

    must("bind", client.bind(cm, make_id(Id::wildcard), INADDR_ANY, wildcard_port));
    must("listen", client.listen(cm, id(Id::wildcard)));
    must("bind", client.bind(cm, make_id(Id::listener), device().here, listener_port));
    must("listen", client.listen(cm, id(Id::listener)));
    for (const Id passive : {Id::requested, Id::accepting}) {
        must("request", device().report(T3_RACES_EV_REQUEST, listener_port));
        ids_.at(static_cast<size_t>(passive)) = next_event(connect_request);
    }
    must("accept", client.accept(cm, id(Id::accepting), qpn(Queue::accepting)));
    if (device().roce)
        make_datagrams();
    // An unread request of each listener.
    must("request", device().report(T3_RACES_EV_REQUEST, listener_port));
    must("request", device().report(T3_RACES_EV_REQUEST, wildcard_port));
}

void Fixture::make_datagrams() {
    CmClient client;
    resolve(Id::datagram, true);
    resolve(Id::joined, false);
    must("join", client.join(cm, id(Id::joined), &group_));
    next_event(multicast_join);
}

} // namespace races
