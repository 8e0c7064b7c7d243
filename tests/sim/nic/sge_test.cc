// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Contexts, rings, work requests, responses and doorbells of the SGE. Completion queues: cq_test.cc.
#include <algorithm>
#include <memory>

#include "tests/sim/nic/sge_fixture.hh"

namespace t3sim::test {

// --- Contexts
// ------------------------------------------------------------------------------------------------

TEST_F(SgeTest, ContextsTakeOnlyMaskedBits) {
    // Words as the driver wrote them in a recorded start.
    context(0x00040000, {0x04000000, 0x00002560, 0x14100000, 0x000007c0}, {~0U, ~0U, 0x17ffffff, ~0U});
    EXPECT_EQ(read_context(0x00040000), (hw::Context{0x04000000, 0x00002560, 0x14100000, 0x000007c0}));
    regs.write(reg::SG_CONTROL, hw::sg_control::global_enable);
    arm(0);
    EXPECT_EQ(read_context(0x00040000)[2], 0x1c100000U) << "armed";
    context(0x00040000, {0x04000000, 0x00002560, 0x14100000, 0x000007c0}, {~0U, ~0U, 0x17ffffff, ~0U});
    EXPECT_EQ(read_context(0x00040000)[2], 0x1c100000U) << "the mask excludes the armed bit";
    context(0x00040000, {}, {0xffff0000, 0, 0, 0});
    EXPECT_EQ(read_context(0x00040000)[0], 0U) << "disabled by its size";

    context(0x00020008, {0, 0x1e400400, 1, 0x88004500});
    context(0x00020008, {0, 0, 0, 0}, {0, 0, 0, 0x80000000});
    EXPECT_EQ(read_context(0x00020008), (hw::Context{0, 0x1e400400, 1, 0x08004500}));
}

TEST_F(SgeTest, ContextNumbersAreChecked) {
    context(hw::context_cmd::response_queue | 8, {1, 2, 3, 4});
    context(hw::context_cmd::free_list | 16, {1, 2, 3, 4});
    regs.write(reg::SG_CONTEXT_CMD, 9U << 28 | hw::context_cmd::egress);
    regs.write(reg::SG_CONTEXT_CMD, 0);
    regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::egress | hw::context_cmd::cq);
    EXPECT_EQ(counters.value("sge.bad_context_commands"), 5U);
}

// --- Work requests
// -------------------------------------------------------------------------------------------

TEST_F(SgeTest, ImmediateFrameGoesOut) {
    ready();
    const Buffer f = frame(98);
    post_frame(f, hw::wr::compl_);
    ring(8);
    ASSERT_EQ(macs.sent.size(), 1U);
    EXPECT_EQ(macs.sent[0].first, 0U);
    EXPECT_EQ(macs.sent[0].second, f);
    // COMPL: the descriptor is returned at once, in a response without other content, with an interrupt.
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(words(Bytes(r->bytes).first(16)), "00000000 00000000 80010000 00000000");
    EXPECT_EQ(host.irqs[1], 1U);
    EXPECT_FALSE(rq.next());
}

TEST_F(SgeTest, BothGenerationsMakeADescriptorValid) {
    ready();
    eth.post(Buffer(16), true, false);
    ring(8);
    EXPECT_EQ(macs.sent.size(), 0U);
    eth.index = 0;
    eth.post(Buffer(16), false, true);
    ring(8);
    EXPECT_EQ(macs.sent.size(), 0U);
    eth.index = 0;
    post_frame(frame(60));
    ring(8);
    EXPECT_EQ(macs.sent.size(), 1U);
    ring(8);
    EXPECT_EQ(macs.sent.size(), 1U) << "the next one is not valid";
    EXPECT_EQ(counters.value("sge.framing_errors"), 0U);
}

TEST_F(SgeTest, SingleGenerationMode) {
    ready();
    enable(hw::sg_control::egr_gen_ctrl);
    Buffer d(16 + 64);
    put_be32(&d[0], op(0x03) | sop_eop);
    put_be32(&d[4], 10);
    put_be32(&d[8], 0x0e300000);
    put_be32(&d[12], 64);
    eth.post(d, true, false);
    ring(8);
    EXPECT_EQ(macs.sent.size(), 1U);
}

TEST_F(SgeTest, GenerationTurnsWithTheRing) {
    ready();
    for (unsigned n = 1; n <= 3 * eth.entries; ++n) {
        post_frame(frame(60 + n));
        ring(8);
        ASSERT_EQ(macs.sent.size(), n);
        EXPECT_EQ(macs.sent.back().second.size(), 60 + n);
    }
    EXPECT_EQ(hw::egress_context::index.get(read_context(hw::context_cmd::egress | 8)), 0U);
    EXPECT_EQ(hw::egress_context::gen.get(read_context(hw::context_cmd::egress | 8)), 0U);
}

TEST_F(SgeTest, OneDoorbellForMany) {
    ready();
    for (unsigned n = 0; n < 5; ++n)
        post_frame(frame(64 + n));
    ring(8);
    EXPECT_EQ(macs.sent.size(), 5U);
}

TEST_F(SgeTest, DoorbellsBeforeEnableAreNotLost) {
    queue_set();
    post_frame(frame(64));
    ring(8);
    EXPECT_EQ(macs.sent.size(), 0U);
    enable();
    EXPECT_EQ(macs.sent.size(), 1U);
}

TEST_F(SgeTest, ARingIsReadSomeTimeAfterItsDoorbell) {
    ready();
    faults.timing.set("fetch=2us");
    post_frame(frame(64));
    ring(8);
    events.advance(1999);
    EXPECT_EQ(macs.sent.size(), 0U);
    post_frame(frame(65)); // its doorbell changes nothing
    ring(8);
    events.advance(2000);
    EXPECT_EQ(macs.sent.size(), 2U);
    EXPECT_FALSE(events.next());
    post_frame(frame(66));
    ring(8);
    sge.reset();
    EXPECT_FALSE(events.next());
}

