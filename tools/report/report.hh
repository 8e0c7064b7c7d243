// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The report: steps with their results, and both its forms.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace t3report {

using Json = nlohmann::ordered_json;

enum class State { passed, note, failed, skipped };
const char* word(State state);

struct Step {
    std::string name;  // as for --only
    std::string title; // for people
    State state = State::passed;
    std::string what; // one sentence: the result, or why it failed or was skipped
    Json figures = Json::object();
    std::string output; // of the programs, if it failed
    double seconds = 0;
};

struct Report {
    std::string program; // "t3accept"
    std::string started; // UTC
    double seconds = 0;
    std::string setting; // "one machine", "both ports of one card" or "two machines"
    Json ends = Json::array();
    std::vector<Step> steps;
    Json answers = Json::array();  // to the open questions about the card
    Json counters = Json::array(); // those that changed
    std::vector<std::string> log;  // of both kernels, what concerns the card

    bool passed() const;
};

/// The time now, for Report::started.
std::string utc_now();

Json to_json(const Report& report);
/// The text form of the JSON form, so that both have the same content, also after it was made anonymous.
std::string to_text(const Json& report);
/// The line of one step.
std::string line(const Json& step);
Json to_json(const Step& step);

} // namespace t3report
