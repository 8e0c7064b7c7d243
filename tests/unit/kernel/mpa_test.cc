// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// MPA Request and Reply Frames as the driver builds and parses them. The first vectors are the documented
// exchange of two cards.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

extern "C" {
#include "kernel/iw_cxgb3/conn/mpa.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes frame_of(std::string_view key, std::uint8_t flags, std::uint8_t rev, std::uint16_t pd_length,
               std::string_view data = {}) {
    Bytes frame(key.begin(), key.end());
    frame.push_back(flags);
    frame.push_back(rev);
    frame.push_back(pd_length >> 8);
    frame.push_back(pd_length & 0xff);
    frame.insert(frame.end(), data.begin(), data.end());
    return frame;
}

Bytes build(const mpa_startup& frame) {
    Bytes out(MPA_MAX_FRAME_LEN);
    int length = mpa_build(out.data(), out.size(), &frame);
    EXPECT_GE(length, 0);
    out.resize(length < 0 ? 0 : length);
    return out;
}

mpa_status parse(mpa_kind kind, const Bytes& bytes, mpa_startup* out) {
    return mpa_parse(kind, bytes.data(), bytes.size(), out);
}

const std::uint8_t* data_of(std::string_view text) {
    return reinterpret_cast<const std::uint8_t*>(text.data());
}

constexpr std::string_view request_key = "MPA ID Req Frame";
constexpr std::string_view reply_key = "MPA ID Rep Frame";

TEST(MpaBuild, request_with_private_data) {
    mpa_startup frame{};
    frame.kind = MPA_REQUEST;
    frame.rev = MPA_REVISION_1;
    frame.crc = true;
    frame.pdata = data_of("hello");
    frame.pdata_len = 5;
    EXPECT_EQ(build(frame), frame_of(request_key, 0x40, 1, 5, "hello"));
}

TEST(MpaBuild, reply_and_reject) {
    mpa_startup frame{};
    frame.kind = MPA_REPLY;
    frame.rev = MPA_REVISION_1;
    frame.crc = true;
    EXPECT_EQ(build(frame), frame_of(reply_key, 0x40, 1, 0));
    frame.crc = false;
    frame.reject = true;
    EXPECT_EQ(build(frame), frame_of(reply_key, 0x20, 1, 0));
    frame.markers = true;
    EXPECT_EQ(build(frame), frame_of(reply_key, 0xa0, 1, 0));
}

TEST(MpaBuild, enhanced_words) {
    mpa_startup frame{};
    frame.kind = MPA_REQUEST;
    frame.rev = MPA_REVISION_2;
    frame.enhanced = true;
    frame.peer_to_peer = true;
    frame.rtr = MPA_RTR_READ;
    frame.ird = 8;
    frame.ord = 4;
    frame.pdata = data_of("x");
    frame.pdata_len = 1;
    EXPECT_EQ(build(frame), frame_of(request_key, 0x10, 2, 5, std::string_view("\x80\x08\x40\x04x", 5)));
    frame.rtr = MPA_RTR_SEND | MPA_RTR_WRITE;
    frame.pdata_len = 0;
    EXPECT_EQ(build(frame), frame_of(request_key, 0x10, 2, 4, std::string_view("\xc0\x08\x80\x04", 4)));
}

TEST(MpaBuild, private_data_limit) {
    std::string data(256, 'p');
    Bytes out(MPA_MAX_FRAME_LEN + 1);
    mpa_startup frame{};
    frame.kind = MPA_REQUEST;
    frame.rev = MPA_REVISION_1;
    frame.pdata = data_of(data);
    frame.pdata_len = 255;
    EXPECT_EQ(mpa_build(out.data(), out.size(), &frame), 275);
    frame.pdata_len = 256;
    EXPECT_EQ(mpa_build(out.data(), out.size(), &frame), -EINVAL);
}

