// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/report/parse.hh"

#include <algorithm>
#include <array>
#include <cstdio>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace t3report {

namespace {

constexpr std::size_t vpd_place = 0xc00;
constexpr unsigned char vpd_identifier = 0x82;
constexpr unsigned char vpd_read_only = 0x90;

std::string trimmed(std::string text) {
    const auto blank = [](char c) { return c == ' ' || c == '\0'; };
    while (!text.empty() && blank(text.back()))
        text.pop_back();
    return text;
}

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> out;
    for (std::string word; stream >> word;)
        out.push_back(word);
    return out;
}

std::string_view last_part(std::string_view name) {
    return name.substr(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
}

} // namespace

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
        out.push_back(line);
    return out;
}

std::optional<Json> perftest_figures(const std::string& output) {
    std::optional<std::string> header;
    for (const auto& line : lines(output)) {
        const auto row = words(line);
        if (row.empty())
            continue;
        if (row[0] == "#bytes")
            header = line;
        else if (header && row.size() >= 4 && row[0].find_first_not_of("0123456789") == row[0].npos) {
            if (header->find("t_typical") == header->npos)
                return Json{{"bytes", std::stoull(row[0])},
                            {"iterations", std::stoull(row[1])},
                            {"peak MB/s", std::stod(row[2])},
                            {"average MB/s", std::stod(row[3])}};
            if (row.size() >= 6)
                return Json{{"bytes", std::stoull(row[0])},    {"iterations", std::stoull(row[1])},
                            {"min us", std::stod(row[2])},     {"max us", std::stod(row[3])},
                            {"typical us", std::stod(row[4])}, {"mean us", std::stod(row[5])}};
        }
    }
    return std::nullopt;
}

std::optional<Ping> ping_figures(const std::string& output) {
    std::smatch found;
    if (!std::regex_search(output, found,
                           std::regex("(\\d+) packets transmitted, (\\d+) (packets )?received")))
        return std::nullopt;
    Ping ping{std::stoi(found[1]), std::stoi(found[2]), ""};
    if (std::regex_search(output, found, std::regex("= [\\d.]+/([\\d.]+)/")))
        ping.mean_ms = found[1];
    return ping;
}

std::map<std::string, std::string> vpd_fields(const std::string& bytes) {
    std::map<std::string, std::string> fields;
    const auto byte = [&](std::size_t at) {
        return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
    };
    std::size_t at = byte(vpd_place) == vpd_identifier ? vpd_place : 0;
    if (byte(at) != vpd_identifier)
        return fields;
    std::size_t length = byte(at + 1) | byte(at + 2) << 8;
    if (at + 3 + length > bytes.size())
        return fields;
    fields["ID"] = trimmed(bytes.substr(at + 3, length));
    at += 3 + length;
    if (byte(at) != vpd_read_only)
        return fields;
    length = byte(at + 1) | byte(at + 2) << 8;
    const auto end = std::min(at + 3 + length, bytes.size());
    for (at += 3; at + 3 <= end;) {
        const auto keyword = bytes.substr(at, 2);
        const std::size_t size = byte(at + 2);
        if (at + 3 + size > end)
            break;
        if (keyword != "RV")
            fields[keyword] = trimmed(bytes.substr(at + 3, size));
        at += 3 + size;
    }
    return fields;
}

Json pci_capabilities(const std::string& config) {
    constexpr std::size_t first = 0x34;
    constexpr std::size_t size = 256;
    constexpr unsigned msix = 0x11;
    constexpr int most = 48; // they are at multiples of four
    auto out = Json::array();
    if (config.size() < size)
        return out;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(config[at % size]); };
    std::size_t at = byte(first) & 0xfcU;
    for (int i = 0; at != 0 && i < most; i++, at = byte(at + 1) & 0xfcU) {
        Json one{{"id", byte(at)}, {"offset", at}};
        if (byte(at) == msix)
            one["vectors"] = ((byte(at + 2) | byte(at + 3) << 8) & 0x7ff) + 1;
        out.push_back(one);
    }
    return out;
}

Json bar_sizes(const std::string& resource) {
    Json out = Json::object();
    int number = 0;
    for (const auto& line : lines(resource)) {
        unsigned long long start = 0, end = 0;
        if (number < 6 && std::sscanf(line.c_str(), "%llx %llx", &start, &end) == 2 && end > start)
            out["BAR" + std::to_string(number)] = end - start + 1;
        number++;
    }
    return out;
}

std::vector<std::string> new_lines(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now) {
    if (before.empty())
        return now;
    // The kernel drops old lines; if the last one of before was dropped too, all are new.
    const auto last = std::find(now.rbegin(), now.rend(), before.back());
    return {last == now.rend() ? now.begin() : last.base(), now.end()};
}

LogLine classify(const std::string& line) {
    static const std::regex trouble(
        "WARNING:|BUG:|Oops|Call Trace|general protection|Kernel panic|blocked for more than|soft lockup|"
        "hard LOCKUP|detected stall|AER:|PCIe Bus Error|DMAR:.*fault|AMD-Vi:.*(EVENT|FAULT)|"
        "NETDEV WATCHDOG|refcount_t:|KASAN|UBSAN|Machine check|swiotlb buffer is full");
    static const std::regex about_us("cxgb3|t3_uverbs|t3_rdma_cm|infiniband|rdma|ib_core|ib_uverbs|iwpm",
                                     std::regex::icase);
    static const std::regex bad(
        "error|fail|fatal|parity|reset|timed? ?out|link down|lost|invalid|unable|cannot", std::regex::icase);
    if (std::regex_search(line, trouble))
        return LogLine::trouble;
    if (!std::regex_search(line, about_us))
        return LogLine::other;
    // A machine without iwpmd, which only maps ports, gets this line at the first connection.
    const bool without_mapper = line.find("iwpm_register_pid") != line.npos;
    return std::regex_search(line, bad) && !without_mapper ? LogLine::trouble : LogLine::about_us;
}

Json changed(const Counters& before, const Counters& after) {
    auto out = Json::array();
    for (const auto& [name, value] : after) {
        const auto earlier = before.find(name);
        if (const auto old = earlier == before.end() ? 0 : earlier->second; old != value)
            out.push_back({{"name", name}, {"before", old}, {"after", value}});
    }
    return out;
}

bool counts_errors(const std::string& name) {
    static const std::set<std::string_view> all{
        "rx_crc_errors",     "rx_errors",         "rx_frame_errors",
        "rx_length_errors",  "rx_fifo_errors",    "tx_errors",
        "tx_fifo_errors",    "tx_aborted_errors", "tx_carrier_errors",
        "cqe_bad",           "tcpInErrs",         "ipInHdrErrors",
        "qp_refused_events", "cm_refused_events", "async_events_without_object",
        "TOTAL_ERR_FATAL",   "TOTAL_ERR_NONFATAL"};
    return all.contains(last_part(name));
}

bool counts_repairs(const std::string& name) {
    static const std::set<std::string_view> all{"card_polls", "doorbell_drops",   "tcpRetransSegs",
                                                "rx_dropped", "rx_missed_errors", "TOTAL_ERR_COR"};
    return all.contains(last_part(name));
}

} // namespace t3report
