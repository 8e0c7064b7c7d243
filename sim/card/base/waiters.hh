// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <deque>
#include <vector>

#include "sim/card/engines.hh"

namespace t3sim {

/// Connections that wait for the same thing, the oldest first. Each TID is in it at most once, also if its
/// connection ends and another one gets the TID meanwhile: otherwise a host that opens and aborts connections
/// would make it grow without end.
class Waiters {
public:
    void wait(Tid tid) {
        if (tid >= waits_.size())
            waits_.resize(tid + 1);
        if (waits_[tid])
            return;
        waits_[tid] = true;
        tids_.push_back(tid);
    }
    [[nodiscard]] bool contains(Tid tid) const { return tid < waits_.size() && waits_[tid]; }
    [[nodiscard]] std::size_t size() const { return tids_.size(); }
    [[nodiscard]] bool empty() const { return tids_.empty(); }
    /// Removes the oldest; not empty(). Its connection may have ended.
    Tid take() {
        const Tid tid = tids_.front();
        tids_.pop_front();
        waits_[tid] = false;
        return tid;
    }

private:
    std::deque<Tid> tids_;
    std::vector<bool> waits_; ///< by TID
};

} // namespace t3sim
