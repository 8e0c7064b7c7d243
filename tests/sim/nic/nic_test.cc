// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Frames through a complete card: filters, counters, checksums, segmentation, VLAN tags, RSS; and memory
// writes of the control QP down to the card's memory, as in docs/hw/test-vectors.md 1.
#include <numeric>

#include "sim/card/nic/mac.hh"
#include "sim/net/wire.hh"
#include "tests/sim/nic/card_fixture.hh"
#include "tests/sim/nic/rings.hh"

namespace t3sim::test {

namespace {

constexpr std::uint32_t whole_packet = hw::wr::sop | hw::wr::eop;
constexpr std::uint32_t port1 = reg::xgm_stride;

/// RFC 1071, a simple reference implementation.
std::uint16_t internet_sum(Bytes bytes, std::uint32_t sum = 0) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
        sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

std::uint16_t l4_sum(Bytes ip_packet) {
    const std::size_t header = (ip_packet[0] & 0xf) * 4U;
    const auto length = static_cast<std::uint32_t>(ip_packet.size() - header);
    const std::uint32_t pseudo = internet_sum(ip_packet.subspan(12, 8)) + ip_packet[9] + length;
    return internet_sum(ip_packet.subspan(header), pseudo);
}

/// An Ethernet frame with an IPv4 packet whose checksums are right.
Buffer ip_frame(std::uint8_t protocol, std::size_t payload, std::uint16_t source_port = 1000) {
    const std::size_t l4 = protocol == 6 ? 20 : 8;
    Buffer f(14 + 20 + l4 + payload);
    const std::uint8_t head[] = {0x00, 0x07, 0x43, 0x11, 0x22, 0x00, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45};
    std::copy(std::begin(head), std::end(head), f.begin());
    put_be16(&f[16], static_cast<std::uint16_t>(f.size() - 14));
    put_be16(&f[18], 0xabcd);
    f[22] = 64;
    f[23] = protocol;
    put_be32(&f[26], 0x0a000001);
    put_be32(&f[30], 0x0a000002);
    put_be16(&f[34], source_port);
    put_be16(&f[36], 80);
    std::iota(f.begin() + 34 + static_cast<std::ptrdiff_t>(l4), f.end(), std::uint8_t{1});
    if (protocol == 6) {
        put_be32(&f[38], 0xfffffff0); // sequence number, about to wrap
        f[46] = 0x50;
        f[47] = 0x99; // CWR, ACK, PSH, FIN
    } else {
        put_be16(&f[38], static_cast<std::uint16_t>(l4 + payload));
    }
    put_be16(&f[24], static_cast<std::uint16_t>(~internet_sum(Bytes(f).subspan(14, 20))));
    const std::size_t at = protocol == 6 ? 50 : 40;
    put_be16(&f[at], static_cast<std::uint16_t>(~l4_sum(Bytes(f).subspan(14))));
    return f;
}

Buffer with_tag(Buffer f, std::uint16_t tci) {
    const std::uint8_t tag[] = {0x81, 0x00, static_cast<std::uint8_t>(tci >> 8),
                                static_cast<std::uint8_t>(tci)};
    f.insert(f.begin() + 12, std::begin(tag), std::end(tag));
    return f;
}

} // namespace

class NicPath : public CardTest {
protected:
    NicPath() {
        for (unsigned qs = 0; qs < 2; ++qs) {
            const std::uint32_t write = hw::context_cmd::write << 28;
            context(write | hw::context_cmd::response_queue | qs, rq[qs].context(qs + 1, 1984));
            context(write | hw::context_cmd::free_list | 2 * qs, fl0[qs].context());
            context(write | hw::context_cmd::free_list | (2 * qs + 1), fl1[qs].context());
            context(write | hw::context_cmd::egress | (8 + qs),
                    eth[qs].context(hw::EgressType::ethernet, 65544 + qs, qs));
            context(write | hw::context_cmd::egress | (65528 + qs),
                    control[qs].context(hw::EgressType::control, 65536 + qs, qs));
        }
        // RSS as the driver sets it up for two ports with one queue set each.
        for (std::uint32_t i = 0; i < 64; ++i) {
            this->write(reg::TP_RSS_LKP_TABLE, i << 16 | (2 * i + 1) % 8 << 8 | 2 * i % 8);
            this->write(reg::TP_RSS_MAP_TABLE, i << 16 | (i < 32 ? 0 : 1));
        }
        this->write(reg::SG_CONTROL, 0x3952ca87);
        for (std::uint32_t qs = 0; qs < 2; ++qs) {
            this->write(reg::SG_RSPQ_CREDIT_RETURN, qs << 29 | 255);
            this->write(reg::SG_GTS, qs << 29 | 50 << 16);
            for (unsigned n = 0; n < 32; ++n) {
                buffers[qs].push_back(fl0[qs].add());
                fl1[qs].add();
            }
        }
        for (std::uint32_t port : {0U, port1}) {
            this->write(reg::XGM_RX_CFG + port, 0x3c4);
            this->write(reg::XGM_RX_MAX_PKT_SIZE + port, 0x50005dc + 14);
            this->write(reg::XGM_RX_EXACT_MATCH_LOW_1 + port, 0x11430700);
            this->write(reg::XGM_RX_EXACT_MATCH_HIGH_1 + port, port == 0 ? 0x0022 : 0x0122);
            this->write(reg::XGM_TX_CTRL + port, 1);
            this->write(reg::XGM_RX_CTRL + port, 1);
        }
        this->write(reg::TP_IN_CONFIG, 1 << 14);
        this->write(reg::TP_OUT_CONFIG, 3 << 12);
    }

