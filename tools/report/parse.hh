// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// What other programs and the card print, as values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/report.hh"

namespace t3report {

/// perftest's line of figures; nothing if the program printed none.
std::optional<Json> perftest_figures(const std::string& output);

/// Packets sent and received, and the mean time, of ping.
struct Ping {
    int sent = 0;
    int received = 0;
    std::string mean_ms;
};
std::optional<Ping> ping_figures(const std::string& output);

/// The fields of a VPD that begins at 0xc00 or 0: its identifier as ID, then by keyword.
std::map<std::string, std::string> vpd_fields(const std::string& bytes);

/// The capabilities in a PCI configuration space: id, offset, and of MSI-X the number of vectors. Empty
/// without the first 256 bytes, which only root can read.
Json pci_capabilities(const std::string& config);
/// The sizes of BAR 0 to 5 that there are, from the file "resource" in sysfs.
Json bar_sizes(const std::string& resource);

/// The lines after those that an earlier reading of the same log had.
std::vector<std::string> new_lines(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now);

/// What a kernel log line means for the card.
enum class LogLine { other, about_us, trouble };
LogLine classify(const std::string& line);

using Counters = std::map<std::string, unsigned long long>;
/// Counters that changed: {name, before, after}.
Json changed(const Counters& before, const Counters& after);
/// Whether a healthy card and cable leave this counter as it is.
bool counts_errors(const std::string& name);
/// Whether a change means that the driver had to help the card.
bool counts_repairs(const std::string& name);

std::vector<std::string> lines(const std::string& text);

} // namespace t3report
