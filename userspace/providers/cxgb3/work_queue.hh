// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The record of posted requests until they complete. The posting thread is the producer (under
// the QP's lock), the polling thread the consumer (under the lock of the queue's CQ). They share
// counters only: each publishes its own with release, so that entries need no lock.
//
// Counters run freely through 2^32 and are masked only to index.
#pragma once

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_host.h"
#include "userspace/common/ring.hh"
#include "userspace/providers/cxgb3/types.hh"

#include <atomic>
#include <cstdint>
#include <memory>

namespace t3 {

// One posted send, write, read, bind or invalidate: a quarter of a cache line. Its first and last fields have
// the places that they have in a work completion, so that one copy fills both.
struct SendEntry {
    uint64_t wr_id;
    uint32_t more; // a read: how many bytes; any other: its flags
    uint32_t op;   // WorkOp, and unsignaled_read

    static constexpr uint32_t signaled_flag = 2;       // where IBV_SEND_SIGNALED is
    static constexpr uint32_t unsignaled_read = 0x100; // it makes no work completion

    static SendEntry of(uint64_t wr_id, WorkOp op, uint32_t flags) {
        return {wr_id, flags, static_cast<uint32_t>(op)};
    }
    static SendEntry of_read(uint64_t wr_id, uint32_t bytes, bool signaled) {
        return {wr_id, bytes, static_cast<uint32_t>(WorkOp::read) | (signaled ? 0 : unsignaled_read)};
    }
    WorkOp work_op() const { return static_cast<WorkOp>(op & 0xff); }
    bool is_read() const { return work_op() == WorkOp::read; }
    bool signaled() const {
        return is_read() ? op != unsignaled_read + static_cast<uint32_t>(WorkOp::read) : more & signaled_flag;
    }
};

// Sends, writes, reads, binds and invalidates of one QP, in posting order.
//
// The card executes all requests in order, and completes all except reads in order. So one completion also
// completes the unsignaled requests before it. Reads complete later, in order among themselves, and their
// CQEs carry no position. As long as no request completes that was posted after an unfinished read, the head
// of the queue is the only state, and the data path uses nothing else (completion.hh). Otherwise `ahead_`
// counts the requests from the head on that the card has executed. No completion is delivered for a request
// that was posted after an unfinished read: the read's place in the queue must not be reused.
class SendQueue {
public:
    SendQueue(unsigned log2, uint32_t qpid)
        : size_(log2), limit_(size_.entries()), entries_(new SendEntry[size_.entries()]),
          no_rkey_and_qpid_(t3_two_words(0, qpid)) {}

    uint32_t capacity() const { return size_.entries(); }
    // These two fields of a work completion: {0, QP number}.
    uint64_t no_rkey_and_qpid() const { return no_rkey_and_qpid_; }

    // ---- producer

    // Reads the consumer's counter only if its last value means full.
    bool seems_full(uint32_t tail) const { return tail == limit_; }
    bool full(uint32_t tail) {
        if (seems_full(tail))
            limit_ = head_.load(std::memory_order_acquire) + size_.entries();
        return seems_full(tail);
    }
    uint32_t tail_relaxed() const { return tail_.load(std::memory_order_relaxed); }

    // Writes the entry of a position that is not published yet.
    void record(uint32_t pos, const SendEntry& e) { entries_[size_.index(pos)] = e; }
    void record_read(uint32_t pos, const SendEntry& e) {
        record(pos, e);
        last_read_.store(pos, std::memory_order_relaxed);
    }
    void publish(uint32_t tail) { tail_.store(tail, std::memory_order_release); }

    // ---- consumer: the ordinary case, in which requests complete in the order of posting

    uint32_t head_relaxed() const { return head_.load(std::memory_order_relaxed); }
    uint32_t tail() const { return tail_.load(std::memory_order_acquire); }
    // False for a position that has completed already: a late entry of a flushed or reused QP.
    bool holds(uint32_t pos) const { return pos - head_relaxed() < tail() - head_relaxed(); }
    // The last read that was posted is not complete. last_read_ is written before the read is published and
    // replaces the position of an earlier read that may still be outstanding, so it counts at once.
    bool reads_outstanding() const {
        return last_read_.load(std::memory_order_relaxed) - head_relaxed() < size_.entries();
    }
    // No request from the head on is recorded as executed.
    bool in_order() const { return ahead_ == 0; }
    const SendEntry& entry(uint32_t pos) const { return entries_[size_.index(pos)]; }
    void complete(uint32_t pos) { head_.store(pos + 1, std::memory_order_release); }

    // ---- consumer: all cases

    bool flushing() const { return flushing_; }

    // The card has executed `pos`, which is held and not a read. Behind a request that failed it executes
    // nothing.
    void executed(uint32_t pos) {
        if (!has_failed_ || pos - head_relaxed() < failed_pos_ - head_relaxed())
            raise_executed(pos + 1);
    }