    struct Received {
        Response response;
        Buffer cpl, frame;
    };
    /// Sends a frame into port @p port; returns what its queue set's first free list received.
    std::optional<Received> receive(const Buffer& frame, unsigned port = 0) {
        card.port(port).frame_in(frame);
        auto r = rq[port].next();
        if (!r)
            return std::nullopt;
        const Bytes data = host.bytes(buffers[port].at(used[port]++), r->length());
        Received got{*r, Buffer(data.begin() + 2, data.begin() + 10), Buffer(data.begin() + 10, data.end())};
        return got;
    }
    bool accepted(std::initializer_list<std::uint8_t> destination, unsigned port = 0, std::size_t size = 64) {
        Buffer f(size);
        std::copy(destination.begin(), destination.end(), f.begin());
        put_be16(&f[12], 0x88b5);
        return receive(f, port).has_value();
    }

    /// CPL_TX_PKT with the frame in an SGL of one piece.
    void transmit(const Buffer& f, std::uint32_t control_word,
                  std::initializer_list<std::uint32_t> lso = {}) {
        const std::uint64_t at = host.alloc(f.size());
        host.put(at, f);
        const std::uint32_t header = lso.size() == 0 ? 2 : 3;
        std::vector<std::uint32_t> d{0x03 << 24 | whole_packet | hw::wr::sgl | header << 8, header + 2,
                                     control_word, static_cast<std::uint32_t>(f.size())};
        d.insert(d.end(), lso.begin(), lso.end());
        d.insert(d.end(), {static_cast<std::uint32_t>(f.size()), 0, static_cast<std::uint32_t>(at >> 32),
                           static_cast<std::uint32_t>(at)});
        Buffer flits(d.size() * 4);
        for (std::size_t i = 0; i < d.size(); ++i)
            put_be32(&flits[4 * i], d[i]);
        eth[0].post(flits);
        write(reg::SG_KDOORBELL, 0x80000008);
    }

    static constexpr std::uint32_t tx_pkt = 0x0e000000, tx_lso = 0x16000000;
    static constexpr std::uint32_t no_csum = hw::cpl::tx_ip_csum_off | hw::cpl::tx_l4_csum_off;

    ResponseRing rq[2] = {{host, 256}, {host, 256}};
    FreeList fl0[2] = {{host, 64, 1984}, {host, 64, 1984}};
    FreeList fl1[2] = {{host, 64, 8128}, {host, 64, 8128}};
    EgressRing eth[2] = {{host, 64}, {host, 64}}, control[2] = {{host, 64}, {host, 64}};
    std::vector<std::uint64_t> buffers[2];
    std::size_t used[2] = {};
};

// --- Filters
// -------------------------------------------------------------------------------------------------

TEST_F(NicPath, AddressFilters) {
    EXPECT_TRUE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}));
    EXPECT_FALSE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x01})) << "the other port's address";
    EXPECT_TRUE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x01}, 1));
    EXPECT_TRUE(accepted({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
    EXPECT_FALSE(accepted({0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}));
    write(reg::XGM_RX_CFG, 0x3c4 | 2);
    EXPECT_FALSE(accepted({0xff, 0xff, 0xff, 0xff, 0xff, 0xff})) << "DISBCAST";
    write(reg::XGM_RX_CFG, 0x3c4 | 1);
    EXPECT_TRUE(accepted({0x02, 0, 0, 0, 0, 9})) << "COPYALLFRAMES";
    write(reg::XGM_RX_CTRL, 0);
    EXPECT_FALSE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}));
    EXPECT_EQ(card.counters().value("mac0.rx_disabled"), 1U);
}