TEST_F(SgeTest, AContextCommandIsBusyForItsTime) {
    faults.timing.set("command=1us");
    const auto busy = [this] { return (regs.read(reg::SG_CONTEXT_CMD) & hw::context_cmd::busy) != 0; };
    regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::egress | 8);
    EXPECT_TRUE(busy());
    events.advance(1000);
    EXPECT_FALSE(busy());
    EXPECT_EQ(counters.value("sge.context_commands_while_busy"), 0U);
    regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::egress | 8);
    regs.write(reg::SG_CONTEXT_CMD, hw::context_cmd::egress | 9);
    EXPECT_EQ(counters.value("sge.context_commands_while_busy"), 1U);
}

TEST_F(SgeTest, DataOfAnSglAcrossDescriptors) {
    ready();
    // Five pieces, split so that a group crosses the descriptor boundary: 3 header flits + 8 SGL flits, with
    // only 10 flits in the first descriptor.
    Buffer expected;
    std::array<std::uint64_t, 5> addr;
    std::array<std::uint32_t, 5> len{5, 100, 1, 33, 260};
    for (std::size_t i = 0; i < addr.size(); ++i) {
        addr[i] = host.alloc(512) + i;
        for (std::uint32_t n = 0; n < len[i]; ++n)
            *host.at(addr[i] + n) = static_cast<std::uint8_t>(16 * i + n);
        const Bytes piece = host.bytes(addr[i], len[i]);
        expected.insert(expected.end(), piece.begin(), piece.end());
    }
    const auto lo = [](std::uint64_t a) { return static_cast<std::uint32_t>(a); };
    const auto hi = [](std::uint64_t a) { return static_cast<std::uint32_t>(a >> 32); };
    offload.post({op(0x0d) | hw::wr::sop | hw::wr::sgl | 3 << 8,
                  0x1200 | 10,
                  0x11,
                  0x22,
                  0x33,
                  0x44, // header
                  len[0],
                  len[1],
                  hi(addr[0]),
                  lo(addr[0]),
                  hi(addr[1]),
                  lo(addr[1]), //
                  len[2],
                  len[3],
                  hi(addr[2]),
                  lo(addr[2]),
                  hi(addr[3]),
                  lo(addr[3]),
                  len[4],
                  0});
    offload.post({op(0x0d) | hw::wr::eop | hw::wr::sgl | 1 << 8, 0x1200 | 2, hi(addr[4]), lo(addr[4])});
    ring(0);
    ASSERT_EQ(toe.offload.size(), 1U);
    EXPECT_EQ(toe.offload_descriptors, 2U);
    const Buffer& wr = toe.offload[0].second;
    EXPECT_EQ(words(Bytes(wr).first(24)), "0d800300 8000120a 00000011 00000022 00000033 00000044");
    EXPECT_EQ(Buffer(wr.begin() + 24, wr.end()), expected);
    EXPECT_EQ(read_context(hw::context_cmd::egress | 0)[0] >> 16, 2U);
}

TEST_F(SgeTest, ControlQueueIsDistributed) {
    ready();
    control.post({op(0x01) | sop_eop, 0x01000005, 0x12000001, 0x007ff801});
    control.post({op(0x1b) | sop_eop, 0x01000003, 0, 0, 8, 0});
    control.post({op(0x1d) | sop_eop, 0x01000003, 0, 0, 1, 0});
    ring(65528);
    ASSERT_EQ(toe.control.size(), 2U);
    EXPECT_EQ(toe.control[0].second.size(), 40U);
    EXPECT_EQ(toe.control[1].second[0], 0x1d);
    ASSERT_EQ(rnic.control.size(), 1U);
    EXPECT_EQ(rnic.control[0].size(), 24U);
}

TEST_F(SgeTest, InvalidWorkRequestsStopTheRing) {
    const std::array<std::vector<std::array<std::uint32_t, 2>>, 6> rings{{
        {{op(3) | hw::wr::eop, 2}},                                           // no SOP
        {{op(3) | sop_eop, 0}},                                               // no flits
        {{op(3) | sop_eop, 16}},                                              // too many
        {{op(3) | hw::wr::sop, 2}, {op(3) | sop_eop, 2}},                     // SOP in the middle
        {{op(3) | sop_eop | hw::wr::sgl | 9 << 8, 4}},                        // the SGL starts behind the end
        {{op(3) | hw::wr::sop, 2}, {0, 2}, {0, 2}, {0, 2}, {hw::wr::eop, 2}}, // five descriptors
    }};
    for (const auto& descriptors : rings) {
        ready();
        eth.index = 0;
        eth.gen = 1;
        for (const auto& d : descriptors)
            eth.post({d[0], d[1], 0, 0});
        const auto before = counters.value("sge.framing_errors");
        ring(8);
        EXPECT_EQ(counters.value("sge.framing_errors"), before + 1);
        EXPECT_EQ(regs.read(reg::SG_INT_CAUSE), hw::sg_int::r_req_framing_error);
        EXPECT_EQ(hw::egress_context::valid.get(read_context(hw::context_cmd::egress | 8)), 0U);
        regs.write(reg::SG_INT_CAUSE, ~0U);
        ring(8);
        EXPECT_EQ(counters.value("sge.framing_errors"), before + 1) << "stopped";
    }
    EXPECT_EQ(macs.sent.size(), 0U);
}

TEST_F(SgeTest, RingInUnmappedMemory) {
    ready();
    post_frame(frame(64));
    host.unmap(eth.base, 4096);
    ring(8);
    EXPECT_EQ(counters.value("sge.bus_errors"), 1U);
    EXPECT_EQ(regs.read(reg::PCIE_INT_CAUSE), 1U);
    EXPECT_NE(regs.read(reg::PCIE_PEX_ERR), 0U);
    host.map_all();
    ring(8);
    EXPECT_EQ(macs.sent.size(), 0U) << "the ring has stopped";
}

TEST_F(SgeTest, UnreadableDataDropsTheFrameOnly) {
    ready();
    const std::uint32_t nowhere = 0x1000;
    eth.post(
        {op(3) | sop_eop | hw::wr::compl_ | hw::wr::sgl | 2 << 8, 4, 0x0e300000, 100, 100, 0, 0, nowhere});
    post_frame(frame(64), hw::wr::compl_);
    ring(8);
    EXPECT_EQ(macs.sent.size(), 1U);
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->credits(0), 1U) << "its descriptor is returned nevertheless";
    // A length that exceeds any memory.
    eth.post({op(3) | sop_eop | hw::wr::sgl | 2 << 8, 4, 0x0e300000, 100, 0xffffffff, 0, 1, 0});
    ring(8);
    EXPECT_EQ(macs.sent.size(), 1U);
    EXPECT_EQ(counters.value("sge.framing_errors"), 1U);
}

