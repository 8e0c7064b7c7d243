// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Random input from the guest and from the wire must not crash the card.
#include <random>

#include <gtest/gtest.h>

#include "sim/card/rnic/ddp.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

class Anything : public testing::TestWithParam<unsigned> {};

/// Random slots and random streams, half of them nearly valid. The card must not crash (ASan), report more
/// than one error per QP, or write outside of the regions.
// E3
TEST_P(Anything, NeverCrashesTheCard) {
    const unsigned seed = GetParam();
    std::mt19937 random(seed);
    const auto pick = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    InitOptions init = options_b();
    init.mpa_attrs = static_cast<std::uint8_t>(8 + pick(8));
    init.rtr = pick(2);
    init.initiator = true;
    Node node(init);
    const Region region = node.add_region(0x001111aa, 0x1000, 20000);
    const std::uint64_t canary = node.host.alloc(65536);
    node.host.put(canary, pattern(65536, 77));
    node.connect();
    Framer peer({(init.mpa_attrs & 1) != 0, (init.mpa_attrs & 4) != 0});
    std::uint32_t msn = 1;
    for (int i = 0; i < 300; ++i) {
        switch (pick(7)) {
        case 0: { // a random slot
            Words words(30);
            for (std::uint32_t& word : words)
                word = random();
            words[0] = (0x10 + pick(16)) << 24 | 0xc00000 | (pick(32) << 8);
            words[1] = pick(17);
            node.run(words);
            break;
        }
        case 1:
            node.run(wr::receive({{region.stag, 0x1000 + pick(30000), pick(3000)}}));
            break;
        case 2: {
            Words words = wr::write(1, {{region.stag, 0x1000, pick(20000)}}, random(), random());
            if (pick(4) == 0)
                words[pick(static_cast<std::uint32_t>(words.size()))] ^= 1U << pick(32);
            node.run(words);
            break;
        }
        case 3:
        case 4: { // an FPDU that is nearly valid
            Buffer ulpdu = Buffer(18 + pick(2000));
            write_header(ulpdu.data(), {.last = pick(4) != 0,
                                        .op = static_cast<hw::RdmaOp>(pick(8)),
                                        .stag = pick(2) ? region.stag : pick(4),
                                        .to = 0x1000 + pick(20000),
                                        .msn = msn,
                                        .mo = 0});
            msn += pick(3) == 0;
            if (pick(4) == 0)
                ulpdu[pick(18)] ^= static_cast<std::uint8_t>(1 << pick(8));
            Packet fpdu = Framer::start(ulpdu.size());
            std::copy(ulpdu.begin(), ulpdu.end(), Framer::ulpdu(fpdu).begin());
            fpdu = peer.finish(std::move(fpdu));
            if (pick(20) == 0)
                fpdu.data()[pick(static_cast<std::uint32_t>(fpdu.size()))] ^= 1;
            const std::size_t cut = pick(static_cast<std::uint32_t>(fpdu.size()));
            node.receive(Bytes(fpdu).first(cut));
            node.receive(Bytes(fpdu).subspan(cut));
            break;
        }
        case 5: { // noise
            if (pick(20) == 0) {
                Buffer noise(pick(3000));
                for (std::uint8_t& byte : noise)
                    byte = static_cast<std::uint8_t>(random());
                node.receive(noise);
            }
            break;
        }
        default:
            node.sent();
            node.rnic.stream_writable(init.tid);
            if (pick(50) == 0)
                node.offload(pick(2) ? wr::ready_read(init.tid) : wr::terminate(init.tid));
            break;
        }
    }
    unsigned errors = 0;
    for (const SgeRecord& s : node.sge.records)
        errors += s.kind == SgeRecord::event && s.entry.status != 0;
    EXPECT_LE(errors, 1U);
    EXPECT_EQ(Buffer(node.host.at(canary), node.host.at(canary) + 65536), pattern(65536, 77))
        << "seed " << seed;
    node.rnic.connection_ended(init.tid);
}

/// Random memory writes and MODIFY_QP requests.
TEST_P(Anything, OnTheControlQueues) {
    std::mt19937 random(GetParam());
    Node node(options_a());
    const std::uint64_t control_ring = node.host.alloc(256 * slot_size);
    node.sge.open_qp_context(65527, 65552, control_ring, 256);
    for (unsigned i = 0; i < 256; ++i) {
        Words words(30);
        for (std::uint32_t& word : words)
            word = random();
        words[0] = 0x1cc00000 | (random() & 0x1f00);
        words[1] = 0x80fff700 | random() % 17;
        words[4] = (random() % 4) << 28 | (0x280000 + random() % 0x200000);
        node.host.put(control_ring + i * slot_size, Node::pack(words));
        node.host.put_words(control_ring + i * slot_size + 120, {0, 1});
        node.rnic.doorbell(65527);
        words[0] = 0x1bc00000 | (random() & 0x1f00);
        words[9] = random() & 0xffffff;
        node.rnic.control_wr(Bytes(Node::pack(words)).first(random() % 120));
    }
    SUCCEED();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Anything, testing::Range(1U, 41U));

} // namespace
} // namespace t3sim::test
