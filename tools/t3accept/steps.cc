// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/steps.hh"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "tools/common/stack.hh"

namespace t3accept {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The end of a step that failed.
struct Failed {
    std::string what;
    std::string output;
};
struct Skipped {
    std::string why;
};

constexpr auto client_limit = seconds(90);
constexpr auto probes_limit = seconds(400);
constexpr auto probes_end = seconds(40); // for the last probe, which may take 30 s
constexpr auto last_steps = seconds(30); // kept for the steps after the questions
constexpr auto server_limit = seconds(20);
constexpr auto objects_limit = seconds(30);
constexpr int full_width = 8;
constexpr int ten_gigabit = 10000;
/// A perftest whose connection comes too early retries with ids that it has freed.
constexpr int segmentation_fault = 128 + 11;
constexpr int attempts_of_perftest = 3;

struct Run {
    const Environment& environment;
    const Setting& setting;
    Report report;
    std::unique_ptr<Peer> peer;
    std::string no_peer = "needs another end: --peer or --both-ports";
    std::map<std::string, Counters> counters; // at the start, by role
    std::map<std::string, Json> objects;

    int scaled(int normal, int quick) const { return setting.quick ? quick : normal; }
    /// Both ends that there are.
    std::vector<std::pair<std::string, End*>> ends() const {
        std::vector<std::pair<std::string, End*>> out{{"here", &environment.local}};
        if (peer)
            out.emplace_back("peer", peer.get());
        return out;
    }
};

void note(Step& step, const std::string& what) {
    if (step.state == State::passed)
        step.state = State::note;
    step.what += (step.what.empty() ? "" : "; ") + what;
}

double rounded(double value) {
    return static_cast<double>(static_cast<long long>(value * 100 + 0.5)) / 100;
}

std::string outputs(const Done& client, const Done& server) {
    return fmt::format("client (status {}{}):\n{}\nserver (status {}{}):\n{}", client.status,
                       client.late ? ", killed after its time" : "", client.output, server.status,
                       server.late ? ", killed after its time" : "", server.output);
}

struct Pair {
    Done client;
    Done server;
};

/// Runs both sides; with reverse, the server is here.
Pair run_pair(Run& run, const Task& task, bool reverse = false, seconds limit = client_limit) {
    End& server = reverse ? run.environment.local : *run.peer;
    End& client = reverse ? *run.peer : run.environment.local;
    const auto& address = reverse ? run.setting.own : run.setting.peer;
    const int serving = server.start(task, Side::server, address);
    int connecting = 0;
    try {
        connecting = client.start(task, Side::client, address);
    } catch (...) {
        server.finish(serving, milliseconds(0));
        throw;
    }
    Pair pair;
    pair.client = client.finish(connecting, limit);
    pair.server =
        server.finish(serving, pair.client.status == 0 ? milliseconds(server_limit) : milliseconds(2000));
    return pair;
}

Pair run_well(Run& run, const Task& task, bool reverse = false) {
    auto pair = run_pair(run, task, reverse);
    if (pair.client.late)
        throw Failed{fmt::format("{} did not end within {} s", task.program, client_limit.count()),
                     outputs(pair.client, pair.server)};
    if (pair.client.status != 0 || pair.server.status != 0)
        throw Failed{fmt::format("{}: status {} at the client, {} at the server", task.program,
                                 pair.client.status, pair.server.status),
                     outputs(pair.client, pair.server)};
    return pair;
}

// ---- what there is

void do_inventory(Run& run, Step& step) {
    for (const auto& [role, end] : run.ends())
        run.report.ends.push_back(end->inventory());
    for (auto& inventory : run.report.ends) {
        for (const auto& card : inventory.at("cards")) {
            const auto& vpd = card.at("VPD");
            if (vpd.is_string())
                note(step, fmt::format("the VPD of {} {}", card.at("address").get<std::string>(),
                                       vpd.get<std::string>()));
            else if (!vpd.contains("SN") || !vpd.contains("NA"))
                note(step, "the VPD has no serial number or no address");
        }
    }
    const auto& cards = run.report.ends[0].at("cards");
    if (cards.empty())
        throw Failed{"there is no Chelsio T3 on the PCI bus", ""};
    const auto rdma = cards[0].value("RDMA device", Json::object());
    step.figures["chip"] = rdma.value("chip", "unknown");
    if (!cards[0].at("interfaces").empty()) {
        const auto& port = cards[0].at("interfaces")[0];
        step.figures["firmware"] = port.value("firmware", "unknown");
        step.figures["protocol SRAM"] = port.value("protocol SRAM", "unknown");
    }
    step.figures["kernel"] = run.environment.machine.kernel_release();
}

void do_card(Run& run, Step& step) {
    std::string trouble;
    for (const auto& result : t3doctor::examine(run.environment.machine, run.environment.probe, {})) {
        if (result.finding.state == t3doctor::State::wrong)
            trouble +=
                fmt::format("{}: {}\n  -> {}\n", result.title, result.finding.what, result.finding.cure);
        if (result.finding.state == t3doctor::State::note)
            note(step, result.finding.what);
    }
    if (!trouble.empty())
        throw Failed{"t3doctor reports: " + trouble.substr(0, trouble.find('\n')), trouble};
}

void do_pcie(Run& run, Step& step) {
    for (const auto& card : t3tools::find_cards(run.environment.machine)) {
        const std::string folder = "/sys/bus/pci/devices/" + card.address;
        const auto width = run.environment.machine.read(folder + "/current_link_width").value_or("");
        const auto speed = run.environment.machine.read(folder + "/current_link_speed").value_or("");
        const auto widest = run.environment.machine.read(folder + "/max_link_width").value_or("");
        if (width.empty())
            throw Skipped{"the kernel reports no PCIe link of the card (PCI-X, or a port that has no "
                          "registers for it)"};
        step.figures["width"] = "x" + width;
        step.figures["speed"] = speed;
        if (std::atoi(width.c_str()) < std::min(full_width, std::max(1, std::atoi(widest.c_str()))))
            note(step, fmt::format("the slot of {} has x{}, the card could use x{}: less bandwidth",
                                   card.address, width, widest));
    }
}

void do_link(Run& run, Step& step) {
    std::vector<std::string> with_link;
    for (const auto& card : t3tools::find_cards(run.environment.machine))
        for (const auto& name : card.interfaces) {
            const auto seen = run.environment.probe.interface(name);
            if (!seen.up)
                continue;
            if (!seen.carrier)
                throw Failed{fmt::format("{} is up and has no link: is the cable in?", name), ""};
            with_link.push_back(name);
            const auto speed = run.environment.machine.read("/sys/class/net/" + name + "/speed").value_or("");
            step.figures[name] = speed + " Mbit/s";
            if (std::atoi(speed.c_str()) < ten_gigabit)
                note(step, fmt::format("{} has {} Mbit/s", name, speed));
        }
    if (with_link.empty())
        throw Failed{"no interface of the card is up", ""};
}

// ---- the network card

/// Stores the state that later steps compare with. If it cannot be read, those steps report it.
void start_comparison(Run& run, const std::string& role, End& end) {
    const std::array<std::function<void()>, 3> readings{[&] { end.new_log(); },
                                                        [&] { run.counters[role] = end.counters(); },
                                                        [&] { run.objects[role] = end.objects(); }};
    for (const auto& reading : readings)
        try {
            reading();
        } catch (const Missing&) {
        } catch (const std::exception&) {
        }
}

void do_peer(Run& run, Step&) {
    if (run.setting.peer.empty())
        throw Skipped{run.no_peer};
    try {
        run.peer = run.environment.connect();
    } catch (const std::exception& error) {
        run.no_peer = "there is no connection to the other end";
        throw Failed{error.what(), ""};
    }
    // What comes later is compared with this.
    start_comparison(run, "peer", *run.peer);
}

void ping(Run& run, Step& step, const std::vector<std::string>& more, int count) {
    std::vector<std::string> words{"ping", "-n", "-c", std::to_string(count), "-i", "0.2", "-W", "3"};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back(run.setting.peer);
    Job job(words);
    const auto done = job.finish(seconds(60));
    const auto found = ping_figures(done.output);
    if (!found)
        throw Failed{fmt::format("ping printed no result, status {}", done.status), done.output};
    step.figures["sent"] = found->sent;
    step.figures["received"] = found->received;
    if (!found->mean_ms.empty())
        step.figures["mean ms"] = found->mean_ms;
    if (found->received < found->sent || found->sent < count)
        throw Failed{fmt::format("{} of {} packets were lost", found->sent - found->received, found->sent),
                     done.output};
}

void do_ping(Run& run, Step& step) {
    ping(run, step, {}, run.scaled(50, 10));
}

void do_ping_large(Run& run, Step& step) {
    // The largest packet that needs no fragments.
    int mtu = 1500;
    for (const auto& card : t3tools::find_cards(run.environment.machine))
        for (const auto& name : card.interfaces) {
            const auto own = run.environment.probe.interface(name).addresses;
            if (std::ranges::find(own, run.setting.own) != own.end())
                mtu = std::atoi(
                    run.environment.machine.read("/sys/class/net/" + name + "/mtu").value_or("1500").c_str());
        }
    constexpr int headers = 28;
    step.figures["MTU"] = mtu;
    ping(run, step, {"-M", "do", "-s", std::to_string(mtu - headers)}, run.scaled(20, 5));
}

void do_tcp(Run& run, Step& step) {
    const auto bytes = static_cast<std::size_t>(run.scaled(256, 2)) << 20;
    const auto sent = run.peer->send(bytes);
    const auto received = run.peer->receive(bytes);
    step.figures["sent MB/s"] = rounded(static_cast<double>(bytes) / 1e6 / sent.seconds);
    step.figures["received MB/s"] = rounded(static_cast<double>(bytes) / 1e6 / received.seconds);
    if (!sent.intact || !received.intact)
        throw Failed{"the data arrived changed", ""};
}

// ---- stock programs of RDMA

void rping(Run& run, Step& step, int size, bool reverse = false) {
    const Task task{"rping", "", size, run.scaled(2000, 20)};
    const auto pair = run_well(run, task, reverse);
    // rping's status is 0 after any disconnect. Only its client reports this before its last round.
    if (pair.client.output.find("wait for ") != std::string::npos)
        throw Failed{"rping was disconnected before its last round", outputs(pair.client, pair.server)};
    step.figures["rounds"] = task.count;
    step.figures["bytes"] = size;
    step.figures["rounds/s"] = rounded(task.count / pair.client.seconds);
}
void do_rping_small(Run& run, Step& step) {
    rping(run, step, 64);
}
void do_rping_large(Run& run, Step& step) {
    rping(run, step, 65000);
}
void do_rping_reverse(Run& run, Step& step) {
    rping(run, step, 4096, true);
}

void do_ucmatose(Run& run, Step& step) {
    const Task task{"ucmatose", "", 0, run.scaled(100, 10)};
    const auto pair = run_well(run, task);
    for (const auto* side : {&pair.client, &pair.server})
        if (side->output.find("return status 0") == std::string::npos)
            throw Failed{"ucmatose reports an error", outputs(pair.client, pair.server)};
    step.figures["connections"] = task.count;
    step.figures["seconds"] = rounded(pair.client.seconds);
}

void perftest(Run& run, Step& step, const char* program, const char* variant, int size, int count) {
    const Task task{program, variant, size, count};
    for (int attempt = 1;; attempt++) {
        const auto pair = run_pair(run, task);
        if (pair.client.status == segmentation_fault && attempt < attempts_of_perftest)
            continue;
        const auto figures = perftest_figures(pair.client.output);
        if (pair.client.status != 0 || pair.server.status != 0 || !figures)
            throw Failed{fmt::format("{}: status {} at the client, {} at the server{}", program,
                                     pair.client.status, pair.server.status, figures ? "" : ", no figures"),
                         outputs(pair.client, pair.server)};
        step.figures = *figures;
        if (attempt > 1)
            note(step,
                 fmt::format("perftest crashed {} times after a rejected connection, which is its own error",
                             attempt - 1));
        return;
    }
}

void do_write_bandwidth(Run& run, Step& step) {
    perftest(run, step, "ib_write_bw", "", 65536, run.scaled(20000, 50));
}
void do_read_bandwidth(Run& run, Step& step) {
    perftest(run, step, "ib_read_bw", "", 65536, run.scaled(20000, 50));
}
void do_send_bandwidth(Run& run, Step& step) {
    perftest(run, step, "ib_send_bw", "", 65536, run.scaled(20000, 50));
}
void do_bandwidth_both_ways(Run& run, Step& step) {
    perftest(run, step, "ib_write_bw", "both ways", 65536, run.scaled(20000, 50));
}
void do_write_latency(Run& run, Step& step) {
    perftest(run, step, "ib_write_lat", "", 16, run.scaled(10000, 100));
}
void do_read_latency(Run& run, Step& step) {
    perftest(run, step, "ib_read_lat", "", 16, run.scaled(10000, 100));
}
void do_send_latency(Run& run, Step& step) {
    perftest(run, step, "ib_send_lat", "", 16, run.scaled(10000, 100));
}
void do_event_latency(Run& run, Step& step) {
    perftest(run, step, "ib_send_lat", "events", 16, run.scaled(10000, 1000));
}

// ---- our programs, whose sides print an object of JSON each

Json last_json(const std::string& output) {
    const auto all = lines(output);
    for (auto line = all.rbegin(); line != all.rend(); ++line)
        if (auto parsed = Json::parse(*line, nullptr, false); parsed.is_object())
            return parsed;
    return Json::object();
}

Pair own(Run& run, Step& step, const Task& task) {
    auto pair = run_pair(run, task);
    step.figures["client"] = last_json(pair.client.output);
    step.figures["server"] = last_json(pair.server.output);
    for (const auto& [side, done] : {std::pair{"client", &pair.client}, {"server", &pair.server}}) {
        if (done->late)
            throw Failed{fmt::format("the {} did not end in time", side), outputs(pair.client, pair.server)};
        if (done->status != 0) {
            const auto error = step.figures[side].value("error", "");
            throw Failed{
                fmt::format("the {} reports a wrong result{}{}", side, error.empty() ? "" : ": ", error),
                outputs(pair.client, pair.server)};
        }
    }
    return pair;
}

void do_requests(Run& run, Step& step) {
    own(run, step, {"t3-verbs_smoke", "", 0, 0});
    if (!step.figures["client"].value("failed", Json::array()).empty())
        throw Failed{"some requests had wrong results", step.figures["client"].dump()};
    step.figures["checks"] = step.figures["client"].value("checks", 0);
}

void do_rate(Run& run, Step& step) {
    own(run, step, {"t3-rate", "", 0, run.scaled(2000, 20)});
    for (const char* name : {"connections", "connections/s", "longest ms"})
        step.figures[name] = step.figures["client"].value(name, Json());
}

void provoke(Run& run, Step& step, const char* program, const char* variant, const char* expected) {
    own(run, step, {program, variant, 0, 0});
    step.what = expected;
}
void do_bad_rkey_write(Run& run, Step& step) {
    provoke(run, step, "t3-bad_access", "wrong rkey, write", "refused, no byte changed, both ends in error");
}
void do_bad_rkey_read(Run& run, Step& step) {
    provoke(run, step, "t3-bad_access", "wrong rkey, read", "refused, no byte read, both ends in error");
}
void do_out_of_bounds(Run& run, Step& step) {
    provoke(run, step, "t3-bad_access", "out of bounds, write",
            "refused, no byte changed, both ends in error");
}
void do_no_permission(Run& run, Step& step) {
    provoke(run, step, "t3-bad_access", "no permission, write",
            "refused, no byte changed, both ends in error");
}
void do_no_receive(Run& run, Step& step) {
    provoke(run, step, "t3-rnr", "", "both ends in error, later requests flushed");
}
void do_client_killed(Run& run, Step& step) {
    provoke(run, step, "t3-flush", "client killed", "the server's requests completed once");
}
void do_server_killed(Run& run, Step& step) {
    provoke(run, step, "t3-flush", "server killed", "the client's requests completed once");
}
void do_both_in_error(Run& run, Step& step) {
    provoke(run, step, "t3-flush", "both in error", "all requests of both ends completed once");
}
void do_cq_overflow(Run& run, Step& step) {
    provoke(run, step, "t3-small_cq", "", "each request completed once");
    if (!step.figures["client"].value("overflowed", true))
        note(step, "the queue was not overwritten");
}

/// Events that come too late for their object. A probe ends as soon as it has its answer.
bool counts_late_events(const std::string& name) {
    constexpr std::array<std::string_view, 3> all{"async_events_without_object", "cm_refused_events",
                                                  "qp_refused_events"};
    return std::ranges::any_of(all, [&](std::string_view end) { return name.ends_with(end); });
}

/// Late events of the probes are no errors: moves the counters that later ones are compared with.
void excuse_late_events(Run& run, Step& step, const std::map<std::string, Counters>& before) {
    unsigned long long all = 0;
    for (const auto& [role, end] : run.ends())
        for (const auto& [name, value] : end->counters())
            if (const auto& old = before.at(role); counts_late_events(name) && old.contains(name)) {
                run.counters[role][name] += value - old.at(name);
                all += value - old.at(name);
            }
    step.figures["late events"] = all;
}

/// What is left of the run's time for the questions.
seconds time_for_questions(const Run& run) {
    const auto left = run.setting.limit - seconds(static_cast<long>(run.report.seconds)) - last_steps;
    return std::clamp(left, seconds(1), probes_limit);
}

/// Each line of the client is the answer to one question; a probe that ends without one does not fail the
/// step.
void do_questions(Run& run, Step& step) {
    std::map<std::string, Counters> before;
    for (const auto& [role, end] : run.ends())
        before[role] = end->counters();
    const auto limit = time_for_questions(run);
    const auto pair =
        run_pair(run, {.program = "t3-probe", .variant = "", .seconds = static_cast<int>(limit.count())},
                 false, limit + probes_end);
    excuse_late_events(run, step, before);
    std::map<std::string, int> results{{"as modelled", 0}, {"other", 0}, {"not observed", 0}};
    for (const auto& text : lines(pair.client.output)) {
        const auto row = Json::parse(text, nullptr, false);
        if (!row.is_object() || !row.contains("point"))
            continue;
        run.report.answers.push_back(row);
        const auto result = row.value("result", "");
        results[result]++;
        if (result == "other")
            note(step, fmt::format("{}: {}", row.value("point", ""), row.value("answer", "")));
    }
    for (const auto& [result, count] : results)
        step.figures[result] = count;
    if (run.report.answers.empty() || pair.client.status != 0 || pair.server.status != 0)
        throw Failed{fmt::format("t3-probe: status {} at the client, {} at the server", pair.client.status,
                                 pair.server.status),
                     outputs(pair.client, pair.server)};
}

void do_afterwards(Run& run, Step& step) {
    rping(run, step, 4096);
}

// ---- what is left

Json grown(const Json& before, const Json& now) {
    auto out = Json::array();
    for (const auto& device : now)
        for (const auto& [kind, count] : device.items()) {
            if (!count.is_number_unsigned() || kind == "ifindex")
                continue;
            unsigned long long old = 0;
            for (const auto& earlier : before)
                if (earlier.value("ifname", "") == device.value("ifname", "") && earlier.contains(kind))
                    old = earlier[kind].get<unsigned long long>();
            if (count.get<unsigned long long>() > old)
                out.push_back(
                    fmt::format("{}: {} {}, before {}", device.value("ifname", ""), kind, count.dump(), old));
        }
    return out;
}

void do_objects(Run& run, Step&) {
    for (const auto& [role, end] : run.ends()) {
        const auto until = Clock::now() + objects_limit;
        Json left;
        while (!(left = grown(run.objects[role], end->objects())).empty() && Clock::now() < until)
            std::this_thread::sleep_for(milliseconds(500));
        if (!left.empty())
            throw Failed{fmt::format("RDMA objects are left ({})", role), left.dump()};
    }
}

void do_counters(Run& run, Step& step) {
    std::string errors, repairs;
    for (const auto& [role, end] : run.ends())
        for (const auto& change : changed(run.counters[role], end->counters())) {
            Json row{{"role", role}};
            row.update(change);
            run.report.counters.push_back(row);
            const auto name = change.at("name").get<std::string>();
            const auto text = fmt::format("{} ({}) {} to {}", name, role, change.at("before").dump(),
                                          change.at("after").dump());
            if (counts_errors(name))
                errors += (errors.empty() ? "" : "; ") + text;
            else if (counts_repairs(name))
                repairs += (repairs.empty() ? "" : "; ") + text;
        }
    step.figures["changed"] = run.report.counters.size();
    if (!repairs.empty())
        note(step, repairs);
    if (!errors.empty())
        throw Failed{errors, ""};
}

void do_log(Run& run, Step& step) {
    std::string trouble, unreadable;
    for (const auto& [role, end] : run.ends()) {
        try {
            for (const auto& line : end->new_log()) {
                const auto kind = classify(line);
                if (kind == LogLine::other)
                    continue;
                run.report.log.push_back(role + ": " + line);
                if (kind == LogLine::trouble)
                    trouble += role + ": " + line + "\n";
            }
        } catch (const std::exception& error) {
            unreadable += fmt::format("{}{}: {}", unreadable.empty() ? "" : "; ", role, error.what());
        }
    }
    step.figures["lines"] = run.report.log.size();
    if (!trouble.empty())
        throw Failed{"the kernel reports: " + trouble.substr(0, trouble.find('\n')), trouble};
    if (!unreadable.empty())
        throw Skipped{unreadable};
}

struct Row {
    const char* name;
    const char* title;
    bool needs_peer;
    void (*run)(Run&, Step&);
};

constexpr std::array rows{
    Row{"peer", "connection to the other end", false, do_peer},
    Row{"inventory", "boards, versions, machine", false, do_inventory},
    Row{"card", "all that t3doctor checks", false, do_card},
    Row{"pcie", "width and speed of the slot", false, do_pcie},
    Row{"link", "link and speed of the ports", false, do_link},
    Row{"ping", "packets to the other end", true, do_ping},
    Row{"ping-large", "the largest packets", true, do_ping_large},
    Row{"tcp", "TCP by the kernel, both directions, data compared", true, do_tcp},
    Row{"rping-small", "rping with verified data", true, do_rping_small},
    Row{"rping-large", "the same with large messages", true, do_rping_large},
    Row{"rping-reverse", "the same with the server here", true, do_rping_reverse},
    Row{"ucmatose", "many connections at a time", true, do_ucmatose},
    Row{"requests", "every kind of work request at all relevant sizes", true, do_requests},
    Row{"write-bw", "bandwidth of RDMA writes", true, do_write_bandwidth},
    Row{"read-bw", "bandwidth of RDMA reads", true, do_read_bandwidth},
    Row{"send-bw", "bandwidth of sends", true, do_send_bandwidth},
    Row{"both-bw", "bandwidth of writes in both directions", true, do_bandwidth_both_ways},
    Row{"write-lat", "latency of RDMA writes", true, do_write_latency},
    Row{"read-lat", "latency of RDMA reads", true, do_read_latency},
    Row{"send-lat", "latency of sends", true, do_send_latency},
    Row{"event-lat", "latency with interrupts", true, do_event_latency},
    Row{"rate", "connections, one after the other", true, do_rate},
    Row{"bad-rkey-write", "a write with a wrong rkey", true, do_bad_rkey_write},
    Row{"bad-rkey-read", "a read with a wrong rkey", true, do_bad_rkey_read},
    Row{"out-of-bounds", "a write beyond the region", true, do_out_of_bounds},
    Row{"no-permission", "a write to a region without the right", true, do_no_permission},
    Row{"no-receive", "a send without a receive", true, do_no_receive},
    Row{"client-killed", "the client is killed during traffic", true, do_client_killed},
    Row{"server-killed", "the server is killed during traffic", true, do_server_killed},
    Row{"both-in-error", "both queue pairs go to the error state during traffic", true, do_both_in_error},
    Row{"cq-overflow", "a completion queue that is too small", true, do_cq_overflow},
    Row{"questions", "what docs/hw/open-questions.md asks about the card", true, do_questions},
    Row{"afterwards", "rping after all that", true, do_afterwards},
    Row{"objects", "no RDMA object is left", true, do_objects},
    Row{"counters", "counters of errors and repairs", false, do_counters},
    Row{"log", "the kernel log", false, do_log},
};

void run_step(Run& run, const Row& row, Step& step) {
    const auto& only = run.setting.only;
    if (interrupted())
        throw Skipped{"a signal ended the run"};
    // Without the connection no other step can run.
    const bool always = row.run == do_peer;
    if (!always && !only.empty() && std::ranges::find(only, row.name) == only.end())
        throw Skipped{not_selected};
    if (row.needs_peer && !run.peer)
        throw Skipped{run.no_peer};
    // After the time limit only steps without another end still run: they take no time.
    if (run.report.seconds > static_cast<double>(run.setting.limit.count()) && row.needs_peer)
        throw Skipped{fmt::format("the time limit of {} s was over", run.setting.limit.count())};
    row.run(run, step);
}

} // namespace

