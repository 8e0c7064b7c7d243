// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3doctor/t3doctor.hh"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/common/cli.hh"

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

} // namespace

int run(const std::vector<std::string>& arguments, const t3tools::Machine& machine, Probe& probe,
        std::ostream& out, std::ostream& err) {
    Target target;
    bool json = false;
    bool brief = false;
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
    return failed ? t3tools::status::failed : t3tools::status::ok;
}

} // namespace t3doctor