TEST_F(SgeTest, EndlessProducerIsServedInPortions) {
    ready();
    // Each request makes the host post the next one, before the SGE reads the ring again.
    unsigned seen = 0;
    toe.on_control = [&](unsigned) {
        ++seen;
        if (seen < 1000)
            control.post({op(0x01) | sop_eop, 2, 0, 0});
    };
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    ring(65528);
    EXPECT_GE(seen, 8U);
    EXPECT_LT(seen, 100U);
    events.advance(events.now());
    EXPECT_EQ(seen, 1000U) << "the remaining ones follow as events";
}

/// Each part of an SGL may be the first access to a page.
TEST_F(SgeTest, PartsOfAnSglCountAsWork) {
    ready();
    const std::uint64_t data = host.alloc(4096);
    const auto lo = static_cast<std::uint32_t>(data), hi = static_cast<std::uint32_t>(data >> 32);
    const auto post = [&] {
        control.post({op(0x01) | sop_eop | hw::wr::sgl | 1 << 8,
                      13, //
                      1,
                      1,
                      hi,
                      lo,
                      hi,
                      lo,
                      1,
                      1,
                      hi,
                      lo,
                      hi,
                      lo, //
                      1,
                      1,
                      hi,
                      lo,
                      hi,
                      lo,
                      1,
                      1,
                      hi,
                      lo,
                      hi,
                      lo});
    };
    unsigned seen = 0;
    toe.on_control = [&](unsigned) {
        if (++seen < 100)
            post();
    };
    post();
    ring(65528);
    EXPECT_GE(seen, 2U);
    EXPECT_LT(seen, 10U);
    events.advance(events.now());
    EXPECT_EQ(seen, 100U);
    EXPECT_EQ(counters.value("sge.framing_errors"), 0U);
}

/// 64 requests of a ring read 16 MiB at once, as a request whose last part fails was counted as an empty one.
TEST_F(SgeTest, DataOfAnInvalidSglCountsAsWork) {
    ready();
    constexpr std::uint32_t size = 65'000;
    const std::uint64_t data = host.alloc(size);
    const auto post = [&] {
        control.post({op(0x01) | sop_eop | hw::wr::sgl | 1 << 8, 4, size, 0xffffffff,
                      static_cast<std::uint32_t>(data >> 32), static_cast<std::uint32_t>(data), 0, 0});
    };
    for (unsigned n = 0; n < 7; ++n)
        post();
    ring(65528);
    EXPECT_EQ(counters.value("sge.framing_errors"), 1U);
    events.advance(events.now());
    EXPECT_EQ(counters.value("sge.framing_errors"), 7U);
}

/// A request has up to 256 commands in 4 KiB.
TEST_F(SgeTest, CommandsOfABypassRequestCountAsWork) {
    ready();
    const std::uint64_t data = host.alloc(4096);
    const auto lo = static_cast<std::uint32_t>(data), hi = static_cast<std::uint32_t>(data >> 32);
    const auto bypass = static_cast<std::uint32_t>(hw::FwOp::bypass);
    const auto post = [&] {
        control.post({op(bypass) | sop_eop | hw::wr::sgl | 1 << 8, 4, 4080, 0, hi, lo, 0, 0});
    };
    unsigned seen = 0;
    toe.on_control = [&](unsigned) {
        EXPECT_GT(toe.control.back().second.size(), 4000U);
        if (++seen < 20)
            post();
    };
    post();
    ring(65528);
    EXPECT_EQ(seen, 1U);
    events.advance(events.now());
    EXPECT_EQ(seen, 20U);
}

/// 65,535 took 9 ms.
TEST_F(SgeTest, OneReturnOfCreditsWritesALimitedNumberOfResponses) {
    ready();
    ResponseRing large{host, 4096};
    context(hw::context_cmd::response_queue | 0, large.context(1, small_buffer), {~0U, ~0U, 0x17ffffff, ~0U});
    for (unsigned n = 0; n < 1500; ++n)
        sge.post_cpl(0, Buffer(8, 0x23));
    const auto before = counters.value("sge.responses");
    credits(2000);
    EXPECT_LE(counters.value("sge.responses") - before, 600U);
    events.advance(events.now());
    EXPECT_EQ(counters.value("sge.responses") - before, 1500U);
}

/// 503 messages of 8 KiB, each in a buffer across the ends of pages, were written by one return of credits.
TEST_F(SgeTest, OneReturnOfCreditsWritesALimitedNumberOfBytes) {
    for (const std::size_t size : {std::size_t{8000}, std::size_t{100}}) {
        SCOPED_TRACE(size);
        constexpr unsigned messages = 100;
        ready();
        ResponseRing large{host, 1024};
        FreeList buffers{host, messages, big_buffer};
        for (unsigned n = 0; n < messages; ++n)
            buffers.add();
        context(hw::context_cmd::free_list | 0, buffers.context());
        context(hw::context_cmd::response_queue | 0, large.context(1, ~0U));
        for (unsigned n = 0; n < messages; ++n)
            sge.post_cpl(0, Buffer(size, 0x23));
        const auto before = counters.value("sge.responses");
        credits(1000);
        EXPECT_LE(counters.value("sge.responses") - before,
                  (64U << 10) / std::max<std::size_t>(size, 1024) + 1);
        events.advance(events.now());
        EXPECT_EQ(counters.value("sge.responses") - before, messages);
    }
}

/// One doorbell wrote 255 replies of 46 buffers each: 5 ms, and 0.4 s if the host had used none of their
/// pages.
TEST_F(SgeTest, MessagesThatFindCreditsAreLimitedTogether) {
    constexpr unsigned messages = 255, buffers_each = 46;
    ready();
    ResponseRing large{host, messages * buffers_each + 1};
    FreeList tiny{host, messages * buffers_each + 1, 3};
    for (unsigned n = 0; n < messages * buffers_each; ++n)
        tiny.add();
    context(hw::context_cmd::free_list | 0, tiny.context());
    context(hw::context_cmd::response_queue | 0, large.context(1, ~0U));
    credits(messages * buffers_each);
    events.advance(events.now());
    const auto before = counters.value("sge.responses");
    for (unsigned n = 0; n < messages; ++n)
        sge.post_cpl(0, Buffer(3 * buffers_each, 0x23));
    EXPECT_LE(counters.value("sge.responses") - before, 64U + buffers_each);
    events.advance(events.now());
    EXPECT_EQ(counters.value("sge.responses") - before, messages * buffers_each);
}

