// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Faults of one segment, one FPDU or one completion of a connection, and a card out of its slot: two complete
// cards with a few connections.
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "sim/card/base/faults.hh"
#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

constexpr std::uint32_t first_qp = 64;
constexpr Time second = 1'000'000'000;

class FaultsOfAConnection : public testing::Test {
protected:
    static constexpr unsigned connections = 3;
    FaultsOfAConnection() {
        pairs.connect_all();
        pairs.traffic();
        seen = counter(1, "sge.cqes");
    }
    Card& card(unsigned number) { return pairs.card(number).card(); }
    std::uint64_t counter(unsigned number, const char* name) { return card(number).counters().value(name); }
    std::uint32_t tid(unsigned number, unsigned connection) {
        return card(number).qp(first_qp + connection)->tid;
    }
    /// Sends a message from card 0 to card 1.
    void message(unsigned connection) {
        pairs.card(1).receive(connection);
        pairs.card(0).send(connection);
        pairs.settle();
    }
    /// Completions of card 1 since the last call.
    std::uint64_t received() {
        const std::uint64_t now = counter(1, "sge.cqes");
        return now - std::exchange(seen, now);
    }
    std::string refused(const char* fault, std::optional<std::uint64_t> nth, const Card::Target& target) {
        try {
            card(0).inject(fault, nth, target);
        } catch (const std::invalid_argument& e) {
            return e.what();
        }
        return "accepted";
    }

    CardPairs pairs{1, connections};
    std::uint64_t seen = 0;
};

TEST_F(FaultsOfAConnection, TheThirdFpduThatIsSentIsLostAndSentAgain) {
    card(0).inject("lose-sent-fpdu", 3, {.qp = first_qp + 1});
    for (const unsigned connection : {1U, 0U, 1U, 0U, 0U})
        message(connection);
    EXPECT_EQ(received(), 5U) << "the third one of another connection";
    message(1);
    EXPECT_EQ(received(), 0U);
    EXPECT_EQ(counter(0, "faults.segments_lost"), 1U);
    pairs.pass(second);
    EXPECT_EQ(received(), 1U) << "by the timer of TCP";
    message(1);
    EXPECT_EQ(received(), 1U);
    EXPECT_EQ(counter(0, "faults.segments_lost"), 1U);
}

TEST_F(FaultsOfAConnection, TheSecondFpduThatArrivesIsLostAndSentAgain) {
    card(1).inject("lose-received-fpdu", 2, {.tid = tid(1, 2)});
    message(2);
    EXPECT_EQ(received(), 1U);
    message(2);
    EXPECT_EQ(received(), 0U);
    pairs.pass(second);
    EXPECT_EQ(received(), 1U);
    EXPECT_EQ(counter(1, "faults.segments_lost"), 1U);
}

/// The receiver acknowledges a single segment after a delay; the sender gets no ACK, and sends again.
TEST_F(FaultsOfAConnection, OneAckIsLostOnEitherSide) {
    for (const unsigned loser : {0U, 1U}) {
        const auto resent = [this] { return card(0).connection(tid(0, 0))->retries; };
        pairs.pass(second);
        card(loser).inject(loser == 0 ? "lose-received-ack" : "lose-sent-ack", std::nullopt,
                           {.tid = tid(loser, 0)});
        message(0);
        EXPECT_EQ(received(), 1U) << "the data is not lost";
        pairs.pass(second / 4);
        EXPECT_EQ(counter(loser, "faults.segments_lost"), 1U);
        pairs.pass(2 * second);
        EXPECT_EQ(card(0).connection(tid(0, 0))->unacknowledged, 0U) << "an ACK of what was sent again";
        EXPECT_EQ(resent(), 0U);
        EXPECT_EQ(received(), 0U) << "and it was not received again";
    }
}

TEST_F(FaultsOfAConnection, WithoutATargetItIsTheNextOneOfTheCard) {
    card(0).inject("lose-sent-segment");
    message(2);
    EXPECT_EQ(received(), 0U);
    message(1);
    EXPECT_EQ(received(), 1U);
    pairs.pass(second);
    EXPECT_EQ(received(), 1U);
}

TEST_F(FaultsOfAConnection, SeveralFaultsAreCountedOnTheirOwn) {
    for (const std::uint64_t nth : {1U, 3U})
        card(0).inject("lose-sent-fpdu", nth, {.qp = first_qp});
    message(0);
    EXPECT_EQ(received(), 0U);
    pairs.pass(second); // the second one is the first one again
    EXPECT_EQ(received(), 1U);
    message(0);
    EXPECT_EQ(received(), 0U);
    EXPECT_EQ(counter(0, "faults.segments_lost"), 2U);
    pairs.pass(second);
    EXPECT_EQ(received(), 1U);
}

TEST_F(FaultsOfAConnection, AWrongCrcEndsTheStreamOfTheReceiver) {
    card(0).inject("bad-crc", 2, {.qp = first_qp});
    message(0);
    EXPECT_EQ(received(), 1U);
    message(0);
    EXPECT_EQ(counter(0, "faults.bad_crcs"), 1U);
    EXPECT_EQ(counter(1, "rnic.errors"), 1U);
    EXPECT_STREQ(card(1).qp(first_qp)->state, "stopped");
    EXPECT_STREQ(card(1).qp(first_qp + 1)->state, "running");
}

