// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Events of the cards for clients of the control socket: `subscribe`, and commands at an event (`at`). They
// come from the hooks of the flight recorder, so they cost nothing while there are none.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/card/card.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/recorder.hh"

namespace t3sim {

/// An event of a card, whose name is found once for all filters.
class SeenEvent {
public:
    SeenEvent(const RecordHead& head, Bytes data) : head(head), data(data) {}
    [[nodiscard]] const std::string& name() const;
    [[nodiscard]] std::uint32_t tid() const;

    const RecordHead& head;
    const Bytes data;

private:
    mutable std::optional<std::string> name_;
};

/// Selects events: all that is given must fit.
class EventFilter {
public:
    /// @p words: names of kinds of events (none: all), name=NAME, tid=N, qp=N. Throws std::invalid_argument,
    /// with a complete sentence.
    explicit EventFilter(std::span<const std::string> words);
    [[nodiscard]] bool fits(const SeenEvent& event) const;
    static constexpr std::size_t longest_name = 64;
    /// Whether it selects what the commands of `at` report.
    [[nodiscard]] bool reports() const { return (kinds_ & report) != 0; }
    [[nodiscard]] std::optional<std::uint32_t> tid() const { return tid_; }
    /// "cpl", "tcp-out" and so on.
    [[nodiscard]] static std::vector<std::string> kinds();

private:
    static constexpr auto count = static_cast<unsigned>(EventKind::count);
    static constexpr std::uint32_t report = 1U << count;
    std::uint32_t kinds_ = 0;
    std::string name_;
    std::optional<std::uint32_t> tid_, qp_;
};

/// The events that wait for one client. Cards of several threads add them and never wait for the client.
class Subscription {
public:
    /// @p ready: called in the thread of a card when the first event waits.
    Subscription(EventFilter filter, std::function<void()> ready)
        : filter_(std::move(filter)), ready_(std::move(ready)) {}
    /// More are lost, and counted.
    static constexpr std::size_t most = 4096;

    void add(const std::string& card, Time time, const SeenEvent& event);
    /// What a command of `at` reports.
    void add(const std::string& card, Time time, const std::string& command, const std::string& result);
    [[nodiscard]] bool waits() const;
    /// The next lines of JSON; empty: none.
    [[nodiscard]] std::string lines();

private:
    struct Item {
        std::string card;
        Time time = 0;
        RecordHead head{};
        std::uint8_t size = 0;
        std::array<std::uint8_t, trace_file::max_data> data;
        std::string command{}, result{}; ///< of a report, instead of the event
    };
    void add(Item&& item);
    [[nodiscard]] static std::string line(const Item& item);

    const EventFilter filter_;
    const std::function<void()> ready_;
    mutable std::mutex lock_;
    std::deque<Item> items_;
    std::uint64_t lost_ = 0;
};

/// Those of one card, in its thread.
class CardEvents final : public EventSink {
public:
    CardEvents(Card& card, std::string name, EventQueue& queue)
        : card_(card), name_(std::move(name)), queue_(queue) {}

    void subscribe(std::shared_ptr<Subscription> subscription);
    void unsubscribe(const std::shared_ptr<Subscription>& subscription);

    /// A command that runs once, at an event. It ends with a reset of the card, or with its connection.
    struct Rule {
        std::string command;
        EventFilter filter;
        std::uint64_t left;        ///< which of the events
        bool at_once;              ///< else: before the next event of the model
        std::function<void()> run; ///< throws std::exception: the reason why it failed
    };
    static constexpr std::size_t most_rules = 16, longest_command = 256;
    /// Throws std::invalid_argument, with a complete sentence.
    void add(Rule&& rule);
    void drop_rules();
    /// The commands that wait.
    [[nodiscard]] std::vector<std::string> commands() const;

    void record(std::uint8_t card, const RecordHead& head, Bytes data) override;

private:
    void check_rules(const SeenEvent& event);
    void run(const Rule& rule);
    void select();

    Card& card_;
    const std::string name_;
    EventQueue& queue_;
    std::vector<std::shared_ptr<Subscription>> subscriptions_;
    std::vector<Rule> rules_;
};

} // namespace t3sim
