// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A card that lies to its driver: each kind, from a seed.
#include <algorithm>
#include <set>

#include "sim/card/base/lies.hh"
#include "tests/sim/nic/card_fixture.hh"
#include "tests/sim/nic/rings.hh"

namespace t3sim::test {
namespace {

using Names = std::vector<std::string>;

/// All that Lies makes of a number of events, as text.
std::string history(std::uint64_t seed, const Names& kinds = {}) {
    Counters counters;
    Lies lies(counters);
    lies.begin(seed, 0.2, kinds);
    std::string text;
    const auto add = [&](std::uint64_t value) { text += std::to_string(value) + ' '; };
    for (std::uint32_t i = 0; i < 300; ++i) {
        add(lies.read(Lies::Kind::registers, i, 4));
        add(lies.read(Lies::Kind::vpd, i, 4));
        Buffer cpl(12);
        put_be32(cpl.data(), 0x50000000 + i);
        for (const auto& [queue, bytes] : lies.messages(i % 2, cpl))
            text += std::to_string(queue) + ':' + words(bytes) + '/';
        add(lies.completions());
        hw::CqeLayout cqe{};
        cqe.header = hw::cqe_header(i, true, 0, false, 3);
        std::uint32_t index = i;
        lies.entry(cqe, index, 300);
        text += words(hw::bytes_of(cqe)) + '@' + std::to_string(index);
        std::array<std::uint32_t, 2> head{1, i};
        lies.event(head, cqe);
        text += words(hw::bytes_of(cqe)) + '@' + std::to_string(head[1]);
        Buffer response(hw::response_size);
        lies.response(response);
        text += words(response);
        add(lies.skips_buffer());
        for (const unsigned vector : lies.interrupts(i % 9))
            add(vector);
        const auto [lost, cause] = lies.doorbell();
        add(lost);
        add(cause);
        text += '\n';
    }
    return text + counters.text();
}

TEST(Lies, TheSeedDecidesEverything) {
    EXPECT_EQ(history(1), history(1));
    EXPECT_NE(history(1), history(2));
}

TEST(Lies, EachKindIsIndependent) {
    std::set<std::string> all;
    for (const Lies::Row& kind : Lies::rows()) {
        const std::string text = history(1, {kind.name});
        EXPECT_TRUE(all.insert(text).second) << kind.name;
        EXPECT_NE(text.find("lies." + std::string(kind.name) + " "), text.npos);
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 301) << "one counter, of " << kind.name;
    }
    EXPECT_THROW(history(1, {"frob"}), std::invalid_argument);
}

/// A change of a kind's lies would make recorded seeds useless.
TEST(Lies, TheSameOnEveryMachine) {
    Counters counters;
    Lies lies(counters);
    lies.begin(7, 0.1, {});
    std::vector<std::pair<int, std::uint64_t>> seen;
    for (int i = 0; i < 30; ++i)
        if (const auto value = lies.read(Lies::Kind::registers, 0x1234, 4); value != 0x1234)
            seen.emplace_back(i, value);
    EXPECT_EQ(seen, (std::vector<std::pair<int, std::uint64_t>>{{1, 0}, {25, 3749923655}, {28, 266804}}));
}

TEST(Lies, NothingIsWrittenOutsideOfARing) {
    Counters counters;
    Lies lies(counters);
    lies.begin(1, 1, Names{"cqe"});
    std::set<std::uint32_t> places;
    for (int i = 0; i < 1000; ++i) {
        hw::CqeLayout cqe{};
        std::uint32_t index = 3;
        lies.entry(cqe, index, 8);
        places.insert(index);
    }
    EXPECT_EQ(places.size(), 8U);
    EXPECT_EQ(*places.rbegin(), 7U);
}

TEST(Lies, AHeldMessageIsOvertaken) {
    Counters counters;
    Lies lies(counters);
    lies.begin(1, 0.5, Names{"cpl"});
    std::set<std::size_t> numbers;
    bool overtaken = false;
    for (std::uint8_t i = 0; i < 200; ++i) {
        const auto sent = lies.messages(0, Buffer{0x26, 0, 0, i});
        numbers.insert(sent.size());
        overtaken |= sent.size() == 2 && sent[0].cpl == Buffer{0x26, 0, 0, i} &&
                     sent[1].cpl == Buffer{0x26, 0, 0, static_cast<std::uint8_t>(i - 1)};
    }
    EXPECT_TRUE(overtaken);
    EXPECT_EQ(numbers, (std::set<std::size_t>{0, 1, 2, 3}));
}

class LiesOfACard : public CardTest {};

/// The next client must not get what the card had for the last one.
TEST(Lies, NothingIsRepeatedAfterAReset) {
    const Buffer secret(12, 0x5a), later(12, 0xa5);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Counters counters;
        Lies lies(counters);
        lies.begin(seed, 1, Names{"cpl"});
        for (unsigned i = 0; i < 100; ++i)
            lies.messages(0, secret);
        lies.forget();
        for (unsigned i = 0; i < 20; ++i)
            for (const Lies::Message& message : lies.messages(0, later))
                EXPECT_NE(message.cpl, secret) << seed;
    }
}

