// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The program as a user starts it: start, control socket, shutdown.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/core/fd.hh"
#include "sim/core/unix_socket.hh"
#include "sim/rig/control.hh"
#include "sim/vfio/protocol.hh"
#include "tests/sim/hostile/lingering_socket.hh"
#include "tests/sim/pci_client.hh"

namespace t3sim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Program : public testing::Test {
protected:
    Program() {
        char name[] = "/tmp/t3sim-program-XXXXXX";
        directory = mkdtemp(name);
    }
    ~Program() override {
        if (child > 0) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
        fs::remove_all(directory);
    }

    void start(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), T3SIM);
        std::vector<char*> argv;
        for (auto& argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        int out[2];
        ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
            dup2(out[1], STDOUT_FILENO);
            dup2(out[1], STDERR_FILENO);
            if (file_limit) {
                const rlimit limit{*file_limit, *file_limit};
                setrlimit(RLIMIT_FSIZE, &limit);
            }
            execv(argv[0], argv.data());
            _exit(127);
        }
        close(out[1]);
        output.reset(out[0]);
    }
    /// Reads its output until @p text appears, it ends, or ten seconds have passed.
    std::string read_until(const std::string& text) {
        std::string seen;
        pollfd poll_fd{output.get(), POLLIN, 0};
        while (seen.find(text) == std::string::npos && poll(&poll_fd, 1, 10000) == 1) {
            std::array<char, 512> piece{};
            const ssize_t n = read(output.get(), piece.data(), piece.size());
            if (n <= 0)
                break;
            seen.append(piece.data(), static_cast<std::size_t>(n));
        }
        return seen;
    }
    int wait_for_end() {
        int status = 0;
        waitpid(child, &status, 0);
        child = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    std::string at(const char* name) const { return directory / name; }
    void start_two_cards(const std::vector<std::string>& more = {}) {
        std::vector<std::string> options{"--card",  "a=" + at("a"), "--card",  "b=" + at("b"), "--wire",
                                         "a.0,b.0", "--control",    at("ctl"), "--capture",    at("pcap")};
        options.insert(options.end(), more.begin(), more.end());
        start(options);
        ASSERT_NE(read_until("t3sim: ready\n").find("t3sim: ready\n"), std::string::npos);
    }
    json ask(const std::string& line) {
        const Fd socket = connect_unix(at("ctl"));
        EXPECT_TRUE(socket);
        const std::string request = line + "\n";
        EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(request.size()));
        std::string reply;
        std::array<char, 4096> piece{};
        while (reply.find('\n') == std::string::npos) {
            const ssize_t n = recv(socket.get(), piece.data(), piece.size(), 0);
            if (n <= 0)
                break;
            reply.append(piece.data(), static_cast<std::size_t>(n));
        }
        return json::parse(reply, nullptr, false);
    }

    double percent_of_a_processor() const {
        clockid_t cpu_of_child{};
        EXPECT_EQ(clock_getcpuclockid(child, &cpu_of_child), 0);
        const auto nanoseconds = [](clockid_t clock) {
            timespec now{};
            clock_gettime(clock, &now);
            return now.tv_sec * 1'000'000'000L + now.tv_nsec;
        };
        // The first second may still be that of its start.
        std::this_thread::sleep_for(std::chrono::seconds(1));
        const long cpu = nanoseconds(cpu_of_child), time = nanoseconds(CLOCK_MONOTONIC);
        std::this_thread::sleep_for(std::chrono::seconds(1));
        return 100.0 * static_cast<double>(nanoseconds(cpu_of_child) - cpu) /
               static_cast<double>(nanoseconds(CLOCK_MONOTONIC) - time);
    }

    fs::path directory;
    pid_t child = -1;
    std::optional<rlim_t> file_limit; ///< RLIMIT_FSIZE of the next start()
    Fd output;
};

TEST_F(Program, ReadyMeansThatAllSocketsListen) {
    start_two_cards();
    for (const char* name : {"a", "b", "ctl"})
        EXPECT_TRUE(connect_unix(at(name))) << name;
    EXPECT_TRUE(fs::exists(at("pcap/a.0-b.0.pcapng")));
}

TEST_F(Program, AnIdleOneUsesUnderOnePercentOfAProcessor) {
    start_two_cards({"--threads", "2"});
    EXPECT_LT(percent_of_a_processor(), 1);
}

/// The soft limit is usually 1,024, and one client may use 1,000.
TEST_F(Program, UsesAllDescriptorsThatItMay) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit usual{std::min<rlim_t>(before.rlim_max, 512), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    start_two_cards();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit has{};
    ASSERT_EQ(prlimit(child, RLIMIT_NOFILE, nullptr, &has), 0);
    EXPECT_EQ(has.rlim_cur, before.rlim_max);
}

