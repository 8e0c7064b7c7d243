// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "userspace/common/be.hh"
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
