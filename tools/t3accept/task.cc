// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/task.hh"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <arpa/inet.h>

namespace t3accept {

namespace {

constexpr int rping_port = 7174;
constexpr int ucmatose_port = 7471;
constexpr int own_port = 7472;
constexpr int perftest_port = 18515;
constexpr int largest_size = 16 << 20;
constexpr int largest_count = 10'000'000;
constexpr int longest_seconds = 3600;

enum class Kind { rping, ucmatose, perftest, own };

/// Programs of perftest and of rdmacm-utils, and ours, with the options of each variant.
struct Program {
    const char* name;
    Kind kind;
    std::vector<std::pair<const char*, std::vector<std::string>>> variants;
};

const std::vector<Program>& programs() {
    static const std::vector<Program> all{
        {"rping", Kind::rping, {{"", {}}}},
        {"ucmatose", Kind::ucmatose, {{"", {}}}},
        {"ib_send_bw", Kind::perftest, {{"", {}}, {"both ways", {"-b"}}}},
        {"ib_write_bw", Kind::perftest, {{"", {}}, {"both ways", {"-b"}}}},
        {"ib_read_bw", Kind::perftest, {{"", {}}, {"both ways", {"-b"}}}},
        {"ib_send_lat", Kind::perftest, {{"", {}}, {"events", {"-e"}}}},
        {"ib_write_lat", Kind::perftest, {{"", {}}}},
        {"ib_read_lat", Kind::perftest, {{"", {}}, {"events", {"-e"}}}},
        {"t3-bad_access",
         Kind::own,
         {{"wrong rkey, write", {"--case=wrong_rkey", "--op=write"}},
          {"wrong rkey, read", {"--case=wrong_rkey", "--op=read"}},
          {"out of bounds, write", {"--case=out_of_bounds", "--op=write"}},
          {"no permission, write", {"--case=no_permission", "--op=write"}}}},
        {"t3-rnr", Kind::own, {{"", {}}}},
        {"t3-small_cq", Kind::own, {{"", {}}}},
        {"t3-flush",
         Kind::own,
         {{"client killed", {"--closer=client", "--how=kill"}},
          {"server killed", {"--closer=server", "--how=kill", "--events"}},
          {"both in error", {"--closer=both", "--how=error"}}}},
        {"t3-probe", Kind::own, {{"", {}}}},
        {"t3-rate", Kind::own, {{"", {}}}},
        {"t3-verbs_smoke", Kind::own, {{"", {}}}},
    };
    return all;
}

const Program& find(const std::string& name) {
    const auto found =
        std::ranges::find_if(programs(), [&](const Program& program) { return name == program.name; });
    if (found == programs().end())
        throw std::invalid_argument("'" + name + "' is not a program of t3accept");
    return *found;
}

const std::vector<std::string>& options(const Program& program, const std::string& variant) {
    for (const auto& [name, words] : program.variants)
        if (variant == name)
            return words;
    throw std::invalid_argument(std::string(program.name) + " has no variant '" + variant + "'");
}

} // namespace

Json to_json(const Task& task) {
    return {{"program", task.program},
            {"variant", task.variant},
            {"size", task.size},
            {"count", task.count},
            {"seconds", task.seconds}};
}

Task task_from(const Json& json) {
    return {json.at("program").get<std::string>(), json.at("variant").get<std::string>(),
            json.at("size").get<int>(), json.at("count").get<int>(), json.at("seconds").get<int>()};
}

std::vector<std::string> command(const Task& task, Side side, const std::string& server,
                                 const std::string& folder) {
    const auto& program = find(task.program);
    const auto& more = options(program, task.variant);
    if (task.size < 0 || task.size > largest_size || task.count < 0 || task.count > largest_count ||
        task.seconds < 0 || task.seconds > longest_seconds)
        throw std::invalid_argument("size, count or seconds is out of range");
    // An address becomes a word of a command line, so it must not be an option.
    if (in_addr parsed{}; inet_pton(AF_INET, server.c_str(), &parsed) != 1)
        throw std::invalid_argument("'" + server + "' is not an IPv4 address");
    const auto size = std::to_string(task.size);
    const auto count = std::to_string(task.count);
    const bool client = side == Side::client;
    std::vector<std::string> words{task.program};
    switch (program.kind) {
    case Kind::rping:
        words.insert(words.end(), {client ? "-c" : "-s", "-a", server, "-C", count, "-S", size, "-V"});
        break;
    case Kind::ucmatose:
        words.insert(words.end(), {client ? "-s" : "-b", server, "-c", count, "-C", "100"});
        break;
    case Kind::perftest:
        words.insert(words.end(), {"-R", "-F", "-s", size, "-n", count});
        words.insert(words.end(), more.begin(), more.end());
        if (client)
            words.push_back(server);
        break;
    case Kind::own:
        words[0] = (std::filesystem::path(folder) / task.program).string();
        words.emplace_back(client ? "client" : "server");
        if (client)
            words.push_back(server);
        words.insert(words.end(), more.begin(), more.end());
        if (task.count > 0)
            words.push_back("--count=" + count);
        if (task.seconds > 0)
            words.push_back("--seconds=" + std::to_string(task.seconds));
        break;
    }
    return words;
}

int port(const Task& task) {
    switch (find(task.program).kind) {
    case Kind::rping:
        return rping_port;
    case Kind::ucmatose:
        return ucmatose_port;
    case Kind::perftest:
        return perftest_port;
    case Kind::own:
        break;
    }
    return own_port;
}

std::string package_of(const std::string& program) {
    const auto name = std::filesystem::path(program).filename().string();
    if (name.starts_with("ib_"))
        return "perftest";
    if (name == "rping" || name == "ucmatose")
        return "rdmacm-utils";
    if (name == "ping")
        return "iputils-ping";
    return name.starts_with("t3-") ? "t3rdma-tools" : name;
}

} // namespace t3accept
