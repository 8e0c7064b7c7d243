// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/t3accept.hh"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "tools/common/cli.hh"
#include "tools/common/stack.hh"
#include "tools/report/anonymise.hh"
#include "tools/t3accept/both_ports.hh"
#include "tools/t3accept/steps.hh"

namespace t3accept {

namespace {

struct Options {
    std::string peer;
    bool both_ports = false;
    bool server = false;
    std::string server_address;
    int port = control_port;
    std::string output;
    bool personal = false;
    bool quick = false;
    bool list = false;
    bool json = false;
    int minutes = 10;
    std::vector<std::string> only;
};

/// The first address of a card's interface; empty: none.
std::string own_address(const t3tools::Machine& machine, t3doctor::Probe& probe) {
    for (const auto& card : t3tools::find_cards(machine))
        for (const auto& name : card.interfaces)
            if (const auto seen = probe.interface(name); seen.up && !seen.addresses.empty())
                return seen.addresses.front();
    return {};
}

int run_server(const Options& options, const t3tools::Machine& machine, t3doctor::Probe& probe,
               const std::string& folder, std::ostream& out, std::ostream& err) {
    const auto address =
        options.server_address.empty() ? own_address(machine, probe) : options.server_address;
    if (address.empty()) {
        err << "t3accept: no interface of a T3 that is up has an IPv4 address: ip addr add ADDRESS/24 dev "
               "NAME\n";
        return t3tools::status::failed;
    }
    LocalEnd end(machine, probe, "peer", folder);
    try {
        serve(address, options.port, end, [&] {
            out << fmt::format("t3accept waits at {} port {}; run at the other machine: t3accept --peer {}\n",
                               address, options.port, address)
                << std::flush;
        });
    } catch (const std::exception& error) {
        err << "t3accept: " << error.what() << "\n";
        return t3tools::status::failed;
    }
    return t3tools::status::ok;
}

std::string default_name() {
    const auto now = std::time(nullptr);
    std::array<char, 40> text{};
    std::tm parts{};
    std::strftime(text.data(), text.size(), "t3accept-%Y%m%d-%H%M%S", gmtime_r(&now, &parts));
    return text.data();
}

/// The number of steps that could not run.
std::string skipped_steps(const Report& report) {
    const auto skipped = std::ranges::count_if(report.steps, [](const Step& step) {
        return step.state == State::skipped && step.what != not_selected;
    });
    return skipped == 0 ? "" : fmt::format(" ({} step{} skipped)", skipped, skipped == 1 ? "" : "s");
}

} // namespace

int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, t3doctor::Probe& probe,
        const std::string& program, const std::string& folder, std::ostream& out, std::ostream& err) {
    Options options;
    CLI::App app("Checks a Chelsio T3 and its drivers from end to end, and writes a report to send.",
                 "t3accept");
    auto* peer = app.add_option("-p,--peer", options.peer, "The other machine, where t3accept --server runs")
                     ->type_name("ADDRESS")
                     ->check(CLI::ValidIPV4);
    auto* both = app.add_flag("-b,--both-ports", options.both_ports,
                              "The other end is the card's second port: a cable joins both");
    auto* server = app.add_option("-s,--server", options.server_address, "Be the other machine, until Ctrl-C")
                       ->type_name("[ADDRESS]")
                       ->expected(0, 1)
                       ->check(CLI::ValidIPV4);
    app.add_option("--port", options.port, "TCP port of t3accept --server")
        ->type_name("PORT")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_option("-o,--output", options.output, "Write the report to NAME.txt and NAME.json")
        ->type_name("NAME");
    app.add_flag("--personal", options.personal,
                 "Keep addresses, serial numbers and host names in the report");
    app.add_flag("-q,--quick", options.quick, "A few rounds of everything, for slow machines");
    app.add_option("--only", options.only, "Only these steps (may be given several times)")
        ->type_name("STEP");
    app.add_option("--minutes", options.minutes, "Start no further step after this time")
        ->type_name("N")
        ->check(CLI::Range(1, 600))
        ->capture_default_str();
    app.add_flag("--list", options.list, "List the steps");
    app.add_flag("--json", options.json, "Print JSON");
    peer->excludes(both)->excludes(server);
    both->excludes(server);
    if (const auto end = t3tools::parse(app, arguments, out, err))
        return *end;

    const auto steps = all_steps();
    for (const auto& wanted : options.only)
        if (std::ranges::none_of(steps, [&](const auto& step) { return step.first == wanted; })) {
            err << fmt::format("t3accept: there is no step {}; see t3accept --list\n", wanted);
            return t3tools::status::usage;
        }
    if (options.list) {
        Json list = Json::array();
        for (const auto& [name, title] : steps) {
            list.push_back({{"name", name}, {"title", title}});
            if (!options.json)
                out << fmt::format("{:<18}{}\n", name, title);
        }
        if (options.json)
            out << list.dump(2) << "\n";
        return t3tools::status::ok;
    }
    if (server->count() > 0)
        return run_server(options, machine, probe, folder, out, err);

    handle_signals();
    Setting setting;
    setting.quick = options.quick;
    setting.only = options.only;
    setting.limit = std::chrono::minutes(options.minutes);
    std::unique_ptr<BothPorts> ports;
    std::string no_ports;
    if (options.both_ports) {
        setting.kind = "both ports of one card";
        setting.own = BothPorts::own;
        setting.peer = BothPorts::peer;
        try {
            ports = std::make_unique<BothPorts>(machine, program);
        } catch (const Missing& missing) {
            no_ports = missing.program + " is not installed";
        } catch (const std::exception& error) {
            no_ports = error.what();
        }
    } else if (!options.peer.empty()) {
        setting.kind = "two machines";
        setting.own = probe.route(options.peer).source;
        setting.peer = options.peer;
    }
    LocalEnd local(machine, probe, "here", folder);
    const Environment environment{
        .machine = machine,
        .probe = probe,
        .local = local,
        .connect = [&]() -> std::unique_ptr<Peer> {
            if (!no_ports.empty())
                throw std::runtime_error(no_ports);
            return std::make_unique<RemoteEnd>(setting.peer, options.port);
        },
        .progress =
            [&](const Step& step) {
                if (!options.json)
                    out << line(to_json(step)) << std::flush;
            },
    };
    const auto report = accept(environment, setting);
    ports.reset();

    const auto whole = to_json(report);
    const auto written = options.personal ? whole : anonymous(whole);
    const auto json = written.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    const auto name = options.output.empty() ? default_name() : options.output;
    for (const auto& [ending, content] : {std::pair{".txt", to_text(written)}, {".json", json}})
        if (!machine.write(std::filesystem::absolute(name + ending), content)) {
            err << fmt::format("t3accept: {}{} cannot be written\n", name, ending);
            return t3tools::status::failed;
        }
    if (options.json)
        out << json;
    else
        out << fmt::format("\n{}{}. The report is in {}.txt and {}.json{}.\n",
                           report.passed() ? "PASSED" : "FAILED: see the steps above", skipped_steps(report),
                           name, name,
                           options.personal ? "" : ", without addresses, serial numbers and host names");
    return report.passed() && !interrupted() ? t3tools::status::ok : t3tools::status::failed;
}

} // namespace t3accept
