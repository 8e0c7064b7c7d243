// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Subscriptions and commands at events, with two complete cards.
#include <cstdlib>
#include <filesystem>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/rig/commands.hh"
#include "sim/rig/events.hh"
#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Words = std::vector<std::string>;

class Events : public testing::Test {
protected:
    static constexpr unsigned connections = 2;
    static EventFilter filter(const Words& words) { return EventFilter(words); }
    std::shared_ptr<Subscription> subscribe(const Words& words) {
        auto subscription = std::make_shared<Subscription>(filter(words), [this] { ++woken; });
        b.subscribe(subscription);
        return subscription;
    }
    static std::vector<json> rows(Subscription& subscription) {
        std::vector<json> all;
        for (std::string text; !(text = subscription.lines()).empty();) {
            std::istringstream lines(text);
            for (std::string line; std::getline(lines, line);)
                all.push_back(json::parse(line));
        }
        return all;
    }
    static Words names(Subscription& subscription) {
        Words all;
        for (const json& row : rows(subscription))
            all.push_back(row["name"]);
        return all;
    }
    /// A command of card b at an event.
    void at(const Words& words, std::function<void()> run, bool at_once = false, std::uint64_t nth = 1) {
        b.add({.command = "command",
               .filter = filter(words),
               .left = nth,
               .at_once = at_once,
               .run = std::move(run)});
    }
    std::string refused(const Words& words) {
        try {
            filter(words);
        } catch (const std::invalid_argument& e) {
            return e.what();
        }
        return "accepted";
    }

    EventQueue queue;
    CardPairs pairs{1, connections, &queue};
    Card& card_b = pairs.card(1).card();
    CardEvents b{card_b, "b", queue};
    unsigned woken = 0;
};

TEST_F(Events, ASubscriptionHasWhatItSelects) {
    const auto cpls = subscribe({"cpl", "name=PASS_ESTABLISH"}), tid = subscribe({"cpl", "tid=1"}),
               qp = subscribe({"cqe", "qp=65"}), resets = subscribe({"reset"});
    pairs.connect_all();
    pairs.traffic();
    const auto established = rows(*cpls);
    ASSERT_THAT(established, SizeIs(2));
    EXPECT_EQ(established[0]["card"], "b");
    EXPECT_EQ(established[0]["event"], "cpl");
    EXPECT_EQ(established[0]["tid"], 0);
    EXPECT_EQ(established[1]["tid"], 1);
    EXPECT_GE(established[1]["time"], established[0]["time"]);
    EXPECT_THAT(names(*tid),
                testing::AllOf(testing::Contains("PASS_ACCEPT_REQ"), testing::Contains("PASS_ESTABLISH")));
    EXPECT_THAT(names(*qp), testing::UnorderedElementsAre("CQE SEND", "CQE RECEIVE"));
    EXPECT_THAT(rows(*resets), IsEmpty());
    card_b.reset();
    EXPECT_THAT(names(*resets), ElementsAre("chip reset"));
}

