// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// Replaces what identifies a person or a site: MAC and IP addresses, GUIDs, serial numbers, host names.
#pragma once

#include <map>
#include <string>

#include "tools/report/report.hh"

namespace t3report {

/// The same text always gets the same replacement, such as mac-1, so that a reader still sees what belongs
/// together.
class Anonymiser {
public:
    /// A word to replace wherever it occurs, such as a serial number. Words of less than four characters are
    /// too frequent in other text and are replaced only where they are a whole string.
    void add(const std::string& kind, const std::string& word);
    std::string text(std::string text);
    /// All strings of the value. Keys keep their names.
    Json json(const Json& value);

private:
    std::string replacement(const std::string& kind, const std::string& word);

    std::map<std::string, std::string> words_; // word to its kind
    std::map<std::string, std::string> known_; // word to its replacement
    std::map<std::string, int> counts_;
};

/// The report without personal data. The words come from its inventories.
Json anonymous(const Json& report);

} // namespace t3report
