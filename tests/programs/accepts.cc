// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// --connections=N requests wait, and one thread of the server accepts them all. The server reports how much
// of its clock the calls of rdma_accept() took ("accept_us"), and checks that each is established once.
//
// With --gone the server waits for SIGUSR1 before it accepts. Until then the client was killed, and the card
// has not reported it yet: each accept succeeds, and then fails, once, by CONNECT_ERROR, or by ESTABLISHED
// with a negative status and DISCONNECTED.
#include "cm.hh"

#include <csignal>
#include <map>
#include <set>

using namespace cm;

namespace {

using prog::Clock;

void await_signal() {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, nullptr);
    std::fputs("requests\n", stderr);
    int number = 0;
    sigwait(&usr1, &number);
}

void expect_in_error(const rdma_cm_id* id) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    OK(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
    HOLDS(attr.qp_state == IBV_QPS_ERR);
}

// Each accept has failed after its return.
void await_failures(Channel& channel, size_t n, prog::Json& out) {
    std::map<rdma_cm_id*, int> failed;
    unsigned connect_errors = 0;
    for (size_t ended = 0; ended < n;) {
        const Event event = channel.next(60000);
        if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
            HOLDS(failed.count(event.id));
            ended++;
            continue;
        }
        HOLDS(event.status < 0 && failed.emplace(event.id, event.status).second);
        expect_in_error(event.id);
        if (event.type == RDMA_CM_EVENT_CONNECT_ERROR)
            connect_errors++, ended++;
        else
            HOLDS(event.type == RDMA_CM_EVENT_ESTABLISHED);
    }
    channel.expect_nothing();
    out.add("connect_errors", connect_errors);
}

std::vector<rdma_cm_id*> await_all(Channel& channel, rdma_cm_event_type type, size_t n) {
    std::set<rdma_cm_id*> ids;
    while (ids.size() < n)
        HOLDS(ids.insert(channel.expect(type, 0, 60000).id).second);
    return {ids.begin(), ids.end()};
}

void serve(const prog::Args& args, size_t n, prog::Json& out) {
    Channel channel;
    Id listener(channel);
    OK(rdma_bind_addr(listener, Address("0.0.0.0", args.port)));
    OK(rdma_listen(listener, static_cast<int>(n)));
    std::vector<Id> requests;
    for (rdma_cm_id* id : await_all(channel, RDMA_CM_EVENT_CONNECT_REQUEST, n)) {
        requests.emplace_back(id);
        requests.back().create_qp();
        // The card must confirm that it has the receives before the peer may send.
        ibv_recv_wr wr{}, *bad = nullptr;
        HOLDS(!ibv_post_recv(requests.back()->qp, &wr, &bad));
    }
    if (args.has("gone"))
        await_signal();
    const auto before = Clock::now();
    for (const Id& request : requests) {
        rdma_conn_param param = parameters();
        OK(rdma_accept(request, &param));
    }
    const auto taken = Clock::now() - before;
    const long long us = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
    out.add("accept_us", us);
    if (args.has("gone")) {
        await_failures(channel, n, out);
        return;
    }
    // The first connections may end before the last one is reported as established.
    std::set<rdma_cm_id*> established, ended;
    while (ended.size() < n) {
        const Event event = channel.next(60000);
        HOLDS(event.status == 0);
        if (event.type == RDMA_CM_EVENT_ESTABLISHED)
            HOLDS(established.insert(event.id).second);
        else
            HOLDS(event.type == RDMA_CM_EVENT_DISCONNECTED && established.count(event.id) &&
                  ended.insert(event.id).second);
    }
}

void connect(const prog::Args& args, size_t n) {
    Channel channel;
    std::vector<Id> ids;
    for (size_t i = 0; i < n; i++) {
        Id& id = ids.emplace_back(channel);
        OK(rdma_resolve_addr(id, nullptr, Address(args.address, args.port), 10000));
        channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        OK(rdma_resolve_route(id, 10000));
        channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
        id.create_qp();
    }
    for (const Id& id : ids) {
        rdma_conn_param param = parameters();
        OK(rdma_connect(id, &param));
    }
    await_all(channel, RDMA_CM_EVENT_ESTABLISHED, n);
    for (const Id& id : ids)
        OK(rdma_disconnect(id));
    await_all(channel, RDMA_CM_EVENT_DISCONNECTED, n);
}

} // namespace

int main(int argc, char** argv) {
    const prog::Args args(argc, argv, "--connections=N [--gone]");
    const auto n = static_cast<size_t>(args.number("connections", 100));
    prog::start_watchdog(240);
    prog::Json out;
    out.add("connections", n);
    try {
        if (args.server)
            serve(args, n, out);
        else
            connect(args, n);
    } catch (const Failure& failure) {
        prog::fail("%s", failure.what.c_str());
    }
    out.finish(true);
}
