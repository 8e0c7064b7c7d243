// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/both_ports.hh"

#include <charconv>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <net/if.h>
#include <nlohmann/json.hpp>

#include "tools/common/stack.hh"

namespace t3accept {

namespace {

constexpr const char* name_space = "t3accept";
constexpr auto carrier_limit = std::chrono::seconds(15);

bool is_up(const t3tools::Machine& machine, const std::string& interface) {
    const auto text = machine.read("/sys/class/net/" + interface + "/flags").value_or("0x0").substr(2);
    unsigned flags = 0;
    std::from_chars(text.data(), text.data() + text.size(), flags, 16);
    return (flags & IFF_UP) != 0;
}

} // namespace

void BothPorts::ip(std::vector<std::string> words) const {
    words.insert(words.begin(), "ip");
    const auto done = machine_.run(words);
    if (done.status == 127)
        throw Missing{"ip"};
    std::string shown;
    for (const auto& word : words)
        shown += (shown.empty() ? "" : " ") + word;
    if (done.status != 0)
        throw std::runtime_error(fmt::format("{}: {}", shown, done.output));
}

bool BothPorts::carrier(const std::string& interface) const {
    return machine_.read("/sys/class/net/" + interface + "/carrier") == "1";
}

BothPorts::BothPorts(const t3tools::Machine& machine, const std::string& program) : machine_(machine) {
    if (!machine_.privileged())
        throw std::runtime_error("--both-ports needs root: it moves a port to a network namespace");
    for (const auto& card : t3tools::find_cards(machine_))
        if (card.interfaces.size() >= 2 && first_.empty()) {
            first_ = card.interfaces[0];
            second_ = card.interfaces[1];
        }
    if (first_.empty())
        throw std::runtime_error("there is no Chelsio T3 with two interfaces");
    const auto mode = machine_.run({"rdma", "system", "show"});
    if (mode.status == 0 && mode.output.find("netns exclusive") != mode.output.npos)
        throw std::runtime_error(
            "RDMA devices are in one network namespace only: rdma system set netns shared, and run it again");
    if (machine_.exists(std::string("/run/netns/") + name_space))
        throw std::runtime_error(
            "the network namespace t3accept exists: another t3accept runs, or ip netns del t3accept");
    const auto shown = machine_.run({"ip", "-j", "-4", "addr", "show", "dev", second_});
    const auto parsed = nlohmann::json::parse(shown.output, nullptr, false);
    if (parsed.is_array())
        for (const auto& link : parsed)
            for (const auto& row : link.value("addr_info", nlohmann::json::array()))
                addresses_.push_back(
                    fmt::format("{}/{}", row.value("local", ""), row.value("prefixlen", 24)));
    was_up_[0] = is_up(machine_, first_);
    was_up_[1] = is_up(machine_, second_);
    try {
        const std::string inside = name_space;
        ip({"netns", "add", inside});
        ip({"link", "set", second_, "netns", inside});
        ip({"-n", inside, "link", "set", "lo", "up"});
        ip({"-n", inside, "addr", "add", std::string(peer) + "/24", "dev", second_});
        ip({"-n", inside, "link", "set", second_, "up"});
        ip({"addr", "add", std::string(own) + "/24", "dev", first_});
        ip({"link", "set", first_, "up"});
        const auto until = Clock::now() + carrier_limit;
        while (!carrier(first_)) {
            if (Clock::now() > until)
                throw std::runtime_error(
                    fmt::format("{} has no link: a cable must join it and {}", first_, second_));
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        server_ = std::make_unique<Job>(
            std::vector<std::string>{"ip", "netns", "exec", inside, program, "--server", peer});
        const auto listening = Clock::now() + carrier_limit;
        while (server_->output().find("waits at") == std::string::npos) {
            if (!server_->running() || Clock::now() > listening)
                throw std::runtime_error("t3accept --server did not start: " + server_->output());
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    } catch (...) {
        undo();
        throw;
    }
}

BothPorts::~BothPorts() {
    undo();
}

/// Whatever was done; failures do not matter, since not all of it may have been done.
void BothPorts::undo() {
    if (server_)
        server_->terminate();
    server_.reset();
    machine_.run({"ip", "-n", name_space, "link", "set", second_, "netns", "1"});
    machine_.run({"ip", "netns", "del", name_space});
    machine_.run({"ip", "addr", "del", std::string(own) + "/24", "dev", first_});
    // The kernel returns the port when the last process of the namespace has ended, a little later.
    const auto until = Clock::now() + std::chrono::seconds(5);
    while (!machine_.exists("/sys/class/net/" + second_) && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (const auto& address : addresses_)
        machine_.run({"ip", "addr", "add", address, "dev", second_});
    for (const auto& [name, up] : {std::pair{first_, was_up_[0]}, {second_, was_up_[1]}})
        machine_.run({"ip", "link", "set", name, up ? "up" : "down"});
}

} // namespace t3accept
