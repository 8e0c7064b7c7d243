// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Barriers between this CPU and a device, each named after what a driver needs it for. Two observers exist:
// the device reading or writing host memory (DMA), and the device's registers (MMIO). Threads among
// themselves use std::atomic instead.
//
// On x86 stores to ordinary memory are seen in order by a device, and a store to an uncached page waits for
// them: only the compiler must not reorder them. Other CPUs need an instruction.
#pragma once

namespace common {

#ifdef T3_COUNT_BARRIERS // for bench/fastpath_counted and barrier_test: how many were passed, whatever they
                         // are on this CPU
inline unsigned long barriers_passed;
inline void (*barrier_observer)(); // called where the barrier is
inline void pass_barrier() {
    barriers_passed++;
    if (barrier_observer)
        barrier_observer();
}
#define T3_PASS_BARRIER() common::pass_barrier()
#else
#define T3_PASS_BARRIER() (void)0
#endif

// What is loaded after was written by the device no earlier than what was loaded before: a completion's
// fields after its valid bit.
inline void dma_consume_barrier() {
#if defined(__x86_64__) || defined(__i386__)
    asm volatile("" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("dmb oshld" ::: "memory");
#else
    __sync_synchronize();
#endif
}

// Everything stored before is visible to DMA before a doorbell stored after.
inline void doorbell_barrier() {
    T3_PASS_BARRIER();
#if defined(__x86_64__) || defined(__i386__)
    asm volatile("" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("dmb oshst" ::: "memory");
#else
    __sync_synchronize();
#endif
}

} // namespace common
