// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/report/report.hh"

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>

#include <fmt/format.h>

#include "tools/common/cli.hh"

namespace t3report {

namespace {

std::string indented(const std::string& text, const std::string& before) {
    std::string out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        out += before + line + "\n";
    return out;
}

std::string value(const Json& json) {
    return json.is_string() ? json.get<std::string>() : json.dump();
}

/// An object of an inventory, one line per value.
void describe(std::string& out, const Json& object, const std::string& path) {
    for (const auto& [key, member] : object.items()) {
        const auto name = path.empty() ? key : path + "." + key;
        if (member.is_object() || (member.is_array() && !member.empty() && member[0].is_object()))
            describe(out, member, name);
        else
            out += fmt::format("  {:<34} {}\n", name, value(member));
    }
}

std::string heading(const std::string& text) {
    return fmt::format("\n{}\n{}\n", text, std::string(text.size(), '-'));
}

} // namespace

const char* word(State state) {
    switch (state) {
    case State::passed:
        return "passed";
    case State::note:
        return "note";
    case State::failed:
        return "FAILED";
    case State::skipped:
        return "skipped";
    }
    return "";
}

std::string utc_now() {
    const auto now = std::time(nullptr);
    std::array<char, 32> text{};
    std::tm parts{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &parts));
    return text.data();
}

bool Report::passed() const {
    return std::ranges::none_of(steps, [](const Step& step) { return step.state == State::failed; });
}

Json to_json(const Step& step) {
    Json out{{"name", step.name},         {"title", step.title},
             {"state", word(step.state)}, {"what", step.what},
             {"figures", step.figures},   {"seconds", static_cast<int>(step.seconds * 100) / 100.0}};
    if (!step.output.empty())
        out["output"] = step.output;
    return out;
}

Json to_json(const Report& report) {
    auto steps = Json::array();
    for (const auto& step : report.steps)
        steps.push_back(to_json(step));
    return {{"format", report.program + " 1"},
            {"program", report.program},
            {"version", t3tools::version},
            {"passed", report.passed()},
            {"anonymous", false},
            {"started", report.started},
            {"seconds", static_cast<int>(report.seconds * 10) / 10.0},
            {"setting", report.setting},
            {"steps", steps},
            {"ends", report.ends},
            {"answers", report.answers},
            {"counters", report.counters},
            {"log", report.log}};
}

std::string line(const Json& step) {
    std::string figures;
    for (const auto& [key, member] : step.at("figures").items())
        if (!member.is_structured()) // those are in the JSON form
            figures += fmt::format("{}{} {}", figures.empty() ? "" : ", ", key, value(member));
    const auto what = value(step.at("what"));
    return fmt::format("{:<18}{:<9}{}{}{}\n", value(step.at("name")), value(step.at("state")), what,
                       what.empty() || figures.empty() ? "" : ": ", figures);
}

std::string to_text(const Json& report) {
    std::string out =
        fmt::format("Chelsio T3, examined by {} {}: {}\n"
                    "started {}, took {} s, setting: {}; {}\n",
                    value(report.at("program")), value(report.at("version")),
                    report.at("passed").get<bool>() ? "PASSED" : "FAILED", value(report.at("started")),
                    value(report.at("seconds")), value(report.at("setting")),
                    report.at("anonymous").get<bool>() ? "addresses, serial numbers and names are replaced"
                                                       : "with addresses, serial numbers and names");
    out += heading("Steps");
    for (const auto& step : report.at("steps"))
        out += line(step);
    for (const auto& step : report.at("steps"))
        if (step.contains("output"))
            out += heading("Output of " + value(step.at("name"))) + indented(value(step.at("output")), "  ");
    for (const auto& end : report.at("ends")) {
        out += heading("Machine: " + value(end.at("role")));
        describe(out, end, "");
    }
    if (const auto answers = report.value("answers", Json::array()); !answers.empty()) {
        out += heading("Answers to the open questions about the card");
        for (const auto& row : answers)
            out += fmt::format("  {:<5}{:<14}{}\n", value(row.at("point")), value(row.at("result")),
                               value(row.at("answer")));
    }
    out += heading("Counters that changed");
    for (const auto& counter : report.at("counters"))
        out +=
            fmt::format("  {:<8}{:<50}{:>16}{:>16}\n", value(counter.at("role")), value(counter.at("name")),
                        value(counter.at("before")), value(counter.at("after")));
    out += heading("Kernel log");
    for (const auto& entry : report.at("log"))
        out += "  " + value(entry) + "\n";
    return out;
}

} // namespace t3report