/// 65,531 were posted by one event, in 34 ms; and those that carry data waited without a limit.
TEST_F(SgeTest, LateMessagesArePostedInSeveralEvents) {
    constexpr unsigned messages = 1000;
    ready();
    ResponseRing large{host, 4096};
    context(hw::context_cmd::response_queue | 0, large.context(1, small_buffer));
    credits(4000);
    faults.answer_delay = 1000;
    for (unsigned n = 0; n < messages; ++n)
        sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(counters.value("sge.responses"), 0U);
    const auto ran = events.ran();
    events.advance(events.now() + 1000);
    EXPECT_EQ(counters.value("sge.responses"), messages);
    EXPECT_GE(events.ran() - ran, 4U);
    for (unsigned n = 0; n < 1700; ++n)
        sge.post_cpl(0, Buffer(8192, 0x23));
    EXPECT_TRUE(sge.full(0)) << "beyond 8 MB they are posted early";
}

TEST_F(SgeTest, LateCompletionsArePostedInSeveralEvents) {
    constexpr unsigned completions = 1000;
    ready();
    context(hw::context_cmd::response_queue | 0, rq.context(1, small_buffer));
    faults.completion.arm(1000);
    for (unsigned n = 0; n < completions; ++n)
        sge.complete(7, Cqe{}, false); // there is no such queue: each is counted
    EXPECT_EQ(counters.value("sge.cqes_without_queue"), 0U);
    const auto ran = events.ran();
    events.advance(1000);
    EXPECT_GE(events.ran() - ran, 4U);
    EXPECT_EQ(counters.value("sge.cqes_without_queue"), completions);
}

/// A free list without entries never has a buffer: one write lost 30,000 messages, in 4 ms.
TEST_F(SgeTest, OneReturnOfCreditsLosesALimitedNumberOfMessages) {
    ready();
    FreeList none{host, 0, small_buffer};
    context(hw::context_cmd::free_list | 0, none.context());
    context(hw::context_cmd::response_queue | 0, rq.context(1, small_buffer), {~0U, ~0U, 0x17ffffff, ~0U});
    for (unsigned n = 0; n < 1500; ++n)
        sge.post_cpl(0, Buffer(100, 0x23));
    EXPECT_EQ(counters.value("sge.messages_lost"), 0U) << "they wait for a credit";
    credits(1);
    EXPECT_LE(counters.value("sge.messages_lost"), 512U);
    events.advance(events.now());
    EXPECT_EQ(counters.value("sge.messages_lost"), 1500U);
}

/// The 63 entries of a list were read for each message that needs 64, 3 ms in one event.
TEST_F(SgeTest, AMessageThatItsFreeListCannotHoldIsLostAtOnce) {
    ready();
    FreeList tiny{host, 63, 2}; // the host has not added a buffer
    context(hw::context_cmd::free_list | 0, tiny.context());
    sge.post_cpl(0, Buffer(127, 0x23));
    EXPECT_EQ(counters.value("sge.messages_lost"), 1U);
    sge.post_cpl(0, Buffer(126, 0x23));
    EXPECT_EQ(counters.value("sge.messages_lost"), 1U) << "this one waits for buffers";
}

/// Its 64th entry is not in the guest's memory: 63 were read in vain for each of 512 messages.
TEST_F(SgeTest, OneReturnOfCreditsReadsALimitedNumberOfFreeListEntries) {
    ready();
    FreeList cut{host, 4096, 1};
    for (unsigned n = 0; n < 63; ++n)
        cut.add();
    host.unmap(cut.base + 63 * hw::free_list_entry, hw::free_list_entry);
    context(hw::context_cmd::free_list | 0, cut.context());
    context(hw::context_cmd::response_queue | 0, rq.context(1, small_buffer), {~0U, ~0U, 0x17ffffff, ~0U});
    for (unsigned n = 0; n < 1000; ++n)
        sge.post_cpl(0, Buffer(64, 0x23));
    const auto before = host.reads;
    credits(1);
    EXPECT_GT(host.reads, before);
    EXPECT_LE(host.reads - before, 300U);
    events.advance(events.now());
    EXPECT_EQ(counters.value("sge.messages_lost"), 1000U);
}

// --- Credits
// -------------------------------------------------------------------------------------------------

TEST_F(SgeTest, CreditsWaitForThresholdOrTimeout) {
    regs.write(reg::SG_CMDQ_CREDIT_TH, 35000 << 8 | 3); // 200 us, 3 descriptors
    ready();
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    ring(65528);
    EXPECT_FALSE(rq.next());
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    ring(65528);
    auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->flags(), 0x80000300U);
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    ring(65528);
    events.advance(199'000);
    EXPECT_FALSE(rq.next());
    events.advance(201'000);
    r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->flags(), 0x80000100U);
}

TEST_F(SgeTest, CreditsReturnWithTheNextResponse) {
    regs.write(reg::SG_CMDQ_CREDIT_TH, 35000 << 8 | 32);
    ready();
    offload.post({op(0x0d) | sop_eop, 0x1202, 0, 0});
    ring(0);
    sge.post_cpl(0, Buffer(8, 0x23));
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->opcode(), 0x23);
    EXPECT_EQ(r->credits(1), 1U);
    events.advance(1'000'000);
    EXPECT_FALSE(rq.next()) << "returned only once";
}