TEST_F(NicPath, FilterIsDisarmedByLowAndArmedByHigh) {
    write(reg::XGM_RX_EXACT_MATCH_LOW_1, read(reg::XGM_RX_EXACT_MATCH_LOW_1));
    EXPECT_FALSE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}));
    write(reg::XGM_RX_EXACT_MATCH_HIGH_1, read(reg::XGM_RX_EXACT_MATCH_HIGH_1));
    EXPECT_TRUE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}));
    write(reg::XGM_RX_EXACT_MATCH_LOW_8, 0x005e0001);
    write(reg::XGM_RX_EXACT_MATCH_HIGH_8, 0x0100);
    EXPECT_TRUE(accepted({0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}));
}

TEST_F(NicPath, MulticastHash) {
    // 01:00:5e:00:00:01 sets address bits 0, 17, 18, 19, 20, 22 and 40: modulo 6 these are 0, 5, 0, 1, 2,
    // 4, 4.
    const unsigned hash = 1U << 5 | 1U << 1 | 1U << 2;
    ASSERT_GE(hash, 32U);
    write(reg::XGM_RX_HASH_HIGH, 1U << (hash - 32));
    EXPECT_TRUE(accepted({0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}));
    write(reg::XGM_RX_HASH_HIGH, ~(1U << (hash - 32)));
    write(reg::XGM_RX_HASH_LOW, ~0U);
    EXPECT_FALSE(accepted({0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}));
    write(reg::XGM_RX_CFG, 0x3c0);
    write(reg::XGM_RX_HASH_HIGH, ~0U);
    EXPECT_FALSE(accepted({0x01, 0x00, 0x5e, 0x00, 0x00, 0x01})) << "the hash is off";
}

TEST_F(NicPath, LongFrames) {
    EXPECT_TRUE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}, 0, 1514));
    EXPECT_TRUE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}, 0, 1518)) << "the 1536-byte rule";
    EXPECT_FALSE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}, 0, 1537));
    EXPECT_EQ(read(reg::XGM_RX_MAX_PKT_SIZE_ERR_CNT), 1U);
    EXPECT_EQ(read(reg::XGM_RX_MAX_PKT_SIZE_ERR_CNT), 0U);
    card.port(0).frame_in(Buffer(13));
    EXPECT_EQ(card.counters().value("mac0.rx_malformed"), 1U);
}

// --- Counters
// ------------------------------------------------------------------------------------------------

TEST_F(NicPath, CountersClearOnRead) {
    for (std::size_t size : {60U, 61U, 123U, 124U, 1514U})
        receive([&] {
            Buffer f(size);
            std::copy(mac0.begin(), mac0.end(), f.begin());
            put_be16(&f[12], 0x88b5);
            return f;
        }());
    accepted({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 0, 300);
    EXPECT_EQ(read(reg::XGM_STAT_RX_FRAMES_LOW), 6U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_FRAMES_LOW), 0U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_BYTES_LOW), 60U + 61 + 123 + 124 + 1514 + 300 + 6 * 4);
    EXPECT_EQ(read(reg::XGM_STAT_RX_64B_FRAMES), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_65_127B_FRAMES), 2U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_128_255B_FRAMES), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_256_511B_FRAMES), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_1024_1518B_FRAMES), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_BCAST_FRAMES), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_RX_MCAST_FRAMES), 0U);

    transmit(Buffer(60, 3), tx_pkt | no_csum);
    transmit(Buffer(60, 3), tx_pkt | no_csum);
    write(reg::XGM_STAT_CTRL, 4);
    EXPECT_EQ(read(reg::XGM_STAT_CTRL), 0U);
    transmit(Buffer(60, 3), tx_pkt | no_csum);
    EXPECT_EQ(read(reg::XGM_STAT_TX_FRAME_LOW), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_TX_BYTE_LOW), 64U);
    EXPECT_EQ(read(reg::XGM_STAT_TX_MCAST), 1U);
    EXPECT_EQ(read(reg::XGM_STAT_TX_FRAME_LOW + port1), 0U);
}

