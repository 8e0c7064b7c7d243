// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Framing alone: CRC, padding, markers, streams in pieces of any size.
#include <random>

#include <gmock/gmock.h>

#include "sim/card/rnic/ddp.hh"
#include "sim/card/rnic/mpa.hh"
#include "sim/core/crc32c.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

/// ULPDUs and errors as a Deframer delivers them.
struct Received {
    std::vector<Buffer> ulpdus;
    std::vector<MpaError> errors;

    auto sink() {
        return [this](Bytes ulpdu, MpaError error) {
            ulpdus.emplace_back(ulpdu.begin(), ulpdu.end());
            errors.push_back(error);
            return error == MpaError::none;
        };
    }
};

Buffer frame(Framer& framer, Bytes ulpdu) {
    Packet fpdu = Framer::start(ulpdu.size());
    std::copy(ulpdu.begin(), ulpdu.end(), Framer::ulpdu(fpdu).begin());
    const Packet finished = framer.finish(std::move(fpdu));
    return {finished.data(), finished.data() + finished.size()};
}

void append(Buffer& to, Bytes what) {
    to.insert(to.end(), what.begin(), what.end());
}

TEST(Crc32c, OfTheStandards) {
    // RFC 3720 B.4, as sent: least significant byte first.
    EXPECT_EQ(__builtin_bswap32(crc32c(Buffer(32, 0x00))), 0xaa36918aU);
    EXPECT_EQ(__builtin_bswap32(crc32c(Buffer(32, 0xff))), 0x43aba862U);
    Buffer ascending(32);
    for (std::size_t i = 0; i < 32; ++i)
        ascending[i] = static_cast<std::uint8_t>(i);
    EXPECT_EQ(__builtin_bswap32(crc32c(ascending)), 0x4e79dd46U);
    const std::string digits = "123456789"; // not a multiple of the step
    EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(digits.data()), 9}), 0xe3069283U);
}

TEST(Crc32c, InstructionAndTableAgree) {
    Buffer data(1500);
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::uint8_t>(i * i >> 3 ^ i);
    for (std::size_t at = 0; at < 8; ++at)
        for (std::size_t size = 0; size <= data.size() - at; ++size)
            EXPECT_EQ(crc32c(Bytes(data).subspan(at, size)), crc32c_by_table(Bytes(data).subspan(at, size)))
                << size;
    Buffer large(65536 + 7);
    for (std::size_t i = 0; i < large.size(); ++i)
        large[i] = static_cast<std::uint8_t>(i * i >> 5 ^ i >> 3);
    for (std::size_t size = large.size() - 100; size <= large.size(); ++size)
        EXPECT_EQ(crc32c(Bytes(large).first(size)), crc32c_by_table(Bytes(large).first(size))) << size;
}

TEST(Mulpdu, OfTheTable) {
    const struct {
        std::uint32_t emss, plain, markers;
    } rows[] = {{128, 122, 118}, {1448, 1442, 1430}, {1460, 1454, 1442}, {8948, 8942, 8870}};
    for (const auto& row : rows) {
        EXPECT_EQ(mulpdu(row.emss, false), row.plain);
        EXPECT_EQ(mulpdu(row.emss, true), row.markers);
    }
}

TEST(Mulpdu, FitsInASegmentWhereverTheMarkersFall) {
    for (std::uint32_t emss = 136; emss < 3000; emss += 7) {
        Framer framer({.markers = true});
        const Buffer ulpdu(mulpdu(emss, true));
        for (int i = 0; i < 20; ++i)
            ASSERT_LE(frame(framer, ulpdu).size(), emss) << i;
    }
}

TEST(Framer, PadsToFourBytes) {
    const char* const fpdus[] = {"00000000 00000000", "0001aa00 00000000", "0002aaaa 00000000",
                                 "0003aaaa aa000000 00000000"};
    for (std::size_t size = 0; size < 4; ++size) {
        Framer framer({.crc = false});
        EXPECT_EQ(SgeRecord::hex(frame(framer, Buffer(size, 0xaa))), fpdus[size]);
    }
}