TEST_F(SgeTest, MoreCreditsThanTheFieldHolds) {
    regs.write(reg::SG_CMDQ_CREDIT_TH, 35000 << 8 | 255);
    queue_set();
    EgressRing big{host, 256};
    context(hw::context_cmd::egress | 65528, big.context(hw::EgressType::control, 65536, 0));
    for (unsigned n = 0; n < 200; ++n)
        big.post({op(0x01) | sop_eop, 2, 0, 0});
    enable();
    credits(rspq_entries - 1);
    ring(65528);
    events.advance(300'000);
    std::uint32_t sum = 0;
    while (const auto r = rq.next())
        sum += r->credits(2);
    EXPECT_EQ(sum, 200U);
}

// --- Responses
// -----------------------------------------------------------------------------------------------

TEST_F(SgeTest, ImmediateMessageAsInTheExample) {
    ready();
    Buffer establish(32);
    std::size_t at = 0;
    for (std::uint32_t w : {0x50000012U, 0xc3501d2fU, 0x0a000001U, 0x0a000002U, 0x10010000U, 0x00208320U,
                            0x10000001U, 0x20000001U}) {
        put_be32(&establish[at], w);
        at += 4;
    }
    sge.post_cpl(0, establish);
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(
        words(r->bytes),
        "50000000 00000000 e3000000 00000000 50000012 c3501d2f 0a000001 0a000002 10010000 00208320 10000001 "
        "20000001 00000000 00000000 00000000 00000001");
}

TEST_F(SgeTest, LongMessageTakesABuffer) {
    ready();
    const std::uint64_t buffer = fl0.add();
    Buffer cpl(48);
    for (std::size_t i = 0; i < cpl.size(); ++i)
        cpl[i] = static_cast<std::uint8_t>(i);
    cpl[0] = 0x39;
    sge.post_cpl(0, cpl);
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(words(Bytes(r->bytes).first(16)), "39000000 00000000 c3000000 00000030");
    EXPECT_EQ(words(host.bytes(buffer, 48)), words(cpl)) << "no padding in front";

    cpl[0] =
        static_cast<std::uint8_t>(hw::Cpl::pass_accept_req); // as long, but immediate: its end is reserved
    sge.post_cpl(0, cpl);
    const auto accept = rq.next();
    ASSERT_TRUE(accept);
    EXPECT_TRUE(accept->immediate());
}

TEST_F(SgeTest, TerminateCarriesItsTidAsHash) {
    ready();
    Buffer cpl(16);
    put_be32(&cpl[0], 0xa2000012);
    put_be32(&cpl[4], 1); // MSN
    put_be32(&cpl[12], 0x01020000);
    sge.post_cpl(0, cpl);
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(words(Bytes(r->bytes).first(28)),
              "a2000000 00001202 e3000000 00000000 00000001 00000000 01020000");
}

TEST_F(SgeTest, StarvedQueueKeepsMessagesInOrder) {
    ready();
    for (std::uint8_t n = 0; n < 40; ++n)
        sge.post_cpl(0, Buffer{0x23, 0, 0, n});
    EXPECT_NE(regs.read(reg::SG_RSPQ_FL_STATUS) & hw::rspq_fl_status::starved(0), 0U);
    std::uint8_t expected = 0;
    for (unsigned round = 0; round < 10; ++round) {
        unsigned got = 0;
        while (const auto r = rq.next()) {
            EXPECT_EQ(r->bytes[19], expected++);
            ++got;
        }
        EXPECT_LE(got, rspq_entries - 1);
        credits(got);
    }
    EXPECT_EQ(expected, 40);
    regs.write(reg::SG_RSPQ_FL_STATUS, ~0U);
    EXPECT_EQ(regs.read(reg::SG_RSPQ_FL_STATUS), 0U);
}

TEST_F(SgeTest, MessageWaitsForABuffer) {
    ready();
    sge.post_cpl(0, Buffer(100, 0x39));
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_FALSE(rq.next()) << "a later message does not overtake";
    fl0.add();
    events.advance(2'000'000);
    auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->opcode(), 0x39);
    r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->opcode(), 0x23);

    sge.post_cpl(0, Buffer(100, 0x39));
    fl0.add();
    regs.write(reg::SG_KDOORBELL, 0);
    EXPECT_TRUE(rq.next()) << "a free list doorbell wakes it at once";
}

TEST_F(SgeTest, CongestionStopsTheControlQueue) {
    ready();
    toe.on_control = [&](unsigned queue) { sge.post_cpl(queue, Buffer(8, 0x23)); };
    unsigned posted = 0, replies = 0;
    const auto take = [&] {
        unsigned n = 0;
        while (const auto r = rq.next()) {
            replies += r->immediate() ? 1 : 0;
            ++n;
        }
        credits(n);
    };
    // The host continues to post although it does not consume responses.
    while (posted < 1000) {
        const auto index = hw::egress_context::index.get(read_context(hw::context_cmd::egress | 65528));
        if ((control.index + 1) % control.entries == index)
            break;
        control.post({op(0x01) | sop_eop, 2, 0, 0});
        ++posted;
        ring(65528);
        events.advance(events.now());
    }
    EXPECT_LT(posted, rspq_entries + Responses::waiting_high + control.entries + 1);
    EXPECT_GE(toe.control.size(), Responses::waiting_high);
    while (replies < posted) {
        const unsigned before = replies;
        take();
        events.advance(events.now() + 1'000'000);
        ASSERT_GT(replies + 1, before);
        if (replies == before && !rq.next())
            break;
    }
    EXPECT_EQ(replies, posted);
    EXPECT_EQ(counters.value("sge.messages_lost"), 0U);
}