/// Clients that cannot be accepted stay in the backlog, so the listening socket stays ready.
TEST_F(Program, WithoutFreeDescriptorsItIsIdle) {
    start_two_cards();
    const auto used = fs::directory_iterator("/proc/" + std::to_string(child) + "/fd");
    const auto limit = static_cast<rlim_t>(std::distance(begin(used), end(used)));
    rlimit enough{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &enough), 0);
    const rlimit none{limit, enough.rlim_max};
    ASSERT_EQ(prlimit(child, RLIMIT_NOFILE, &none, nullptr), 0);
    std::vector<Fd> clients;
    for (const char* name : {"ctl", "ctl", "a", "b"})
        clients.push_back(connect_unix(at(name)));
    EXPECT_LT(percent_of_a_processor(), 5);
    ASSERT_EQ(prlimit(child, RLIMIT_NOFILE, &enough, nullptr), 0);
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true);
}

/// The close of what one client has sent takes longer than the test.
TEST_F(Program, AControlClientsDescriptorsDelayNoOther) {
    start_two_cards();
    test::LingeringSocket lingers(30);
    ASSERT_TRUE(lingers.socket);
    const auto descriptors = [&] {
        const auto all = fs::directory_iterator("/proc/" + std::to_string(child) + "/fd");
        return std::distance(begin(all), end(all));
    };
    const auto before = descriptors();
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(kill(child, SIGSTOP), 0); // its close is the last one
    const Fd client = connect_unix(at("ctl"));
    ASSERT_TRUE(send_with(client, raw('{'), {lingers.socket.get()}));
    ASSERT_TRUE(send_with(client, raw('}'), {lingers.socket.get()}));
    lingers.socket.reset();
    ASSERT_EQ(kill(child, SIGCONT), 0);
    char c;
    EXPECT_LE(recv(client.get(), &c, 1, 0), 0) << "a request has no descriptors";
    for (int n = 0; n < 20; ++n)
        EXPECT_EQ(ask(R"({"command": "version"})")["ok"], true);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_TRUE(eventually([&] { return descriptors() <= before + 4; }));
}

/// It leaves the network of the tests before.
TEST_F(Program, ATapThatWasDeletedIsIdle) {
    if (unshare(CLONE_NEWNET) != 0)
        GTEST_SKIP() << "needs root, for a network of its own";
    start({"--card", "a=" + at("a"), "--tap", "a.0=t3gone", "--control", at("ctl")});
    if (read_until("t3sim: ready\n").find("/dev/net/tun") != std::string::npos)
        GTEST_SKIP() << "no TAP devices here";
    // NOLINTNEXTLINE(cert-env33-c)
    ASSERT_EQ(std::system("ip link set t3gone up && ip link del t3gone"), 0);
    EXPECT_NE(read_until("cable is dead").find("TAP interface 't3gone'"), std::string::npos);
    EXPECT_LT(percent_of_a_processor(), 5);
    EXPECT_EQ(ask(R"({"command": "wires"})")["ok"], true);
}

TEST_F(Program, AControlClientGivesWayToTheNextOnes) {
    start_two_cards();
    std::vector<Fd> clients;
    for (std::size_t n = 0; n < Control::max_clients + 10; ++n) {
        clients.push_back(connect_unix(at("ctl")));
        ASSERT_TRUE(clients.back());
        EXPECT_EQ(ask(R"({"command": "version"})")["ok"], true);
    }
    const auto used = fs::directory_iterator("/proc/" + std::to_string(child) + "/fd");
    EXPECT_LE(std::distance(begin(used), end(used)), 40 + static_cast<std::ptrdiff_t>(Control::max_clients));
    char c;
    EXPECT_EQ(recv(clients.front().get(), &c, 1, 0), 0);
}

/// With 20,000 lines of which the pipe takes the first thousand.
TEST_F(Program, ALogThatIsNotReadStopsNoCard) {
    start_two_cards({"--log-level", "vfio=debug"});
    const Fd client = connect_unix(at("a"));
    struct {
        vfio::Header header{.id = 1, .command = 1, .size = 20, .flags = 0x10, .error = 0};
        vfio::Version version{};
    } hello;
    ASSERT_EQ(::send(client.get(), &hello, sizeof hello, MSG_NOSIGNAL), ssize_t{sizeof hello});
    const std::vector<vfio::Header> unknown(1000,
                                            {.id = 1, .command = 99, .size = 16, .flags = 0x10, .error = 0});
    const auto bytes = static_cast<ssize_t>(unknown.size() * sizeof(vfio::Header));
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    for (int i = 0; i < 20; ++i)
        ASSERT_EQ(::send(client.get(), unknown.data(), static_cast<std::size_t>(bytes), MSG_NOSIGNAL), bytes)
            << "t3sim does not read any more";
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true);
    EXPECT_NE(read_until("refused").find("refused"), std::string::npos); // now it is read
    ASSERT_GT(::send(client.get(), unknown.data(), sizeof(vfio::Header), MSG_NOSIGNAL), 0);
    EXPECT_NE(read_until("were not read").find("lines of the log were dropped"), std::string::npos);
}

