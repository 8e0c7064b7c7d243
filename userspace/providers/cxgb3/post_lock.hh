// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The lock of a QP's posting side. One word holds two bits:
//
//   ring   a thread changes the ring. For some tens of instructions.
//   batch  a batch is open: from ibv_wr_start() until ibv_wr_complete() or ibv_wr_abort(), for as long as
//          the program decides.
//
// An open batch excludes all other sends, since they take the same positions of the send queue. It does not
// exclude receives, which a program may post at any time, also from the thread that has the batch open, and
// which the card must see at once. Both share the ring, and the card stops at the first slot that is not
// valid: an open batch in the ring would hide the receives after it. Therefore nothing of a batch is in the
// ring before ibv_wr_complete().
//
// It can be switched off for programs that promise to post from one thread only. Then no atomic instruction
// is used and nothing waits, but the word still records an open batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

namespace t3 {

class PostLock {
public:
    explicit PostLock(bool needed) : needed_(needed) {}
    PostLock(const PostLock&) = delete;
    PostLock& operator=(const PostLock&) = delete;

    // The ring, while no batch is open: the usual case, for sends and receives alike.
    bool try_lock() {
        if (needed_) [[likely]]
            return swap(free, ring);
        return word_.load(std::memory_order_relaxed) == free;
    }
    void unlock() { word_.store(free, std::memory_order_release); }

    // The ring for a send. False: a batch is open, of the only thread there is.
    bool lock_send() { return wait(free, ring) || word_.load(std::memory_order_relaxed) == free; }

    // The ring for a receive, whether a batch is open or not.
    void lock_receive() {
        for (unsigned spins = 0; needed_; spins++) {
            const uint32_t seen = word_.load(std::memory_order_relaxed);
            if (!(seen & ring) && swap(seen, seen | ring))
                return;
            pause(spins);
        }
    }
    // No other thread changes the word while its `ring` bit is set.
    void unlock_receive() {
        word_.store(word_.load(std::memory_order_relaxed) & batch, std::memory_order_release);
    }

    // A batch from its start to its end, and the ring for its end.
    void open_batch() {
        if (!wait(free, batch))
            word_.store(batch, std::memory_order_relaxed);
    }
    void lock_in_batch() { wait(batch, batch | ring); }
    void close_batch() { unlock(); }
    // The end without the ring, which a receive may have.
    void abort_batch() {
        if (!wait(batch, free))
            word_.store(free, std::memory_order_relaxed);
    }

private:
    enum : uint32_t { free = 0, ring = 1, batch = 2 };

    [[gnu::always_inline]] bool swap(uint32_t from, uint32_t to) {
        return word_.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
    }
    // False: no lock is needed, and nothing was done.
    [[gnu::always_inline]] bool wait(uint32_t from, uint32_t to) {
        if (!needed_) [[unlikely]]
            return false;
        if (!swap(from, to)) [[unlikely]]
            wait_long(from, to);
        return true;
    }
    [[gnu::cold, gnu::noinline]] void wait_long(uint32_t from, uint32_t to) {
        for (unsigned spins = 0; word_.load(std::memory_order_relaxed) != from || !swap(from, to); spins++)
            pause(spins);
    }
    // The owner may have lost its CPU: after a short spin the waiter offers its own.
    static void pause(unsigned spins) {
        if (spins >= 100)
            sched_yield();
    }

    std::atomic<uint32_t> word_{free};
    const bool needed_;
};

} // namespace t3