TEST_F(SgeTest, WaitingMessagesAreBoundedInBytes) {
    ready();
    std::size_t half = 0;
    for (unsigned n = 0; n < 3000; ++n) { // 24 MB
        sge.post_cpl(0, Buffer(8192, 0x39));
        half += sge.full(0) ? 0 : 1;
    }
    EXPECT_LE(sge.waiting_bytes(), Responses::waiting_bytes_limit);
    EXPECT_GT(sge.waiting_bytes(), Responses::waiting_bytes_limit - 10'000);
    EXPECT_GT(counters.value("sge.messages_lost"), 1000U);
    EXPECT_GT(half, 400U);
    EXPECT_LT(half, 600U) << "data from the wire is refused long before";
    context(hw::context_cmd::write << 28 | hw::context_cmd::response_queue | 0, {}, {0xffff0000, 0, 0, 0});
    EXPECT_EQ(sge.waiting_bytes(), 0U);
}

TEST_F(SgeTest, ResponsesWithoutAQueueAreDropped) {
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(counters.value("sge.messages_while_disabled"), 1U);
    enable();
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(regs.read(reg::SG_INT_CAUSE), hw::sg_int::rspq_disabled);
    EXPECT_EQ(regs.read(reg::SG_RSPQ_FL_STATUS), hw::rspq_fl_status::disabled(0));
    sge.post_cpl(9, Buffer(8, 0x23));
    EXPECT_EQ(counters.value("sge.messages_without_queue"), 2U);
    EXPECT_EQ(host.writes, 0U);
}

TEST_F(SgeTest, DisabledQueueIsNotWritten) {
    ready();
    context(hw::context_cmd::response_queue | 0, {}, {0xffff0000, 0, 0, 0});
    const auto writes = host.writes;
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(host.writes, writes);
}

TEST_F(SgeTest, CreditOverflowIsReported) {
    ready();
    credits(rspq_entries);
    EXPECT_EQ(regs.read(reg::SG_INT_CAUSE), hw::sg_int::rspq_credit_overflow);
}

// --- Free lists
// ----------------------------------------------------------------------------------------------

TEST_F(SgeTest, PacketHasPadAndCplInFront) {
    ready();
    const std::uint64_t buffer = fl0.add();
    const Buffer f = frame(100);
    ASSERT_TRUE(sge.post_packet(packet(f)));
    const auto r = rq.next();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->opcode(), 0x2b);
    EXPECT_EQ(r->flags(), hw::response::gen1 | hw::response::sop | hw::response::eop);
    EXPECT_EQ(r->length(), 110U);
    EXPECT_EQ(r->list(), 0U);
    EXPECT_EQ(*host.at(buffer + 2), 0x2b);
    const Bytes data = host.bytes(buffer + 10, 100);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), f.begin()));
    EXPECT_EQ(host.irqs[1], 1U);
}

TEST_F(SgeTest, ThresholdChoosesTheList) {
    ready();
    for (unsigned n = 0; n < 4; ++n) {
        fl0.add();
        fl1.add();
    }
    ASSERT_TRUE(sge.post_packet(packet(frame(small_buffer - 1 - 10))));
    EXPECT_EQ(rq.next()->list(), 0U);
    ASSERT_TRUE(sge.post_packet(packet(frame(small_buffer - 10))));
    const auto r = rq.next();
    EXPECT_EQ(r->list(), 1U);
    EXPECT_EQ(r->length(), small_buffer);
}

TEST_F(SgeTest, JumboTakesSeveralBuffers) {
    ready();
    const std::uint64_t first = fl1.add(), second = fl1.add();
    const Buffer f = frame(9014);
    ASSERT_TRUE(sge.post_packet(packet(f)));
    const auto a = rq.next(), b = rq.next();
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->flags() & (hw::response::sop | hw::response::eop), hw::response::sop);
    EXPECT_EQ(b->flags() & (hw::response::sop | hw::response::eop), hw::response::eop);
    EXPECT_EQ(a->length(), big_buffer);
    EXPECT_EQ(b->length(), 9014 + 10 - big_buffer);
    EXPECT_EQ(b->opcode(), 0x2b);
    Buffer got;
    for (auto [at, n] : {std::pair{first + 10, big_buffer - 10}, std::pair{second, b->length()}}) {
        const Bytes part = host.bytes(at, n);
        got.insert(got.end(), part.begin(), part.end());
    }
    EXPECT_EQ(got, f);
    EXPECT_EQ(host.irqs[1], 1U) << "one interrupt, after both";
}

TEST_F(SgeTest, EmptyListDropsThePacket) {
    ready();
    fl1.add(); // one of two buffers that a jumbo frame needs
    EXPECT_FALSE(sge.post_packet(packet(frame(9014))));
    EXPECT_EQ(regs.read(reg::SG_RSPQ_FL_STATUS), hw::rspq_fl_status::fl_empty(1));
    EXPECT_EQ(regs.read(reg::SG_INT_CAUSE), hw::sg_int::fl_empty);
    EXPECT_FALSE(rq.next());
    EXPECT_FALSE(sge.post_packet(packet(frame(60))));
    EXPECT_EQ(regs.read(reg::SG_RSPQ_FL_STATUS),
              hw::rspq_fl_status::fl_empty(0) | hw::rspq_fl_status::fl_empty(1));
    fl0.add();
    EXPECT_TRUE(sge.post_packet(packet(frame(60)))) << "no doorbell needed";
}

TEST_F(SgeTest, FreeListGenerationTurnsWithTheRing) {
    ready();
    for (unsigned n = 0; n < 5 * fl0.entries; ++n) {
        const std::uint64_t buffer = fl0.add();
        const Buffer f = frame(64 + n);
        ASSERT_TRUE(sge.post_packet(packet(f))) << n;
        const auto r = rq.next();
        ASSERT_TRUE(r);
        EXPECT_EQ(*host.at(buffer + 10 + 63), f[63]) << "buffers are used in ring order";
        EXPECT_FALSE(sge.post_packet(packet(f))) << "and the list is empty again";
        credits(1);
    }
}

TEST_F(SgeTest, ExtremeBufferSizes) {
    ready();
    FreeList tiny{host, 8, 1};
    tiny.add();
    context(hw::context_cmd::free_list | 0, tiny.context());
    EXPECT_FALSE(sge.post_packet(packet(frame(1000))));
    tiny.buffer_size = 0;
    context(hw::context_cmd::free_list | 0, tiny.context());
    EXPECT_FALSE(sge.post_packet(packet(frame(60))));
    sge.post_cpl(0, Buffer(100, 0x39));
    EXPECT_EQ(counters.value("sge.messages_lost"), 1U)
        << "a message that can never be delivered does not block";
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_TRUE(rq.next());
}

// --- Interrupts
// ----------------------------------------------------------------------------------------------

TEST_F(SgeTest, ArmedOnce) {
    ready();
    sge.post_cpl(0, Buffer(8, 0x23));
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(host.irqs[1], 1U) << "the host is polling";
    arm(2);
    EXPECT_EQ(host.irqs[1], 1U) << "it has processed both";
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_EQ(host.irqs[1], 2U);
    arm(2);
    EXPECT_EQ(host.irqs[1], 3U) << "one came while it was about to sleep";
}

