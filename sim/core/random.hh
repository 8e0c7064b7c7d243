// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Random numbers by a seed: splitmix64, small, sufficient here, and the same on every machine.
#pragma once

#include <cstdint>

namespace t3sim {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t operator()() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    bool chance(double probability) {
        return probability > 0 && static_cast<double>((*this)() >> 11) < probability * 0x1p53;
    }
    /// A number below @p limit, which is not 0.
    std::uint32_t below(std::size_t limit) { return static_cast<std::uint32_t>((*this)() % limit); }

private:
    std::uint64_t state_;
};

} // namespace t3sim
