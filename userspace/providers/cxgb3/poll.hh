// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Polling as ibv_poll_cq() and the extended CQ calls share it.
#pragma once

#include "userspace/providers/cxgb3/verbs_words.hh"

namespace t3 {

// Up to n completions, with the lock of the CQ held. Never fails: an error of a QP is a completion like any
// other.
int poll_locked(Cq& cq, int n, ibv_wc* wc) noexcept;

} // namespace t3
