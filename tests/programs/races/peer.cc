// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "peer.hh"

#include "fixture.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <list>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace races {

namespace {

constexpr uint16_t request_port = 9009;
constexpr int request_ms = 1000;
constexpr std::chrono::milliseconds arrival_time{3000}; // of a connect request at the peer
constexpr size_t most_waiting = 16;                     // connect requests to which nothing was replied

struct Reply {
    uint32_t sequence;
    int32_t error;
};

sockaddr_in udp_address(uint32_t ip) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(ip);
    address.sin_port = htons(request_port);
    return address;
}

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

// A connection, in a file of the connection manager of its own if this end began it.
struct Connection {
    int cm;
    bool own_file;
    uint32_t id;
    uint32_t number;
    uint32_t qp = 0;       // handle
    bool answered = false; // accepted; rejected ones are removed
};

class Peer {
public:
    Peer() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), cm_(open_cm()) {
        const sockaddr_in any = udp_address(INADDR_ANY);
        if (socket_ < 0 || ::bind(socket_, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) < 0)
            fail("the socket for requests");
        uint32_t id;
        if (client_.create(cm_, &id) || client_.bind(cm_, id, INADDR_ANY, peer_port) ||
            client_.listen(cm_, id))
            fail("the listener");
    }
    Peer(const Peer&) = delete;

    void serve() {
        std::vector<pollfd> ready{{socket_, POLLIN, 0}, {cm_, POLLIN, 0}};
        for (const Connection& connection : connections_)
            if (connection.own_file)
                ready.push_back({connection.cm, POLLIN, 0});
        if (poll(ready.data(), ready.size(), -1) < 0)
            fail("poll");
        for (size_t i = 1; i < ready.size(); i++)
            if (ready[i].revents)
                take_event(ready[i].fd);
        if (ready[0].revents)
            take_request();
    }

