// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cases.hh"

#include "card.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <unistd.h>

namespace isolation {

namespace {

using namespace probe;
using prog::Clock;
using prog::in_ms;

constexpr int limit_ms = 10000;

std::string name_of(int error) {
    const char* const name = strerrorname_np(error);
    return name ? name : std::to_string(error);
}

// ---- qp_number

// An id of the attacker without a QP of its own.
class Id {
public:
    Id() : channel_(rdma_create_event_channel()) {
        if (!channel_ || rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP))
            throw std::runtime_error("rdma_create_id");
    }
    ~Id() {
        rdma_destroy_id(id_);
        if (listener_)
            rdma_destroy_id(listener_);
        rdma_destroy_event_channel(channel_);
    }
    Id(const Id&) = delete;
    Id& operator=(const Id&) = delete;

    // The event is for expect().
    void begin_to_resolve(sockaddr_in to) {
        if (rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&to), 5000))
            throw std::runtime_error("rdma_resolve_addr");
    }
    void resolve(sockaddr_in to) {
        begin_to_resolve(to);
        expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        if (rdma_resolve_route(id_, 5000))
            throw std::runtime_error("rdma_resolve_route");
        expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    void listen(sockaddr_in at) {
        if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&at)) || rdma_listen(id_, 4))
            throw std::runtime_error("rdma_listen");
    }
    void await_request() {
        listener_ = id_;
        id_ = nullptr;
        expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    }
    // What the attacker gets; empty: an error at once.
    std::string next_event(int ms) {
        if (!prog::wait_readable(channel_->fd, in_ms(ms)))
            return "nothing";
        rdma_cm_event* event;
        if (rdma_get_cm_event(channel_, &event))
            throw std::runtime_error("rdma_get_cm_event");
        const std::string what = rdma_event_str(event->event);
        rdma_ack_cm_event(event);
        return what;
    }
    rdma_cm_id* get() const { return id_; }

private:
    void expect(rdma_cm_event_type type) {
        rdma_cm_event* event;
        if (!prog::wait_readable(channel_->fd, in_ms(limit_ms)) || rdma_get_cm_event(channel_, &event))
            throw std::runtime_error(std::string("no event: ") + rdma_event_str(type));
        const auto got = event->event;
        if (got == RDMA_CM_EVENT_CONNECT_REQUEST)
            id_ = event->id;
        rdma_ack_cm_event(event);
        if (got != type)
            throw std::runtime_error(std::string(rdma_event_str(got)) + " instead of " +
                                     rdma_event_str(type));
    }

    rdma_event_channel* channel_;
    rdma_cm_id *id_ = nullptr, *listener_ = nullptr;
};

sockaddr_in address_of(const std::string& text, uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    inet_pton(AF_INET, text.c_str(), &out.sin_addr);
    return out;
}

// Librdmacm takes the number of the parameters if the id has no QP.
rdma_conn_param with_qp(uint32_t number) {
    rdma_conn_param out{};
    out.initiator_depth = out.responder_resources = 1;
    out.qp_num = number;
    return out;
}

std::string connect_with(Case& c, Peer& peer, uint32_t number) {
    Id id;
    peer.listen();
    id.resolve(address_of(c.args.address, c.peer_port));
    auto param = with_qp(number);
    if (rdma_connect(id.get(), &param))
        return name_of(errno);
    // In-tree, a connect that the driver refuses may fail here.
    const auto event = id.next_event(1000);
    return event == rdma_event_str(RDMA_CM_EVENT_CONNECT_ERROR) ? event : "accepted, then " + event;
}

std::string accept_with(Peer& peer, uint16_t port, uint32_t number) {
    Id id;
    id.listen(address_of("0.0.0.0", port));
    peer.connect(port);
    Startup request;
    request.ird = request.ord = 1;
    peer.send(startup_frame(MPA_KEY_REQUEST, request));
    id.await_request();
    auto param = with_qp(number);
    if (rdma_accept(id.get(), &param))
        return name_of(errno);
    const auto event = id.next_event(1000);
    return event == rdma_event_str(RDMA_CM_EVENT_CONNECT_ERROR) ? event : "accepted, then " + event;
}

