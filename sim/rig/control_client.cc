// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/control_client.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/core/unix_socket.hh"
#include "sim/rig/commands.hh"

namespace t3sim {
namespace {

/// A failure of t3sim ctl; printed, status 1.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Client {
public:
    explicit Client(const std::string& path) : socket_(connect_unix(path)) {
        if (!socket_)
            throw Failed(fmt::format("cannot reach a t3sim at '{}': {}", path, std::strerror(errno)));
    }

    /// The reply to a request that succeeded.
    Json ask(const Json& request) {
        const std::string line = request.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
        if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(line.size()))
            throw Failed("connection lost");
        std::array<char, 65536> piece{};
        auto end = input_.find('\n');
        while (end == std::string::npos) {
            const ssize_t n = recv(socket_.get(), piece.data(), piece.size(), 0);
            if (n <= 0)
                break;
            const std::size_t before = input_.size();
            input_.append(piece.data(), static_cast<std::size_t>(n));
            end = input_.find('\n', before);
        }
        Json reply = Json::parse(input_.substr(0, end), nullptr, false);
        input_.erase(0, end == std::string::npos ? end : end + 1);
        if (!reply.is_object() || !reply.contains("ok"))
            throw Failed("no reply");
        if (!reply["ok"].get<bool>())
            throw Failed(reply.value("error", "refused"));
        return reply;
    }

    /// All parts of a table, but at most `most_rows`: a guest chooses how many regions there are.
    Json table(Json request) {
        constexpr std::size_t most_rows = 100'000;
        Json all = Json::array();
        for (;;) {
            Json reply = ask(request);
            for (Json& row : reply["result"])
                all.push_back(std::move(row));
            if (!reply.contains("next"))
                return all;
            if (all.size() >= most_rows) {
                fmt::print(stderr, "t3sim: only the first {} rows\n", all.size());
                return all;
            }
            request["from"] = reply["next"];
        }
    }

    /// Prints what follows the reply until the connection ends.
    void copy_lines() {
        std::array<char, 65536> piece{};
        for (;;) {
            fmt::print("{}", input_);
            std::fflush(stdout);
            const ssize_t n = recv(socket_.get(), piece.data(), piece.size(), 0);
            if (n <= 0)
                break;
            input_.assign(piece.data(), static_cast<std::size_t>(n));
        }
    }

private:
    Fd socket_;
    std::string input_; ///< behind the last reply
};

void print_table(const std::string& name, const Json& table, bool as_json, bool again) {
    if (as_json) // one line each time, for programs
        fmt::print("{}\n", table.dump(again ? -1 : 2));
    else
        fmt::print("{}{}", again && isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", table_text(name, table));
    std::fflush(stdout);
}

/// The text format of Prometheus, in which all samples of a metric stand together.
void print_metrics(const Json& cards) {
    std::map<std::string, std::string> samples; // of a metric
    for (const auto& [card, counters] : cards.items())
        for (const auto& [name, value] : counters.items()) {
            std::string metric = "t3sim_" + name + "_total";
            std::ranges::replace_if(
                metric, [](char c) { return c == '.' || c == '-'; }, '_');
            samples[metric] += fmt::format("{}{{card=\"{}\"}} {}\n", metric, card, value.get<Counter>());
        }
    for (const auto& [metric, lines] : samples)
        fmt::print("# TYPE {} counter\n{}", metric, lines);
}

/// Whether @p option is among the arguments; removes it.
bool take(commands::Arguments& arguments, std::string_view option) {
    return std::erase(arguments, option) != 0;
}

int run_command(const std::string& path, const std::string& command, commands::Arguments arguments) {
    const commands::Row* row = commands::find_row(command);
    const bool is_table = row && row->is_table;
    const bool as_json = is_table && take(arguments, "--json");
    const bool watch = is_table && take(arguments, "--watch");
    const bool as_metrics = command == "counters" && take(arguments, "--prometheus");
    Client client(path);
    const Json request{{"version", commands::protocol_version}, {"command", command}, {"args", arguments}};
    if (is_table) {
        for (;;) {
            print_table(command, client.table(request), as_json, watch);
            if (!watch)
                return 0;
            sleep(1);
        }
    }
    const Json reply = client.ask(request);
    const Json& result = reply["result"];
    if (command == "subscribe")
        client.copy_lines();
    else if (as_metrics)
        print_metrics(result);
    else if (command == "help")
        for (const auto& usage : result)
            fmt::print("{}\n", usage.get<std::string>());
    else if (command == "cause" && result.is_array())
        for (const auto& fault : result)
            fmt::print("{:22} {:22} {}\n", fault["name"].get<std::string>(),
                       (fault["target"].get<bool>() ? "[tid=N|qp=N] " : "") +
                           fault["amount"].get<std::string>(),
                       fault["what"].get<std::string>());
    else if (command == "guess" && result.is_array())
        for (const auto& row : result)
            fmt::print("{:<5}{:<56}  other: {}\n", row["name"].get<std::string>(),
                       row["modelled"].get<std::string>(), row["other"].get<std::string>());
    else if (!result.is_null())
        fmt::print("{}\n", result.dump(2));
    return 0;
}

} // namespace

int control_client(std::span<const char* const> arguments) {
    if (!arguments.empty() &&
        (arguments[0] == std::string_view("--help") || arguments[0] == std::string_view("-h"))) {
        fmt::print("Usage: t3sim ctl [SOCKET] COMMAND [ARG...]\n\n"
                   "Without SOCKET: the one that the variable {} names. Then a SOCKET whose name is a "
                   "command needs a "
                   "folder (./quit).\n\nCommands:\n",
                   control_variable);
        for (const commands::Row& row : commands::rows())
            fmt::print("{}\n", row.usage);
        fmt::print("\nOptions of connections, qps, cqs, regions and rings:\n"
                   "  --json      JSON instead of columns\n"
                   "  --watch     again every second; with --json one line each time\n\n"
                   "Option of counters:\n"
                   "  --prometheus\n"
                   "              the text format of Prometheus\n");
        return 0;
    }
    const char* const variable = std::getenv(control_variable);
    std::string path;
    if (variable && *variable && !arguments.empty() && commands::find_row(arguments[0])) {
        path = variable;
    } else if (arguments.size() >= 2) {
        path = arguments[0];
        arguments = arguments.subspan(1);
    } else {
        fmt::print(
            stderr,
            "t3sim: usage: t3sim ctl [SOCKET] COMMAND [ARG...]; t3sim ctl --help lists the commands; without "
            "SOCKET the variable {} must name it\n",
            control_variable);
        return 2;
    }
    try {
        return run_command(path, arguments[0], {arguments.begin() + 1, arguments.end()});
    } catch (const Failed& e) {
        fmt::print(stderr, "t3sim: {}\n", e.what());
        return 1;
    }
}

} // namespace t3sim
