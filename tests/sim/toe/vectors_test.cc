// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Active open, MPA exchange, RDMA_INIT: the example of docs/hw/test-vectors.md 4, word by word.
#include <gtest/gtest.h>

#include "tests/sim/toe/lab.hh"

namespace t3sim::test {
namespace {

/// Allocates TIDs with opens that fail, so that the next connection of @p m gets the TID of the example.
void skip_tids(Machine& m, Tid next) {
    m.mac.wire = nullptr;
    for (Tid tid = 0; tid < next; ++tid)
        m.control("01c00000 81000005 " + word(0x03020000 | tid) + " " + word((40000 + tid) << 16 | 9) +
                  " 0a000063 0a000064 804d0010 10100000 00000000 00008c00");
}

TEST(ToeVectors, ActiveOpenMpaExchangeRdmaInitClose) {
    TwoCards lab;
    Machine &a = lab.a, &b = lab.b;
    EXPECT_EQ(a.next(), "2e000000 00000000");
    EXPECT_EQ(a.next(), "23000001 00000000");
    b.opcodes();
    skip_tids(a, 0x12);
    skip_tids(b, 0x15);
    lab.join(a, b);
    lab.join(b, a);

    b.control(TwoCards::pass_open);
    EXPECT_EQ(b.next(), "41003d7c 1d2f0000 00000000 00000000 00000000 00000000");

    a.control(TwoCards::act_open);
    EXPECT_EQ(a.next(), "");
    lab.run();
    EXPECT_EQ(b.next(), "70000015 1d2fc350 0a000002 0a000001 10003d7c 05b40300 00074333 44000fff 00074311 "
                        "22008000 10000000 00000000");
    b.control("01c00000 81000004 02000015 00008c00 00008c00 0a000001 804d0010 10100000");
    lab.run();
    EXPECT_EQ(a.next(), "50000012 c3501d2f 0a000001 0a000002 10010000 00208320 10000001 20000001");
    EXPECT_EQ(b.next(), "51000015 1d2fc350 0a000002 0a000001 10003d7c 00208320 20000001 10000001");

    a.offload("0de10000 80001207 00000019 00040000 10000001 00010000 4d504120 49442052 65712046 72616d65 "
              "40010005 68656c6c 6f000000 00000000");
    EXPECT_EQ(a.next(), "a0000012 00010000 1000001a 10000001");
    lab.run();
    EXPECT_EQ(b.next(), "39000015 00000019 10000001 00000000 4d504120 49442052 65712046 72616d65 40010005 "
                        "68656c6c 6f");
    b.control("01c00000 81000002 0d000015 10000019");

    b.offload("10c00000 80001509 00000000 00000000 00000040 00000003 00000004 00000005 00000800 00000010 "
              "0c0705b4 00000000 00000004 00000004 00000002 34567000 00000020 1000001a");
    EXPECT_EQ(b.next(), "");
    b.offload("0de40000 80001506 00000014 00040000 20000001 00010000 4d504120 49442052 65702046 72616d65 "
              "40010000 00000000");
    EXPECT_EQ(b.next(), "a0000015 00010000 20000015 20000001");
    lab.run();
    EXPECT_EQ(a.next(), "39000012 00000014 20000001 00000000 4d504120 49442052 65702046 72616d65 40010000");

    a.rnic.init_acknowledged = true;
    a.offload("10c00000 80001209 00000000 00000000 00000021 00000001 00000001 00000002 00000400 00000010 "
              "0c0705b4 00010001 00000004 00000004 00000001 23456000 00000020 20000015");
    EXPECT_EQ(a.next(), "a0000012 00010000 1000001a 1000001a");
    a.control("01c00000 81000002 0d000012 10000014");
    lab.run();
    EXPECT_EQ(a.next(), "");
    EXPECT_EQ(b.next(), "");
    EXPECT_EQ(a.rnic.log, std::vector<std::string>{"wr 10c00000 at 20000015"});
    EXPECT_EQ(b.rnic.log, (std::vector<std::string>{"wr 10c00000 at 1000001a", "switched"}));

    a.rnic.on_close = [&](Tid tid) { a.toe.send_fin(tid); };
    b.rnic.on_close = [&](Tid tid) { b.toe.send_fin(tid); };
    a.offload("09c00000 80001202 08000012 00000000");
    lab.run();
    EXPECT_EQ(b.next(), "26000015 1000001b");
    EXPECT_EQ(a.next(), "32000012 00000000 1000001b 20000015");
    b.offload("09c00000 80001502 08000015 00000000");
    lab.run();
    EXPECT_EQ(a.next(), "26000012 20000016");
    EXPECT_EQ(b.next(), "32000015 00000000 20000016 1000001b");
    EXPECT_EQ(a.next(), "");
    EXPECT_EQ(b.next(), "");
    EXPECT_EQ(a.rnic.log.back(), "gone");
    EXPECT_EQ(b.rnic.log.back(), "gone");
}

} // namespace
} // namespace t3sim::test
