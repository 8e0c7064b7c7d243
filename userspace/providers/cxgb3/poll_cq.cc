// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ibv_poll_cq(): from the card's entries to work completions.
//
// A poll that finds nothing takes no lock. One that finds ordinary entries, successful and in the order of
// posting, reads each once, and completes the request by moving the head of its queue. From the first
// entry of another kind on, the call continues in poll_slow(), by way of Cq::next() (cq.cc). The hot function
// calls nothing, so that it needs no stack.
#include "userspace/providers/cxgb3/completion.hh"

[[gnu::noinline]] int t3::poll_slow(Cq& cq, int n, ibv_wc* wc) noexcept {
    Completion c;
    int i = 0;
    while (i < n && !cq.attention() && cq.position().filled()) {
        // This entry does not match the cached queues: look its QP up.
        const t3_cqe& e = *cq.position().entry();
        common::dma_consume_barrier();
        if (cq.cache_queue(t3_from_be32(e.header)) && fast_take(cq, e, wc[i])) {
            cq.set_position(cq.next_position(cq.position()));
            i++;
        } else if (cq.take_entry(c)) {
            fill(wc[i++], c);
        }
    }
    if (i < n && cq.attention()) {
        cq.collect_errors();
        for (; i < n && cq.next(c); i++)
            fill(wc[i], c);
    }
    return i;
}

namespace {

using t3::Cq;
using t3::CqPosition;

[[gnu::noinline]] int poll_slow_and_unlock(Cq& cq, int n, ibv_wc* wc, int done) noexcept {
    done += t3::poll_slow(cq, n, wc);
    cq.unlock();
    return done;
}

[[gnu::noinline]] int wait_and_poll(Cq& cq, int n, ibv_wc* wc) noexcept {
    cq.lock();
    return poll_slow_and_unlock(cq, n, wc, 0);
}

// The ring is empty, but attention() is set.
[[gnu::noinline]] int poll_attention(Cq& cq, int n, ibv_wc* wc) noexcept {
    if (cq.may_only_overflow() && !cq.may_be_overrun())
        return 0;
    return wait_and_poll(cq, n, wc);
}

// The entry at the position is there, or was when the caller looked.
[[gnu::noinline]] int poll_some(Cq& cq, int n, ibv_wc* wc, CqPosition at, const t3_cqe* entry) noexcept {
    if (!cq.try_lock()) [[unlikely]]
        return wait_and_poll(cq, n, wc);
    if (at != cq.position() || cq.attention() || n <= 0) [[unlikely]]
        return poll_slow_and_unlock(cq, n, wc, 0);
    int done = 0;
    do {
        common::dma_consume_barrier();
        if (!t3::fast_take(cq, *entry, *wc)) [[unlikely]]
            return poll_slow_and_unlock(cq, n - done, wc, done);
        at = cq.next_position(at);
        cq.set_position(at);
        entry = at.entry();
        wc++;
    } while (++done < n && at.filled(entry));
    cq.unlock();
    return done;
}

} // namespace

int cxgb3_poll_cq(ibv_cq* ibcq, int n, ibv_wc* wc) noexcept {
    Cq& cq = t3::core(ibcq);
    // Needs no lock: while another thread polls, either state is a correct result.
    const CqPosition at = cq.position_relaxed();
    const t3_cqe* const entry = at.entry();
    if (at.filled(entry))
        return poll_some(cq, n, wc, at, entry);
    if (cq.attention()) [[unlikely]]
        return poll_attention(cq, n, wc);
    return 0;
}

int cxgb3_poll_cq_counted(ibv_cq* ibcq, int n, ibv_wc* wc) noexcept {
    const int got = cxgb3_poll_cq(ibcq, n, wc);
    cxgb3_counters& counters = *t3::core(ibcq).counters();
    t3::count(counters.poll);
    t3::count(counters.empty_poll, got == 0);
    t3::count(counters.completions, static_cast<uint64_t>(got));
    return got;
}
