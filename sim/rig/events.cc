// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/events.hh"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/core/log.hh"
#include "sim/core/number.hh"
#include "sim/trace/decode.hh"

namespace t3sim {
namespace {

spdlog::logger& log = logger("at");

/// The name of a kind as one word.
std::string kind_of(unsigned kind) {
    std::string name = trace::kind_name(static_cast<EventKind>(kind));
    std::ranges::replace(name, ' ', '-');
    return name;
}

/// Events of the recorder begin after the names of cards.
constexpr unsigned first_kind = 1;
constexpr const char* report_kind = "at";
/// Characters of the reason why a command failed.
constexpr std::size_t longest_result = 256;

std::uint32_t number_of(const std::string& text) {
    if (const auto value = parse_number<std::uint32_t>(text))
        return *value;
    throw std::invalid_argument("'" + text + "': expected a number");
}

trace::Event event_of(Time time, const RecordHead& head, Bytes data) {
    return {.time = time,
            .card = 0,
            .head = head,
            .data = data.first(std::min(data.size(), trace_file::max_data))};
}

} // namespace

const std::string& SeenEvent::name() const {
    if (!name_)
        name_ = trace::describe(event_of(0, head, data)).name;
    return *name_;
}

std::uint32_t SeenEvent::tid() const {
    return trace::tid_of(event_of(0, head, data));
}

// --- EventFilter -------------------------------------------------------------------------------------------

std::vector<std::string> EventFilter::kinds() {
    std::vector<std::string> names;
    for (unsigned kind = first_kind; kind < count; ++kind)
        if (const std::string name = kind_of(kind); names.empty() || names.back() != name)
            names.push_back(name);
    names.emplace_back(report_kind);
    return names;
}

EventFilter::EventFilter(std::span<const std::string> words) {
    for (const std::string& word : words) {
        if (word.starts_with("name=")) {
            name_ = word.substr(5);
            if (name_.size() > longest_name)
                throw std::invalid_argument(fmt::format("a name of {} characters; names have at most {}",
                                                        name_.size(), longest_name));
        } else if (word.starts_with("tid=")) {
            tid_ = number_of(word.substr(4));
        } else if (word.starts_with("qp=")) {
            qp_ = number_of(word.substr(3));
        } else {
            std::uint32_t kinds = word == report_kind ? report : 0;
            for (unsigned kind = first_kind; kind < count; ++kind)
                kinds |= kind_of(kind) == word ? 1U << kind : 0; // several for "mmio"
            if (kinds == 0)
                throw std::invalid_argument(fmt::format(
                    "there is no event '{}'; events are: {}; select them by name=, tid= or qp=", word,
                    fmt::join(EventFilter::kinds(), ", ")));
            kinds_ |= kinds;
        }
    }
    if (kinds_ == 0)
        kinds_ = ~0U;
}

bool EventFilter::fits(const SeenEvent& event) const {
    const RecordHead& head = event.head;
    if ((kinds_ >> static_cast<unsigned>(head.kind) & 1) == 0 || (qp_ && head.qp != *qp_))
        return false;
    return (!tid_ || event.tid() == *tid_) && (name_.empty() || event.name() == name_);
}

// --- Subscription ------------------------------------------------------------------------------------------

void Subscription::add(const std::string& card, Time time, const SeenEvent& event) {
    if (!filter_.fits(event))
        return;
    Item item{.card = card, .time = time, .head = event.head, .data = {}};
    item.size = static_cast<std::uint8_t>(std::min(event.data.size(), item.data.size()));
    std::copy_n(event.data.begin(), item.size, item.data.begin());
    add(std::move(item));
}

void Subscription::add(const std::string& card, Time time, const std::string& command,
                       const std::string& result) {
    if (filter_.reports())
        add({.card = card, .time = time, .data = {}, .command = command, .result = result});
}

void Subscription::add(Item&& item) {
    bool first = false;
    {
        const std::lock_guard lock(lock_);
        if (items_.size() >= most) {
            ++lost_;
            return;
        }
        first = items_.empty();
        items_.push_back(std::move(item));
    }
    if (first)
        ready_();
}

bool Subscription::waits() const {
    const std::lock_guard lock(lock_);
    return !items_.empty();
}

std::string Subscription::lines() {
    constexpr std::size_t at_a_time = 16; // between which the cards of this thread have their turns
    std::vector<Item> items;
    std::uint64_t lost = 0;
    {
        const std::lock_guard lock(lock_);
        const std::size_t some = std::min(at_a_time, items_.size());
        items.assign(std::move_iterator(items_.begin()),
                     std::move_iterator(items_.begin() + static_cast<std::ptrdiff_t>(some)));
        items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(some));
        // Those that were lost come after all that wait.
        if (items_.empty())
            lost = std::exchange(lost_, 0);
    }
    std::string text;
    for (const Item& item : items)
        text += line(item) + '\n';
    if (lost != 0)
        text += nlohmann::ordered_json{{"event", "lost"}, {"count", lost}}.dump() + '\n';
    return text;
}

