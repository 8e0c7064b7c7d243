// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Objects by small numbers, such as the TIDs of a card: a table that grows up to the highest number used.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace t3sim {

/// @p Pointer: of any kind; an empty one is no object.
template <typename Pointer> class IdTable {
public:
    [[nodiscard]] const Pointer& find(std::size_t id) const {
        static const Pointer none{};
        return id < table_.size() ? table_[id] : none;
    }
    /// The object of a table of smart pointers, or null.
    [[nodiscard]] auto* get(std::size_t id) const { return id < table_.size() ? table_[id].get() : nullptr; }
    [[nodiscard]] bool contains(std::size_t id) const { return find(id) != nullptr; }
    void set(std::size_t id, Pointer object) {
        if (id >= table_.size())
            table_.resize(id + 1);
        table_[id] = std::move(object);
    }
    /// Removes and returns an object.
    Pointer take(std::size_t id) { return id < table_.size() ? std::exchange(table_[id], nullptr) : nullptr; }
    void clear() { table_.clear(); }
    [[nodiscard]] bool empty() const { return table_.empty(); }
    /// The object of the highest number, or null. Drops the empty places above it.
    [[nodiscard]] auto* last() {
        drop_empty();
        return get(table_.size() - 1);
    }
    /// Removes the object of the highest number; false: it was the last one. A caller counts objects, so the
    /// empty places below go with it.
    bool drop_last() {
        drop_empty();
        if (!table_.empty())
            table_.pop_back();
        drop_empty();
        return !table_.empty();
    }

    /// Calls @p f(id, pointer) for every object, in the order of their numbers.
    template <typename F> void for_each(F&& f) const {
        for (std::size_t id = 0; id < table_.size(); ++id)
            if (table_[id])
                f(id, table_[id]);
    }

private:
    void drop_empty() {
        while (!table_.empty() && !table_.back())
            table_.pop_back();
    }

    std::vector<Pointer> table_;
};

} // namespace t3sim
