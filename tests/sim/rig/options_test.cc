// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/options.hh"

#include <gtest/gtest.h>

namespace t3sim {
namespace {

ParseResult parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "t3sim");
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, TwoCardsAndTheirWires) {
    const auto result =
        parse({"--card",    "a=/r/a.sock", "--card",       "b=/r/b.sock",     "--wire",
               "a.0,b.0",   "--wire",      "back=a.1,b.1", "--mac",           "b=00:07:43:01:02:03",
               "--serial",  "b=XYZ",       "--chip",       "b=t3b",           "--lanes",
               "b=4",       "--capture",   "/r/c",         "--capture-limit", "64M",
               "--control", "/r/ctl"});
    ASSERT_TRUE(result.options) << result.message;
    const Options& o = *result.options;
    ASSERT_EQ(o.cards.size(), 2U);
    EXPECT_EQ(o.cards[0].socket, "/r/a.sock");
    EXPECT_EQ(o.cards[1].serial, "XYZ");
    EXPECT_EQ(o.cards[0].chip, Chip::t3c);
    EXPECT_EQ(o.cards[1].chip, Chip::t3b);
    EXPECT_EQ(o.cards[0].lanes, 8U);
    EXPECT_EQ(o.cards[1].lanes, 4U);
    EXPECT_EQ(o.cards[1].mac, (std::array<std::uint8_t, 6>{0, 7, 0x43, 1, 2, 3}));
    ASSERT_EQ(o.wires.size(), 2U);
    EXPECT_EQ(o.wires[0].name, "a.0-b.0");
    EXPECT_EQ(o.wires[1].name, "back");
    EXPECT_EQ(o.wires[1].ends[1].card, "b");
    EXPECT_EQ(o.wires[1].ends[1].port, 1U);
    EXPECT_EQ(o.capture_limit, 64U << 20);
}

TEST(Options, ComponentsAreWhatWiresJoin) {
    const auto result =
        parse({"--card", "a=/a",    "--card", "b=/b",     "--card",    "c=/c",   "--card",
               "d=/d",   "--card",  "e=/e",   "--wire",   "a.0,d.1",   "--wire", "qemu:/p,qemu:/q",
               "--wire", "e.0,d.0", "--tap",  "b.0=tap0", "--threads", "3",      "--compute-sums"});
    ASSERT_TRUE(result.options) << result.message;
    EXPECT_EQ(result.options->threads, 3U);
    EXPECT_TRUE(result.options->compute_sums);
    const Components c = components(*result.options);
    EXPECT_EQ(c.of_card, (std::vector<unsigned>{0, 1, 2, 0, 0}));
    EXPECT_EQ(c.of_wire, (std::vector<unsigned>{0, 3, 0, 1}));
    EXPECT_EQ(c.with_cards, 3U);
    EXPECT_EQ(c.count, 4U);
}

TEST(Options, ThreadsAreANumber) {
    EXPECT_EQ(parse({"--card", "a=/a"}).options->threads, 0U);
    for (const char* wrong : {"0", "65", "x", "2x", "-1"}) {
        const auto result = parse({"--card", "a=/a", "--threads", wrong});
        EXPECT_EQ(result.status, 2) << wrong;
        EXPECT_NE(result.message.find("expected a number from 1 to 64"), std::string::npos) << result.message;
    }
}

TEST(Options, CardsDifferByDefault) {
    const auto result = parse({"--card", "a=/a", "--card", "b=/b"});
    ASSERT_TRUE(result.options);
    EXPECT_NE(result.options->cards[0].mac, result.options->cards[1].mac);
    EXPECT_NE(result.options->cards[0].serial, result.options->cards[1].serial);
    // Port 1 has the address after port 0's.
    auto next = result.options->cards[0].mac;
    next[5]++;
    EXPECT_NE(next, result.options->cards[1].mac);
}

TEST(Options, OtherEnds) {
    const auto result = parse({"--card", "a=/a", "--wire", "x=a.0,tap:tap0,qemu:/r/n=1.sock,udp:7@[::1]:8",
                               "--wire-qemu", "a.1=/r/q", "--tap", "a.1=tap1"});
    ASSERT_TRUE(result.options) << result.message;
    const auto& wires = result.options->wires;
    ASSERT_EQ(wires.size(), 2U);
    EXPECT_EQ(wires[0].ends[1].kind, Options::End::Kind::tap);
    EXPECT_EQ(wires[0].ends[2].where, "/r/n=1.sock");
    EXPECT_EQ(wires[0].ends[3].kind, Options::End::Kind::udp);
    EXPECT_EQ(wires[0].ends[3].where, "7@[::1]:8");
    ASSERT_EQ(wires[1].ends.size(), 3U) << "--tap joins the wire that --wire-qemu made";
    EXPECT_EQ(wires[1].ends[2].where, "tap1");
}

TEST(Options, CardsForUserModeLinux) {
    const auto result = parse({"--card", "a=/a", "--card", "b=/b", "--vhost-user", "b"});
    ASSERT_TRUE(result.options) << result.message;
    EXPECT_FALSE(result.options->cards[0].vhost_user);
    EXPECT_TRUE(result.options->cards[1].vhost_user);
}

struct Bad {
    const char* name;
    std::vector<const char*> arguments;
    const char* expected;
};

class WrongOptions : public testing::TestWithParam<Bad> {};