TEST_F(Events, ALostSegmentIsMarked) {
    pairs.connect_all();
    const auto sent = subscribe({"tcp-out", "tid=0"}), arrived = subscribe({"tcp-in", "tid=0"});
    card_b.inject("lose-received-segment", 1, {.tid = 0});
    card_b.inject("lose-sent-segment", 1, {.tid = 0});
    pairs.card(0).receive_and_send(0);
    pairs.pass(1'000'000'000);
    const auto in = rows(*arrived), out = rows(*sent);
    ASSERT_THAT(in, testing::Not(IsEmpty()));
    ASSERT_THAT(out, testing::Not(IsEmpty()));
    EXPECT_EQ(in[0].value("lost", false), true);
    EXPECT_EQ(in[1].value("lost", false), false);
    EXPECT_EQ(out[0].value("lost", false), true);
}

TEST_F(Events, WhatAClientDoesNotTakeIsCountedAndNoCardWaits) {
    const auto all = subscribe({});
    pairs.connect_all();
    while (woken == 0 || rows(*all).empty())
        pairs.traffic();
    woken = 0;
    for (unsigned n = 0; n < 200; ++n)
        pairs.traffic();
    EXPECT_EQ(woken, 1U) << "once, when the first event waits";
    const auto kept = rows(*all);
    ASSERT_THAT(kept, SizeIs(Subscription::most + 1));
    EXPECT_EQ(kept.back()["event"], "lost");
    EXPECT_GT(kept.back()["count"], 1000);
    pairs.traffic();
    EXPECT_NE(rows(*all).back()["event"], "lost");
}

TEST_F(Events, AfterItsEndASubscriptionGetsNothing) {
    const auto all = subscribe({});
    b.unsubscribe(all);
    pairs.connect_all();
    EXPECT_FALSE(all->waits());
}

/// The driver of card b gets the first message of a connection, and not the second one.
TEST_F(Events, ACardIsUnpluggedBetweenTwoMessages) {
    const auto done = subscribe({"at"});
    at(
        {"cpl", "name=PASS_ESTABLISH"}, [this] { card_b.inject("unplug"); }, true);
    pairs.connect(0);
    EXPECT_EQ(card_b.connection(0)->rdma, false);
    EXPECT_EQ(pairs.card(1).connected(), 0U);
    EXPECT_EQ(pairs.card(0).connected(), 1U) << "the other card cannot detect it";
    EXPECT_EQ(card_b.mmio_read(0, reg::PL_REV, 4), 0xffffffffU);
    const auto reports = rows(*done);
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_EQ(reports[0]["name"], "command");
    EXPECT_EQ(reports[0]["text"], "done");
}

TEST_F(Events, ACommandRunsAtTheNthEventOfItsConnection) {
    pairs.connect_all();
    Words seen;
    const auto cqes = subscribe({"cqe", "qp=65"});
    at(
        {"cqe", "name=CQE RECEIVE", "qp=65"}, [&] { seen = names(*cqes); }, true, 2);
    pairs.traffic();
    EXPECT_THAT(seen, IsEmpty());
    pairs.traffic();
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "CQE RECEIVE"), 2);
    seen = {};
    pairs.traffic();
    EXPECT_THAT(seen, IsEmpty()) << "once";
}

/// A fault that is armed in an event already affects it.
TEST_F(Events, TheThirdFpduGetsAWrongCrc) {
    pairs.connect_all();
    at(
        {"fpdu-out", "qp=64"}, [this] { card_b.inject("bad-crc"); }, true, 3);
    for (int i = 0; i < 2; ++i)
        pairs.traffic();
    EXPECT_EQ(pairs.card(0).card().counters().value("rnic.errors"), 0U);
    pairs.card(0).receive(0);
    pairs.card(1).send(0);
    pairs.settle();
    EXPECT_EQ(pairs.card(0).card().counters().value("rnic.errors"), 1U);
}

/// A reset replaces the engines, so it cannot run within one of them.
TEST_F(Events, OtherCommandsRunBeforeTheNextEvent) {
    pairs.connect_all();
    const std::uint64_t before = queue.ran();
    std::uint64_t ran = 0;
    queue.at(queue.now(), [] {}); // due, and behind it
    at({"doorbell"}, [&] {
        ran = queue.ran();
        card_b.reset();
    });
    pairs.card(1).receive(0);
    EXPECT_EQ(ran, 0U);
    EXPECT_TRUE(queue.is_urgent());
    pairs.settle();
    EXPECT_EQ(ran, before + 1);
    EXPECT_FALSE(card_b.connection(0));
}

TEST_F(Events, AFailureIsReported) {
    const auto done = subscribe({"at"});
    at(
        {"cpl"}, [this] { card_b.inject("bad-crc", 1, {.qp = 500}); }, true);
    pairs.connect(0);
    EXPECT_EQ(rows(*done).at(0)["text"], "no connected QP has the number 500");
}

