// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// TCP sequence numbers modulo 2^32, compared by signed distance (RFC 9293 3.4). Not a total order, so no
// std::less and no use as a map key.
#pragma once

#include <cstdint>

namespace t3sim::tcp {

class Seq {
public:
    constexpr Seq() = default;
    constexpr explicit Seq(std::uint32_t value) : value_(value) {}

    [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

    constexpr Seq& operator+=(std::uint32_t n) {
        value_ += n;
        return *this;
    }
    friend constexpr Seq operator+(Seq a, std::uint32_t n) { return Seq(a.value_ + n); }
    friend constexpr Seq operator-(Seq a, std::uint32_t n) { return Seq(a.value_ - n); }
    /// Distance, positive if @p a is later.
    friend constexpr std::int32_t operator-(Seq a, Seq b) {
        return static_cast<std::int32_t>(a.value_ - b.value_);
    }
    friend constexpr bool operator==(Seq, Seq) = default;
    friend constexpr bool operator<(Seq a, Seq b) { return a - b < 0; }
    friend constexpr bool operator>(Seq a, Seq b) { return a - b > 0; }
    friend constexpr bool operator<=(Seq a, Seq b) { return a - b <= 0; }
    friend constexpr bool operator>=(Seq a, Seq b) { return a - b >= 0; }

private:
    std::uint32_t value_ = 0;
};

} // namespace t3sim::tcp
