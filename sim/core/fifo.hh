// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A queue in one block of memory, which is used again and again: unlike a std::deque it allocates nothing
// before its first element, and nothing while its length varies by less than half.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace t3sim {

/// Adding an element invalidates references to the others. @p T: can be moved and has a default.
template <typename T> class Fifo {
public:
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    /// From the front.
    [[nodiscard]] T& operator[](std::size_t n) { return slots_[place(n)]; }
    [[nodiscard]] const T& operator[](std::size_t n) const { return slots_[place(n)]; }
    [[nodiscard]] T& front() { return slots_[first_]; }
    [[nodiscard]] const T& front() const { return slots_[first_]; }
    [[nodiscard]] T& back() { return (*this)[size_ - 1]; }
    [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

    void push_back(const T& element) { add() = element; }
    void push_back(T&& element) { add() = std::move(element); }
    /// Adds T{}, to be filled in place.
    T& emplace_back() {
        T& slot = add();
        std::destroy_at(&slot);
        return *std::construct_at(&slot);
    }
    void pop_front() {
        if constexpr (!std::is_trivially_destructible_v<T>)
            slots_[first_] = T{};
        drop_front();
    }
    /// Removes and returns the first element. The moved-from element of a T must hold nothing.
    T take_front() {
        T taken = std::move(slots_[first_]);
        drop_front();
        return taken;
    }
    void pop_back() {
        if constexpr (!std::is_trivially_destructible_v<T>)
            back() = T{};
        --size_;
    }
    /// Inserts an element in front of element @p n. Moves the elements of the shorter side.
    void insert(std::size_t n, T element) {
        push_back(std::move(element));
        if (n < size_ / 2) {
            const std::size_t before = place(slots_.size() - 1);
            std::swap(slots_[before], back());
            first_ = before;
            for (std::size_t at = 0; at < n; ++at)
                std::swap((*this)[at], (*this)[at + 1]);
            return;
        }
        for (std::size_t at = size_ - 1; at > n; --at)
            std::swap((*this)[at], (*this)[at - 1]);
    }
    void clear() {
        while (!empty())
            pop_front();
    }

    /// Bytes of the block: at most kept_bytes, or place_cost for each element, also while the block grows.
    [[nodiscard]] std::size_t capacity_bytes() const { return slots_.size() * sizeof(T); }
    static constexpr std::size_t kept_bytes = 4096;
    static constexpr std::size_t place_cost = 4 * sizeof(T);

private:
    [[nodiscard]] std::size_t place(std::size_t n) const { return (first_ + n) & (slots_.size() - 1); }

    void drop_front() {
        first_ = place(1);
        --size_;
        if (capacity_bytes() > kept_bytes && size_ <= slots_.size() / 4) [[unlikely]]
            resize(slots_.size() / 2);
    }
    T& add() {
        if (size_ == slots_.size())
            resize(slots_.empty() ? 2 : 2 * slots_.size());
        return slots_[place(size_++)];
    }
    void resize(std::size_t slots) {
        std::vector<T> other(slots);
        for (std::size_t n = 0; n < size_; ++n)
            other[n] = std::move((*this)[n]);
        slots_ = std::move(other);
        first_ = 0;
    }

    std::vector<T> slots_; ///< as many as a power of two, or none
    std::size_t first_ = 0, size_ = 0;
};

} // namespace t3sim
