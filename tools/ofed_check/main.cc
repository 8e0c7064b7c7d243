// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// ofed-check ADDRESS: whether the route to a destination uses an RDMA device. It is the
/// check_ofed_verbs_support() sample of the AIX reference as a program: the connection manager resolves the
/// address, and only ARP is sent.
#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "tools/common/cli.hh"

namespace {

using namespace t3tools;

constexpr int not_reachable = 3; ///< The route uses no RDMA device.
constexpr int no_stack = 4;      ///< No connection manager is loaded.

struct Options {
    std::string address;
    int timeout_ms = 2000;
    bool json = false;
    bool quiet = false;
};

struct Result {
    int status = not_reachable;
    std::string why;
    std::string device;
    int port = 0;
};

Result refused(int error) {
    if (error == ENODEV || error == EADDRNOTAVAIL)
        return {not_reachable, "the route uses no RDMA device", "", 0};
    if (error == ENETUNREACH || error == EHOSTUNREACH)
        return {not_reachable, "there is no route to it", "", 0};
    if (error == ETIMEDOUT)
        return {not_reachable, "no ARP reply for that address", "", 0};
    return {not_reachable, std::strerror(error), "", 0};
}

template <typename T, void (*destroy)(T*)>
using Handle = std::unique_ptr<T, decltype([](T* object) { destroy(object); })>;

void destroy_id(rdma_cm_id* id) {
    rdma_destroy_id(id);
}

Result check(const Options& options) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int error = getaddrinfo(options.address.c_str(), nullptr, &hints, &list); error != 0)
        return {status::failed, gai_strerror(error), "", 0};
    const Handle<addrinfo, freeaddrinfo> target(list);

    const Handle<rdma_event_channel, rdma_destroy_event_channel> channel(rdma_create_event_channel());
    if (!channel)
        return {no_stack,
                fmt::format("there is no RDMA connection manager ({}); 'ofedctrl -l' loads one",
                            std::strerror(errno)),
                "", 0};
    rdma_cm_id* raw = nullptr;
    if (rdma_create_id(channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0)
        return {no_stack, std::strerror(errno), "", 0};
    const Handle<rdma_cm_id, destroy_id> id(raw);
    if (rdma_resolve_addr(id.get(), nullptr, target->ai_addr, options.timeout_ms) != 0)
        return refused(errno);

    // The kernel reports a timeout as an event; the extra second is for it.
    pollfd waiting{channel->fd, POLLIN, 0};
    if (poll(&waiting, 1, options.timeout_ms + 1000) <= 0)
        return refused(ETIMEDOUT);
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel.get(), &event) != 0)
        return refused(errno);
    const auto kind = event->event;
    const int error = -event->status;
    rdma_ack_cm_event(event);
    if (kind != RDMA_CM_EVENT_ADDR_RESOLVED)
        return refused(error);
    if (id->verbs == nullptr)
        return {not_reachable, "the route uses no RDMA device", "", 0};
    const auto* from = reinterpret_cast<const sockaddr_in*>(rdma_get_local_addr(id.get()));
    const auto* to = reinterpret_cast<const sockaddr_in*>(rdma_get_peer_addr(id.get()));
    if (from->sin_addr.s_addr == to->sin_addr.s_addr) // the id has a device, but a T3 has no loopback
        return {not_reachable, "that is an address of this machine", "", 0};
    return {status::ok, "", ibv_get_device_name(id->verbs->device), id->port_num};
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Checks whether a destination is reachable over an RDMA device.", "ofed-check");
    app.add_option("address", options.address, "Name or IPv4 address of the destination")
        ->type_name("ADDRESS")
        ->required();
    app.add_option("-t,--timeout", options.timeout_ms, "Milliseconds to wait for an ARP reply")
        ->type_name("MS")
        ->check(CLI::Range(1, 600000))
        ->capture_default_str();
    app.add_flag("-q,--quiet", options.quiet, "Print nothing, only set the exit status");
    app.add_flag("--json", options.json, "Print JSON");
    if (const auto end = parse(app, {argv + 1, argv + argc}, std::cout, std::cerr))
        return *end;

    const Result result = check(options);
    if (options.json)
        std::cout << nlohmann::ordered_json{{"address", options.address},
                                            {"reachable", result.status == status::ok},
                                            {"device", result.device},
                                            {"port", result.port},
                                            {"why", result.why}}
                         .dump(2)
                  << "\n";
    else if (!options.quiet && result.status == status::ok)
        std::cout << fmt::format("{}: over {} port {}\n", options.address, result.device, result.port);
    else if (!options.quiet)
        std::cerr << fmt::format("{}: {}\n", options.address, result.why);
    return result.status;
}
