// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// An attacker deregisters a region while the card still uses its page list, and its pages and the range of
// the list go to a victim. The driver's sequence is that of docs/hw/mr.md 7: clear the TPT entry, name a sink
// in the list, one more write, each of them confirmed. No byte of the victim is read or changed.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "sim/hw/sge.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {
namespace {

using testing::SizeIs;

constexpr std::uint32_t size = 3 * 4096;
constexpr std::uint8_t secret = 0xa5, sunk = 0x5a;

/// @p g55 is the answer to G55, "modelled" or "other".
class Scene : public Connection {
public:
    explicit Scene(const char* g55) {
        for (Node* node : {&a, &b}) {
            node->faults.guesses.set(std::string("G55=") + g55);
            node->sge.open_qp_context(hw::control_qp, 0, control.emplace_back(node->host.alloc(256 * 128)),
                                      256);
        }
        ra = a.add_region(0x001111aa, 0x7f0000000000, size);
        rb = b.add_region(0x002222bb, 0x550000000000, size);
        sink = b.host.alloc(4096, 4096);
        std::fill_n(b.host.at(sink, 4096), 4096, sunk);
        a.fill(ra, ra.va, pattern(size));
        connect();
    }

    /// A memory write on the control QP of the attacker's card, which confirms it.
    void write(std::uint32_t addr, const Words& data) {
        const auto units = static_cast<std::uint32_t>((data.size() + 7) / 8), flits = 4 * units;
        const bool generation = writes / 256 % 2 == 0;
        Words words{0x1cc00100,
                    0x00fff703 | (generation ? 1U << 31 : 0),
                    0,
                    writes,
                    0x30000000 | addr / 32,
                    units << 28 | (flits + 1)};
        words[1] += flits;
        words.insert(words.end(), data.begin(), data.end());
        const std::uint64_t slot = control[1] + 128ULL * (writes++ % 256);
        b.host.put(slot, Node::pack(words));
        put_be64(b.host.at(slot + 120, 8), generation);
        b.sge.records.clear();
        b.rnic.doorbell(hw::control_qp);
        ASSERT_THAT(b.sge.records, SizeIs(1));
        b.sge.records.clear();
    }
    void clear_tpt_entry() { write(Node::tpt_address(rb.stag), Words(8)); }
    void name_the_sink() {
        Words entries;
        for (std::size_t i = 0; i < (rb.pages.size() + 3) / 4 * 4; ++i)
            entries.insert(entries.end(), {wr::hi(sink), wr::lo(sink)});
        if (neutralise)
            write(0x07000100, entries); // the region's range: entry 0x20
    }
    void give_pages_to_the_victim() {
        if (neutralise)
            write(Node::tpt_address(0), Words(8));
        for (std::uint64_t page : rb.pages)
            std::fill_n(b.host.at(page, 4096), 4096, secret);
    }
    void deregister() {
        clear_tpt_entry();
        name_the_sink();
        give_pages_to_the_victim();
    }
    [[nodiscard]] bool victim_is_unchanged() {
        return std::ranges::all_of(rb.pages, [this](std::uint64_t page) {
            const std::uint8_t* at = b.host.at(page, 4096);
            return std::all_of(at, at + 4096, [](std::uint8_t byte) { return byte == secret; });
        });
    }
    /// Whether the peer received a byte of the victim. It had zeroes before.
    [[nodiscard]] bool peer_has_secrets() {
        const Buffer got = a.contents(ra, ra.va, size);
        return std::search_n(got.begin(), got.end(), 16, secret) != got.end();
    }
    /// Delivers one record of @p from, if there is one.
    void deliver_one(Node& from, Node& to) {
        const Buffer record = from.stream.records.front();
        from.stream.records.pop_front();
        to.receive(record);
    }
    /// The cards do one thing: a record arrives, the sender goes on. False: there is nothing left to do.
    bool step() {
        for (const auto& [from, to] : {std::pair{&a, &b}, {&b, &a}}) {
            if (from->stream.records.empty())
                continue;
            const std::size_t size = from->stream.records.front().size();
            deliver_one(*from, *to);
            from->stream.space += size;
            from->rnic.stream_writable(from->options.tid);
            return true;
        }
        return false;
    }

