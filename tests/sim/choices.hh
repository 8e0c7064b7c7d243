// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Where the decisions of a test come from that tries anything: a seeded generator, or a fuzzer's bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "sim/core/bytes.hh"

namespace t3sim::test {

class Choices {
public:
    virtual ~Choices() = default;
    virtual std::uint32_t word() = 0;
    [[nodiscard]] virtual bool exhausted() const = 0;

    /// 0 .. n-1.
    std::uint32_t below(std::uint32_t n) { return word() % n; }
    bool one_in(std::uint32_t n) { return below(n) == 0; }
    template <typename T> T pick(std::initializer_list<T> from) {
        return from.begin()[below(static_cast<std::uint32_t>(from.size()))];
    }
    /// A value that is often at the limit of a range.
    std::uint32_t edge_value() {
        switch (below(5)) {
        case 0:
            return below(16);
        case 1:
            return 1U << below(32);
        case 2:
            return (1U << below(32)) - 1;
        case 3:
            return pick<std::uint32_t>({0, 0xffffffff, 0x7fffffff, 0x80000000, 0xffff, 0x10000});
        default:
            return word();
        }
    }
};

class SeededChoices : public Choices {
public:
    SeededChoices(std::uint64_t seed, std::uint64_t count) : state_(seed), left_(count) {}
    std::uint32_t word() override {
        if (left_ != 0)
            left_--;
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return static_cast<std::uint32_t>(z ^ z >> 31);
    }
    [[nodiscard]] bool exhausted() const override { return left_ == 0; }

private:
    std::uint64_t state_, left_;
};

/// Few bytes per choice keep a fuzzer's mutations local; most choices are small.
class FuzzedChoices : public Choices {
public:
    explicit FuzzedChoices(Bytes data) : data_(data) {}
    std::uint32_t word() override {
        std::uint32_t value = 0;
        const std::size_t take = std::min<std::size_t>(2, data_.size());
        for (std::size_t i = 0; i < take; i++)
            value |= static_cast<std::uint32_t>(data_[i]) << 8 * i;
        data_ = data_.subspan(take);
        return value * 0x10001;
    }
    [[nodiscard]] bool exhausted() const override { return data_.empty(); }

private:
    Bytes data_;
};

} // namespace t3sim::test
