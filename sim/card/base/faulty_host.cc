// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/faulty_host.hh"

#include <utility>

namespace t3sim {

void FaultyHost::post(Posted&& what) {
    what.due = std::max(faults_.dma.until(),
                        faults_.timing.any() ? events_.now() + faults_.timing.write() : Time{0});
    if (posted_.empty()) {
        events_.cancel(timer_);
        timer_ = events_.at(what.due, [this] { flush_due(); });
    } else {
        what.due = std::max(what.due, posted_.back().due);
    }
    bytes_ += what.data.size() + operation_cost;
    posted_.push_back(std::move(what));
    if (bytes_ > waiting_limit || posted_.size() >= waiting_operations)
        flush();
}

void FaultyHost::flush() {
    while (!posted_.empty())
        execute_first();
}

void FaultyHost::flush_due() {
    while (!posted_.empty() && posted_.front().due <= events_.now())
        execute_first();
    if (!posted_.empty())
        timer_ = events_.at(posted_.front().due, [this] { flush_due(); });
}

void FaultyHost::execute_first() {
    const Posted one = std::move(posted_.front());
    posted_.pop_front();
    bytes_ -= one.data.size() + operation_cost;
    bool arrived = true;
    switch (one.kind) {
    case Posted::Kind::write:
        arrived = host_.dma_write(one.where, one.data);
        break;
    case Posted::Kind::store:
        arrived = host_.dma_store(one.where, one.word);
        break;
    case Posted::Kind::interrupt:
        host_.raise_irq(static_cast<unsigned>(one.where));
        break;
    case Posted::Kind::pin:
        host_.set_intx(one.where != 0);
        break;
    }
    if (!arrived)
        ++lost_;
}

void FaultyHost::flush_if_overlapping(std::uint64_t addr, std::size_t size) {
    for (const Posted& one : posted_) {
        const std::size_t length = one.kind == Posted::Kind::store ? sizeof one.word : one.data.size();
        if (addr < one.where + length && one.where < addr + size) {
            flush();
            return;
        }
    }
}

} // namespace t3sim