/// Each connection is a warning.
TEST_F(Program, AFloodOfWarningsIsCounted) {
    start_two_cards();
    constexpr int clients = 300;
    const std::uint8_t garbage[16] = {};
    for (int i = 0; i < clients; ++i) {
        const Fd client = connect_unix(at("a"));
        ASSERT_TRUE(client);
        ASSERT_EQ(::send(client.get(), garbage, sizeof garbage, MSG_NOSIGNAL), ssize_t{sizeof garbage});
        char c;
        EXPECT_LE(recv(client.get(), &c, 1, 0), 0);
    }
    kill(child, SIGTERM);
    EXPECT_EQ(wait_for_end(), 0);
    const std::string log = read_until("never");
    int lines = 0, counted = 0;
    std::istringstream text(log);
    for (std::string line; std::getline(text, line);) {
        if (line.find("client dropped") == std::string::npos)
            continue;
        ++lines;
        const auto more = line.find(" more like this");
        counted += more == std::string::npos ? 1 : std::stoi(line.substr(line.rfind(' ', more - 1)));
    }
    EXPECT_EQ(counted, clients) << log;
    EXPECT_LT(lines, clients / 2);
}

TEST_F(Program, SignalsEndItAndRemoveSockets) {
    for (const int signal : {SIGTERM, SIGINT}) {
        start_two_cards();
        kill(child, signal);
        EXPECT_EQ(wait_for_end(), 0);
        for (const char* name : {"a", "b", "ctl"})
            EXPECT_FALSE(fs::exists(at(name))) << name;
    }
}

TEST_F(Program, ASecondOneOnTheSameSocketIsRefused) {
    start_two_cards();
    const pid_t first = child;
    start({"--card", "a=" + at("a")});
    EXPECT_NE(read_until("\n").find("another process already listens"), std::string::npos);
    EXPECT_EQ(wait_for_end(), 2);
    EXPECT_TRUE(connect_unix(at("a"))) << "the first one still works";
    child = first;
}

TEST_F(Program, WrongArgumentsEndWith2) {
    start({"--card"});
    EXPECT_EQ(read_until("\n").find("t3sim: "), 0U);
    EXPECT_EQ(wait_for_end(), 2);
}

TEST_F(Program, MissingFolderIsNamed) {
    start({"--card", "a=" + at("nowhere/a")});
    const auto message = read_until("\n");
    EXPECT_NE(message.find(at("nowhere/a")), std::string::npos) << message;
    EXPECT_NE(message.find("its folder must exist"), std::string::npos) << message;
    EXPECT_EQ(wait_for_end(), 2);
}

