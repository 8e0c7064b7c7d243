// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completing sends when a request has completed that was posted after an unfinished read, and when the
// connection has ended.
#include "userspace/providers/cxgb3/work_queue.hh"

namespace t3 {

uint32_t SendQueue::oldest_read(uint32_t tail) const {
    uint32_t pos = head_relaxed();
    while (pos != tail && !entry(pos).is_read())
        pos++;
    return pos;
}

// next_done() completes what is before a read that waits, so each entry is examined only once.
uint32_t SendQueue::done() const {
    const uint32_t head = head_relaxed();
    bool arrived = arrived_;
    for (uint32_t n = 0; n < ahead_; n++) {
        if (!entry(head + n).is_read())
            continue;
        if (!arrived)
            return n;
        arrived = false;
    }
    return ahead_;
}

void SendQueue::advance(uint32_t n) {
    for (uint32_t i = 0; arrived_ && i < n; i++)
        arrived_ = !entry(head_relaxed() + i).is_read();
    head_.store(head_relaxed() + n, std::memory_order_release);
    ahead_ -= n;
}

bool SendQueue::read_arrived() {
    const uint32_t end = tail(), read = oldest_read(end);
    if (flushing_ || read == end)
        return false;
    raise_executed(read + 1);
    arrived_ = true;
    return true;
}

void SendQueue::failed(uint32_t pos, uint8_t status) {
    if (has_failed_)
        return; // the first one counts
    raise_executed(pos);
    has_failed_ = failure_undelivered_ = true;
    failed_pos_ = pos;
    failed_status_ = status;
}

bool SendQueue::read_failed(uint8_t status) {
    const uint32_t end = tail(), read = oldest_read(end);
    if (flushing_ || read == end)
        return false;
    failed(read, status);
    return true;
}

bool SendQueue::next_done(Completion& c) {
    const uint32_t head = head_relaxed(), ready = done();
    for (uint32_t i = 0; i < ready; i++) {
        if (!entry(head + i).signaled())
            continue;
        deliver(head + i, T3_STATUS_SUCCESS, c);
        advance(i + 1);
        return true;
    }
    if (ready)
        advance(ready);
    return next_failed(c);
}

bool SendQueue::next_failed(Completion& c) {
    if (!failure_is_next())
        return false;
    failure_undelivered_ = false;
    deliver(failed_pos_, failed_status_, c);
    complete(failed_pos_);
    return true;
}

uint32_t SendQueue::ready() const {
    uint32_t n = 0;
    for (uint32_t i = 0, end = done(); i < end; i++)
        n += entry(head_relaxed() + i).signaled();
    return n;
}

bool SendQueue::next_flushed(Completion& c) {
    const uint32_t end = tail();
    if (!flushing_) {
        if (next_done(c))
            return true;
        flushing_ = true;
        ahead_ = 0;
        arrived_ = false;
    }
    const uint32_t pos = head_relaxed();
    if (pos == end)
        return false;
    if (next_failed(c))
        return true;
    deliver(pos, T3_STATUS_FLUSH, c);
    complete(pos);
    return true;
}

void SendQueue::deliver(uint32_t pos, uint8_t status, Completion& c) const {
    const SendEntry& e = entry(pos);
    c.wr_id = e.wr_id;
    c.op = e.work_op();
    c.status = status;
    c.byte_len = e.is_read() && status == T3_STATUS_SUCCESS ? e.more : 0;
    c.invalidated_stag = 0;
    c.with_invalidate = false;
}

void SendQueue::reset(uint32_t start) {
    head_.store(start, std::memory_order_relaxed);
    tail_.store(start, std::memory_order_relaxed);
    last_read_.store(start - 1, std::memory_order_relaxed);
    limit_ = start + size_.entries();
    ahead_ = 0;
    arrived_ = false;
    has_failed_ = failure_undelivered_ = false;
    flushing_ = false;
}

} // namespace t3