TEST_P(WrongOptions, GivesOneLineAndStatus2) {
    const auto result = parse(GetParam().arguments);
    ASSERT_FALSE(result.options);
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.message.find(GetParam().expected), std::string::npos) << result.message;
    EXPECT_EQ(result.message.find("t3sim: "), 0U);
    EXPECT_EQ(std::count(result.message.begin(), result.message.end(), '\n'), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongOptions,
    testing::Values(
        Bad{"NoCard", {}, "give at least one"}, Bad{"NoSocket", {"--card", "a"}, "--card a=/tmp/a.sock"},
        Bad{"EmptySocket", {"--card", "a="}, "--card a=/tmp/a.sock"},
        Bad{"BadName", {"--card", "a b=/a"}, "letters, digits"},
        Bad{"NameTwice", {"--card", "a=/a", "--card", "a=/b"}, "name is used twice"},
        Bad{"SocketTwice", {"--card", "a=/a", "--card", "b=/a"}, "socket is used twice"},
        Bad{"UnknownOption", {"--card", "a=/a", "--frob"}, "--frob"},
        Bad{"Stray", {"--card", "a=/a", "b=/b"}, "b=/b"},
        Bad{"OneEnd", {"--card", "a=/a", "--wire", "a.0"}, "two ends"},
        Bad{"NoSuchGuest", {"--card", "a=/a", "--vhost-user", "b"}, "no card 'b'; cards are: a"},
        Bad{"NoSuchCard", {"--card", "a=/a", "--wire", "a.0,b.0"}, "no card 'b'; cards are: a"},
        Bad{"NoSuchPort", {"--card", "a=/a", "--wire", "a.0,a.2"}, "port 0 or 1"},
        Bad{"NoPort", {"--card", "a=/a", "--wire", "a,a.1"}, "CARD.PORT"},
        Bad{"TwoWires", {"--card", "a=/a", "--wire", "a.0,a.1", "--wire", "a.0,tap:t"}, "two wires"},
        Bad{"SameEndTwice", {"--card", "a=/a", "--wire", "a.0,a.0"}, "two wires"},
        Bad{"WireNameTwice",
            {"--card", "a=/a", "--wire", "w=a.0,tap:t", "--wire", "w=a.1,tap:u"},
            "two wires are called"},
        Bad{"WireNamePath", {"--card", "a=/a", "--wire", "../w=a.0,tap:t"}, "letters, digits"},
        Bad{"MacShort", {"--card", "a=/a", "--mac", "a=00:07:43"}, "six octets"},
        Bad{"MacLong", {"--card", "a=/a", "--mac", "a=00:07:43:00:00:00:00"}, "six octets"},
        Bad{"MacHex", {"--card", "a=/a", "--mac", "a=00:07:43:00:00:0g"}, "six octets"},
        Bad{"MacMulticast", {"--card", "a=/a", "--mac", "a=01:07:43:00:00:00"}, "multicast"},
        Bad{"MacFourth", {"--card", "a=/a", "--mac", "a=00:07:43:80:00:00"}, "fourth octet"},
        Bad{"LanesOfNoSlot", {"--card", "a=/a", "--lanes", "a=3"}, "a slot has 1, 2, 4 or 8"},
        Bad{"ChipUnknown", {"--card", "a=/a", "--chip", "a=t4"}, "there are t3b and t3c"},
        Bad{"GuessUnknown",
            {"--card", "a=/a", "--guess", "G99=other"},
            "no other answer for G99, only for G1, "},
        Bad{"GuessWithoutAnswer",
            {"--card", "a=/a", "--guess", "G12"},
            "for example G12=other; see --guess list"},
        Bad{"GuessValue", {"--card", "a=/a", "--guess", "G12=once"}, "the answers are modelled and other"},
        Bad{"GuessNumber", {"--card", "a=/a", "--guess", "12=other"}, "for example G12=other"},
        Bad{"TimeUnknown", {"--card", "a=/a", "--time", "t4"}, "is no time of a card; expected one of"},
        Bad{"TimeUnit", {"--card", "a=/a", "--time", "fetch=2"}, "expected for example fetch=2us"},
        Bad{"SerialLong", {"--card", "a=/a", "--serial", "a=12345678901234567"}, "16 characters"},
        Bad{"LimitAlone", {"--card", "a=/a", "--capture-limit", "1M"}, "add --capture DIR"},
        Bad{"LimitUnit", {"--card", "a=/a", "--capture", "/c", "--capture-limit", "1T"}, "64M"},
        Bad{"LogLevel", {"--card", "a=/a", "--log-level", "loud"}, "'loud'"}),
    [](const auto& info) { return info.param.name; });

TEST(Options, GuessesAreListedOrOfAllCards) {
    const auto list = parse({"--guess", "list"});
    EXPECT_FALSE(list.options);
    EXPECT_EQ(list.status, 0);
    EXPECT_NE(list.message.find("G12  ABORT messages come twice"), std::string::npos) << list.message;
    const auto two = parse({"--card", "a=/a", "--guess", "G12=other", "--guess", "G45=other"});
    ASSERT_TRUE(two.options) << two.message;
    EXPECT_EQ(two.options->guesses.size(), 2U);
}

TEST(Options, HelpAndVersionAreNotErrors) {
    for (const char* flag : {"--help", "--version"}) {
        const auto result = parse({flag});
        EXPECT_FALSE(result.options);
        EXPECT_EQ(result.status, 0);
        EXPECT_NE(result.message.find("t3sim"), std::string::npos);
    }
}

} // namespace
} // namespace t3sim