TEST(Framer, PutsMarkersEvery512Bytes) {
    Framer framer({.markers = true, .crc = false});
    Buffer stream;
    append(stream, frame(framer, Buffer(600, 0xaa)));
    append(stream, frame(framer, Buffer(402, 0xbb)));
    append(stream, frame(framer, Buffer(10, 0xcc)));
    EXPECT_EQ(SgeRecord::hex(Bytes(stream).first(8)), "00000000 0258aaaa"); // distance 0, then the length
    EXPECT_EQ(be32(&stream[512]), 508U);                                    // back to the length at 4
    // First FPDU: 4 + 2 + 600 + 2 + 4 + 4 bytes; second: from 616 to 1024 exactly, with no marker inside.
    EXPECT_EQ(be16(&stream[616]), 402);
    EXPECT_EQ(be32(&stream[1024]), 0U); // the marker before a length field belongs to that FPDU
    EXPECT_EQ(be16(&stream[1028]), 10);
}

TEST(Framer, MarkerBetweenPaddingAndCrcBelongsToTheFpduThatEnds) {
    Framer framer({.markers = true});
    // 4 marker + 2 + 506 = 512: then a marker, then the CRC.
    const Buffer fpdu = frame(framer, Buffer(506, 0x55));
    ASSERT_EQ(fpdu.size(), 520U);
    EXPECT_EQ(be32(&fpdu[512]), 508U);
    Received received;
    Deframer({.markers = true}).feed(fpdu, received.sink());
    EXPECT_THAT(received.errors, testing::ElementsAre(MpaError::none));
}

TEST(Framer, FpdusOfTheManual) { // docs/hw/test-vectors.md 5
    const struct {
        const char* what;
        const char* fpdu;
        hw::RdmaOp op;
    } rows[] = {
        {"SEND abcd", "00164143 00000000 00000000 00000001 00000000 61626364 71644d92", hw::RdmaOp::send},
        {"SEND solicited", "00124145 00000000 00000000 00000002 00000000 9f746d49", hw::RdmaOp::send_se},
        {"SEND with invalidate", "00124144 001234ff 00000000 00000003 00000000 7d571526",
         hw::RdmaOp::send_inv},
        {"WRITE hello", "0013c140 00abcdff 00000000 00001000 68656c6c 6f000000 8e1de641", hw::RdmaOp::write},
        {"ready-to-receive read",
         "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000001 00000000 00000001 00000000 "
         "00000001 7b84584a",
         hw::RdmaOp::read_request},
        {"its response", "000ec142 00000001 00000000 00000001 222083cc", hw::RdmaOp::read_response},
        {"TERMINATE", "00164147 00000000 00000002 00000001 00000000 01020000 4c5a458f",
         hw::RdmaOp::terminate},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.what);
        Received received;
        Deframer({}).feed(from_hex(row.fpdu), received.sink());
        ASSERT_THAT(received.errors, testing::ElementsAre(MpaError::none));
        Buffer& ulpdu = received.ulpdus[0];
        DdpSegment segment;
        EXPECT_EQ(parse_segment(ulpdu, MpaError::none, &segment), hw::Status::success);
        EXPECT_EQ(segment.op, row.op);
        std::fill_n(ulpdu.begin(), ddp_header_size(segment.op), 0xee);
        write_header(ulpdu.data(), segment);
        Framer framer({});
        EXPECT_EQ(SgeRecord::hex(frame(framer, ulpdu)), row.fpdu);
    }
}

class RoundTrip : public testing::TestWithParam<std::tuple<bool, bool>> {};