    // Data of the oldest read has arrived. False: no read waits (a stray entry).
    bool read_arrived();
    // The card reports an error for `pos`: all requests before it are executed, and those after it never will
    // be. `pos` completes with the error, in its turn; the later ones belong to the card until the flush.
    void failed(uint32_t pos, uint8_t status);
    // The oldest read has failed. False: no read waits.
    bool read_failed(uint8_t status);

    // The next completion for the program. Unsignaled requests before it complete with it.
    bool next_done(Completion& c);
    // How many completions next_done() would give.
    uint32_t ready() const;
    uint32_t outstanding() const { return tail() - head_relaxed(); }
    // True if next_done() has more to do: the completion just delivered was not the last of its batch.
    bool more_done() const { return done() != 0 || failure_is_next(); }

    // As next_done(), for a QP in error. The requests that were executed before the error come first. All
    // later ones are delivered as flushed, signaled or not, and later CQEs of the card are ignored.
    bool next_flushed(Completion& c);

    // Both sides idle: a QP goes back to RESET.
    void reset(uint32_t start = 0);

private:
    // Requests from the head on that are executed and not held back by a read.
    uint32_t done() const;
    bool failure_is_next() const { return failure_undelivered_ && head_relaxed() == failed_pos_; }
    bool next_failed(Completion& c);
    // Where the oldest read is that waits for its data, or the tail.
    uint32_t oldest_read(uint32_t tail) const;
    void raise_executed(uint32_t until) {
        const uint32_t ahead = until - head_relaxed();
        if (ahead > ahead_)
            ahead_ = ahead;
    }
    void advance(uint32_t n);
    void deliver(uint32_t pos, uint8_t status, Completion& c) const;

    // Written by the poster.
    const common::RingSize size_;
    std::atomic<uint32_t> tail_{0};
    uint32_t limit_;                       // the tail may run up to here
    std::atomic<uint32_t> last_read_{~0u}; // its position, if it is still held
    const std::unique_ptr<SendEntry[]> entries_;
    const uint64_t no_rkey_and_qpid_;

    // Written by the poller.
    alignas(64) std::atomic<uint32_t> head_{0};
    uint32_t ahead_ = 0;   // positions from the head on that the card has executed; reads among them may lack
                           // their data
    bool arrived_ = false; // the data of the oldest of these reads has come
    bool has_failed_ = false;          // the card reported an error for failed_pos_
    bool failure_undelivered_ = false; // its completion is not delivered yet
    uint32_t failed_pos_ = 0;
    uint8_t failed_status_ = T3_STATUS_SUCCESS;
    bool flushing_ = false;
};

// Receives of one QP. Messages arrive in order.
class RecvQueue {
public:
    RecvQueue(unsigned log2, uint32_t qpid)
        : size_(log2), limit_(capacity()), wr_id_(new uint64_t[size_.entries()]),
          no_rkey_and_qpid_(t3_two_words(0, qpid)) {}

    // One entry stays free: the card takes a completely full queue for an empty one.
    uint32_t capacity() const { return size_.entries() - 1; }
    // These two fields of a work completion: {0, QP number}.
    uint64_t no_rkey_and_qpid() const { return no_rkey_and_qpid_; }

    // ---- producer

    bool seems_full(uint32_t tail) const { return tail == limit_; }
    bool full(uint32_t tail) {
        if (seems_full(tail))
            limit_ = head_.load(std::memory_order_acquire) + capacity();
        return seems_full(tail);
    }
    uint32_t tail_relaxed() const { return tail_.load(std::memory_order_relaxed); }
    void push(uint32_t pos, uint64_t wr_id) {
        wr_id_[size_.index(pos)] = wr_id;
        tail_.store(pos + 1, std::memory_order_release);
    }

    // ---- consumer

    uint32_t head_relaxed() const { return head_.load(std::memory_order_relaxed); }
    bool empty() const { return head_relaxed() == tail_.load(std::memory_order_acquire); }
    uint32_t outstanding() const { return tail_.load(std::memory_order_acquire) - head_relaxed(); }
    bool holds(uint32_t head) const { return head != tail_.load(std::memory_order_acquire); }
    uint64_t wr_id(uint32_t head) const { return wr_id_[size_.index(head)]; }
    void complete(uint32_t head) { head_.store(head + 1, std::memory_order_release); }
    // Messages are counted from 1.
    static uint32_t msn(uint32_t head) { return head + 1; }

    void reset(uint32_t start = 0) {
        head_.store(start, std::memory_order_relaxed);
        tail_.store(start, std::memory_order_relaxed);
        limit_ = start + capacity();
    }

private:
    const common::RingSize size_;
    std::atomic<uint32_t> tail_{0};
    uint32_t limit_;
    const std::unique_ptr<uint64_t[]> wr_id_;
    const uint64_t no_rkey_and_qpid_;
    alignas(64) std::atomic<uint32_t> head_{0};
};

} // namespace t3