bool was_refused(const std::string& result) {
    return result.rfind("accepted", 0) != 0;
}

} // namespace

void qp_number(Case& c) {
    Peer peer(c.args.address, c.peer_port);
    const uint32_t number = c.victim.make_qp();
    const unsigned before = c.victim.qp_state();
    const auto connected = connect_with(c, peer, number);
    const unsigned between = c.victim.qp_state();
    const auto accepted = accept_with(peer, static_cast<uint16_t>(c.peer_port + 100), number);
    const unsigned after = c.victim.qp_state();
    const auto trouble = c.victim.exchange();
    prog::Json()
        .add("connect", connected)
        .add("accept", accepted)
        .add("state_changed", before != between || between != after)
        .add("victims_connection", trouble)
        .finish(was_refused(connected) && was_refused(accepted) && before == after && trouble.empty());
}

// ---- malformed

namespace {

struct Slot {
    uint8_t opcode;
    unsigned flits;
    uint8_t body; // each byte of it
    uint32_t frame = T3_WR_SOP | T3_WR_EOP;
};

std::vector<Slot> malformed_slots() {
    std::vector<Slot> out;
    for (const unsigned opcode :
         {T3_WR_OP_FORWARD, T3_WR_OP_OFLD_CLOSE_CON, T3_WR_OP_OFLD_ABORT_REQ, T3_WR_OP_OFLD_TX_DATA,
          T3_WR_OP_RDMA_INIT, T3_WR_OP_WRITE, T3_WR_OP_SEND, T3_WR_OP_READ, T3_WR_OP_RECV, T3_WR_OP_BIND_MW,
          T3_WR_OP_FASTREG, T3_WR_OP_LOCAL_INV, T3_WR_OP_MODIFY_QP, T3_WR_OP_BYPASS, 0x3f})
        for (const auto& [flits, body] : {std::pair{4U, 0}, {13U, 0xff}})
            out.push_back({static_cast<uint8_t>(opcode), flits, static_cast<uint8_t>(body)});
    out.push_back({T3_WR_OP_SEND, 1, 0});
    out.push_back({T3_WR_OP_SEND, 4, 0, 0}); // without its marks of first and last
    return out;
}

// A well-formed request whose numbers are wrong.
void send_with_too_many_sges(Connection& card) {
    t3_wr_send wr{};
    wr.rdma_op = T3_RDMA_SEND;
    wr.num_sge = to_be32(200);
    card.post(&wr, 4, T3_WR_OP_SEND, T3_WR_F_COMPLETION);
}

bool in_error(const Connection& card) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    return !ibv_query_qp(card.id()->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state != IBV_QPS_RTS;
}

} // namespace

void malformed(Case& c) {
    Peer peer(c.args.address, c.peer_port);
    c.victim.make_qp();
    const auto first = c.victim.exchange();
    if (!first.empty())
        prog::fail("%s", first.c_str());
    unsigned refused = 0, own_fatal = 0;
    const auto slots = malformed_slots();
    for (size_t n = 0; n <= slots.size(); n++) {
        Connection card(peer, c.args.address, c.peer_port);
        card.connect();
        if (n < slots.size()) {
            std::array<uint8_t, 256> request;
            request.fill(slots[n].body);
            card.put(request.data(), slots[n].flits, slots[n].opcode, T3_WR_F_COMPLETION, slots[n].frame);
            card.ring_doorbell();
        } else {
            send_with_too_many_sges(card);
        }
        // A request that is good enough is executed instead.
        const auto until = in_ms(500);
        while (!in_error(card) && Clock::now() < until)
            usleep(1000);
        refused += in_error(card);
        ibv_context* const verbs = card.id()->verbs;
        fcntl(verbs->async_fd, F_SETFL, O_NONBLOCK);
        for (ibv_async_event event; !ibv_get_async_event(verbs, &event);) {
            own_fatal += event.event_type == IBV_EVENT_DEVICE_FATAL;
            ibv_ack_async_event(&event);
        }
    }
    const auto fatal = c.victim.fatal_events();
    const auto trouble = c.victim.exchange();
    prog::Json()
        .add("refused", refused)
        .add("device_fatal_of_the_attacker", own_fatal)
        .add("device_fatal_of_the_victim", static_cast<unsigned long long>(fatal))
        .add("victims_connection", trouble)
        .finish(refused && !own_fatal && !fatal && trouble.empty());
}

