// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3doctor/t3doctor.hh"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/common/cli.hh"
#include "tools/report/anonymise.hh"
#include "tools/report/inventory.hh"

namespace t3doctor {

namespace {

const char* word(State state) {
    switch (state) {
    case State::fine:
        return "ok";
    case State::note:
        return "note";
    case State::wrong:
        return "WRONG";
    case State::skipped:
        return "-";
    }
    return "";
}

/// The results with the inventory, the counters and what the kernel log has about the card.
t3report::Json report_of(const std::vector<Result>& results, const t3tools::Machine& machine, Probe& probe) {
    t3report::Report report;
    report.program = "t3doctor";
    report.started = t3report::utc_now();
    report.setting = "one machine";
    for (const auto& [check, title, finding] : results) {
        t3report::Step step{.name = check, .title = title, .what = finding.what, .output = ""};
        step.state = finding.state == State::fine    ? t3report::State::passed
                     : finding.state == State::note  ? t3report::State::note
                     : finding.state == State::wrong ? t3report::State::failed
                                                     : t3report::State::skipped;
        if (!finding.cure.empty())
            step.output = finding.cure;
        report.steps.push_back(step);
    }
    report.ends.push_back(t3report::inventory(machine, probe, "here"));
    for (auto& change : t3report::changed({}, t3report::read_counters(machine))) {
        t3report::Json row{{"role", "here"}};
        row.update(change);
        report.counters.push_back(row);
    }
    const auto shown = machine.run({"dmesg"});
    if (shown.status != 0)
        report.log.push_back("the kernel log cannot be read: " + shown.output);
    else
        for (const auto& entry : t3report::lines(shown.output))
            if (t3report::classify(entry) != t3report::LogLine::other)
                report.log.push_back(entry);
    return to_json(report);
}

/// Text, or JSON if the file's name ends so.
bool write_report(const t3report::Json& report, const t3tools::Machine& machine, const std::string& file) {
    return machine.write(std::filesystem::absolute(file),
                         file.ends_with(".json")
                             ? report.dump(2, ' ', false, t3report::Json::error_handler_t::replace) + "\n"
                             : t3report::to_text(report));
}

} // namespace

int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, Probe& probe,
        std::ostream& out, std::ostream& err) {
    Target target;
    bool json = false;
    bool brief = false;
    bool personal = false;
    std::string file;
    CLI::App app(
        "Checks an RDMA system with a Chelsio T3 from the PCI slot to a connection, and suggests what to do.",
        "t3doctor");
    app.add_option("address", target.address, "Also check the route and a connection to this host")
        ->type_name("ADDRESS")
        ->check(CLI::ValidIPV4);
    app.add_option("-p,--port", target.port, "RDMA port to try there")
        ->type_name("PORT")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_flag("-b,--brief", brief, "Show only problems and notes");
    app.add_flag("--json", json, "Print JSON");
    auto* report = app.add_option("--report", file, "Also write a report to send: machine, board, kernel log")
                       ->type_name("FILE");
    app.add_flag("--personal", personal, "Keep addresses, serial numbers and host names in the report")
        ->needs(report);
    if (const auto end = t3tools::parse(app, arguments, out, err))
        return *end;

    const auto results = examine(machine, probe, target);
    const bool failed = std::any_of(results.begin(), results.end(),
                                    [](const Result& r) { return r.finding.state == State::wrong; });
    if (json) {
        auto list = nlohmann::ordered_json::array();
        for (const auto& [check, title, finding] : results)
            list.push_back({{"check", check},
                            {"state", word(finding.state)},
                            {"what", finding.what},
                            {"cure", finding.cure}});
        out << nlohmann::ordered_json{{"healthy", !failed}, {"checks", list}}.dump(2) << "\n";
    } else {
        for (const auto& [check, title, finding] : results) {
            if (brief && (finding.state == State::fine || finding.state == State::skipped))
                continue;
            out << fmt::format("{:<14}{:<7}{}\n", title, word(finding.state), finding.what);
            if (!finding.cure.empty())
                out << fmt::format("{:21}-> {}\n", "", finding.cure);
        }
        if (!failed && target.address.empty() && !brief)
            out << "No problem found. To check the connection to another machine: t3doctor ADDRESS\n";
    }
    if (!file.empty()) {
        const auto whole = report_of(results, machine, probe);
        if (!write_report(personal ? whole : t3report::anonymous(whole), machine, file)) {
            err << fmt::format("t3doctor: {} cannot be written\n", file);
            return t3tools::status::failed;
        }
    }
    return failed ? t3tools::status::failed : t3tools::status::ok;
}

} // namespace t3doctor