TEST_F(Program, ControlSocket) {
    start_two_cards();
    auto reply = ask(R"({"command": "cards"})");
    ASSERT_TRUE(reply["ok"]);
    EXPECT_EQ(reply["result"].size(), 2U);
    EXPECT_EQ(reply["result"][0]["mac"], "00:07:43:11:22:00");
    EXPECT_EQ(reply["result"][0]["guest"], false);

    reply = ask(R"({"command": "wire", "args": ["down", "a.0-b.0"]})");
    EXPECT_EQ(reply["result"]["up"], false);
    reply = ask(R"({"command": "wires"})");
    EXPECT_EQ(reply["result"][0]["up"], false);

    reply = ask(R"({"command": "counters", "args": ["b"]})");
    EXPECT_EQ(reply["result"].size(), 1U);
    EXPECT_TRUE(reply["result"]["b"].contains("vfio.messages"));

    reply = ask(R"({"command": "impair", "args": ["a.0-b.0", "a.0", "loss=0.5", "seed=9"]})");
    EXPECT_EQ(reply["result"]["impairments"]["a.0"]["loss"], 0.5);
    EXPECT_FALSE(reply["result"]["impairments"].contains("b.0"));

    EXPECT_TRUE(ask(R"({"command": "capture", "args": ["stop"]})")["ok"]);
    reply = ask(R"({"command": "capture", "args": ["start", ")" + at("again") + R"(", "1M"]})");
    EXPECT_TRUE(reply["ok"]);
    EXPECT_TRUE(fs::exists(at("again/a.0-b.0.pcapng")));

    EXPECT_TRUE(ask(R"({"command": "quit"})")["ok"]);
    EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(Program, ControlSocketRefusesWithAReason) {
    start_two_cards();
    const std::pair<const char*, const char*> bad[] = {
        {"", "JSON object"},
        {"{", "JSON object"},
        {"[1]", "JSON object"},
        {R"({"command": 7})", "JSON object"},
        {R"({"command": "cards", "args": 7})", "array of strings"},
        {R"({"command": "cards", "args": [7]})", "array of strings"},
        {R"({"command": "cards", "args": ["x"]})", "usage: cards"},
        {R"({"command": "frob"})", "try help"},
        {R"({"command": "counters", "args": ["z"]})", "no card 'z'"},
        {R"({"command": "cause", "args": ["z", "db-full"]})", "no card 'z'"},
        {R"({"command": "cause", "args": ["a"]})", "cause CARD FAULT"},
        {R"({"command": "cause", "args": ["a", "frob"]})", "no fault 'frob'; cause --list shows all"},
        {R"({"command": "cause", "args": ["a", "lost-interrupt", "1s"]})", "a number of times"},
        {R"({"command": "cause", "args": ["a", "late-dma", "7"]})", "a time such as 200ms"},
        {R"({"command": "cause", "args": ["a", "abort", "7"]})", "has no amount"},
        {R"({"command": "cause", "args": ["a", "bad-crc", "7"]})", "expected tid=N, qp=N or nth=N"},
        {R"({"command": "cause", "args": ["a", "bad-crc", "nth=x"]})", "'nth=x': expected a number"},
        {R"({"command": "cause", "args": ["a", "bad-crc", "nth=0"]})", "counted from 1"},
        {R"({"command": "cause", "args": ["a", "bad-crc", "nth=0x0"]})", "counted from 1"},
        {R"({"command": "cause", "args": ["a", "hold-cqe", "qp=0x40"]})",
         "no connected QP has the number 64"},
        {R"({"command": "cause", "args": ["a", "hold-cqe", "qp=64"]})", "no connected QP has the number 64"},
        {R"({"command": "cause", "args": ["a", "abort", "tid=1"]})", "has no tid= or qp="},
        {R"({"command": "at", "args": ["z", "cpl", "wire", "down", "a.0-b.0"]})", "no card 'z'"},
        {R"({"command": "at", "args": ["a", "frob", "wire", "down", "a.0-b.0"]})", "no event 'frob'"},
        {R"({"command": "at", "args": ["a", "cpl", "tid=1"]})", "expected a command"},
        {R"({"command": "at", "args": ["a", "cpl", "nth=0", "wire", "down", "a.0-b.0"]})", "counted from 1"},
        {R"({"command": "at", "args": ["a", "cpl", "quit"]})", "'quit' cannot run at an event"},
        {R"({"command": "at", "args": ["a", "cpl", "wire", "down"]})", "usage: wire"},
        {R"({"command": "at", "args": ["a", "cpl", "wire", "down", "z"]})", "wires are: a.0-b.0"},
        {R"({"command": "subscribe", "args": ["frob"]})", "no event 'frob'; events are: mmio, "},
        {R"({"command": "lie", "args": ["z", "7"]})", "no card 'z'"},
        {R"({"command": "lie", "args": ["a"]})", "lie CARD SEED"},
        {R"({"command": "lie", "args": ["a", "-7"]})", "lie CARD SEED"},
        {R"({"command": "lie", "args": ["a", "7", "2"]})", "a rate above 0, and 1 at most"},
        {R"({"command": "lie", "args": ["a", "7", "0.5", "frob"]})",
         "no kind of lie 'frob'; lie --list shows all"},
        {R"({"command": "guess", "args": ["z", "G12=other"]})", "no card 'z'"},
        {R"({"command": "guess", "args": ["a", "G3=other"]})", "no other answer for G3, only for G1, "},
        {R"({"command": "guess", "args": ["a", "G12=no"]})", "the answers are modelled and other"},
        {R"({"command": "guess", "args": ["a", "G12"]})", "for example G12=other"},
        {R"({"command": "time", "args": ["z", "t3"]})", "no card 'z'"},
        {R"({"command": "time", "args": ["a", "fetch=1us", "write=5s"]})", "one second at most"},
        {R"({"command": "wire", "args": ["down", "z"]})", "wires are: a.0-b.0"},
        {R"({"command": "wire", "args": ["off", "a.0-b.0"]})", "wire up NAME"},
        {R"({"command": "impair", "args": ["a.0-b.0", "z", "loss=1"]})", "ends are: all, a.0, b.0"},
        {R"({"command": "impair", "args": ["a.0-b.0", "all", "loss=7"]})", "loss=0.01"},
        {R"({"command": "capture", "args": ["start"]})", "capture start DIR"},
        {R"({"command": "capture", "args": ["start", "/proc/x"]})", "cannot"},
        {"{\"command\": \"\xff\"}", "JSON object"},
    };
    for (const auto& [line, expected] : bad) {
        const auto reply = ask(line);
        ASSERT_TRUE(reply.is_object()) << line;
        EXPECT_EQ(reply["ok"], false) << line;
        EXPECT_NE(reply["error"].get<std::string>().find(expected), std::string::npos)
            << line << ": " << reply["error"];
    }
    EXPECT_TRUE(ask(R"({"command": "cards"})")["ok"]);
}

TEST_F(Program, CtlIsTheClient) {
    start_two_cards();
    const std::string ctl = std::string(T3SIM) + " ctl " + at("ctl");
    EXPECT_EQ(std::system((ctl + " wire down a.0-b.0 >/dev/null").c_str()), 0);       // NOLINT(cert-env33-c)
    EXPECT_NE(std::system((ctl + " wire down nowhere 2>/dev/null").c_str()), 0);      // NOLINT(cert-env33-c)
    EXPECT_EQ(std::system((ctl + " help | grep -q 'wire up|down NAME'").c_str()), 0); // NOLINT(cert-env33-c)
    // NOLINTNEXTLINE(cert-env33-c)
    EXPECT_EQ(std::system((ctl + " cause --list | grep -q '^late-cqe *.TIME. '").c_str()), 0);
    EXPECT_EQ(std::system((ctl + " cause a late-cqe 5ms").c_str()), 0); // NOLINT(cert-env33-c)
    EXPECT_EQ(std::system((ctl + " quit").c_str()), 0);                 // NOLINT(cert-env33-c)
    EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(Program, AnswersToOpenQuestionsAreThoseOfACard) {
    start_two_cards({"--guess", "G45=other"});
    EXPECT_EQ(ask(R"({"command": "guess", "args": ["a"]})")["result"], "G45=other");
    EXPECT_EQ(ask(R"({"command": "guess", "args": ["a", "G12=other", "G45=modelled"]})")["result"],
              "G12=other");
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["a"]})")["ok"], true); // keeps them
    EXPECT_EQ(ask(R"({"command": "guess", "args": ["a"]})")["result"], "G12=other");
    EXPECT_EQ(ask(R"({"command": "guess", "args": ["b"]})")["result"], "G45=other");
    EXPECT_EQ(ask(R"({"command": "guess", "args": ["--list"]})")["result"][0]["name"], "G1");
}

