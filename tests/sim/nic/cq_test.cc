// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Completion queues of the SGE.
#include <map>
#include <string>
#include <utility>

#include "tests/sim/nic/sge_fixture.hh"

namespace t3sim::test {

class CqTest : public SgeTest {
protected:
    CqTest() {
        ready();
        setup(5, 32);
        cqe = {.qp = 0x40, .opcode = 3, .length = 100, .word2 = 0, .word3 = 6};
    }
    void setup(CqId id, std::uint32_t size) {
        cq = host.alloc(std::size_t{size} * 16);
        context(hw::context_cmd::cq | id, {size << 16, static_cast<std::uint32_t>(cq >> 12),
                                           static_cast<std::uint32_t>(cq >> 44) | 1 << 29, 1 << 16 | 0xffff});
    }
    /// Returns the producer index that the command register shows.
    std::uint32_t command(std::uint32_t opcode, CqId id = 5) {
        regs.write(reg::SG_CONTEXT_CMD, opcode << 28 | hw::context_cmd::cq | id);
        return regs.read(reg::SG_CONTEXT_CMD) & (hw::context_cmd::busy | 0xffff);
    }

    std::uint64_t cq = 0;
    Cqe cqe;
};

TEST_F(CqTest, EntryAndEventAsInTheExample) {
    for (unsigned n = 0; n < 5; ++n)
        sge.complete(5, cqe, false);
    EXPECT_FALSE(rq.next()) << "not armed";
    EXPECT_EQ(command(hw::context_cmd::cq_arm), 5U);
    EXPECT_FALSE(rq.next()) << "a pending entry gives no event";
    sge.complete(5, cqe, false);
    EXPECT_EQ(words(host.bytes(cq + 0x50, 16)), "00040403 00000064 00000000 00000006");
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(
        words(r->bytes),
        "00050000 00060005 84000000 00000000 00040403 00000064 00000000 00000006 00000000 00000000 00000000 "
        "00000000 00000000 00000000 00000000 00000001");
    sge.complete(5, cqe, false);
    EXPECT_FALSE(rq.next()) << "one event per arming";
}

TEST_F(CqTest, LateCompletionsKeepTheirOrderWithEvents) {
    command(hw::context_cmd::cq_arm);
    faults.completion.arm(1000);
    sge.complete(5, cqe, false);
    sge.async_event(5, {.qp = 0x41, .status = 1, .opcode = 3});
    events.advance(999);
    EXPECT_EQ(host.word(cq), 0U);
    EXPECT_FALSE(rq.next());
    events.advance(1000);
    EXPECT_EQ(host.word(cq), 0x00040403U);
    const auto first = rq.next(), second = rq.next();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(be32(&first->bytes[16]) >> 12, 0x40U);
    EXPECT_EQ(be32(&second->bytes[16]) >> 12, 0x41U);
    sge.complete(5, cqe, false);
    EXPECT_EQ(host.word(cq + 16), 0x00040403U) << "the fault is over";
    EXPECT_EQ(counters.value("faults.completions_late"), 2U);
}

TEST_F(CqTest, SolicitedOnly) {
    EXPECT_EQ(command(hw::context_cmd::cq_arm_solicited), 0U);
    sge.complete(5, cqe, false);
    EXPECT_FALSE(rq.next());
    cqe.opcode = 5;
    sge.complete(5, cqe, true);
    auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(be32(&r->bytes[0]), 0x000d0000U);
    command(hw::context_cmd::cq_arm_solicited);
    cqe.status = 0x12;
    sge.complete(5, cqe, false);
    EXPECT_TRUE(rq.next()) << "an error counts as solicited";
    command(hw::context_cmd::cq_arm_solicited);
    command(hw::context_cmd::cq_arm);
    cqe.status = 0;
    sge.complete(5, cqe, false);
    EXPECT_TRUE(rq.next());
    sge.complete(5, cqe, true);
    EXPECT_FALSE(rq.next()) << "the event cleared both";
}

TEST_F(CqTest, ArmingWithAnEntryGivesAnEventIfThatGuessIsOther) { // [guess G24]
    sge.complete(5, cqe, false);
    command(hw::context_cmd::cq_arm);
    EXPECT_FALSE(rq.next());
    faults.guesses.set("G24=other");
    command(hw::context_cmd::cq_arm);
    EXPECT_TRUE(rq.next());
}

TEST_F(CqTest, RingWraps) {
    setup(7, 4);
    for (std::uint32_t n = 0; n < 9; ++n) {
        EXPECT_EQ(command(hw::context_cmd::cq_arm, 7), n % 4);
        cqe.word3 = n;
        sge.complete(7, cqe, false);
        EXPECT_EQ(host.word(cq + n % 4 * 16) >> 10 & 1, n / 4 % 2 == 0 ? 1U : 0U) << "generation";
        EXPECT_EQ(host.word(cq + n % 4 * 16 + 12), n);
        const auto r = rq.next();
        ASSERT_TRUE(r);
        EXPECT_EQ(be32(&r->bytes[4]), ((n + 1) % 4) << 16 | 7);
        credits(1);
    }
}

TEST_F(CqTest, ForceAndCredits) {
    command(hw::context_cmd::cq_force);
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_NE(r->flags() & hw::response::async, 0U);
    regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::cq_credits << 28 | hw::context_cmd::cq | 5);
    EXPECT_FALSE(rq.next());
    EXPECT_EQ(counters.value("sge.bad_context_commands"), 0U);
}

