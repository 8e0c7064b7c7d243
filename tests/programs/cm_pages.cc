// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The manual pages of librdmacm as a table of cases: "t3-cm_pages server" is the peer, "t3-cm_pages client
// ADDRESS" runs the cases, all or --case=WORD, and reports which failed. --in-tree: for Linux's own
// connection manager.
#include "cm_pages.hh"

#include <arpa/inet.h>

namespace cm {

void resolve(Channel& channel, rdma_cm_id* id, Address to) {
    OK(rdma_resolve_addr(id, nullptr, to, 2000));
    channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

Id ready_to_connect(Channel& channel, Address to, bool with_qp) {
    Id id(channel);
    resolve(channel, id, to);
    OK(rdma_resolve_route(id, 2000));
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    if (with_qp)
        id.create_qp();
    return id;
}

// The local address of the route to the peer.
std::string own_address(const Run& run) {
    Channel channel;
    Id id(channel);
    resolve(channel, id, run.to(ACCEPTS));
    char text[64];
    const auto* in4 = reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(id));
    HOLDS(inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text)));
    return text;
}

} // namespace cm

int main(int argc, char** argv) {
    const prog::Args args(argc, argv, "[--case=WORD] [--in-tree]");
    prog::Json out;
    std::vector<std::string> failures;
    unsigned passed = 0;
    if (args.server) {
        failures = cm::serve(args.port);
        out.add("failed", failures).finish(failures.empty());
    }
    const cm::Run run{args.address, args.port, args.has("in-tree")};
    const std::string word = args.value("case", "");
    for (const auto* cases : {&cm::call_cases, &cm::event_cases, &cm::sync_cases}) {
        for (const cm::Case& one : *cases) {
            if (std::string(one.name).find(word) == std::string::npos)
                continue;
            std::fprintf(stderr, "%s\n", one.name); // the last line names the case that hangs
            try {
                one.run(run);
                passed++;
            } catch (const cm::Failure& failure) {
                failures.push_back(std::string(one.name) + ": " + failure.what);
            }
        }
    }
    try { // stops the peer
        cm::Channel channel;
        cm::Id id = cm::ready_to_connect(channel, run.to(cm::STOP));
        rdma_conn_param param = cm::parameters();
        OK(rdma_connect(id, &param));
        channel.expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    } catch (const cm::Failure& failure) {
        failures.push_back("stopping the peer: " + failure.what);
    }
    out.add("passed", passed).add("failed", failures).finish(failures.empty() && passed);
}
