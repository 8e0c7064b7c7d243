// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// t3sim: Chelsio T3 cards as a program. See options.cc for the command line.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "sim/core/event_loop.hh"
#include "sim/core/log_sink.hh"
#include "sim/rig/control.hh"
#include "sim/rig/control_client.hh"
#include "sim/rig/options.hh"
#include "sim/rig/rig.hh"
#include "sim/trace/trace.hh"

namespace {

int serve(const t3sim::Options& options) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a full file stops a recording, not the program
    // A client may fill its share of the descriptors, and the usual limit of 1,024 is for programs that use
    // select().
    if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }

    t3sim::EventLoop loop;
    const t3sim::Fd ending(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    const auto watch = loop.watch(ending.get(), EPOLLIN, [&](std::uint32_t) { loop.stop(); });
    std::unique_ptr<t3sim::Rig> rig;
    std::unique_ptr<t3sim::Control> control;
    try {
        rig = std::make_unique<t3sim::Rig>(loop, options);
        if (!options.control.empty())
            control = std::make_unique<t3sim::Control>(loop, *rig, options.control);
    } catch (const std::runtime_error& e) {
        // The command line is valid but cannot be executed: a folder does not exist, a socket is in use.
        fmt::print(stderr, "t3sim: {}\n", e.what());
        return 2;
    }
    t3sim::EventQueue::Repeated log_second(loop.queue(), [&] {
        t3sim::stderr_sink().report();
        log_second.after(1'000'000'000);
    });
    log_second.after(0);
    fmt::print("t3sim: ready\n");
    std::fflush(stdout);
    rig->run();
    loop.unwatch(watch);
    t3sim::stderr_sink().report(spdlog::log_clock::now() + std::chrono::seconds(1));
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
    try {
        if (argc > 1 && arguments[1] == std::string_view("ctl"))
            return t3sim::control_client(arguments.subspan(2));
        if (argc > 1 && arguments[1] == std::string_view("trace"))
            return t3sim::trace::command(argc - 1, argv + 1);
        const auto parsed = t3sim::parse_options(argc, argv);
        if (!parsed.options) {
            fmt::print(parsed.status == 0 ? stdout : stderr, "{}", parsed.message);
            return parsed.status;
        }
        return serve(*parsed.options);
    } catch (const std::exception& e) {
        fmt::print(stderr, "t3sim: {}\n", e.what());
        return 1;
    }
}