TEST_F(SgeTest, IntxGoesThroughDataIntr) {
    queue_set();
    context(hw::context_cmd::response_queue | 0, rq.context(0, small_buffer, false));
    enable(hw::sg_control::one_int_mult_q);
    credits(rspq_entries - 1);
    arm(0);
    sge.post_cpl(0, Buffer(8, 0x23));
    EXPECT_TRUE(host.intx);
    EXPECT_TRUE(host.irqs.empty());
    regs.write(reg::PL_CLI, 0);
    EXPECT_FALSE(host.intx);
    EXPECT_EQ(regs.read(reg::SG_DATA_INTR), 1U);
    EXPECT_EQ(regs.read(reg::SG_DATA_INTR), 0U) << "cleared by the read";
}

// --- QP rings and user doorbells
// -----------------------------------------------------------------------------

TEST_F(SgeTest, SlotsAreFetchedAndUnfetched) {
    ready();
    EgressRing qp{host, 4};
    sge.open_qp_context(0x21, 0x12, qp.base, 4);
    EXPECT_EQ(read_context(hw::context_cmd::egress | 0x21),
              (hw::Context{0x00000010, static_cast<std::uint32_t>(qp.base >> 12 << 16) | 4,
                           static_cast<std::uint32_t>(qp.base >> 28), 0x80000400 | 0x12 << 11}));
    Slot slot;
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::empty);
    for (std::uint32_t n = 0; n < 10; ++n) {
        qp.post({op(0x14) | sop_eop, 6, n, 0});
        ASSERT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::slot);
        EXPECT_EQ(be32(&slot[8]), n);
        sge.unfetch_slot(0x21);
        ASSERT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::slot) << "also across the wrap";
        EXPECT_EQ(be32(&slot[8]), n);
        EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::empty);
    }
    host.unmap(qp.base, 4096);
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::bus_error);
    sge.invalidate_qp_context(0x21);
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::invalid_context);
    events.advance(1'000'000);
    EXPECT_FALSE(rq.next()) << "no descriptor credits for QP rings";
}

TEST_F(SgeTest, RingOfACongestedQueueIsNotEmpty) {
    ready();
    EgressRing qp{host, 4};
    sge.open_qp_context(0x21, 0x12, qp.base, 4);
    qp.post({op(0x14) | sop_eop, 6, 7, 0});
    for (std::size_t n = 0; n < rspq_entries + Responses::waiting_high; ++n)
        sge.post_cpl(0, Buffer(8, 0x23));
    Slot slot;
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::busy);
    const auto rung = rnic.doorbells.size();
    for (unsigned taken = 0; rq.next();)
        credits(++taken != 0);
    events.advance(events.now());
    EXPECT_EQ(rnic.doorbells.size(), rung + 1) << "read again when the queue has drained";
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::slot);
}

/// The host takes no responses, rings other doorbells until the turn is full, then that of the waiting ring.
TEST_F(SgeTest, RingWaitsForResponsesOnce) {
    constexpr QpId waiting = 0x21, busy = 0x40;
    ready();
    EgressRing qp{host, 4};
    sge.open_qp_context(waiting, 0x12, qp.base, 4);
    sge.open_qp_context(busy, 0x13, host.alloc(4096), 4);
    qp.post({op(0x14) | sop_eop, 6, 7, 0});
    for (std::size_t n = 0; n < rspq_entries + Responses::waiting_high; ++n)
        sge.post_cpl(0, Buffer(8, 0x23));
    Slot slot;
    auto fetched = SgeServices::Fetch::empty;
    rnic.on_doorbell = [&](QpId id) {
        if (id == waiting)
            fetched = sge.fetch_slot(id, slot);
    };
    const auto fill_the_turn = [&] {
        for (unsigned n = 0; n < 10; ++n)
            ring(busy);
        EXPECT_GE(sge.waiting_rings(), 1U) << "the busy ring has its next turn";
    };

    fill_the_turn();
    ring(waiting);
    EXPECT_EQ(sge.waiting_rings(), 2U);
    EXPECT_EQ(sge.fetch_slot(waiting, slot), SgeServices::Fetch::busy) << "by the Rnic, without a doorbell";
    EXPECT_EQ(sge.waiting_rings(), 2U) << "the ring has its next turn already";
    events.advance(events.now());
    EXPECT_EQ(fetched, SgeServices::Fetch::busy);
    EXPECT_EQ(sge.waiting_rings(), 1U);
    for (unsigned n = 0; n < 10; ++n) {
        fill_the_turn();
        ring(waiting);
        events.advance(events.now());
        ASSERT_EQ(sge.waiting_rings(), 1U);
    }

    const auto served = [&] { return std::count(rnic.doorbells.begin(), rnic.doorbells.end(), waiting); };
    const auto before = served();
    while (rq.next())
        credits(1);
    events.advance(events.now());
    EXPECT_EQ(served(), before + 1) << "once, when the queue has drained";
    EXPECT_EQ(fetched, SgeServices::Fetch::slot);
    EXPECT_EQ(sge.waiting_rings(), 0U);
    ring(waiting);
    EXPECT_EQ(served(), before + 2) << "doorbells have an effect again";
}

TEST_F(SgeTest, DroppedDoorbellIsReportedAndTheNextServesBoth) {
    ready();
    faults.doorbell.arm(1);
    post_frame(frame(98));
    ring(8);
    EXPECT_TRUE(macs.sent.empty());
    EXPECT_EQ(regs.read(reg::SG_INT_CAUSE), hw::sg_int::db_drop);
    post_frame(frame(99));
    ring(8);
    EXPECT_EQ(macs.sent.size(), 2U);
    EXPECT_EQ(counters.value("faults.doorbells_dropped"), 1U);
}

TEST_F(SgeTest, StoppedFirmwareExecutesOnlyEthernet) {
    ready();
    EgressRing qp{host, 4};
    sge.open_qp_context(0x21, 0x12, qp.base, 4);
    faults.firmware_stopped = true;
    control.post({op(0x01) | sop_eop, 2, 0, 0});
    offload.post({op(0x01) | sop_eop, 2, 0, 0});
    qp.post({op(0x14) | sop_eop, 6, 0, 0});
    post_frame(frame(98));
    for (const unsigned id : {65528U, 0U, 8U})
        ring(id);
    Slot slot;
    EXPECT_EQ(sge.fetch_slot(0x21, slot), SgeServices::Fetch::busy);
    EXPECT_TRUE(toe.control.empty());
    EXPECT_TRUE(toe.offload.empty());
    EXPECT_EQ(macs.sent.size(), 1U);
}

