// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// What a machine is made of, as far as it matters for a card.
#pragma once

#include "tools/common/machine.hh"
#include "tools/report/parse.hh"
#include "tools/t3doctor/checks.hh"

namespace t3report {

/// Its member "identifies" has the words that make it personal, by kind, for Anonymiser.
Json inventory(const t3tools::Machine& machine, t3doctor::Probe& probe, const std::string& role);

/// Counters of the cards' interfaces, of their PCI Express links and of the RDMA devices.
Counters read_counters(const t3tools::Machine& machine);

} // namespace t3report