TEST_F(Program, TimesAreThoseOfACard) {
    start_two_cards({"--time", "t3", "--time", "jitter=0ns"});
    EXPECT_EQ(ask(R"({"command": "time", "args": ["a", "instant"]})")["result"], "instant");
    EXPECT_EQ(ask(R"({"command": "time", "args": ["a", "fetch=1us", "seed=7"]})")["result"],
              "fetch=1000ns write=0ns command=0ns jitter=0ns seed=7");
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["a"]})")["ok"], true); // keeps them
    EXPECT_EQ(ask(R"({"command": "time", "args": ["a"]})")["result"],
              "fetch=1000ns write=0ns command=0ns jitter=0ns seed=7");
    EXPECT_EQ(ask(R"({"command": "time", "args": ["b"]})")["result"],
              "fetch=2000ns write=500ns command=1000ns jitter=0ns seed=1");
}

TEST_F(Program, CardsPauseAndStep) {
    start_two_cards();
    EXPECT_NE(
        ask(R"({"command": "step", "args": ["a"]})")["error"].get<std::string>().find("pause them first"),
        std::string::npos);
    const auto paused = ask(R"({"command": "pause", "args": ["a"]})")["result"].get<std::uint64_t>();
    EXPECT_EQ(ask(R"({"command": "cause", "args": ["a", "link-flap", "10ms"]})")["ok"], true);
    EXPECT_EQ(ask(R"({"command": "pause", "args": ["b"]})")["result"], paused) << "on the same wire";
    const auto step = ask(R"({"command": "step", "args": ["b"]})")["result"];
    EXPECT_EQ(step["events"], 1U);
    EXPECT_EQ(step["time"], paused + 10'000'000) << "the link returns";
    EXPECT_EQ(ask(R"({"command": "step", "args": ["a", "1001"]})")["ok"], false);
    EXPECT_EQ(ask(R"({"command": "run", "args": ["a"]})")["ok"], true);
    EXPECT_EQ(ask(R"({"command": "step", "args": ["a"]})")["ok"], false);
    EXPECT_EQ(ask(R"({"command": "at", "args": ["a", "reset", "pause", "a"]})")["ok"], true);
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["a"]})")["ok"], true);
    EXPECT_EQ(ask(R"({"command": "step", "args": ["a"]})")["ok"], true);
}

TEST_F(Program, ProtocolHasAVersion) {
    start_two_cards();
    EXPECT_EQ(ask(R"({"command": "cards"})")["version"], 1);
    EXPECT_EQ(ask(R"({"command": "frob"})")["version"], 1);
    EXPECT_EQ(ask(R"({"version": 1, "command": "cards"})")["ok"], true);
    const auto version = ask(R"({"command": "version"})")["result"];
    EXPECT_EQ(version["protocol"], 1);
    EXPECT_EQ(version["program"].get<std::string>().find("t3sim (t3rdma) "), 0U);
    for (const char* line :
         {R"({"version": 2, "command": "cards"})", R"({"version": "1", "command": "cards"})"}) {
        const auto reply = ask(line);
        EXPECT_EQ(reply["ok"], false);
        EXPECT_EQ(reply["error"], "this t3sim speaks version 1 of the protocol");
    }
}