TEST_F(SgeTest, LateAnswersAreEachLateAndInOrder) {
    ready();
    const auto cpl = [](std::uint32_t tid) {
        return Buffer{0x31, 0, 0, static_cast<std::uint8_t>(tid), 0, 0, 0, 0};
    };
    const auto next_tid = [this] {
        const auto message = rq.next();
        return message ? int{message->bytes[19]} : -1;
    };
    faults.answer_delay = 1000;
    sge.post_cpl(0, cpl(1));
    events.advance(600);
    sge.post_cpl(0, cpl(2));
    EXPECT_EQ(next_tid(), -1);
    events.advance(1000);
    EXPECT_EQ(next_tid(), 1);
    EXPECT_EQ(next_tid(), -1) << "each has its own delay";
    // The fault ends: what comes now must not overtake.
    faults.answer_delay = 0;
    sge.post_cpl(0, cpl(3));
    EXPECT_EQ(next_tid(), -1);
    events.advance(1600);
    EXPECT_EQ(next_tid(), 2);
    EXPECT_EQ(next_tid(), 3);
    sge.post_cpl(0, cpl(4));
    EXPECT_EQ(next_tid(), 4);
    EXPECT_EQ(counters.value("faults.answers_late"), 3U);
}

TEST_F(SgeTest, LateAnswersDoNotSurviveAReset) {
    ready();
    faults.answer_delay = 1000;
    sge.post_cpl(0, Buffer{0x31, 0, 0, 1, 0, 0, 0, 0});
    sge.reset();
    faults.reset();
    ready();
    events.advance(2000);
    EXPECT_FALSE(rq.next());
    EXPECT_EQ(faults.answer_delay, 0U);
}

TEST_F(SgeTest, QueueSetContextsAreNoQps) {
    ready();
    const hw::Context before = read_context(hw::context_cmd::egress | 8);
    sge.open_qp_context(8, 0, host.base(), 16);
    sge.open_qp_context(65528, 0, host.base(), 16);
    sge.invalidate_qp_context(8);
    EXPECT_EQ(read_context(hw::context_cmd::egress | 8), before);
}

TEST_F(SgeTest, UserDoorbellIsBoundToItsPage) {
    constexpr std::uint64_t window = 8 << 20;
    ready();
    for (QpId qp : {0x21U, 0x40U, 0x41U})
        sge.open_qp_context(qp, 0x12, host.base(), 4);
    sge.user_doorbell(0x1000, 0x21, window); // page 1 holds 32..63
    sge.user_doorbell(0x1ffc, 0x21, window);
    sge.user_doorbell(0x2000, 0x21, window); // page 2: becomes 0x41
    sge.user_doorbell(0x1000, 0x80000021, window);
    sge.user_doorbell(0x1000, 0x22, window); // no such QP
    EXPECT_EQ(rnic.doorbells, (std::vector<QpId>{0x21, 0x21, 0x41, 0x21}));
    ring(0x40);
    EXPECT_EQ(rnic.doorbells.back(), 0x40U);
}

// The driver states the size of the host's pages. Each has more QPs, the larger it is.
TEST_F(SgeTest, DoorbellPagesHaveTheSizeOfTheHosts) {
    constexpr std::uint64_t window = 8 << 20;
    ready();
    for (QpId qp : {0x21U, 0x41U, 0xc1U, 0x241U})
        sge.open_qp_context(qp, 0x12, host.base(), 4);
    const auto host_pages = [&](unsigned shift) {
        const std::uint32_t others = regs.peek(reg::SG_CONTROL) & ~(7U << 11);
        regs.write(reg::SG_CONTROL, others | (shift - 11) << 11);
    };
    host_pages(14);
    sge.user_doorbell(0x3000, 0x21, window); // page 0 holds 0..127
    sge.user_doorbell(0x4000, 0x41, window); // page 1
    host_pages(16);
    sge.user_doorbell(0x4000, 0x41, window); // page 0 holds 0..511
    sge.user_doorbell(0x10000, 0x41, window);
    EXPECT_EQ(rnic.doorbells, (std::vector<QpId>{0x21, 0xc1, 0x41, 0x241}));
}

/// The port of the second request is in its SGL, where a look at its descriptor does not see it. It replaced
/// the request that waited for the port. A host that changes a descriptor in between could do the same.
TEST_F(SgeTest, ARequestWhosePortIsSeenLateWaitsToo) {
    ready();
    constexpr std::uint32_t control =
        0x0e000000 | 1U << 16 | hw::cpl::tx_l4_csum_off | hw::cpl::tx_ip_csum_off;
    constexpr std::uint32_t first = 64, second = 80;
    const auto packet = [](std::uint32_t size) {
        Buffer cpl(8);
        put_be32(&cpl[0], control);
        put_be32(&cpl[4], size);
        const Buffer f = frame(size);
        cpl.insert(cpl.end(), f.begin(), f.end());
        return cpl;
    };
    const Buffer inside = packet(first), outside = packet(second);
    Buffer d(8 + inside.size());
    put_be32(&d[0], op(0x03) | sop_eop);
    put_be32(&d[4], static_cast<std::uint32_t>(d.size() / 8));
    std::copy(inside.begin(), inside.end(), d.begin() + 8);
    eth.post(d);
    const std::uint64_t at = host.alloc(outside.size());
    host.put(at, outside);
    eth.post({op(0x03) | sop_eop | hw::wr::sgl | 1U << 8, 3, 8 + second, 0,
              static_cast<std::uint32_t>(at >> 32), static_cast<std::uint32_t>(at)});
    macs.ready = false;
    ring(8);
    EXPECT_TRUE(macs.sent.empty());
    macs.ready = true;
    nic.resume(1);
    ASSERT_EQ(macs.sent.size(), 2U);
    EXPECT_EQ(macs.sent[0].second.size(), first);
    EXPECT_EQ(macs.sent[1].second.size(), second);
}

} // namespace t3sim::test
