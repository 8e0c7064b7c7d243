// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Creates and destroys the core's objects for glue.c.
#include "userspace/providers/cxgb3/verbs_core.hh"

#include <new>

namespace {

// Runs what may throw bad_alloc; nothing else does.
template <class F> int guarded(F&& f) {
    try {
        f();
        return 0;
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

} // namespace

int cxgb3_core_create_cq(cxgb3_cq* cq, bool needs_locks, cxgb3_counters* counters) noexcept {
    return guarded([&] { cq->core = new t3::Cq(needs_locks, counters); });
}

uint64_t cxgb3_core_cq_counter(const cxgb3_cq* cq) noexcept {
    return reinterpret_cast<uintptr_t>(static_cast<const t3::Cq*>(cq->core)->consumer_counter());
}

void cxgb3_core_cq_use_ring(cxgb3_cq* cq, const t3_create_cq_resp* resp) noexcept {
    static_cast<t3::Cq*>(cq->core)->use_ring(cq->ring, resp->size_log2);
}

void cxgb3_core_publish_consumed(cxgb3_cq* cq) noexcept {
    static_cast<t3::Cq*>(cq->core)->publish_consumed();
}

void cxgb3_core_destroy_cq(cxgb3_cq* cq) noexcept {
    delete static_cast<t3::Cq*>(cq->core);
}

int cxgb3_core_create_qp(cxgb3_qp* qp, const t3_create_qp_resp* resp, bool signal_all, bool needs_locks,
                         cxgb3_counters* counters, void (*abort)(void*)) noexcept {
    return guarded([&] {
        qp->core = new t3::Qp({.qpid = resp->qpid,
                               .size_log2 = resp->size_log2,
                               .sq_size_log2 = resp->sq_size_log2,
                               .rq_size_log2 = resp->rq_size_log2,
                               .ring = qp->ring,
                               .doorbell = qp->doorbell,
                               .signal_all = signal_all,
                               .needs_locks = needs_locks,
                               .counters = counters,
                               .abort = abort,
                               .owner = qp},
                              t3::core(qp->vqp.qp.send_cq), t3::core(qp->vqp.qp.recv_cq));
    });
}

void cxgb3_core_destroy_qp(cxgb3_qp* qp) noexcept {
    delete static_cast<t3::Qp*>(qp->core);
}
void cxgb3_core_reset_qp(cxgb3_qp* qp) noexcept {
    static_cast<t3::Qp*>(qp->core)->reset();
}
void cxgb3_core_stop_qp(cxgb3_qp* qp) noexcept {
    static_cast<t3::Qp*>(qp->core)->stop();
}
