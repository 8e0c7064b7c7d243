// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// QP id -> QP for the queue pairs of one CQ. Ids are small numbers that a process gets in runs, so two levels
// of plain arrays find one in two loads without holding memory for ids that are not in use.
#pragma once

#include "include/hw/t3_wr.h"

#include <array>
#include <cstdint>
#include <memory>

namespace t3 {

class Qp;

class QpMap {
public:
    Qp* find(uint32_t id) const {
        if (id > T3_MAX_ID)
            return nullptr;
        const auto& leaf = leaves_[id / leaf_size];
        return leaf ? (*leaf)[id % leaf_size] : nullptr;
    }

    void insert(uint32_t id, Qp* qp) {
        auto& leaf = leaves_.at(id / leaf_size);
        if (!leaf)
            leaf = std::make_unique<Leaf>();
        (*leaf)[id % leaf_size] = qp;
    }

    // Of an id that find() finds.
    void erase(uint32_t id) { (*leaves_[id / leaf_size])[id % leaf_size] = nullptr; }

private:
    static constexpr uint32_t leaf_size = 256;
    using Leaf = std::array<Qp*, leaf_size>;
    std::array<std::unique_ptr<Leaf>, (T3_MAX_ID + 1) / leaf_size> leaves_;
};

} // namespace t3