TEST_F(Program, RequestsOfManyPartsNeedLittleStack) {
    // As if there were more of them: a line has 8 KiB at most.
    rlimit usual{};
    ASSERT_EQ(getrlimit(RLIMIT_STACK, &usual), 0);
    rlimit small = usual;
    small.rlim_cur = 128 << 10;
    ASSERT_EQ(setrlimit(RLIMIT_STACK, &small), 0);
    start_two_cards();
    ASSERT_EQ(setrlimit(RLIMIT_STACK, &usual), 0);
    const std::string nested = std::string(4'000, '[') + std::string(4'000, ']');
    EXPECT_EQ(ask(R"({"command": "qps", "from": )" + nested + "}")["ok"], false);
}

TEST_F(Program, TablesOfIdleCards) {
    start_two_cards();
    for (const char* table : {"connections", "qps", "cqs", "regions", "rings"}) {
        auto reply = ask(std::string(R"({"command": ")") + table + R"("})");
        // Looking for rows takes several requests.
        for (unsigned parts = 0; reply.contains("next"); ++parts) {
            ASSERT_LT(parts, 100U);
            EXPECT_TRUE(reply["result"].empty());
            reply = ask(json{{"command", table}, {"from", reply["next"]}}.dump());
        }
        EXPECT_EQ(reply["ok"], true) << table;
        EXPECT_TRUE(reply["result"].empty()) << table;
    }
    for (const char* from : {"7", "{}", R"({"card": 7, "number": 7})", R"({"card": "a", "number": -7})"}) {
        const auto reply = ask(std::string(R"({"command": "qps", "from": )") + from + "}");
        EXPECT_EQ(reply["ok"], false) << from;
    }
    EXPECT_EQ(ask(R"({"command": "qps", "args": ["z"]})")["error"], "there is no card 'z'");
}

/// Output of a command line.
std::string output_of(const std::string& command) {
    std::string text;
    FILE* pipe = popen(command.c_str(), "r"); // NOLINT(cert-env33-c)
    std::array<char, 512> piece{};
    for (std::size_t n; (n = fread(piece.data(), 1, piece.size(), pipe)) != 0;)
        text.append(piece.data(), n);
    pclose(pipe);
    return text;
}

TEST_F(Program, CtlPrintsTables) {
    start_two_cards();
    const std::string ctl = std::string(T3SIM) + " ctl " + at("ctl");
    EXPECT_EQ(output_of(ctl + " qps"), "no qps\n");
    EXPECT_EQ(output_of(ctl + " connections b --json"), "[]\n");
    EXPECT_EQ(output_of(ctl + " --json qps 2>&1"), "t3sim: unknown command '--json'; try help\n");
    EXPECT_EQ(output_of(ctl + " cards --json 2>&1"),
              "t3sim: usage: cards                 cards and their sockets\n");
    // The second table shows that it repeats.
    EXPECT_EQ(output_of(ctl + " rings --watch --json | head -n 2"), "[]\n[]\n");
}

TEST_F(Program, CtlPrintsCountersForPrometheus) {
    start_two_cards();
    const std::string ctl = std::string(T3SIM) + " ctl " + at("ctl");
    const std::string all = output_of(ctl + " counters --prometheus");
    EXPECT_NE(all.find("# TYPE t3sim_sge_cqes_total counter\n"
                       "t3sim_sge_cqes_total{card=\"a\"} 0\n"
                       "t3sim_sge_cqes_total{card=\"b\"} 0\n"),
              std::string::npos)
        << all;
    EXPECT_EQ(output_of(ctl + " counters b --prometheus").find("card=\"a\""), std::string::npos);
}

TEST_F(Program, AVariableNamesTheSocket) {
    start_two_cards();
    const std::string program = T3SIM, variable = "T3SIM_CONTROL=" + at("ctl") + " ";
    EXPECT_EQ(output_of(variable + program + " ctl qps a"), "no qps\n");
    EXPECT_EQ(output_of(variable + program + " ctl " + at("ctl") + " qps a"), "no qps\n")
        << "a socket takes precedence";
    EXPECT_NE(output_of("T3SIM_CONTROL= " + program + " ctl qps 2>&1").find("T3SIM_CONTROL must name it"),
              std::string::npos);
    EXPECT_NE(output_of("T3SIM_CONTROL=/nowhere " + program + " ctl qps 2>&1")
                  .find("cannot reach a t3sim at '/nowhere'"),
              std::string::npos);
}

TEST_F(Program, ResetIsOfOneCard) {
    start_two_cards();
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["a"]})")["ok"], true);
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["z"]})")["error"], "there is no card 'z'");
    EXPECT_EQ(ask(R"({"command": "reset"})")["ok"], false);
}

/// Sends frames without end into a wire through its QEMU end, which keeps the thread of the wire busy.
class Flood {
public:
    explicit Flood(const std::string& path) : socket_(connect_unix(path)), thread_([this] { send(); }) {}
    ~Flood() {
        end_ = true;
        shutdown(socket_.get(), SHUT_RDWR);
        thread_.join();
    }
    Flood(const Flood&) = delete;
    Flood& operator=(const Flood&) = delete;

private:
    void send() {
        std::vector<std::uint8_t> frames;
        for (int i = 0; i < 64; ++i) { // broadcasts of 60 bytes
            frames.insert(frames.end(), {0, 0, 0, 60});
            frames.insert(frames.end(), 60, 0xff);
        }
        while (!end_ && ::send(socket_.get(), frames.data(), frames.size(), MSG_NOSIGNAL) > 0)
            ;
    }
    Fd socket_;
    std::atomic<bool> end_ = false;
    std::thread thread_;
};