TEST_F(NicPath, CongestionIsInTheMib) {
    write(reg::TP_MIB_INDEX, 51);
    EXPECT_EQ(read(reg::TP_MIB_RDATA), 0U);
    for (unsigned n = 0; n < 40; ++n)
        card.port(1).frame_in([] {
            Buffer f(60);
            std::fill_n(f.begin(), 6, 0xff);
            return f;
        }());
    EXPECT_EQ(read(reg::TP_MIB_RDATA), 8U) << "32 buffers, 40 frames";
    EXPECT_EQ(read(reg::TP_MIB_RDATA), 8U) << "not cleared by reading";
    EXPECT_EQ(read(reg::SG_RSPQ_FL_STATUS), 1U << 18);
}

// --- Receive
// -------------------------------------------------------------------------------------------------

TEST_F(NicPath, ChecksumsAreChecked) {
    for (std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
        Buffer f = ip_frame(protocol, 101);
        auto got = receive(f);
        ASSERT_TRUE(got);
        EXPECT_EQ(words(got->cpl), protocol == 6 ? "2b10ffff 0000009b" : "2b10ffff 0000008f");
        EXPECT_EQ(got->frame, f);
        f.back() ^= 1;
        got = receive(f);
        ASSERT_TRUE(got);
        EXPECT_EQ(got->cpl[1], 0) << "wrong: left to the stack";
    }
    Buffer f = ip_frame(17, 50);
    put_be16(&f[40], 0);
    EXPECT_EQ(receive(f)->cpl[1], 0) << "UDP without checksum";
    f = ip_frame(6, 50);
    put_be16(&f[20], 0x2000); // more fragments
    EXPECT_EQ(receive(f)->cpl[1], 0x80);
    f = ip_frame(6, 50);
    put_be16(&f[16], 5000); // longer than the frame
    EXPECT_EQ(receive(f)->cpl[1], 0);
    f = ip_frame(6, 1);
    f.resize(60); // padded: the pad is no part of the segment
    EXPECT_EQ(receive(f)->cpl[1], 0x10);
}

TEST_F(NicPath, TagIsExtracted) {
    const Buffer plain = ip_frame(17, 40);
    auto got = receive(with_tag(plain, 0x6123));
    ASSERT_TRUE(got);
    EXPECT_EQ(words(got->cpl), "2b50ffff 61230052");
    EXPECT_EQ(got->frame, plain);
    write(reg::TP_OUT_CONFIG, 2 << 12);
    got = receive(with_tag(plain, 0x6123));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->cpl[1], 0x10) << "extraction is off for port 0";
    EXPECT_EQ(got->frame, with_tag(plain, 0x6123));
}

TEST_F(NicPath, PortSelectsTheQueue) {
    Buffer f = ip_frame(6, 10);
    const auto zero = receive(f);
    ASSERT_TRUE(zero);
    EXPECT_EQ(zero->response.bytes[1] >> 6, 2) << "4-tuple hash";
    EXPECT_EQ(zero->cpl[1] & 0xf, 0);
    f[5] = 1;
    const auto one = receive(f, 1);
    ASSERT_TRUE(one);
    EXPECT_EQ(one->cpl[1] & 0xf, 1);
    EXPECT_EQ(be16(&one->response.bytes[2]), 1U);
    EXPECT_EQ(be32(&zero->response.bytes[4]), be32(&one->response.bytes[4])) << "one flow, one hash";
    EXPECT_EQ(host.irqs[1], 1U);
    EXPECT_EQ(host.irqs[2], 1U);
}

TEST_F(NicPath, ToeplitzHashOfTheSpecification) {
    // The verification suite of Microsoft's RSS specification, IPv4 with TCP: 66.9.149.187:2794 ->
    // 161.142.100.80:1766.
    Buffer f = ip_frame(6, 0, 2794);
    put_be32(&f[26], 0x420995bb);
    put_be32(&f[30], 0xa18e6450);
    put_be16(&f[36], 1766);
    EXPECT_EQ(be32(&receive(f)->response.bytes[4]), 0x51ccc178U);
    f[23] = 17; // by addresses only
    EXPECT_EQ(be32(&receive(f)->response.bytes[4]), 0x323e8fc2U);
}

// --- Transmit
// ------------------------------------------------------------------------------------------------

