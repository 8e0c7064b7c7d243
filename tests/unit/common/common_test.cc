// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "userspace/common/be.hh"
#include "userspace/common/field.hh"
#include "userspace/common/ring.hh"
#include "userspace/common/spinlock.hh"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <thread>

using namespace common;

TEST(ByteOrder, BigEndianPutsTheHighByteFirst) {
    const uint32_t v = to_be(uint32_t{0x11223344});
    uint8_t b[4];
    std::memcpy(b, &v, 4);
    EXPECT_EQ(b[0], 0x11);
    EXPECT_EQ(b[3], 0x44);
    EXPECT_EQ(from_be(v), 0x11223344u);
    EXPECT_EQ(to_be(uint8_t{7}), 7);
    EXPECT_EQ(byteswap(uint16_t{0x1234}), 0x3412);
    EXPECT_EQ(byteswap(uint64_t{0x0102030405060708}), 0x0807060504030201u);
}

TEST(Field, PrepAndGetAreInverse) {
    static_assert(field_prep<0x0ff0u>(0x12) == 0x120);
    static_assert(field_get<0x0ff0u>(0xf12fu) == 0x12);
    static_assert(field_prep<0x0ff0u>(0x1ff) == 0xff0, "what does not fit is cut off, not spilled");
}

TEST(Ring, LapBitStartsAtOneAndAlternates) {
    const RingSize r(3);
    EXPECT_TRUE(r.lap_bit(0));
    EXPECT_TRUE(r.lap_bit(7));
    EXPECT_FALSE(r.lap_bit(8));
    EXPECT_TRUE(r.lap_bit(16));
    EXPECT_FALSE(r.lap_bit(0xffffffff));
    EXPECT_TRUE(r.lap_bit(0xffffffffu + 1u)) << "no seam at 2^32";
    const RingSize one(0);
    EXPECT_EQ(one.entries(), 1u);
    EXPECT_NE(one.lap_bit(0), one.lap_bit(1));
}

TEST(Ring, WithinIsADifference) {
    EXPECT_TRUE(counter_within(5, 5, 6));
    EXPECT_FALSE(counter_within(6, 5, 6));
    EXPECT_FALSE(counter_within(4, 5, 6));
    EXPECT_FALSE(counter_within(5, 5, 5));
    EXPECT_TRUE(counter_within(1, 0xfffffff0, 2));
    EXPECT_FALSE(counter_within(2, 0xfffffff0, 2));
}

TEST(Ring, FullReadsTheHeadAgain) {
    RingCounters c;
    c.reset(0xfffffffe);
    c.publish_tail(2);
    EXPECT_TRUE(c.full(4));
    EXPECT_FALSE(c.full(5));
    c.publish_head(0xffffffff);
    EXPECT_FALSE(c.full(4));
}

TEST(SpinLock, KeepsThreadsApart) {
    SpinLock lock;
    uint64_t n = 0;
    auto work = [&] {
        for (int i = 0; i < 50000; i++) {
            std::lock_guard guard(lock);
            n++;
        }
    };
    std::thread a(work), b(work);
    a.join();
    b.join();
    EXPECT_EQ(n, 100000u);
}

TEST(SpinLock, SwitchedOffItNeverWaits) {
    SpinLock lock(false);
    lock.lock();
    lock.lock();
    lock.unlock();
}
