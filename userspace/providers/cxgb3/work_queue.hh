// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What software remembers of posted requests until they complete. The posting thread is the producer (under
// the QP's lock), the polling thread the consumer (under the lock of the queue's CQ); the two meet only in
// the counters of a common::RingCounters.
//
// Arrays instead of an array of structures: a send touches 8 + 1 bytes here, a receive 8.
#pragma once

#include "include/hw/t3_cqe.h"
#include "userspace/common/ring.hh"
#include "userspace/providers/cxgb3/types.hh"

#include <atomic>
#include <cstdint>
#include <memory>

namespace t3 {

// Sends, writes, reads, binds and invalidates of one QP, in posting order.
//
// Two facts of the card carry the bookkeeping. Everything but reads is executed and completed in order, so
// one completion stands for all earlier ones. Reads complete in order among themselves, late, and without
// saying which one they are. So two positions say everything: up to where requests are known to be executed,
// and the oldest read that still waits for its data. Nothing is delivered past that read: its slot must not
// be reused.
class SendQueue {
public:
    explicit SendQueue(unsigned log2)
        : size_(log2), wr_id_(new uint64_t[size_.entries()]), meta_(new uint8_t[size_.entries()]),
          read_bytes_(new uint32_t[size_.entries()]), signaled_(new uint32_t[size_.entries()]),
          reads_(new uint32_t[size_.entries()]) {}

    // ---- producer

    bool full() { return ring_.full(size_.entries()); }
    uint32_t next_position() const { return ring_.tail_relaxed(); }

    void push(uint64_t wr_id, WorkOp op, bool signaled, uint32_t read_bytes) {
        const uint32_t pos = ring_.tail_relaxed(), i = size_.index(pos);
        wr_id_[i] = wr_id;
        meta_[i] = static_cast<uint8_t>(static_cast<unsigned>(op) | (signaled ? signaled_flag : 0u));
        if (signaled) {
            const uint32_t t = signaled_tail_.load(std::memory_order_relaxed);
            signaled_[size_.index(t)] = pos;
            signaled_tail_.store(t + 1, std::memory_order_relaxed);
        }
        if (op == WorkOp::read) {
            const uint32_t t = reads_tail_.load(std::memory_order_relaxed);
            reads_[size_.index(t)] = pos;
            read_bytes_[i] = read_bytes;
            reads_tail_.store(t + 1, std::memory_order_relaxed);
        }
        ring_.publish_tail(pos + 1);
    }

    // ---- consumer

    // False for a position that is retired already: a late entry of a flushed or reused QP.
    bool holds(uint32_t pos) const {
        return !flushing_ && common::counter_within(pos, ring_.head_relaxed(), ring_.tail());
    }

    // The card has executed `pos`, which is not a read. `pos` must be held.
    void executed(uint32_t pos) { raise_executed(pos + 1); }

    // Data of the oldest read has arrived. False: no read waits (a stray entry).
    bool read_arrived() {
        (void)ring_.tail(); // acquires what push() stored
        if (flushing_ || reads_head_ == reads_tail_.load(std::memory_order_relaxed))
            return false;
        raise_executed(reads_[size_.index(reads_head_++)] + 1);
        return true;
    }

    // The card has refused `pos`: whatever comes before is executed, whatever comes after never will be.
    void failed(uint32_t pos, uint8_t status) {
        raise_executed(pos);
        failed_pos_ = pos;
        failed_status_ = status;
    }

    // The oldest read was refused. False: no read waits.
    bool read_failed(uint8_t status) {
        (void)ring_.tail();
        if (flushing_ || reads_head_ == reads_tail_.load(std::memory_order_relaxed))
            return false;
        failed(reads_[size_.index(reads_head_)], status);
        return true;
    }

    // The next completion owed to the consumer. Unsignaled requests are retired on the way.
    bool next_done(Completion& c) {
        const uint32_t head = ring_.head_relaxed(), done = done_until(head);
        if (done == head)
            return false;
        if (signaled_head_ != signaled_tail_.load(std::memory_order_relaxed)) {
            const uint32_t pos = signaled_[size_.index(signaled_head_)];
            if (common::counter_within(pos, head, done)) {
                signaled_head_++;
                deliver(pos, T3_STATUS_SUCCESS, c);
                return true;
            }
        }
        ring_.publish_head(done);
        return false;
    }

    // True if next_done() has more to do: the completion just delivered was not the last of its batch.
    bool more_done() const { return done_until(ring_.head_relaxed()) != ring_.head_relaxed(); }

