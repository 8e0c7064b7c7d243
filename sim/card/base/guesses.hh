// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Points that no source settles (docs/hw/open-questions.md). The model has one answer to each; for those that
// a program can observe, it also has another one, with which tests show that the probe of t3accept notices.
// The engines ask other(Guess::name) at the place that is marked [guess Gn]; guesses.def has the names.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace t3sim {

enum class Guess : std::uint8_t {
#define T3_GUESS(number, name, modelled, other) name = number,
#include "sim/card/base/guesses.def"
#undef T3_GUESS
};

class Guesses {
public:
    static constexpr unsigned most = 64; ///< numbers
    struct Row {
        unsigned number;
        const char* modelled; ///< the usual answer
        const char* other;
    };
    /// Those that have another answer, by number.
    [[nodiscard]] static std::span<const Row> rows();

    [[nodiscard]] bool other(Guess guess) const { return other_[static_cast<unsigned>(guess)]; }
    /// @p text: "G12=other" or "G12=modelled". Throws std::invalid_argument with a complete sentence.
    void set(std::string_view text);
    /// "G12=other" and so on, for all with the other answer.
    [[nodiscard]] std::string text() const;

private:
    std::bitset<most> other_;
};

} // namespace t3sim