TEST_F(NicPath, ChecksumsAreFilledIn) {
    for (std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
        const Buffer right = ip_frame(protocol, 77);
        Buffer f = right;
        put_be16(&f[protocol == 6 ? 50 : 40], 0x1234); // the host leaves a pseudo-header sum there
        links[0].sent.clear();
        transmit(f, tx_pkt | hw::cpl::tx_ip_csum_off);
        ASSERT_EQ(links[0].sent.size(), 1U);
        EXPECT_EQ(links[0].sent[0], right);
        put_be16(&f[24], 0);
        transmit(f, tx_pkt);
        EXPECT_EQ(links[0].sent[1], right) << "IP header checksum too";
        transmit(f, tx_pkt | no_csum);
        EXPECT_EQ(links[0].sent[2], f) << "unchanged";
        links[0].sent.clear();
        transmit(with_tag(f, 7), tx_pkt);
        EXPECT_EQ(links[0].sent[0], with_tag(right, 7)) << "after a tag";
    }
}

TEST_F(NicPath, UdpChecksumIsNeverZero) {
    Buffer f = ip_frame(17, 2);
    put_be16(&f[42], 0);
    // Makes the sum without checksum all ones, so that the checksum would be 0.
    put_be16(&f[40], 0);
    put_be16(&f[42], static_cast<std::uint16_t>(~l4_sum(Bytes(f).subspan(14))));
    transmit(f, tx_pkt | hw::cpl::tx_ip_csum_off);
    EXPECT_EQ(be16(&links[0].sent.at(0)[40]), 0xffff);
}

TEST_F(NicPath, TagPortAndPadding) {
    transmit(Buffer(40, 2), tx_pkt | no_csum | hw::cpl::tx_vlan_valid | 0x2064 | 1 << 16);
    ASSERT_EQ(links[1].sent.size(), 1U);
    Buffer expected = with_tag(Buffer(40, 2), 0x2064);
    expected.resize(60);
    EXPECT_EQ(links[1].sent[0], expected);
    EXPECT_TRUE(links[0].sent.empty());
}

TEST_F(NicPath, DisabledMacSendsNothing) {
    write(reg::XGM_TXFIFO_CFG, 1 << 21); // ENDROPPKT
    transmit(Buffer(60, 2), tx_pkt | no_csum);
    write(reg::XGM_TXFIFO_CFG, 0);
    write(reg::XGM_TX_CTRL, 0);
    transmit(Buffer(60, 2), tx_pkt | no_csum);
    EXPECT_TRUE(links[0].sent.empty());
    EXPECT_EQ(card.counters().value("mac0.tx_dropped"), 2U);
    EXPECT_EQ(read(reg::XGM_STAT_TX_FRAME_LOW), 0U);
}

TEST_F(NicPath, MalformedRequestsAreDropped) {
    transmit(Buffer(13, 2), tx_pkt | no_csum);                         // shorter than a header
    transmit(Buffer(60, 2), tx_pkt | no_csum | 2 << 16);               // no such port
    transmit(Buffer(60, 2), 0x2b000000 | no_csum);                     // not for sending
    transmit(Buffer(60, 2), tx_lso, {0, 5U << 20 | 5U << 16});         // MSS 0
    transmit(Buffer(60, 2), tx_lso, {0, 15U << 20 | 15U << 16 | 100}); // headers longer than the frame
    transmit(Buffer(90, 2), tx_lso, {0, 4U << 20 | 5U << 16 | 100});   // IP header too short
    EXPECT_TRUE(links[0].sent.empty());
    EXPECT_EQ(card.counters().value("nic.tx_malformed"), 6U);
    transmit(Buffer(60, 2), tx_pkt | no_csum);
    EXPECT_EQ(links[0].sent.size(), 1U) << "the next frame is sent";
}