    // As next_done(), for a QP in error. First what was executed before the error; from then on everything is
    // delivered as flushed, signaled or not, and what the card may still report is ignored.
    bool next_flushed(Completion& c) {
        const uint32_t tail = ring_.tail();
        if (!flushing_) {
            if (next_done(c))
                return true;
            flushing_ = true;
        }
        const uint32_t pos = ring_.head_relaxed();
        if (pos == tail)
            return false;
        // Nothing reads the positions any more, but they stay in step with the head.
        const uint8_t meta = meta_[size_.index(pos)];
        signaled_head_ += (meta & signaled_flag) != 0;
        if ((meta & ~signaled_flag) == static_cast<uint8_t>(WorkOp::read) && oldest_read_is(pos))
            reads_head_++;
        executed_until_ = pos + 1;
        const bool refused = failed_status_ != T3_STATUS_SUCCESS && pos == failed_pos_;
        deliver(pos, refused ? failed_status_ : static_cast<uint8_t>(T3_STATUS_FLUSH), c);
        return true;
    }

    // Both sides idle: a QP goes back to RESET.
    void reset(uint32_t start = 0) {
        ring_.reset(start);
        signaled_tail_ = signaled_head_ = 0;
        reads_tail_ = reads_head_ = 0;
        executed_until_ = start;
        failed_status_ = T3_STATUS_SUCCESS;
        flushing_ = false;
    }

private:
    static constexpr uint8_t signaled_flag = 0x80;

    uint32_t done_until(uint32_t head) const {
        if (reads_head_ == reads_tail_.load(std::memory_order_relaxed))
            return executed_until_;
        const uint32_t oldest_read = reads_[size_.index(reads_head_)];
        return oldest_read - head < executed_until_ - head ? oldest_read : executed_until_;
    }

    void raise_executed(uint32_t until) {
        const uint32_t head = ring_.head_relaxed();
        if (until - head > executed_until_ - head)
            executed_until_ = until;
    }

    bool oldest_read_is(uint32_t pos) const {
        return reads_head_ != reads_tail_.load(std::memory_order_relaxed) &&
               reads_[size_.index(reads_head_)] == pos;
    }

    void deliver(uint32_t pos, uint8_t status, Completion& c) {
        const uint32_t i = size_.index(pos);
        c.wr_id = wr_id_[i];
        c.op = static_cast<WorkOp>(meta_[i] & ~signaled_flag);
        c.status = status;
        c.byte_len = c.op == WorkOp::read && status == T3_STATUS_SUCCESS ? read_bytes_[i] : 0;
        c.invalidated_stag = 0;
        c.with_invalidate = false;
        ring_.publish_head(pos + 1);
    }

    const common::RingSize size_;
    const std::unique_ptr<uint64_t[]> wr_id_;
    const std::unique_ptr<uint8_t[]> meta_;        // WorkOp and signaled_flag
    const std::unique_ptr<uint32_t[]> read_bytes_; // only of reads
    const std::unique_ptr<uint32_t[]> signaled_;   // positions of signaled requests, a ring of its own
    const std::unique_ptr<uint32_t[]> reads_;      // positions of reads, a ring of its own
    std::atomic<uint32_t> signaled_tail_{0};
    std::atomic<uint32_t> reads_tail_{0};

    common::RingCounters ring_; // keeps producer and consumer on separate lines
    uint32_t signaled_head_ = 0;
    uint32_t reads_head_ = 0;
    uint32_t executed_until_ = 0;
    uint32_t failed_pos_ = 0;
    uint8_t failed_status_ = T3_STATUS_SUCCESS;
    bool flushing_ = false;
};

// Receives of one QP. Messages arrive in order; the card checks only four bits of the message sequence
// number, so the whole of it is compared here.
class RecvQueue {
public:
    explicit RecvQueue(unsigned log2) : size_(log2), wr_id_(new uint64_t[size_.entries()]) {}

    // ---- producer

    // One entry stays free: the card takes a completely full queue for an empty one.
    bool full() { return ring_.full(size_.entries() - 1); }
    void push(uint64_t wr_id) {
        const uint32_t pos = ring_.tail_relaxed();
        wr_id_[size_.index(pos)] = wr_id;
        ring_.publish_tail(pos + 1);
    }

    // ---- consumer

    bool empty() const { return ring_.head_relaxed() == ring_.tail(); }
    uint32_t expected_msn() const { return ring_.head_relaxed() + 1; }

    // Retires the oldest receive. It must not be empty.
    uint64_t pop() {
        const uint32_t pos = ring_.head_relaxed();
        const uint64_t wr_id = wr_id_[size_.index(pos)];
        ring_.publish_head(pos + 1);
        return wr_id;
    }

    void reset(uint32_t start = 0) { ring_.reset(start); }

private:
    const common::RingSize size_;
    const std::unique_ptr<uint64_t[]> wr_id_;
    common::RingCounters ring_;
};

} // namespace t3