TEST(MpaBuild, invalid_contents_are_refused) {
    Bytes out(MPA_MAX_FRAME_LEN);
    mpa_startup frame{};
    frame.kind = MPA_REQUEST;
    frame.rev = MPA_REVISION_1;
    frame.enhanced = true;
    EXPECT_EQ(mpa_build(out.data(), out.size(), &frame), -EINVAL);
    frame.enhanced = false;
    frame.reject = true;
    EXPECT_EQ(mpa_build(out.data(), out.size(), &frame), -EINVAL) << "only a reply can reject";
}

TEST(MpaBuild, writes_within_the_buffer) {
    std::string data(255, 'p');
    mpa_startup frame{};
    frame.kind = MPA_REPLY;
    frame.rev = MPA_REVISION_2;
    frame.enhanced = true;
    frame.pdata = data_of(data);
    frame.pdata_len = 255;
    Bytes out(MPA_MAX_FRAME_LEN);
    EXPECT_EQ(mpa_build(out.data(), MPA_MAX_FRAME_LEN, &frame), int(MPA_MAX_FRAME_LEN));
    EXPECT_EQ(mpa_build(out.data(), MPA_MAX_FRAME_LEN - 1, &frame), -ENOSPC);
}

// RFC 6581, sections 8 and 9: layer 2, type 0, codes 6 and 7. The CRCs come from an independent bit-by-bit
// computation.
TEST(MpaBuild, terminate_for_an_unacceptable_reply) {
    Bytes out(MPA_TERMINATE_LEN);
    for (const auto& [code, crc] :
         {std::pair{6, Bytes{0x65, 0x40, 0xfb, 0x1b}}, std::pair{7, Bytes{0x1b, 0xd2, 0xba, 0xbe}}}) {
        ASSERT_EQ(mpa_build_terminate(out.data(), out.size(), code), MPA_TERMINATE_LEN);
        Bytes expected = {0, 22, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x20};
        expected.push_back(code);
        expected.insert(expected.end(), {0, 0});
        expected.insert(expected.end(), crc.begin(), crc.end());
        EXPECT_EQ(out, expected);
    }
    EXPECT_EQ(mpa_build_terminate(out.data(), out.size() - 1, 6), -ENOSPC);
}

TEST(MpaParse, request_fields) {
    mpa_startup out{};
    Bytes bytes = frame_of(request_key, 0xc0, 1, 5, "hello");
    ASSERT_EQ(parse(MPA_REQUEST, bytes, &out), MPA_COMPLETE);
    EXPECT_EQ(out.rev, MPA_REVISION_1);
    EXPECT_TRUE(out.markers);
    EXPECT_TRUE(out.crc);
    EXPECT_FALSE(out.enhanced);
    EXPECT_EQ(out.ird, MPA_V2_DEPTH_NONE);
    EXPECT_EQ(out.ord, MPA_V2_DEPTH_NONE);
    EXPECT_EQ(std::string(out.pdata, out.pdata + out.pdata_len), "hello");
}

TEST(MpaParse, reject_flag_is_ignored_in_a_request) {
    mpa_startup out{};
    ASSERT_EQ(parse(MPA_REPLY, frame_of(reply_key, 0x20, 1, 0), &out), MPA_COMPLETE);
    EXPECT_TRUE(out.reject);
    ASSERT_EQ(parse(MPA_REQUEST, frame_of(request_key, 0x20, 1, 0), &out), MPA_COMPLETE);
    EXPECT_FALSE(out.reject);
}

TEST(MpaParse, reserved_flags_are_ignored) {
    mpa_startup out{};
    EXPECT_EQ(parse(MPA_REQUEST, frame_of(request_key, 0x4f, 1, 0), &out), MPA_COMPLETE);
    EXPECT_EQ(parse(MPA_REQUEST, frame_of(request_key, 0x50, 1, 0), &out), MPA_COMPLETE);
    EXPECT_FALSE(out.enhanced) << "revision 1 does not define S";
}