TEST_F(NicPath, SegmentationByteByByte) {
    constexpr std::size_t mss = 100, payload = 250;
    const Buffer large = ip_frame(6, payload);
    for (bool tag : {false, true}) {
        links[0].sent.clear();
        transmit(large, tx_lso | (tag ? hw::cpl::tx_vlan_valid | 0x0aaa : 0), {0, 5U << 20 | 5U << 16 | mss});
        ASSERT_EQ(links[0].sent.size(), 3U);
        for (std::size_t n = 0; n < 3; ++n) {
            const std::size_t part = n == 2 ? 50 : mss;
            // Expected segment, with the headers of the large one.
            Buffer want(large.begin(), large.begin() + 54);
            want.insert(want.end(), large.begin() + 54 + static_cast<std::ptrdiff_t>(n * mss),
                        large.begin() + 54 + static_cast<std::ptrdiff_t>(n * mss + part));
            put_be16(&want[16], static_cast<std::uint16_t>(40 + part));
            put_be16(&want[18], static_cast<std::uint16_t>(0xabcd + n));
            put_be32(&want[38], 0xfffffff0U + static_cast<std::uint32_t>(n * mss));
            want[47] = n == 0 ? 0x90 : n == 1 ? 0x10 : 0x19; // CWR first, PSH and FIN last
            put_be16(&want[24], 0);
            put_be16(&want[24], static_cast<std::uint16_t>(~internet_sum(Bytes(want).subspan(14, 20))));
            put_be16(&want[50], 0);
            put_be16(&want[50], static_cast<std::uint16_t>(~l4_sum(Bytes(want).subspan(14))));
            EXPECT_EQ(links[0].sent[n], tag ? with_tag(want, 0x0aaa) : want) << "segment " << n;
        }
    }
    EXPECT_EQ(card.counters().value("nic.tx_lso"), 2U);
}

TEST_F(NicPath, SegmentationBehindATagInTheFrame) {
    transmit(with_tag(ip_frame(6, 150), 5), tx_lso, {0, 5U << 20 | 5U << 16 | 1U << 14 | 100});
    ASSERT_EQ(links[0].sent.size(), 2U);
    EXPECT_EQ(be16(&links[0].sent[1][12]), 0x8100);
    EXPECT_EQ(be16(&links[0].sent[1][20]), 90) << "IP length of the second segment";
}

/// Unsent segments of a request wait in the request, not on the wire. No segment is shorter than the smallest
/// MTU of the tables allows; otherwise one descriptor could produce a quarter of a million frames.
TEST_F(NicPath, SegmentsAreBuiltAsTheWireAcceptsThem) {
    struct End : Endpoint {
        void frame_in(Bytes frame) override { sizes.push_back(frame.size()); }
        void carrier(bool) override {}
        std::vector<std::size_t> sizes;
    } end;
    Wire wire(events, "w");
    card.connect(0, wire);
    wire.attach(card.port(0), "card");
    wire.attach(end, "end");

    constexpr std::size_t payload = 60'000, smallest = 88 - 40;
    transmit(ip_frame(6, payload), tx_lso, {0, 5U << 20 | 5U << 16 | 1});
    EXPECT_LE(wire.in_flight(0), Wire::send_limit + 2000);
    // The next request of the ring waits for the first; the other port waits for neither.
    transmit(Buffer(100, 2), tx_pkt | hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off);
    transmit(Buffer(70, 2), tx_pkt | 1U << 16 | hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off);
    EXPECT_LE(wire.in_flight(0), Wire::send_limit + 2000);

    events.advance(events.now());
    ASSERT_EQ(end.sizes.size(), payload / smallest + 1);
    EXPECT_TRUE(std::all_of(end.sizes.begin(), end.sizes.end() - 1,
                            [](std::size_t size) { return size == 14 + 40 + smallest; }));
    EXPECT_EQ(end.sizes.back(), 100U) << "in the order of the ring";
    EXPECT_EQ(links[1].sent.size(), 1U);
    EXPECT_EQ(wire.in_flight(0), 0U);
    EXPECT_EQ(wire.statistics().lost_full, 0U);
}

/// A MAC that is off, or has no wire, is never full.
TEST_F(NicPath, OneEventLosesALimitedNumberOfFrames) {
    constexpr std::size_t payload = 60'000, smallest = 88 - 40;
    const auto dropped = [&] { return card.counters().value("mac0.tx_dropped"); };
    write(reg::XGM_TX_CTRL, 0);
    transmit(ip_frame(6, payload), tx_lso, {0, 5U << 20 | 5U << 16 | 1});
    EXPECT_LE(dropped(), Mac::dropped_at_a_time);
    transmit(Buffer(60, 2), tx_pkt | no_csum);
    for (bool more = true; more;) {
        const std::uint64_t before = dropped();
        bool first = true;
        more = events.run_due(events.now(), [&] { return std::exchange(first, false); });
        EXPECT_LE(dropped() - before, Mac::dropped_at_a_time);
    }
    EXPECT_EQ(dropped(), payload / smallest + 1);
}

