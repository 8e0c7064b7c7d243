// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/tables.hh"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace t3sim {
namespace {

std::string address(std::uint32_t ip, std::uint16_t port) {
    return fmt::format("{}.{}.{}.{}:{}", ip >> 24, ip >> 16 & 0xff, ip >> 8 & 0xff, ip & 0xff, port);
}

template <typename T> Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

std::optional<Json> connection(const Card& card, std::uint32_t tid) {
    const auto s = card.connection(tid);
    if (!s)
        return std::nullopt;
    return Json{{"tid", tid},
                {"state", s->state},
                {"rdma", s->rdma},
                {"port", s->port},
                {"local", address(s->local_ip, s->local_port)},
                {"peer", address(s->peer_ip, s->peer_port)},
                {"mss", s->mss},
                {"unacknowledged", s->unacknowledged},
                {"send_window", s->send_window},
                {"receive_window", s->receive_window},
                {"congestion_window", s->congestion_window},
                {"rto_ns", s->rto},
                {"retries", s->retries},
                {"waiting", s->waiting}};
}

std::optional<Json> qp(const Card& card, std::uint32_t id) {
    const auto s = card.qp(id);
    if (!s)
        return std::nullopt;
    return Json{{"qp", id},
                {"state", s->state},
                {"tid", s->tid},
                {"pd", s->pd},
                {"send_cq", s->send_cq},
                {"receive_cq", s->receive_cq},
                {"rq_size", s->rq_size},
                {"receives", s->receives_posted},
                {"ord", s->ord},
                {"reads", s->reads},
                {"ird", s->ird},
                {"inbound_reads", s->inbound_reads},
                {"messages", s->messages}};
}

std::optional<Json> cq(const Card& card, std::uint32_t id) {
    const auto s = card.cq(id);
    if (!s)
        return std::nullopt;
    return Json{{"cq", id},
                {"base", s->base},
                {"size", s->size},
                {"index", s->index},
                {"generation", s->generation},
                {"armed", s->armed},
                {"response_queue", s->response_queue}};
}

std::optional<Json> region(const Card& card, std::uint32_t index) {
    const auto s = card.region(index);
    if (!s)
        return std::nullopt;
    return Json{{"stag", s->stag},
                {"type", s->type},
                {"valid", s->valid},
                {"rights", s->rights},
                {"pd", s->pd},
                {"qp", s->qp},
                {"va_based", s->va_based},
                {"va", s->va},
                {"length", s->length},
                {"page_size", s->page_size},
                {"pbl_index", s->pbl_index},
                {"windows", s->windows}};
}

std::optional<Json> ring(const Card& card, std::uint32_t number) {
    const auto s = card.ring(number);
    if (!s)
        return std::nullopt;
    return Json{{"type", s->type},
                {"id", s->id},
                {"base", s->base},
                {"size", s->size},
                {"index", s->index},
                {"generation", s->generation},
                {"tid", or_null(s->tid)},
                {"response_queue", or_null(s->response_queue)},
                {"credits", or_null(s->credits)},
                {"waiting", or_null(s->waits)}};
}

struct Table {
    const char* name;
    std::uint32_t (*limit)(const Card&);
    std::optional<Json> (*row)(const Card&, std::uint32_t number);
};

constexpr Table all[] = {
    {"connections", [](const Card& c) { return c.connection_limit(); }, connection},
    {"qps", [](const Card&) { return Card::qp_limit(); }, qp},
    {"cqs", [](const Card&) { return Card::cq_limit(); }, cq},
    {"regions", [](const Card& c) { return c.region_limit(); }, region},
    {"rings", [](const Card&) { return Card::ring_limit(); }, ring},
};

/// Columns that people know in hexadecimal.
bool is_hex(const std::string& column) {
    return column == "stag" || column == "base" || column == "va";
}

std::string cell(const std::string& column, const Json& value) {
    if (value.is_null())
        return "-";
    if (value.is_boolean())
        return value.get<bool>() ? "yes" : "no";
    if (value.is_string())
        return value.get<std::string>();
    const auto number = value.get<std::uint64_t>();
    return is_hex(column) ? fmt::format("{:#x}", number) : std::to_string(number);
}

} // namespace

std::vector<std::string> tables() {
    std::vector<std::string> names;
    for (const Table& table : all)
        names.emplace_back(table.name);
    return names;
}

TablePart table_part(const std::string& name, std::span<const NamedCard> cards, const std::string& card,
                     std::uint32_t from) {
    const Table* table =
        std::find_if(std::begin(all), std::end(all), [&](const Table& t) { return name == t.name; });
    TablePart part;
    unsigned left = numbers_per_part;
    bool started = card.empty();
    for (const NamedCard& one : cards) {
        if (!started && one.name != card)
            continue;
        started = true;
        for (const std::uint32_t limit = table->limit(*one.card); from < limit; ++from) {
            if (left-- == 0 || part.rows.size() == rows_per_part) {
                part.card = one.name;
                part.number = from;
                return part;
            }
            if (auto columns = table->row(*one.card, from)) {
                Json row{{"card", one.name}};
                row.update(*columns);
                part.rows.push_back(std::move(row));
            }
        }
        from = 0;
    }
    return part;
}

std::string table_text(const std::string& name, const Json& rows) {
    if (rows.empty())
        return "no " + name + "\n";
    std::vector<std::vector<std::string>> lines(1);
    for (const auto& [column, value] : rows[0].items())
        lines[0].push_back(column);
    for (const Json& row : rows) {
        auto& line = lines.emplace_back();
        for (const auto& [column, value] : row.items())
            line.push_back(cell(column, value));
    }
    std::vector<std::size_t> widths(lines[0].size());
    for (const auto& line : lines)
        for (std::size_t i = 0; i < widths.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    std::string text;
    for (const auto& line : lines)
        for (std::size_t i = 0; i < widths.size(); ++i)
            text += i + 1 == widths.size() ? line[i] + "\n" : fmt::format("{:{}}  ", line[i], widths[i]);
    return text;
}

} // namespace t3sim
