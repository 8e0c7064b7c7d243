// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Connects to an unresponsive address (client ADDRESS --unresponsive=ADDRESS) until rdma_connect() fails,
// prints "full" on stderr, waits until each attempt has ended, and connects once more. It succeeds if the
// call failed with ENOMEM, every attempt ended in one event, and the last one was accepted by the card.
#include "program.hh"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

using namespace prog;

namespace {

constexpr unsigned far_too_many = 20000;
constexpr int settle_ms = 2000;

class Opens {
public:
    Opens(const std::string& address, uint32_t qp_num) : qp_num_(qp_num) {
        destination_.sin_family = AF_INET;
        destination_.sin_port = htons(7473);
        if (inet_pton(AF_INET, address.c_str(), &destination_.sin_addr) != 1)
            fail("--unresponsive is not an IPv4 address");
        channel_ = rdma_create_event_channel();
        if (!channel_)
            fail("rdma_create_event_channel: %s", std::strerror(errno));
    }

    // errno of rdma_connect(). All attempts use the same queue pair, since none is established.
    int attempt() {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) ||
            rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&destination_), settle_ms))
            fail("cannot resolve the address: %s", std::strerror(errno));
        await(id, RDMA_CM_EVENT_ADDR_RESOLVED);
        if (rdma_resolve_route(id, settle_ms))
            fail("rdma_resolve_route: %s", std::strerror(errno));
        await(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
        rdma_conn_param param{};
        param.qp_num = qp_num_;
        if (rdma_connect(id, &param)) {
            const int error = errno;
            rdma_destroy_id(id);
            return error;
        }
        waiting_++;
        return 0;
    }

    // The status of the next attempt that ends; none in time.
    std::optional<int> next_end(int ms) {
        if (!wait_readable(channel_->fd, in_ms(ms)))
            return {};
        rdma_cm_event* event = next();
        rdma_cm_id* const id = event->id;
        const int status = event->status;
        rdma_ack_cm_event(event);
        rdma_destroy_id(id);
        waiting_--;
        return status;
    }

    unsigned waiting() const { return waiting_; }

private:
    rdma_cm_event* next() {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel_, &event))
            fail("rdma_get_cm_event: %s", std::strerror(errno));
        return event;
    }
    // No other event can come while an id is resolved: the other attempts take hours.
    void await(rdma_cm_id* id, rdma_cm_event_type type) {
        rdma_cm_event* event = next();
        if (event->id != id || event->event != type)
            fail("%s, status %d", rdma_event_str(event->event), event->status);
        rdma_ack_cm_event(event);
    }

    sockaddr_in destination_{};
    rdma_event_channel* channel_ = nullptr;
    uint32_t qp_num_;
    unsigned waiting_ = 0;
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--unresponsive=ADDRESS");
    Endpoint end(Caps{});
    end.resolve(args);
    Opens opens(args.value("unresponsive", ""), end.id->qp->qp_num);

    int refused = 0;
    while (!(refused = opens.attempt()) && opens.waiting() < far_too_many)
        ;
    const unsigned had = opens.waiting();
    std::fprintf(stderr, "full\n");

    unsigned denied = 0, otherwise = 0;
    while (opens.waiting()) {
        const auto status = opens.next_end(120000);
        if (!status)
            fail("%u of %u attempts had no end", opens.waiting(), had);
        ++(*status == -ECONNREFUSED ? denied : otherwise);
    }
    const int again = opens.attempt();
    if (!again && !opens.next_end(60000))
        fail("the attempt after them had no end");
    Json()
        .add("had", had)
        .add("refused", std::strerror(refused))
        .add("denied", denied)
        .add("otherwise", otherwise)
        .add("again", std::strerror(again))
        .finish(refused == ENOMEM && !otherwise && !again);
}