// ---- invalidate

// The server is the process under test here, and its clients are at the other end; one of them is hostile.
void invalidate(Case& c) {
    const auto other_port = static_cast<uint16_t>(c.peer_port + 2);
    Peer hostile(c.args.address, c.peer_port), other(c.args.address, other_port);
    Connection to_hostile(hostile, c.args.address, c.peer_port);
    Connection::Options shared;
    shared.pd = to_hostile.pd();
    Connection to_other(other, c.args.address, other_port, shared);
    Region served(to_hostile.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    to_hostile.connect();
    to_other.connect();
    Region messages(to_hostile.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
    to_hostile.post_receive(messages, 64);

    Segment hostile_send;
    hostile_send.opcode = RDMAP_SEND_INV;
    hostile_send.stag = served.stag();
    hostile_send.payload.assign(8, 0x66);
    hostile.send(hostile_send);
    // It is received, or its connection ends.
    to_hostile.receives().next(limit_ms);

    Segment write;
    write.opcode = RDMAP_WRITE;
    write.stag = served.stag();
    write.to = served.address();
    write.payload.assign(64, 0x55);
    other.send(write);
    const auto until = in_ms(2000);
    while (!served.holds(write.payload) && Clock::now() < until)
        usleep(1000);
    const bool written = served.holds(write.payload);
    prog::Json()
        .add("hostile_connection_in_error", in_error(to_hostile))
        .add("other_client_writes", written)
        .add("other_connection_in_error", in_error(to_other))
        .finish(written && !in_error(to_other));
}

// ---- dead_peers

void dead_peers(Case& c) {
    const auto count = static_cast<unsigned>(c.args.number("count", 8));
    std::vector<std::unique_ptr<Peer>> peers;
    std::vector<std::unique_ptr<Connection>> cards;
    for (unsigned n = 0; n < count; n++) {
        const auto port = static_cast<uint16_t>(c.peer_port + 2 * n);
        peers.push_back(std::make_unique<Peer>(c.args.address, port));
        cards.push_back(std::make_unique<Connection>(*peers[n], c.args.address, port));
        cards[n]->connect();
    }
    std::printf("ready\n");
    std::fflush(stdout);
    std::getchar(); // the wire loses all frames now
    for (unsigned n = 0; n < count; n++) {
        cards[n]->post_send(nullptr, 0);
        cards[n]->disconnect(); // so the end of the process waits for the delivery
    }
    std::printf("closing\n");
    std::fflush(stdout);
    for (;;)
        pause();
}

// ---- resolve, hoard

void resolve(Case& c) {
    int resolved = 0;
    const auto until = in_ms(1000 * c.args.number("seconds", 5));
    while (Clock::now() < until) {
        Id id;
        id.resolve(address_of(c.args.address, c.peer_port));
        resolved++;
    }
    prog::Json().add("resolved", resolved).finish(true);
}

// The events are not read, so the kernel keeps them.
void hoard(Case& c) {
    std::vector<std::unique_ptr<Id>> ids(static_cast<size_t>(c.args.number("count", 400)));
    for (auto& id : ids)
        id = std::make_unique<Id>();
    std::printf("ready\n");
    std::fflush(stdout);
    std::getchar();
    for (auto& id : ids)
        id->begin_to_resolve(address_of(c.args.address, c.peer_port));
    std::printf("done\n");
    std::fflush(stdout);
    for (;;)
        pause();
}

} // namespace isolation