std::vector<std::pair<std::string, std::string>> all_steps() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& row : rows)
        out.emplace_back(row.name, row.title);
    return out;
}

Report accept(const Environment& environment, const Setting& setting) {
    Run run{.environment = environment,
            .setting = setting,
            .report = {},
            .peer = nullptr,
            .counters = {},
            .objects = {}};
    run.report.program = "t3accept";
    run.report.started = utc_now();
    run.report.setting = setting.kind;
    start_comparison(run, "here", environment.local);
    const auto started = Clock::now();
    for (const auto& row : rows) {
        Step step{.name = row.name, .title = row.title, .what = "", .output = ""};
        const auto begun = Clock::now();
        run.report.seconds = std::chrono::duration<double>(begun - started).count();
        try {
            run_step(run, row, step);
        } catch (const Skipped& skipped) {
            step.state = State::skipped;
            step.what = skipped.why;
        } catch (const Missing& missing) {
            step.state = State::skipped;
            step.what =
                fmt::format("{} is not installed {} (package {})",
                            std::filesystem::path(missing.program).filename().string(),
                            missing.at_peer ? "at the other end" : "here", package_of(missing.program));
        } catch (const Failed& failed) {
            step.state = State::failed;
            step.what += (step.what.empty() ? "" : "; ") + failed.what;
            step.output = failed.output;
        } catch (const std::exception& error) {
            step.state = State::failed;
            step.what = error.what();
        }
        step.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
        environment.progress(step);
        run.report.steps.push_back(std::move(step));
    }
    run.report.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    return run.report;
}

} // namespace t3accept