    Region ra, rb;
    std::uint64_t sink = 0;
    std::vector<std::uint64_t> control;
    std::uint32_t writes = 0;
    bool neutralise = true;
};

class Reclaimed : public testing::TestWithParam<const char*>, public Scene {
protected:
    Reclaimed() : Scene(GetParam()) {}
};

TEST_P(Reclaimed, PostedReceive) {
    b.run(wr::receive({{rb.stag, rb.va, size}}));
    deregister();
    a.run(wr::send(1, {{ra.stag, ra.va, size}}));
    settle();
    EXPECT_TRUE(victim_is_unchanged());
    EXPECT_THAT(b.take_records(), SizeIs(1)) << "the message was received";
}

TEST_P(Reclaimed, ReceiveOfWhichAPartWasPlaced) {
    b.run(wr::receive({{rb.stag, rb.va, size}}));
    a.run(wr::send(1, {{ra.stag, ra.va, size}}));
    deliver_one(a, b);
    deregister();
    settle();
    EXPECT_TRUE(victim_is_unchanged());
}

TEST_P(Reclaimed, WriteThatTheWindowHoldsUp) {
    a.fill(ra, ra.va, Buffer(size, 0));
    b.stream.space = 3000;
    b.run(wr::write(1, {{rb.stag, rb.va, size}}, ra.stag, ra.va));
    deregister();
    settle();
    EXPECT_FALSE(peer_has_secrets());
    EXPECT_EQ(*a.byte(ra, ra.va + size - 1), sunk) << "the rest came from the sink";
}

TEST_P(Reclaimed, LongReadResponse) {
    a.fill(ra, ra.va, Buffer(size, 0));
    b.stream.space = 3000;
    a.run(wr::read(1, {ra.stag, ra.va, size}, rb.stag, rb.va));
    deliver_one(a, b);
    deregister();
    settle();
    EXPECT_FALSE(peer_has_secrets());
    EXPECT_EQ(*a.byte(ra, ra.va + size - 1), sunk);
}

TEST_P(Reclaimed, BoundWindow) {
    constexpr std::uint32_t window = 0x00200011;
    b.put_tpt(window, {0x88a00000 | b.options.pd, 0, 0, 0, 0, 0, 0, 0});
    b.faults.guesses.set("G57=other"); // the card does not look at the window's region
    b.run(wr::bind(1, rb.stag, window, rb.va, size, 0x20));
    deregister();
    a.run(wr::write(1, {{ra.stag, ra.va, size}}, window, rb.va));
    settle();
    EXPECT_TRUE(victim_is_unchanged());
}

TEST_P(Reclaimed, SequenceIsNeeded) {
    neutralise = false;
    b.run(wr::receive({{rb.stag, rb.va, size}}));
    deregister();
    a.run(wr::send(1, {{ra.stag, ra.va, size}}));
    settle();
    EXPECT_FALSE(victim_is_unchanged()) << "without the sink the attack succeeds";
}

using Attack = void (*)(Scene&);

void posted_receive(Scene& scene) {
    scene.b.run(wr::receive({{scene.rb.stag, scene.rb.va, size}}));
    scene.a.run(wr::send(1, {{scene.ra.stag, scene.ra.va, size}}));
}
void held_up_write(Scene& scene) {
    scene.a.fill(scene.ra, scene.ra.va, Buffer(size, 0));
    scene.b.stream.space = 3000;
    scene.b.run(wr::write(1, {{scene.rb.stag, scene.rb.va, size}}, scene.ra.stag, scene.ra.va));
}
void long_response(Scene& scene) {
    scene.a.fill(scene.ra, scene.ra.va, Buffer(size, 0));
    scene.b.stream.space = 3000;
    scene.a.run(wr::read(1, {scene.ra.stag, scene.ra.va, size}, scene.rb.stag, scene.rb.va));
}

/// Runs an attack with each of the driver's steps after a number of steps of the cards. True: it failed.
bool withstands(const char* g55, bool neutralise, Attack attack, const std::array<unsigned, 3>& after) {
    Scene scene(g55);
    scene.neutralise = neutralise;
    attack(scene);
    bool more = true;
    for (unsigned steps = 0; more || steps <= after.back(); ++steps) {
        if (steps == after[0])
            scene.clear_tpt_entry();
        if (steps == after[1])
            scene.name_the_sink();
        if (steps == after[2])
            scene.give_pages_to_the_victim();
        more = scene.step();
    }
    return scene.victim_is_unchanged() && !scene.peer_has_secrets();
}

unsigned steps_of(const char* g55, Attack attack) {
    Scene scene(g55);
    attack(scene);
    unsigned steps = 0;
    while (scene.step())
        ++steps;
    return steps;
}

/// All orders of the driver's three steps and those of the cards.
TEST_P(Reclaimed, EveryOrderOfTheStepsOfDriverAndCards) {
    for (Attack attack : {posted_receive, held_up_write, long_response}) {
        const unsigned last = steps_of(GetParam(), attack);
        ASSERT_GE(last, 4U) << "the transfer has steps in between";
        unsigned successes = 0;
        for (unsigned i = 0; i <= last; ++i)
            for (unsigned j = i; j <= last; ++j)
                for (unsigned k = j; k <= last; ++k) {
                    EXPECT_TRUE(withstands(GetParam(), true, attack, {i, j, k}))
                        << "steps " << i << ' ' << j << ' ' << k;
                    successes += !withstands(GetParam(), false, attack, {i, j, k});
                }
        EXPECT_GT(successes, 0U) << "without the sink an attack succeeds";
    }
}

INSTANTIATE_TEST_SUITE_P(G55, Reclaimed, testing::Values("modelled", "other"));

} // namespace
} // namespace t3sim::test