/// Options do not make the payload of a segment shorter.
TEST_F(NicPath, LongHeadersMakeNoShortSegments) {
    constexpr std::size_t headers = 60 + 60, payload = 60'000, smallest = 88 - 40;
    transmit(Buffer(14 + headers + payload, 2), tx_lso, {0, 15U << 20 | 15U << 16 | 1});
    ASSERT_EQ(links[0].sent.size(), payload / smallest);
    EXPECT_TRUE(std::all_of(links[0].sent.begin(), links[0].sent.end(),
                            [](const auto& frame) { return frame.size() == 14 + headers + smallest; }));
}

// --- Reset
// ---------------------------------------------------------------------------------------------------

TEST_F(NicPath, ChipResetStopsTheCard) {
    write(reg::PL_RST, 3);
    const auto writes = host.writes;
    EXPECT_FALSE(accepted({0x00, 0x07, 0x43, 0x11, 0x22, 0x00}));
    eth[0].post({0x03 << 24 | whole_packet, 4, tx_pkt, 16, 0, 0, 0, 0});
    write(reg::SG_KDOORBELL, 0x80000008);
    write(reg::SG_GTS, 0);
    events.advance(10'000'000);
    EXPECT_EQ(host.writes, writes);
    EXPECT_TRUE(links[0].sent.empty());
}

// --- The control QP: worked example of a registration
// --------------------------------------------------------

TEST_F(NicPath, RegistrationOfTheWorkedExample) {
    write(reg::ULPTX_TPT_LLIMIT, 0x05000000);
    write(reg::ULPTX_TPT_ULIMIT, 0x05ffffff);
    write(reg::ULPTX_PBL_LLIMIT, 0x07000000);
    write(reg::ULPTX_PBL_ULIMIT, 0x07ffffff);
    context(hw::context_cmd::write << 28 | hw::context_cmd::cq | 0, {1 << 16, 0, 3U << 30 | 1 << 29, 0});

    // MODIFY_QP: "write egress context" of 65527.
    EgressRing qp{host, 256};
    const auto page = static_cast<std::uint32_t>(qp.base >> 12);
    control[0].post({0x1b000000 | whole_packet, 0x01000007, 0, 0, 8, 0, 0, 0, 0x03000000, 0x00fff703, //
                     0x88008400, page >> 16, page << 16 | 256, 16});
    write(reg::SG_KDOORBELL, 0x80000000 | 65528);
    EXPECT_EQ(read_context(hw::context_cmd::egress | 65527),
              (hw::Context{16, page << 16 | 256, page >> 16, 0x88008400}));

    qp.post({0x1cc00100, 0x00fff707, 0, 0, 0x30380008, 0x10000005, 1, 0x00aa0000, 1, 0x00bb1000, 1,
             0x00cc2000, 0, 0});
    write(reg::SG_KDOORBELL, 0x8000fff7);
    qp.post({0x1cc00100, 0x00fff707, 0, 0x01000000, 0x30281234, 0x10000005, 0xffc00001, 0xf4000000,
             0x00000020, 0x00002000, 0x00007f00, 0x12345678, 0, 0});
    write(reg::SG_KDOORBELL, 0x8000fff7);

    // The TPT entry and the PBL, through the back door (two 32-bit reads per word).
    const auto word_at = [&](std::uint32_t addr) {
        std::uint64_t word = 0;
        for (std::uint32_t k : {0U, 1U}) {
            write(reg::MC7_BD_ADDR, addr / 8 * 16 + 8 * k);
            write(reg::MC7_BD_OP, 0);
            word = word << 32 | read(reg::MC7_BD_DATA1);
        }
        return word;
    };
    EXPECT_EQ(word_at(0x05024680), 0xffc00001f4000000U);
    EXPECT_EQ(word_at(0x05024690), 0x00007f0012345678U);
    EXPECT_EQ(word_at(0x07000100), 0x0000000100aa0000U);
    EXPECT_EQ(word_at(0x07000110), 0x0000000100cc2000U);

    std::vector<std::string> events_seen;
    events.advance(1'000'000);
    while (const auto r = rq[0].next())
        if ((r->flags() & hw::response::async) != 0)
            events_seen.push_back(words(Bytes(r->bytes).subspan(16, 16)));
    EXPECT_EQ(events_seen, (std::vector<std::string>{"0fff701d 00000000 00000000 00000000",
                                                     "0fff701d 00000000 00000000 01000000"}));
}

} // namespace t3sim::test
