// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the files of the data path share: the conversion from objects of libibverbs to those of the core, and
// of the flags of a request to those of the card.
#pragma once

#include "userspace/providers/cxgb3/border.h"
#include "userspace/providers/cxgb3/cq.hh"
#include "userspace/providers/cxgb3/qp.hh"

#include <array>
#include <cstddef>

namespace t3 {

static_assert(sizeof(t3_host_sge) == sizeof(ibv_sge) &&
              offsetof(t3_host_sge, addr) == offsetof(ibv_sge, addr) &&
              offsetof(t3_host_sge, len) == offsetof(ibv_sge, length) &&
              offsetof(t3_host_sge, stag) == offsetof(ibv_sge, lkey));

inline Qp& core(ibv_qp* qp) {
    return *static_cast<Qp*>(reinterpret_cast<cxgb3_qp*>(qp)->core);
}
inline Cq& core(ibv_cq* cq) {
    return *static_cast<Cq*>(reinterpret_cast<cxgb3_cq*>(cq)->core);
}

inline const t3_host_sge* host_sges(const ibv_sge* list) {
    return reinterpret_cast<const t3_host_sge*>(list);
}

// Flags of a request, as wide as an index.
using wr_flags = uint64_t;

// Flags of a request that this card supports; others are for other transports.
inline constexpr unsigned known_flags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
static_assert(known_flags == 15 && SendEntry::signaled_flag == IBV_SEND_SIGNALED);

// Header word 0 of a request, by its flags in verbs.
template <uint8_t Opcode, uint8_t Fence>
inline constexpr auto header_of = [] {
    std::array<__be32, known_flags + 1> t{};
    for (unsigned flags = 0; flags < t.size(); flags++)
        t[flags] = t3_wr_hi(Opcode, (flags & IBV_SEND_SIGNALED ? T3_WR_F_COMPLETION : 0) |
                                        (flags & IBV_SEND_SOLICITED ? T3_WR_F_SOLICITED : 0) |
                                        (flags & IBV_SEND_FENCE ? Fence : 0));
    return t;
}();

// Posts a list from first to last until a request is refused: sets *bad_wr to that one and returns its
// positive errno. Those before it stay posted. post(qp, slot, request) posts one request, sends and receives
// alike. A QP that is stopped or in error keeps its requests for polling to flush, and the card sees none of
// them. `posted`: earlier requests of the same call are in the ring. The doorbell is rung once at the end if
// anything was put into the ring. With the lock held.
template <class Wr, class Post> int post_list(Qp& qp, Wr* wr, Wr** bad_wr, bool posted, Post post) {
    const uint64_t status = qp.status();
    const bool keep = Qp::keeps_from_card(status);
    qp.flag_error(status);
    int error = 0;
    for (; wr; wr = wr->next) {
        const SlotCursor at = keep ? qp.scratch_slot() : qp.cursor();
        error = post(qp, at, *wr);
        if (error) {
            *bad_wr = wr;
            break;
        }
        if (!keep) {
            qp.step(at.slot);
            posted = true;
        }
    }
    if (posted)
        qp.ring_unless_db_off(status);
    return error;
}

// Counts in memory that several threads may count in.
inline void count(uint64_t& counter, uint64_t n = 1) {
    __atomic_fetch_add(&counter, n, __ATOMIC_RELAXED);
}

} // namespace t3
