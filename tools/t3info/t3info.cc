// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3info/t3info.hh"

#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "tools/common/cli.hh"
#include "tools/t3info/show.hh"

namespace t3info {

using namespace t3tools;

namespace {

struct Options {
    std::vector<std::string> kinds;
    std::string device;
    bool json = false;
    double watch = 0;
    unsigned count = 0;
};

volatile std::sig_atomic_t ended = 0;

/// Shows one screen after the other until SIGINT.
void watch(const Options& options, Source& source, const Machine& machine,
           const std::set<std::string>& wanted, std::ostream& out) {
    const bool terminal = isatty(STDOUT_FILENO) != 0 && !options.json;
    const auto period = std::chrono::duration<double>(options.watch);
    std::signal(SIGINT, [](int) { ended = 1; });
    auto before = collect(source, machine, options.device);
    for (unsigned shown = 0; ended == 0 && (options.count == 0 || shown < options.count); shown++) {
        std::this_thread::sleep_for(period);
        auto now = collect(source, machine, options.device);
        if (options.json)
            out << to_json(now, wanted).dump() << std::endl; // one object a line
        else
            out << (terminal ? "\x1b[H\x1b[2J" : "") << to_screen(before, now, options.watch)
                << (terminal ? "" : "\n") << std::flush;
        before = std::move(now);
    }
}

} // namespace

int run(const std::vector<std::string>& arguments, const Machine& machine,
        const std::function<std::unique_ptr<Source>()>& connect, std::ostream& out, std::ostream& err) {
    Options options;
    CLI::App app("Shows Chelsio T3 RDMA devices and the objects of processes on them.", "t3info");
    std::vector<std::string> names(kinds.begin(), kinds.end());
    names.emplace_back("all");
    app.add_option("what", options.kinds, "What to show: devices, ports, qp, cm, mr, cq, pd, counters or all")
        ->type_name("WHAT")
        ->check(CLI::IsMember(names));
    app.add_option("-d,--device", options.device, "Only this device")->type_name("NAME");
    app.add_flag("--json", options.json, "Print JSON");
    auto* watching = app.add_option("-w,--watch", options.watch, "Show changes, every SECONDS, until Ctrl-C")
                         ->type_name("SECONDS")
                         ->expected(0, 1)
                         ->default_str("1")
                         ->check(CLI::Range(0.1, 3600.0));
    app.add_option("-n,--count", options.count, "End after COUNT screens")
        ->type_name("COUNT")
        ->needs(watching)
        ->check(CLI::Range(1, 1000000));
    if (const auto end = parse(app, arguments, out, err))
        return *end;

    std::set<std::string> wanted(options.kinds.begin(), options.kinds.end());
    if (wanted.empty() && watching->count() == 0)
        wanted = {"ports"};
    if (wanted.contains("all") || wanted.empty())
        wanted = {kinds.begin(), kinds.end()};
    try {
        const auto source = connect();
        const auto devices = collect(*source, machine, options.device);
        if (devices.empty()) {
            err << (options.device.empty()
                        ? "t3info: there is no T3 RDMA device; t3doctor finds the reason\n"
                        : fmt::format("t3info: there is no T3 RDMA device {}\n", options.device));
            return no_device;
        }
        if (watching->count() != 0)
            watch(options, *source, machine, wanted, out);
        else if (options.json)
            out << to_json(devices, wanted).dump(2) << "\n";
        else
            out << to_text(devices, wanted);
        return status::ok;
    } catch (const std::exception& error) {
        err << fmt::format("t3info: {}\n", error.what());
        return status::failed;
    }
}

} // namespace t3info
