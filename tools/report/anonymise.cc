// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/report/anonymise.hh"

#include <algorithm>
#include <cctype>
#include <functional>
#include <regex>
#include <vector>

namespace t3report {

namespace {

constexpr std::size_t shortest_word = 4; // within other text

struct Pattern {
    const char* kind;
    std::regex regex;
};

const std::vector<Pattern>& patterns() {
    static const std::vector<Pattern> all{
        {"mac", std::regex("\\b[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\\b")},
        // IPv6 has "::" or eight groups; PCI addresses and times have neither.
        {"ipv6", std::regex("[0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4}){7}\\b")},
        {"ipv6", std::regex("\\b([0-9A-Fa-f]{1,4}:)+(:[0-9A-Fa-f]{1,4})+\\b")},
        {"guid", std::regex("\\b[0-9A-Fa-f]{4}(:[0-9A-Fa-f]{4}){3}\\b")},
        {"ipv4", std::regex("\\b\\d{1,3}(\\.\\d{1,3}){3}\\b")},
    };
    return all;
}

bool identifies_nothing(const std::string& word) {
    return word == "127.0.0.1" || word == "0.0.0.0" || word == "255.255.255.255" ||
           word.find_first_not_of("0:") == word.npos || word.starts_with("ff:ff:ff");
}

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

std::string replace_matches(const std::string& text, const std::regex& regex,
                            const std::function<std::string(const std::string&)>& replacement) {
    std::string out;
    auto end = text.cbegin();
    for (std::sregex_iterator match(text.begin(), text.end(), regex), none; match != none; ++match) {
        out.append(end, (*match)[0].first);
        out += replacement(match->str());
        end = (*match)[0].second;
    }
    return out.append(end, text.cend());
}

/// Words of a text have no letter or digit beside them.
std::string replace_word(const std::string& text, const std::string& word, const std::string& with) {
    const auto part_of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    const auto in = lower(text);
    const auto wanted = lower(word);
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = 0; (at = in.find(wanted, at)) != in.npos;) {
        const auto end = at + word.size();
        if ((at > 0 && part_of_word(text[at - 1])) || (end < text.size() && part_of_word(text[end]))) {
            at++;
            continue;
        }
        out.append(text, from, at - from) += with;
        from = at = end;
    }
    return out.append(text, from);
}

} // namespace

void Anonymiser::add(const std::string& kind, const std::string& word) {
    words_.emplace(word, kind);
    // A VPD and some log lines have the address without colons.
    if (kind == "mac")
        if (std::string plain = word; std::erase(plain, ':') != 0) {
            words_.emplace(plain, kind);
            known_[lower(plain)] = replacement(kind, word);
        }
}

std::string Anonymiser::replacement(const std::string& kind, const std::string& word) {
    auto& known = known_[lower(word)];
    if (known.empty())
        known = kind + "-" + std::to_string(++counts_[kind]);
    return known;
}

std::string Anonymiser::text(std::string text) {
    std::vector<std::pair<std::string, std::string>> words(words_.begin(), words_.end());
    std::ranges::stable_sort(words,
                             [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    if (const auto whole = words_.find(text); whole != words_.end())
        return replacement(whole->second, text);
    for (const auto& [word, kind] : words)
        if (word.size() >= shortest_word)
            text = replace_word(text, word, replacement(kind, word));
    for (const auto& [kind, regex] : patterns())
        text = replace_matches(text, regex, [&, kind = kind](const std::string& word) {
            return identifies_nothing(word) ? word : replacement(kind, word);
        });
    return text;
}

Json Anonymiser::json(const Json& value) {
    if (value.is_string())
        return text(value.get<std::string>());
    if (!value.is_structured())
        return value;
    Json out = value;
    for (auto& member : out)
        member = json(member);
    return out;
}

Json anonymous(const Json& report) {
    Anonymiser anonymiser;
    for (const auto& end : report.at("ends"))
        if (end.contains("identifies"))
            for (const auto& [kind, words] : end.at("identifies").items())
                for (const auto& word : words)
                    anonymiser.add(kind, word.get<std::string>());
    auto out = anonymiser.json(report);
    for (auto& end : out.at("ends"))
        end.erase("identifies");
    out["anonymous"] = true;
    return out;
}

} // namespace t3report