TEST_F(CqTest, NoQueueNoEntry) {
    const auto writes = host.writes;
    sge.complete(6, cqe, true);
    sge.complete(70000, cqe, true);
    EXPECT_EQ(host.writes, writes);
    EXPECT_EQ(counters.value("sge.cqes_without_queue"), 2U);
    // Disabled, as the driver disables it.
    context(hw::context_cmd::cq | 5, {}, {0xffff0000, 0, 0, 0});
    sge.complete(5, cqe, true);
    EXPECT_EQ(host.writes, writes);
}

TEST_F(CqTest, ControlCqIsEventsOnly) {
    context(hw::context_cmd::cq | 0, {1 << 16, 0, 3U << 30 | 1 << 29, 0});
    cqe = {.qp = 65527, .send_side = true, .opcode = 13, .word2 = 0, .word3 = 0x01000000};
    sge.async_event(0, cqe);
    const char* const example = "00040000 00000000 84000000 00000000 0fff701d 00000000 00000000 01000000";
    auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(words(Bytes(r->bytes).first(32)), example);
    sge.complete(0, cqe, false); // a queue without memory redirects
    r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(words(Bytes(r->bytes).first(32)), example);
}

TEST_F(CqTest, RingInUnmappedMemory) {
    host.unmap(cq, 4096);
    sge.complete(5, cqe, false);
    EXPECT_EQ(counters.value("sge.bus_errors"), 1U);
}

/// Whatever a card that lies sends, it writes only into the rings and buffers that it was given.
TEST_F(CqTest, LiesStayWithinTheHostsRingsAndBuffers) {
    std::map<std::uint64_t, std::size_t> given{{rq.base, rspq_entries * hw::response_size}, {cq, 32 * 16}};
    for (FreeList* list : {&fl0, &fl1}) {
        given[list->base] = list->entries * hw::free_list_entry;
        for (unsigned n = 0; n < list->entries; ++n)
            given[list->add()] = list->buffer_size;
    }
    std::uint64_t end = host.base();
    for (const auto& [at, size] : given) {
        host.unmap(end, at - end);
        end = at + size;
    }
    host.unmap(end, host.base() + (4 << 20) - end);
    const auto give_back = [this] {
        for (const auto& [list, id] : {std::pair(&fl0, 0U), {&fl1, 1U}})
            while (list->index != hw::free_list_context::index(read_context(hw::context_cmd::free_list | id)))
                list->add_again();
    };
    faults.lies.begin(1, 0.5, {});
    Random random(1);
    for (unsigned n = 0; n < 5000; ++n) {
        sge.complete(5, cqe, n % 2 != 0);
        Buffer cpl(4 + random.below(200));
        cpl[0] = 0x26;
        sge.post_cpl(0, cpl);
        give_back();
        sge.post_packet(packet(frame(60 + random.below(1000))));
        give_back();
        command(hw::context_cmd::cq_arm);
        credits(8);
        events.advance(events.now());
    }
    for (const char* kind : {"cpl", "cqe", "buffer"})
        EXPECT_GT(counters.value(std::string("lies.") + kind), 1000U);
    EXPECT_EQ(counters.value("sge.bus_errors"), 0U);
}

} // namespace t3sim::test