/// Three components: two busy ones and an idle one. All commands work on each, and SIGTERM ends them.
TEST_F(Program, CommandsReachBusyAndIdleCardsInAllThreads) {
    for (const char* threads : {"1", "2", "4"}) {
        SCOPED_TRACE(threads);
        start({"--card", "a=" + at("a"), "--card", "b=" + at("b"), "--card", "c=" + at("c"), "--wire",
               "x=a.0,qemu:" + at("p"), "--wire", "y=b.0,qemu:" + at("q"), "--record", at("run.t3t"),
               "--control", at("ctl"), "--threads", threads});
        ASSERT_NE(read_until("t3sim: ready\n").find("t3sim: ready\n"), std::string::npos);
        const Flood first(at("p")), second(at("q"));
        const auto frames = [&](unsigned wire) {
            return ask(R"({"command": "wires"})")["result"][wire]["frames"].get<std::uint64_t>();
        };
        const auto wait_for_frames = [&](unsigned wire) {
            for (const std::uint64_t before = frames(wire); frames(wire) == before;)
                ;
        };
        wait_for_frames(0);
        wait_for_frames(1);
        // It is ready before its threads have started, which the reply to a command shows. Each of its five
        // other sockets has a worker, and the control socket has eight.
        const auto tasks = fs::directory_iterator("/proc/" + std::to_string(child) + "/task");
        EXPECT_EQ(std::distance(begin(tasks), end(tasks)), 13 + (threads[0] == '1'   ? 1
                                                                 : threads[0] == '2' ? 3
                                                                                     : 4));
        for (const char* card : {"a", "b", "c"}) {
            const json name = json::array({card});
            for (const char* command :
                 {"counters", "connections", "qps", "cqs", "regions", "rings", "guess", "reset"})
                EXPECT_EQ(ask(json{{"command", command}, {"args", name}}.dump())["ok"], true)
                    << card << command;
            EXPECT_EQ(ask(json{{"command", "guess"}, {"args", {card, "G12=other"}}}.dump())["result"],
                      "G12=other");
            EXPECT_EQ(ask(json{{"command", "cause"}, {"args", {card, "late-cqe", "5ms"}}}.dump())["ok"],
                      true);
        }
        EXPECT_EQ(ask(R"({"command": "guess", "args": ["c", "G12=no"]})")["ok"], false);
        EXPECT_EQ(ask(R"({"command": "cards"})")["result"].size(), 3U);
        EXPECT_EQ(ask(R"({"command": "wire", "args": ["down", "y"]})")["result"]["up"], false);
        EXPECT_EQ(ask(R"({"command": "wire", "args": ["up", "y"]})")["result"]["up"], true);
        EXPECT_EQ(ask(R"({"command": "impair", "args": ["x", "all", "loss=0.5"]})")["ok"], true);
        EXPECT_EQ(ask(json{{"command", "capture"}, {"args", {"start", at("pcap"), "1M"}}}.dump())["ok"],
                  true);
        wait_for_frames(0);
        EXPECT_EQ(ask(R"({"command": "capture", "args": ["stop"]})")["ok"], true);
        EXPECT_GT(fs::file_size(at("pcap/x.pcapng")), 100U);
        EXPECT_EQ(ask(R"({"command": "record", "args": ["stop"]})")["ok"], true);
        EXPECT_EQ(ask(json{{"command", "record"}, {"args", {"start", at("run.t3t"), "1M"}}}.dump())["ok"],
                  true);
        // A table of all cards comes in parts, also of several components.
        unsigned parts = 1;
        for (auto reply = ask(R"({"command": "qps"})"); reply.contains("next"); ++parts)
            reply = ask(json{{"command", "qps"}, {"from", reply["next"]}}.dump());
        EXPECT_GE(parts, 3U);
        kill(child, SIGTERM);
        EXPECT_EQ(wait_for_end(), 0);
        for (const char* name : {"run.t3t", "run.t3t.1", "run.t3t.2"})
            EXPECT_TRUE(fs::exists(at(name))) << name;
        // NOLINTNEXTLINE(cert-env33-c)
        EXPECT_EQ(std::system((std::string(T3SIM) + " trace --card c " + at("run.t3t")).c_str()), 0);
    }
}

