// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/packet.hh"

#include <cstring>

#include <gmock/gmock.h>

#include "sim/core/crc32c.hh"
#include "sim/core/ones_complement.hh"

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

/// A packet with a header of 20 bytes and a payload of @p size bytes, whose CRC and checksum are missing.
Packet without_sums(std::size_t size) {
    Packet packet(size, 64);
    for (std::size_t n = 0; n < size; ++n)
        packet.data()[n] = static_cast<std::uint8_t>(n * n >> 3 ^ n);
    packet.omit_crc();
    std::fill_n(packet.prepend(20), 20, std::uint8_t{0});
    packet.omit_checksum(size);
    return packet;
}

TEST(Packet, WhoReadsItGetsTheSums) {
    for (std::size_t size : {4U, 5U, 24U, 1448U, 4001U}) {
        const Packet packet = without_sums(size);
        const Packet other = packet;
        EXPECT_TRUE(packet.intact());
        EXPECT_TRUE(packet.crc_is_missing(packet.raw().subspan(20)));
        EXPECT_FALSE(packet.crc_is_missing(packet.raw().subspan(21)));
        EXPECT_FALSE(packet.crc_is_missing(packet.raw().subspan(20, size - 1)));
        const Bytes all = packet;
        EXPECT_FALSE(other.intact()) << "for all of the block";
        EXPECT_EQ(be32(&all[all.size() - 4]), __builtin_bswap32(crc32c(all.subspan(20, size - 4))));
        std::uint16_t sum = ones_complement_fold(ones_complement_add(0, all.subspan(20)));
        sum = static_cast<std::uint16_t>(~sum);
        EXPECT_EQ(std::memcmp(&all[16], &sum, sizeof sum), 0);
    }
}

TEST(Packet, PaddingKeepsItIntactUnlessASumIsMissing) {
    Packet packet(4, 40);
    packet.set_intact();
    packet.pad(60);
    EXPECT_TRUE(packet.intact());
    packet = without_sums(8);
    packet.pad(60);
    EXPECT_FALSE(packet.intact());
    EXPECT_EQ(be32(&packet.data()[24]), __builtin_bswap32(crc32c(Bytes(packet).subspan(20, 4))));
}

TEST(Packet, AReusedBlockLacksNothing) {
    without_sums(100) = {};
    EXPECT_FALSE(Packet(100, 64).intact());
}

TEST(Packet, SumsFarBehindTheStartOfTheBlockAreComputedAtOnce) {
    Packet packet = Packet::copy(Buffer(100, 1), 300);
    packet.omit_crc();
    EXPECT_FALSE(packet.crc_is_missing(packet.raw()));
    EXPECT_EQ(be32(packet.raw().data() + 96), __builtin_bswap32(crc32c(Buffer(96, 1))));
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