// E4
TEST_P(RoundTrip, AnySizesInAnyPieces) {
    const MpaOptions options{.markers = std::get<0>(GetParam()), .crc = std::get<1>(GetParam())};
    std::mt19937 random(20260101);
    for (int round = 0; round < 60; ++round) {
        Framer framer(options);
        std::vector<Buffer> sent;
        Buffer stream;
        for (int i = 0; i < 30; ++i) {
            sent.push_back(pattern(random() % (round % 3 ? 700 : 5000), random()));
            append(stream, frame(framer, sent.back()));
        }
        Deframer deframer(options);
        Received received;
        const std::size_t largest = 1 + random() % (round % 2 ? 10 : 3000);
        for (Bytes left = stream; !left.empty();) {
            const std::size_t cut = std::min<std::size_t>(left.size(), 1 + random() % largest);
            deframer.feed(left.first(cut), received.sink());
            left = left.subspan(cut);
        }
        ASSERT_EQ(received.ulpdus, sent) << "round " << round;
        ASSERT_FALSE(deframer.inside_fpdu());
    }
}

INSTANTIATE_TEST_SUITE_P(Mpa, RoundTrip, testing::Combine(testing::Bool(), testing::Bool()));

TEST(Deframer, DetectsEveryWrongBit) {
    for (const bool markers : {false, true}) {
        Framer framer({.markers = markers});
        const Buffer good = frame(framer, pattern(700));
        for (std::size_t bit = 0; bit < 8 * good.size(); bit += 3) {
            Buffer bad = good;
            bad[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
            bad.resize(70000); // a wrong length may require more data
            Received received;
            Deframer({.markers = markers}).feed(bad, received.sink());
            ASSERT_EQ(received.errors.size(), 1U);
            ASSERT_NE(received.errors[0], MpaError::none) << "bit " << bit;
        }
    }
}

TEST(Deframer, DistinguishesMarkersFromCrc) {
    Framer framer({.markers = true});
    Buffer fpdu = frame(framer, pattern(700));
    Received received;
    fpdu[515] ^= 4; // in the second marker's distance
    Deframer({.markers = true}).feed(fpdu, received.sink());
    fpdu[515] ^= 4;
    fpdu[600] ^= 4;
    Deframer({.markers = true}).feed(fpdu, received.sink());
    EXPECT_THAT(received.errors, testing::ElementsAre(MpaError::marker, MpaError::crc));
}

TEST(Deframer, WithoutCrcIgnoresIt) {
    Framer framer({.crc = false});
    Buffer fpdu = frame(framer, pattern(9));
    fpdu.back() = 0x77;
    Received received;
    Deframer({.crc = false}).feed(fpdu, received.sink());
    EXPECT_THAT(received.errors, testing::ElementsAre(MpaError::none));
}

TEST(Deframer, StopsAfterARefusal) {
    Framer framer({});
    Buffer stream = frame(framer, pattern(20));
    stream.back() ^= 1;
    append(stream, frame(framer, pattern(20)));
    append(stream, pattern(3));
    Received received;
    Deframer deframer({});
    deframer.feed(stream, received.sink());
    EXPECT_EQ(received.ulpdus.size(), 1U);
    EXPECT_FALSE(deframer.inside_fpdu());
}

TEST(Deframer, DetectsATruncatedFpdu) {
    Framer framer({});
    const Buffer fpdu = frame(framer, pattern(20));
    for (std::size_t size = 0; size <= fpdu.size(); ++size) {
        Received received;
        Deframer deframer({});
        deframer.feed(Bytes(fpdu).first(size), received.sink());
        EXPECT_EQ(deframer.inside_fpdu(), size != 0 && size != fpdu.size()) << size;
    }
}

TEST(Deframer, StartsAwayFromTheMarkerOrigin) {
    Framer framer({.markers = true});
    const Buffer first = frame(framer, pattern(90));
    const Buffer second = frame(framer, pattern(900));
    Received received;
    Deframer({.markers = true}, static_cast<std::uint32_t>(first.size())).feed(second, received.sink());
    EXPECT_THAT(received.errors, testing::ElementsAre(MpaError::none));
    EXPECT_EQ(received.ulpdus[0], pattern(900));
}

} // namespace
} // namespace t3sim::test