std::string Subscription::line(const Item& item) {
    nlohmann::ordered_json line{{"time", item.time}, {"card", item.card}};
    if (!item.command.empty()) {
        line["event"] = report_kind;
        line["name"] = item.command;
        line["text"] = item.result;
    } else {
        trace::Event event = event_of(item.time, item.head, Bytes(item.data).first(item.size));
        const trace::Words words = trace::describe(event);
        line["event"] = kind_of(static_cast<unsigned>(item.head.kind));
        line["name"] = words.name;
        line["text"] = words.brief + (words.brief.empty() || words.more.empty() ? "" : ", ") + words.more;
        if (const std::uint32_t tid = trace::tid_of(event); tid != RecordHead::none)
            line["tid"] = tid;
        if (item.head.qp != RecordHead::none)
            line["qp"] = item.head.qp;
        line["length"] = item.head.length;
        if ((item.head.flags & RecordHead::flag_lost) != 0)
            line["lost"] = true;
    }
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// --- CardEvents --------------------------------------------------------------------------------------------

void CardEvents::select() {
    card_.observe(subscriptions_.empty() && rules_.empty() ? nullptr : this);
}

void CardEvents::subscribe(std::shared_ptr<Subscription> subscription) {
    subscriptions_.push_back(std::move(subscription));
    select();
}

void CardEvents::unsubscribe(const std::shared_ptr<Subscription>& subscription) {
    std::erase(subscriptions_, subscription);
    select();
}

void CardEvents::add(Rule&& rule) {
    if (rules_.size() == most_rules)
        throw std::invalid_argument(fmt::format("{} commands wait for events of card '{}' already; at {} off "
                                                "drops them",
                                                most_rules, name_, name_));
    if (rule.command.size() > longest_command)
        throw std::invalid_argument(fmt::format("a command of {} characters; one that waits has at most {}",
                                                rule.command.size(), longest_command));
    rules_.push_back(std::move(rule));
    select();
}

void CardEvents::drop_rules() {
    rules_.clear();
    select();
}

std::vector<std::string> CardEvents::commands() const {
    std::vector<std::string> all;
    for (const Rule& rule : rules_)
        all.push_back(rule.command);
    return all;
}

void CardEvents::record(std::uint8_t, const RecordHead& head, Bytes data) {
    const SeenEvent event(head, data);
    for (const auto& subscription : subscriptions_)
        subscription->add(name_, queue_.now(), event);
    if (!rules_.empty())
        check_rules(event);
}

void CardEvents::check_rules(const SeenEvent& event) {
    // Out of the list before one runs, which may cause events.
    std::vector<Rule> due;
    for (auto rule = rules_.begin(); rule != rules_.end();) {
        if (rule->filter.fits(event) && --rule->left == 0) {
            due.push_back(std::move(*rule));
            rule = rules_.erase(rule);
        } else {
            ++rule;
        }
    }
    if (event.head.kind == EventKind::reset) {
        rules_.clear();
    } else if (event.head.kind == EventKind::work_request && event.name() == "TID_RELEASE") {
        std::erase_if(rules_, [tid = event.tid()](const Rule& rule) { return rule.filter.tid() == tid; });
    }
    for (Rule& rule : due) {
        if (rule.at_once)
            run(rule);
        else
            queue_.next_of_all([this, rule = std::move(rule)] { run(rule); });
    }
    if (rules_.empty())
        select();
}

void CardEvents::run(const Rule& rule) {
    std::string result = "done";
    try {
        rule.run();
        log.info("{}: {}", name_, rule.command);
    } catch (const std::exception& e) {
        result = e.what();
        log.warn("{}: {}: {}", name_, rule.command, result);
    }
    result.resize(std::min(result.size(), longest_result));
    for (const auto& subscription : subscriptions_)
        subscription->add(name_, queue_.now(), rule.command, result);
}

} // namespace t3sim