/// In the thread of the cards, and in another one.
TEST_F(Program, ACommandRunsAtAnEventAndSubscribersSeeIt) {
    for (const char* threads : {"1", "2"}) {
        start({"--card", "a=" + at("a"), "--card", "b=" + at("b"), "--card", "c=" + at("c"), "--wire",
               "w=a.0,b.0", "--threads", threads, "--control", at("ctl")});
        ASSERT_NE(read_until("t3sim: ready\n").find("t3sim: ready\n"), std::string::npos);
        const Fd subscriber = connect_unix(at("ctl"));
        const std::string request = R"({"command": "subscribe", "args": ["b", "reset", "at"]})"
                                    "\n";
        ASSERT_GT(::send(subscriber.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
        const auto read_line = [&] {
            std::string line;
            for (char c = 0; c != '\n' && recv(subscriber.get(), &c, 1, 0) == 1;)
                line += c;
            return json::parse(line, nullptr, false);
        };
        EXPECT_EQ(read_line()["ok"], true);
        EXPECT_NE(ask(R"({"command": "at", "args": ["c", "reset", "wire", "down", "w"]})")["error"]
                      .get<std::string>()
                      .find("no wires join the card 'c'"),
                  std::string::npos);
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b", "reset", "nth=2", "wire", "down", "w"]})")["ok"],
                  true);
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b"]})")["result"], json::array({"wire down w"}));
        EXPECT_EQ(ask(R"({"command": "reset", "args": ["b"]})")["ok"], true);
        EXPECT_EQ(read_line()["event"], "reset");
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b"]})")["result"], json::array()) << "a reset ends it";
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b", "reset", "wire", "down", "w"]})")["ok"], true);
        EXPECT_EQ(ask(R"({"command": "reset", "args": ["b"]})")["ok"], true);
        EXPECT_EQ(read_line()["event"], "reset");
        const json report = read_line();
        EXPECT_EQ(report["name"], "wire down w");
        EXPECT_EQ(report["text"], "done");
        EXPECT_EQ(ask(R"({"command": "wires"})")["result"][0]["up"], false);
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b", "reset", "wire", "up", "w"]})")["ok"], true);
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b", "off"]})")["ok"], true);
        EXPECT_EQ(ask(R"({"command": "at", "args": ["b"]})")["result"], json::array());
        kill(child, SIGTERM);
        EXPECT_EQ(wait_for_end(), 0);
    }
}

TEST_F(Program, AFileThatMayNotGrowStopsTheCaptureOnly) {
    file_limit = 0;
    start({"--card", "a=" + at("a"), "--card", "b=" + at("b"), "--wire", "a.0,b.0", "--control", at("ctl"),
           "--capture", at("pcap")});
    EXPECT_NE(read_until("t3sim: ready\n").find("File too large; capture stopped"), std::string::npos);
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true);
}

/// It has no reader.
TEST_F(Program, ARecordingIntoAFifoIsRefused) {
    start_two_cards();
    ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
    EXPECT_EQ(ask(R"({"command": "record", "args": ["start", ")" + at("fifo") + R"("]})")["ok"], false);
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true);
}

TEST_F(Program, ALongLineEndsTheConnection) {
    start_two_cards();
    EXPECT_FALSE(ask(std::string(20'000, '[')).is_object());
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true);
}

/// It is not the first one that gives way to others.
TEST_F(Program, ASubscriberIsNotIdle) {
    start_two_cards();
    const Fd subscriber = connect_unix(at("ctl"));
    const std::string request = R"({"command": "subscribe", "args": ["reset"]})"
                                "\n";
    ASSERT_GT(::send(subscriber.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
    std::vector<Fd> clients;
    for (std::size_t n = 0; n < Control::max_clients + 10; ++n)
        clients.push_back(connect_unix(at("ctl")));
    EXPECT_EQ(ask(R"({"command": "reset", "args": ["a"]})")["ok"], true);
    std::string seen;
    std::array<char, 512> piece{};
    while (seen.find("chip reset") == std::string::npos) {
        const ssize_t n = recv(subscriber.get(), piece.data(), piece.size(), 0);
        ASSERT_GT(n, 0);
        seen.append(piece.data(), static_cast<std::size_t>(n));
    }
}

/// A reply that the socket does not take waits, and with it the requests behind it; none is lost.
TEST_F(Program, AClientThatDoesNotReadIsServedWhenItDoes) {
    start_two_cards();
    const Fd socket = connect_unix(at("ctl"));
    ASSERT_TRUE(socket);
    const std::string line = R"({"command": "help"})"
                             "\n";
    std::size_t sent = 0;
    const auto send_some = [&] {
        const std::size_t at = sent % line.size();
        const ssize_t n =
            ::send(socket.get(), line.data() + at, line.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += static_cast<std::size_t>(n);
        return n > 0;
    };
    // Until t3sim takes no more: it executes nothing while a reply waits.
    pollfd writable{socket.get(), POLLOUT, 0};
    while (send_some() || (poll(&writable, 1, 200) == 1 && send_some()))
        ASSERT_LT(sent, 64U << 20) << "the requests are all taken";
    EXPECT_EQ(ask(R"({"command": "cards"})")["ok"], true) << "others are served meanwhile";

    const std::size_t requests = sent / line.size();
    std::size_t replies = 0;
    std::array<char, 65536> piece{};
    pollfd readable{socket.get(), POLLIN, 0};
    while (replies < requests && poll(&readable, 1, 10000) == 1) {
        const ssize_t n = recv(socket.get(), piece.data(), piece.size(), 0);
        ASSERT_GT(n, 0);
        replies += static_cast<std::size_t>(std::count(piece.begin(), piece.begin() + n, '\n'));
    }
    EXPECT_GT(requests, 10U);
    EXPECT_EQ(replies, requests);
}

} // namespace
} // namespace t3sim