TEST_F(Events, CommandsEndWithTheirConnectionAndWithAReset) {
    pairs.connect_all();
    const auto never = [] { FAIL(); };
    at({"tcp-out", "tid=0"}, never, true, 1000);
    at({"tcp-out", "tid=1"}, never, true, 1000);
    at({"tcp-out"}, never, true, 1000);
    EXPECT_THAT(b.commands(), SizeIs(3));
    pairs.card(1).release_tid(0);
    EXPECT_THROW(pairs.settle(), std::runtime_error) << "the peer is aborted";
    EXPECT_THAT(b.commands(), SizeIs(2));
    card_b.reset();
    EXPECT_THAT(b.commands(), IsEmpty());
    for (std::size_t n = 0; n < CardEvents::most_rules; ++n)
        at({"cpl"}, never, true);
    EXPECT_THROW(at({"cpl"}, never, true), std::invalid_argument);
    b.drop_rules();
    EXPECT_THAT(b.commands(), IsEmpty());
}

// 4,096 reports of a command of 60,000 characters waited in 235 MB.
TEST_F(Events, LongCommandsAreRefused) {
    const std::string longest(CardEvents::longest_command, 'x');
    const auto add = [&](const std::string& command) {
        b.add({.command = command,
               .filter = EventFilter(std::vector<std::string>{"cpl"}),
               .left = 1,
               .at_once = true,
               .run = [] { throw std::invalid_argument(std::string(60'000, 'y')); }});
    };
    EXPECT_THROW(add(longest + "x"), std::invalid_argument);
    const auto done = subscribe({"at"});
    add(longest);
    pairs.connect(0);
    EXPECT_EQ(std::string(rows(*done).at(0)["text"]).size(), 256U) << "a reason is cut";
}

/// The thread of the second card has something else to do. The first one would keep the subscription for
/// ever.
TEST(Subscribe, ThatFailsLeavesNoSubscription) {
    char name[] = "/tmp/t3sim-subscribe-XXXXXX";
    const std::string folder = mkdtemp(name);
    Options options;
    for (const char* card : {"a", "b"})
        options.cards.push_back({.name = card, .socket = folder + '/' + card, .serial = {}});
    options.threads = 2;
    EventLoop loop;
    {
        Rig rig(loop, options);
        std::promise<void> end;
        const auto token = std::make_shared<int>();
        std::shared_ptr<Subscription> subscription;
        loop.post([&] {
            rig.post(1, [ended = end.get_future().share()] { ended.wait(); });
            commands::Context context{loop, rig, {}, {}, 0, {}, subscription, [token] {}};
            EXPECT_THROW((void)commands::execute(context, R"({"command": "subscribe"})"), std::runtime_error);
            context.wake = {};
            end.set_value();
            rig.on(0, [] {}); // behind the end of the subscription
            loop.stop();
        });
        rig.run();
        EXPECT_EQ(token.use_count(), 1);
        EXPECT_FALSE(subscription);
    }
    std::filesystem::remove_all(folder);
}

TEST_F(Events, BadSelectionsAreRefusedWithAReason) {
    EXPECT_THAT(refused({"frob"}),
                testing::StartsWith("there is no event 'frob'; events are: mmio, doorbell, dma, irq, "
                                    "wr, cpl, tcp-out, tcp-in, "));
    EXPECT_EQ(refused({"cpl", "tid=x"}), "'x': expected a number");
    EXPECT_EQ(refused({"qp="}), "'': expected a number");
    EXPECT_EQ(refused({"qp=0x40"}), "accepted");
    EXPECT_EQ(refused({"qp=40x"}), "'40x': expected a number");
    EXPECT_EQ(refused({"tid=-1"}), "'-1': expected a number");
    EXPECT_EQ(refused({"name=" + std::string(65, 'x')}), "a name of 65 characters; names have at most 64");
}

} // namespace
} // namespace t3sim::test
