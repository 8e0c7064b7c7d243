// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/impairments.hh"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace t3sim {
namespace {

// Line time of a frame beyond its bytes: preamble, start of frame, FCS and the gap between frames.
constexpr std::uint64_t line_overhead = 8 + 4 + 12;
constexpr std::uint64_t min_frame = 60;

constexpr Unit rate_units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}};
constexpr Unit size_units[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}};
constexpr Unit no_units[] = {{"", 1}};

struct Row {
    std::string_view key;
    std::span<const Unit> units;
    double max;
    const char* example;
    void (*set)(Impairments&, double);
};

constexpr double hour = 3600e9;
constexpr Row rows[] = {
    {"loss", no_units, 1, "loss=0.01", [](Impairments& i, double v) { i.loss = v; }},
    {"duplicate", no_units, 1, "duplicate=0.01", [](Impairments& i, double v) { i.duplicate = v; }},
    {"reorder", no_units, 1, "reorder=0.01", [](Impairments& i, double v) { i.reorder = v; }},
    {"corrupt", no_units, 1, "corrupt=0.01", [](Impairments& i, double v) { i.corrupt = v; }},
    {"delay", time_units, hour, "delay=50us",
     [](Impairments& i, double v) { i.delay = static_cast<Time>(v); }},
    {"jitter", time_units, hour, "jitter=10us",
     [](Impairments& i, double v) { i.jitter = static_cast<Time>(v); }},
    {"reorder-delay", time_units, hour, "reorder-delay=1ms",
     [](Impairments& i, double v) { i.reorder_delay = static_cast<Time>(v); }},
    {"rate", rate_units, 1e12, "rate=1G",
     [](Impairments& i, double v) { i.rate = static_cast<std::uint64_t>(v); }},
    {"queue", size_units, 1 << 30, "queue=64K",
     [](Impairments& i, double v) { i.queue = static_cast<std::uint64_t>(v); }},
    {"seed", no_units, 9e15, "seed=7",
     [](Impairments& i, double v) { i.seed = static_cast<std::uint64_t>(v); }},
};

} // namespace

bool parse_impairment(std::string_view text, Impairments& impairments, std::string& wrong) {
    if (text == "none") {
        impairments = {};
        return true;
    }
    const auto equals = text.find('=');
    const auto key = text.substr(0, equals);
    std::string known;
    for (const auto& row : rows) {
        known += (known.empty() ? "" : ", ") + std::string(row.key);
        if (key != row.key)
            continue;
        if (const auto value = equals == text.npos
                                   ? std::nullopt
                                   : parse_quantity(text.substr(equals + 1), row.units, row.max)) {
            row.set(impairments, *value);
            return true;
        }
        wrong = fmt::format("'{}': expected for example {}", text, row.example);
        return false;
    }
    wrong = fmt::format("'{}' is not an impairment; expected one of: none, {}", text, known);
    return false;
}

std::vector<Impairer::Copy> Impairer::plan(Time now, std::size_t size) {
    fate_.clear();
    if (random_.chance(what_.loss)) {
        statistics_.lost++;
        note("lost");
        return {};
    }
    Time sent = now;
    if (what_.rate != 0) {
        const Time begin = std::max(now, line_free_);
        const double waiting = static_cast<double>(begin - now) * static_cast<double>(what_.rate) / 8e9;
        if (waiting > static_cast<double>(what_.queue)) {
            statistics_.overflowed++;
            note("lost, queue full");
            return {};
        }
        const auto line_bits = 8 * (std::max<std::uint64_t>(size, min_frame) + line_overhead);
        sent = line_free_ =
            begin + static_cast<Time>(static_cast<double>(line_bits) * 1e9 / static_cast<double>(what_.rate));
    }
    Copy copy{.when = sent + what_.delay + (what_.jitter ? random_() % (what_.jitter + 1) : 0)};
    if (random_.chance(what_.reorder)) {
        statistics_.reordered++;
        note("held back");
        copy.when = std::max(copy.when, last_) + what_.reorder_delay;
    } else {
        copy.when = last_ = std::max(copy.when, last_);
    }
    if (size != 0 && random_.chance(what_.corrupt)) {
        statistics_.corrupted++;
        note("corrupted");
        copy.flipped_bit = random_() % (8 * size);
    }
    std::vector<Copy> copies{copy};
    if (random_.chance(what_.duplicate)) {
        statistics_.duplicated++;
        note("duplicated");
        copies.push_back(copy);
    }
    return copies;
}

} // namespace t3sim
