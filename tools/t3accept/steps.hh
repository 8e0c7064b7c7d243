// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The steps of an acceptance run. Each gives a result, whatever happened before.
#pragma once

#include <functional>
#include <memory>

#include "tools/t3accept/end.hh"

namespace t3accept {

/// Why a step was skipped that is not in Setting::only.
inline constexpr const char* not_selected = "not selected";

struct Setting {
    std::string kind = "one machine"; // or "both ports of one card", "two machines"
    std::string own;                  // the address of this end; empty without another end
    std::string peer;                 // that of the other end
    bool quick = false;
    std::vector<std::string> only; // empty: all
    std::chrono::seconds limit = std::chrono::minutes(10);
};

struct Environment {
    const t3tools::Machine& machine;
    t3doctor::Probe& probe;
    End& local;
    /// Throws if there is no other end.
    std::function<std::unique_ptr<Peer>()> connect;
    /// Called after each step.
    std::function<void(const Step&)> progress;
};

/// Names and titles, in their order.
std::vector<std::pair<std::string, std::string>> all_steps();

Report accept(const Environment& environment, const Setting& setting);

} // namespace t3accept