TEST(MpaParse, enhanced_words_are_not_private_data) {
    mpa_startup out{};
    Bytes bytes = frame_of(request_key, 0x50, 2, 6, std::string_view("\xc0\x10\xbf\xffhi", 6));
    ASSERT_EQ(parse(MPA_REQUEST, bytes, &out), MPA_COMPLETE);
    EXPECT_TRUE(out.enhanced);
    EXPECT_TRUE(out.peer_to_peer);
    EXPECT_EQ(out.rtr, MPA_RTR_SEND | MPA_RTR_WRITE);
    EXPECT_EQ(out.ird, 16);
    EXPECT_EQ(out.ord, MPA_V2_DEPTH_NONE);
    EXPECT_EQ(std::string(out.pdata, out.pdata + out.pdata_len), "hi");
}

TEST(MpaParse, revision_2_without_enhanced_words) {
    mpa_startup out{};
    ASSERT_EQ(parse(MPA_REQUEST, frame_of(request_key, 0x40, 2, 2, "hi"), &out), MPA_COMPLETE);
    EXPECT_FALSE(out.enhanced);
    EXPECT_EQ(out.pdata_len, 2);
}

// E4
TEST(MpaParse, prefixes_are_incomplete_and_excess_is_refused) {
    mpa_startup out{};
    Bytes frame = frame_of(request_key, 0x50, 2, 9, std::string_view("\x00\x01\x00\x01hello", 9));
    for (std::size_t length = 0; length < frame.size(); ++length)
        EXPECT_EQ(mpa_parse(MPA_REQUEST, frame.data(), length, &out), MPA_INCOMPLETE) << length;
    EXPECT_EQ(parse(MPA_REQUEST, frame, &out), MPA_COMPLETE);
    frame.push_back(0);
    EXPECT_EQ(parse(MPA_REQUEST, frame, &out), MPA_EXCESS);
}

// Random bytes, often behind a valid key. Each buffer has exactly the length of its frame, so that the
// sanitizer detects a read beyond the end.
TEST(MpaParse, random_bytes_are_safe) {
    std::mt19937 random(6581);
    std::array<unsigned, MPA_EXCESS + 1> seen{};
    for (unsigned round = 0; round < 4000; ++round) {
        const auto kind = round & 1 ? MPA_REPLY : MPA_REQUEST;
        const auto key = kind == MPA_REQUEST ? request_key : reply_key;
        Bytes bytes(64);
        for (auto& byte : bytes)
            byte = static_cast<std::uint8_t>(random());
        if (round & 2)
            std::copy(key.begin(), key.end(), bytes.begin());
        if (round & 4)
            bytes[17] = 1 + (round & 8) / 8;
        if (round & 16) {
            bytes[18] = 0;
            bytes[19] &= 0x1f;
        }
        const std::size_t length = random() % 65;
        const auto exact = std::make_unique<std::uint8_t[]>(length);
        std::copy_n(bytes.begin(), length, exact.get());
        mpa_startup out{};
        const auto status = mpa_parse(kind, exact.get(), length, &out);
        ASSERT_LE(status, MPA_EXCESS);
        ++seen[status];
        if (status != MPA_COMPLETE)
            continue;
        EXPECT_TRUE(out.rev == MPA_REVISION_2 || (out.rev == MPA_REVISION_1 && !out.enhanced));
        EXPECT_EQ(MPA_HDR_LEN + (out.enhanced ? MPA_ENHANCED_LEN : 0) + out.pdata_len, length);
    }
    EXPECT_THAT(seen, testing::Each(testing::Gt(0u))) << "the rounds must reach each status";
}

TEST(MpaParse, wrong_key_is_refused_at_its_first_byte) {
    mpa_startup out{};
    EXPECT_EQ(parse(MPA_REQUEST, {'G'}, &out), MPA_BAD_KEY);
    EXPECT_EQ(parse(MPA_REQUEST, {'M', 'P', 'A', '_'}, &out), MPA_BAD_KEY);
    EXPECT_EQ(parse(MPA_REQUEST, frame_of(reply_key, 0, 1, 0), &out), MPA_BAD_KEY);
    EXPECT_EQ(parse(MPA_REPLY, frame_of(request_key, 0, 1, 0), &out), MPA_BAD_KEY);
}

