// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Connections one after the other, each with a queue pair on both sides: --count=N. It succeeds if every one
// is established and ended; the client prints how many it made in a second, and the longest time of one.
#include "program.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>

using namespace prog;

namespace {

constexpr int event_ms = 20000;

// Accepts `count` connections and releases each when it has ended.
void serve(const Args& args, int count) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(args.port);
    rdma_event_channel* const events = rdma_create_event_channel();
    rdma_cm_id* listener;
    if (!events || rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP) ||
        rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)) || rdma_listen(listener, 8))
        fail("cannot listen: %s", std::strerror(errno));
    int accepted = 0, ended = 0;
    while (ended < count) {
        if (!wait_readable(events->fd, in_ms(event_ms)))
            fail("no event; %d connections were accepted, %d have ended", accepted, ended);
        rdma_cm_event* event;
        if (rdma_get_cm_event(events, &event))
            fail("rdma_get_cm_event: %s", std::strerror(errno));
        rdma_cm_id* const id = event->id;
        const auto type = event->event;
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            ibv_qp_init_attr attr{};
            attr.qp_type = IBV_QPT_RC;
            attr.cap = {4, 4, 1, 1, 0};
            rdma_conn_param param{};
            if (rdma_create_qp(id, nullptr, &attr) || rdma_accept(id, &param))
                fail("connection %d: %s", accepted, std::strerror(errno));
            accepted++;
        } else if (type == RDMA_CM_EVENT_DISCONNECTED) {
            rdma_disconnect(id);
            rdma_destroy_qp(id);
            rdma_destroy_id(id);
            ended++;
        } else if (type != RDMA_CM_EVENT_ESTABLISHED) {
            fail("connection %d: %s", accepted, rdma_event_str(type));
        }
    }
    Json().add("connections", ended).finish(true);
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "[--count=N]");
    const int count = args.number("count", 100);
    if (args.server)
        serve(args, count);
    const auto started = Clock::now();
    double longest = 0;
    for (int i = 0; i < count; i++) {
        const auto begun = Clock::now();
        Endpoint end({});
        end.resolve(args);
        if (!end.connect())
            fail("connection %d was rejected", i);
        if (rdma_disconnect(end.id) || !end.wait_disconnected(event_ms))
            fail("connection %d did not end", i);
        longest = std::max(longest, std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
    }
    const double took = std::chrono::duration<double>(Clock::now() - started).count();
    Json()
        .add("connections", count)
        .add("connections/s", static_cast<long long>(count / took))
        .add("longest ms", static_cast<long long>(longest + 1))
        .finish(true);
}