TEST_F(FaultsOfAConnection, ACompletionIsHeldUntilItIsReleased) {
    card(1).inject("hold-cqe", 2, {.qp = first_qp});
    for (int i = 0; i < 4; ++i)
        message(0);
    EXPECT_EQ(received(), 1U) << "those behind it keep their order";
    message(1);
    EXPECT_EQ(received(), 1U) << "of another QP";
    pairs.pass(10 * second);
    EXPECT_EQ(received(), 0U);
    card(1).inject("release-cqe", std::nullopt, {.qp = first_qp + 1});
    EXPECT_EQ(received(), 0U);
    card(1).inject("release-cqe", std::nullopt, {.qp = first_qp});
    pairs.settle();
    EXPECT_EQ(received(), 3U);
    EXPECT_EQ(counter(1, "faults.completions_held"), 1U);
    message(0);
    EXPECT_EQ(received(), 1U) << "the fault is over";
}

TEST_F(FaultsOfAConnection, AllHeldCompletionsAreReleasedTogether) {
    card(1).inject("hold-cqe", std::nullopt, {.qp = first_qp});
    card(1).inject("hold-cqe", std::nullopt, {.tid = tid(1, 1)});
    message(0);
    message(1);
    message(2);
    EXPECT_EQ(received(), 1U);
    card(1).inject("release-cqe");
    pairs.settle();
    EXPECT_EQ(received(), 2U);
}

TEST_F(FaultsOfAConnection, AResetEndsAllOfThem) {
    card(1).inject("hold-cqe", std::nullopt, {.qp = first_qp});
    message(0);
    card(1).inject("lose-sent-segment", 1);
    card(1).reset();
    card(1).inject("release-cqe");
    EXPECT_EQ(received(), 0U) << "the host's rings are gone";
    EXPECT_EQ(counter(1, "faults.segments_lost"), 0U);
}

TEST_F(FaultsOfAConnection, AnUnpluggedCardDoesNothingAnyMore) {
    pairs.card(1).receive(0);
    pairs.settle();
    card(1).inject("unplug");
    const std::uint64_t writes = pairs.card(1).host().writes;
    pairs.card(0).send(0);
    pairs.settle();
    pairs.pass(second);
    EXPECT_EQ(pairs.card(1).host().writes, writes);
    EXPECT_EQ(card(1).mmio_read(0, reg::PL_REV, 4), 0xffffffffU);
    EXPECT_EQ(card(1).mmio_read(0, reg::PL_REV, 1), 0xffU);
    std::array<std::uint8_t, 4> id{};
    card(1).config_read(0, id);
    EXPECT_EQ(be32(id.data()), 0xffffffffU) << "as a slot without a card";
    card(1).config_write(4, std::array<std::uint8_t, 2>{6, 0});
    card(1).mmio_write(0, reg::PL_RST, 4, hw::bit(1));
    EXPECT_EQ(card(1).mmio_read(0, reg::PL_REV, 4), 0xffffffffU) << "no write reaches it";
    card(1).reset();
    EXPECT_EQ(card(1).mmio_read(0, reg::PL_REV, 4), 4U);
    card(1).config_read(0, id);
    EXPECT_EQ(be32(id.data()), 0x25143600U);
}

TEST_F(FaultsOfAConnection, BadInputIsRefusedWithAReason) {
    const std::uint32_t no_tid = 12345;
    EXPECT_EQ(refused("lose-sent-ack", 0, {}), "nth is counted from 1");
    EXPECT_EQ(refused("lose-sent-ack", 1, {.tid = no_tid}), "no connection has the TID 12345");
    EXPECT_EQ(refused("lose-sent-ack", 1, {.qp = 5}), "no connected QP has the number 5");
    EXPECT_EQ(refused("hold-cqe", 1, {.tid = no_tid}), "no connection has the TID 12345");
    EXPECT_EQ(refused("bad-crc", 1, {.tid = tid(0, 0), .qp = first_qp}), "expected tid= or qp=, not both");
    EXPECT_EQ(refused("release-cqe", 1, {}), "the fault 'release-cqe' has no amount");
    EXPECT_EQ(refused("abort", std::nullopt, {.qp = first_qp}), "the fault 'abort' has no tid= or qp=");
    for (std::size_t n = 0; n < NthFault::most; ++n)
        EXPECT_EQ(refused("bad-crc", 1000, {}), "accepted");
    EXPECT_EQ(refused("bad-crc", 1000, {}), "64 faults of this kind wait already");
}

TEST(NthFaults, EndWithTheirObject) {
    Counters counters;
    Faults faults(counters);
    faults.sent.arm(7, 1, SegmentKind::ack);
    EXPECT_FALSE(faults.sent.fires(7, SegmentKind::any | SegmentKind::fpdu));
    EXPECT_FALSE(faults.sent.fires(8, SegmentKind::any | SegmentKind::ack));
    faults.bad_crc.arm(7, 1);
    faults.bad_crc.arm(8, 2);
    faults.connection_ended(7);
    EXPECT_FALSE(faults.sent.armed());
    EXPECT_FALSE(faults.bad_crc.fires(7));
    EXPECT_FALSE(faults.bad_crc.fires(8));
    EXPECT_TRUE(faults.bad_crc.fires(8));
    EXPECT_FALSE(faults.bad_crc.armed());
    EXPECT_EQ(counters.value("faults.bad_crcs"), 1U);
}

} // namespace
} // namespace t3sim::test
