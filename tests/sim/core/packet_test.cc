// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/packet.hh"

#include <gmock/gmock.h>

namespace t3sim {
namespace {

using testing::ElementsAre;

Buffer contents(const Packet& packet) {
    return {packet.data(), packet.data() + packet.size()};
}

TEST(Packet, HeadersGoInFrontWithoutACopy) {
    const Packet payload = Packet::copy(Buffer{3, 4}, 2);
    EXPECT_FALSE(payload.shared());
    EXPECT_EQ(payload.headroom(), 2U);
    Packet sent = payload;
    EXPECT_TRUE(payload.shared());
    std::uint8_t* header = sent.prepend(2);
    header[0] = 1;
    header[1] = 2;
    EXPECT_THAT(contents(sent), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(contents(payload), ElementsAre(3, 4));
    EXPECT_EQ(sent.data() + 2, payload.data());
    EXPECT_EQ(sent.headroom(), 0U);
    sent = {};
    EXPECT_FALSE(payload.shared());
}

TEST(Packet, PaddingOfASharedBlockIsACopy) {
    const Packet first = Packet::copy(Buffer{1, 2});
    Packet longer = first;
    longer.pad(4);
    EXPECT_THAT(contents(longer), ElementsAre(1, 2, 0, 0));
    EXPECT_THAT(contents(first), ElementsAre(1, 2));
    EXPECT_NE(longer.data(), first.data());
    EXPECT_FALSE(first.shared());
    const std::uint8_t* before = longer.data();
    longer.pad(10);
    EXPECT_EQ(longer.data(), before) << "a block of its own";
    longer.pad(5000);
    EXPECT_EQ(longer.size(), 5000U);
    EXPECT_EQ(longer.data()[1], 2);
    EXPECT_EQ(longer.data()[4999], 0);
}

TEST(Packet, BlocksOfEverySizeAreUsedAgain) {
    for (int round = 0; round < 2; ++round)
        for (std::size_t size = 0; size < 5000; size += 13) {
            std::vector<Packet> some;
            for (std::uint8_t n = 0; n < 3; ++n) {
                some.emplace_back(size, 7);
                std::fill_n(some.back().prepend(7), size + 7, n);
            }
            for (std::uint8_t n = 0; n < 3; ++n)
                EXPECT_EQ(contents(some[n]), Buffer(size + 7, n)) << size;
        }
}

} // namespace
} // namespace t3sim