private:
    static int open_cm() {
        const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
        if (fd < 0)
            fail("/dev/infiniband/rdma_cm");
        return fd;
    }

    void take_request() {
        PeerRequest request{};
        sockaddr_in from{};
        socklen_t size = sizeof(from);
        if (recvfrom(socket_, &request, sizeof(request), 0, reinterpret_cast<sockaddr*>(&from), &size) !=
            sizeof(request))
            return;
        const Reply reply{request.sequence, execute(request, ntohl(from.sin_addr.s_addr))};
        sendto(socket_, &reply, sizeof(reply), 0, reinterpret_cast<const sockaddr*>(&from), size);
    }

    int execute(const PeerRequest& request, uint32_t subject) {
        if (request.what == PeerRequest::connect)
            return begin(subject, static_cast<uint16_t>(request.number));
        if (request.what == PeerRequest::establish)
            return establish(request.number);
        if (request.what == PeerRequest::end_all) {
            while (!connections_.empty())
                remove(connections_.begin());
            return 0;
        }
        const bool answers = request.what == PeerRequest::accept || request.what == PeerRequest::reject ||
                             request.what == PeerRequest::give_up;
        auto found = find(request.number, answers);
        if (request.what == PeerRequest::give_up) {
            if (found == connections_.end())
                return 0;
            remove(found); // destroying an id without a reply rejects it
            return 0;
        }
        // The connect request may arrive after the datagram: on a busy host by seconds.
        const auto end = std::chrono::steady_clock::now() + arrival_time;
        while (found == connections_.end() && std::chrono::steady_clock::now() < end) {
            pollfd ready{cm_, POLLIN, 0};
            if (poll(&ready, 1, 20) == 1)
                take_event(cm_);
            found = find(request.number, answers);
        }
        if (found == connections_.end())
            return ENOTCONN;
        switch (request.what) {
        case PeerRequest::accept: {
            uint32_t qpn;
            if (const int error = create_qp(&found->qp, &qpn))
                return error;
            found->answered = true;
            return client_.accept(found->cm, found->id, qpn);
        }
        case PeerRequest::reject: {
            const int error = client_.reject(found->cm, found->id);
            remove(found);
            return error;
        }
        case PeerRequest::disconnect:
            return client_.disconnect(found->cm, found->id);
        case PeerRequest::abort:
            destroy_qp(found->qp);
            found->qp = 0;
            return 0;
        default:
            return EINVAL;
        }
    }

    // Sends a connect request and does not wait for the reply.
    int begin(uint32_t subject, uint16_t port) {
        Connection made{.cm = open_cm(), .own_file = true, .id = 0, .number = 0};
        uint32_t qpn = 0;
        int error = client_.create(made.cm, &made.id);
        if (!error)
            error = client_.resolve_to(made.cm, made.id, subject, port, 1000);
        if (!error)
            error = expect(made.cm, addr_resolved);
        if (!error)
            error = client_.route(made.cm, made.id);
        if (!error)
            error = expect(made.cm, route_resolved);
        if (!error)
            error = create_qp(&made.qp, &qpn);
        if (!error)
            error = client_.connect(made.cm, made.id, qpn);
        connections_.push_back(made);
        if (error)
            remove(std::prev(connections_.end()));
        return error;
    }

    // A request to a listener whose reply has arrived.
    int establish(uint32_t number) {
        const auto begun = [number](const Connection& connection) {
            return connection.own_file && connection.number == number;
        };
        const auto end = std::chrono::steady_clock::now() + arrival_time;
        for (;;) {
            const auto found = std::ranges::find_if(connections_, begun);
            if (found != connections_.end())
                return client_.establish(found->cm, found->id);
            if (std::chrono::steady_clock::now() > end)
                return ENOTCONN;
            std::vector<pollfd> ready;
            for (const Connection& connection : connections_)
                if (connection.own_file)
                    ready.push_back({connection.cm, POLLIN, 0});
            if (poll(ready.data(), ready.size(), 20) > 0)
                for (const pollfd& file : ready)
                    if (file.revents)
                        take_event(file.fd);
        }
    }

    int expect(int cm, uint32_t expected) {
        pollfd ready{cm, POLLIN, 0};
        uint32_t event;
        if (poll(&ready, 1, request_ms) != 1)
            return ETIMEDOUT;
        const int error = client_.event(cm, &event, nullptr);
        return error ? error : event == expected ? 0 : EHOSTUNREACH;
    }

    void take_event(int cm) {
        uint32_t event, id, number;
        if (client_.event(cm, &event, &id, &number))
            return;
        if (event == connect_request) {
            // Requests of processes that have ended are not reported as such.
            const auto waits = [](const Connection& connection) {
                return !connection.own_file && !connection.answered;
            };
            if (static_cast<size_t>(std::ranges::count_if(connections_, waits)) >= most_waiting)
                remove(std::ranges::find_if(connections_, waits));
            connections_.push_back({.cm = cm, .own_file = false, .id = id, .number = number});
            return;
        }
        const auto found = std::ranges::find_if(connections_, [&](const Connection& connection) {
            return connection.cm == cm && connection.id == id;
        });
        if (found == connections_.end() || event == established)
            return;
        if (event == connect_response)
            found->number = number;
        else
            remove(found);
    }

    // Numbers of QPs are used again: the newest connection, or the newest request without an answer. The end
    // of an earlier connection with this number may arrive later than the request.
    std::list<Connection>::iterator find(uint32_t number, bool unanswered) {
        for (auto at = connections_.end(); at != connections_.begin();)
            if (--at; !at->own_file && at->number == number && !(unanswered && at->answered))
                return at;
        return connections_.end();
    }

    void remove(std::list<Connection>::iterator which) {
        destroy_qp(which->qp);
        if (which->own_file)
            close(which->cm);
        else
            client_.destroy(which->cm, which->id);
        connections_.erase(which);
    }

    int create_qp(uint32_t* handle, uint32_t* number) {
        const uv::Outcome made = sender_.write(world_.fd(), world_.message(uv::command("create_qp")));
        if (!made.error) {
            *handle = made.handle();
            *number = made.word(4);
        }
        return made.error;
    }
    void destroy_qp(uint32_t handle) {
        uv::Message message = world_.message(uv::command("destroy_qp"));
        std::memcpy(&message.core[8], &handle, sizeof(handle));
        if (handle)
            sender_.write(world_.fd(), message);
    }

    uv::Sender sender_{3};
    uv::World world_{sender_, verbs_path()};
    CmClient client_;
    int socket_, cm_;
    std::list<Connection> connections_;
};

} // namespace

int ask_peer(PeerRequest request) {
    static uint32_t sequence;
    request.sequence = ++sequence;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = udp_address(device().peer);
    int error = ETIMEDOUT;
    // Without an interface no reply comes.
    const bool sent =
        sendto(fd, &request, sizeof(request), 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) >= 0;
    if (!sent)
        error = errno;
    pollfd ready{fd, POLLIN, 0};
    Reply reply{};
    if (sent && poll(&ready, 1, static_cast<int>(arrival_time.count()) + 2 * request_ms) == 1 &&
        recv(fd, &reply, sizeof(reply), 0) == sizeof(reply) && reply.sequence == request.sequence)
        error = reply.error;
    close(fd);
    return error;
}

void be_peer() {
    Peer peer;
    std::puts("ready");
    std::fflush(stdout);
    for (;;)
        peer.serve();
}

} // namespace races