TEST_F(LiesOfACard, RegistersUntilTheyEnd) {
    const std::uint32_t truth = read(reg::PL_REV);
    card.lie(1, 1, Names{"register"});
    std::set<std::uint32_t> values;
    for (int i = 0; i < 50; ++i)
        values.insert(read(reg::PL_REV));
    EXPECT_GT(values.size(), 10U);
    EXPECT_TRUE(values.contains(0xffffffff) && values.contains(0));
    EXPECT_EQ(card.counters().value("lies.register"), 50U);
    card.stop_lies();
    EXPECT_EQ(read(reg::PL_REV), truth);
}

TEST_F(LiesOfACard, AResetDoesNotEndThem) {
    card.lie(1, 1, Names{"register"});
    card.reset();
    (void)read(reg::PL_REV);
    EXPECT_EQ(card.counters().value("lies.register"), 1U);
}

TEST_F(LiesOfACard, VpdAndFlashAreAKindOfTheirOwn) {
    card.lie(1, 1, Names{"vpd"});
    (void)read(reg::PL_REV);
    EXPECT_EQ(card.counters().value("lies.vpd"), 0U);
    (void)read(reg::SF_DATA);
    EXPECT_EQ(card.counters().value("lies.vpd"), 1U);
}

TEST_F(LiesOfACard, InterruptsAndTheDoorbellFifo) {
    write(reg::SG_CONTROL, hw::sg_control::global_enable);
    for (const std::uint32_t enable : {reg::SG_INT_ENABLE, reg::PL_INT_ENABLE0})
        write(enable, ~0U);
    constexpr std::uint32_t fifo = hw::sg_int::db_full | hw::sg_int::db_empty | hw::sg_int::db_drop;
    card.lie(1, 1, Names{"doorbell"});
    for (int i = 0; i < 50; ++i)
        write(reg::SG_KDOORBELL, hw::bit(31));
    EXPECT_EQ(read(reg::SG_INT_CAUSE), fifo);
    EXPECT_EQ(host.irqs[0], 1U);
    card.lie(1, 1, Names{"interrupt"});
    for (int i = 0; i < 100; ++i) {
        write(reg::SG_INT_CAUSE, ~0U);
        write(reg::PL_INT_CAUSE0, ~0U);
        card.inject("db-full");
    }
    EXPECT_EQ(card.counters().value("lies.interrupt"), 100U);
    EXPECT_GT(host.irqs[8], 0U) << "on a vector of a queue without a message";
    EXPECT_LT(host.irqs[9], 1U);
}

} // namespace
} // namespace t3sim::test