struct BadFrame {
    const char* name;
    std::uint8_t flags, rev;
    std::uint16_t pd_length;
    mpa_status status;
};

class MpaParseBad : public testing::TestWithParam<BadFrame> {};

TEST_P(MpaParseBad, status) {
    const BadFrame& bad = GetParam();
    mpa_startup out{};
    EXPECT_EQ(parse(MPA_REQUEST, frame_of(request_key, bad.flags, bad.rev, bad.pd_length), &out), bad.status)
        << mpa_status_name(bad.status);
}

INSTANTIATE_TEST_SUITE_P(Table, MpaParseBad,
                         testing::Values(BadFrame{"revision_0", 0, 0, 0, MPA_BAD_REV},
                                         BadFrame{"revision_3", 0, 3, 0, MPA_BAD_REV},
                                         BadFrame{"just_fits", 0, 1, 255, MPA_INCOMPLETE},
                                         BadFrame{"one_too_long", 0, 1, 256, MPA_PD_TOO_LONG},
                                         BadFrame{"rfc_limit", 0, 1, 512, MPA_PD_TOO_LONG},
                                         BadFrame{"longest", 0, 1, 0xffff, MPA_PD_TOO_LONG},
                                         BadFrame{"enhanced_just_fits", 0x10, 2, 259, MPA_INCOMPLETE},
                                         BadFrame{"enhanced_too_long", 0x10, 2, 260, MPA_PD_TOO_LONG},
                                         BadFrame{"enhanced_missing", 0x10, 2, 0, MPA_BAD_ENHANCED},
                                         BadFrame{"enhanced_cut", 0x10, 2, 3, MPA_BAD_ENHANCED}),
                         [](const auto& info) { return info.param.name; });

// The parser returns what the builder got.
TEST(Mpa, round_trip) {
    std::mt19937 random(20240229);
    std::string data(MPA_MAX_CONSUMER_PD, ' ');
    for (auto& c : data)
        c = static_cast<char>(random());

    for (int i = 0; i < 2000; ++i) {
        mpa_startup in{}, out{};
        in.kind = random() % 2 ? MPA_REPLY : MPA_REQUEST;
        in.rev = random() % 2 ? MPA_REVISION_2 : MPA_REVISION_1;
        in.markers = random() % 2;
        in.crc = random() % 2;
        in.reject = in.kind == MPA_REPLY && random() % 2;
        in.enhanced = in.rev == MPA_REVISION_2 && random() % 2;
        if (in.enhanced) {
            in.peer_to_peer = random() % 2;
            in.rtr = random() % 8;
            in.ird = random() % 0x4000;
            in.ord = random() % 0x4000;
        }
        in.pdata = data_of(data);
        in.pdata_len = random() % (MPA_MAX_CONSUMER_PD + 1);

        Bytes bytes = build(in);
        ASSERT_EQ(parse(in.kind, bytes, &out), MPA_COMPLETE) << i;
        EXPECT_EQ(out.rev, in.rev);
        EXPECT_EQ(out.markers, in.markers);
        EXPECT_EQ(out.crc, in.crc);
        EXPECT_EQ(out.reject, in.reject);
        EXPECT_EQ(out.enhanced, in.enhanced);
        EXPECT_EQ(out.peer_to_peer, in.peer_to_peer);
        EXPECT_EQ(out.rtr, in.rtr);
        if (in.enhanced) {
            EXPECT_EQ(out.ird, in.ird);
            EXPECT_EQ(out.ord, in.ord);
        }
        ASSERT_EQ(out.pdata_len, in.pdata_len);
        EXPECT_EQ(Bytes(out.pdata, out.pdata + out.pdata_len), Bytes(in.pdata, in.pdata + in.pdata_len));
    }
}

} // namespace
