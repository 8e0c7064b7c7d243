// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Points that no source settles (docs/hw/open-questions.md). The model has one answer to each; for those that
// a program can observe, it also has another one, with which tests show that the probe of t3accept notices.
// The engines ask other(n) at the place that is marked [guess Gn].
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <string_view>

namespace t3sim {

class Guesses {
public:
    struct Row {
        unsigned number;
        const char* modelled; ///< the usual answer
        const char* other;
    };
    /// Those that have another answer, by number.
    [[nodiscard]] static std::span<const Row> rows();

    [[nodiscard]] bool other(unsigned number) const { return other_[number]; }
    /// @p text: "G12=other" or "G12=modelled". Throws std::invalid_argument with a complete sentence.
    void set(std::string_view text);
    /// "G12=other" and so on, for all with the other answer.
    [[nodiscard]] std::string text() const;

private:
    std::bitset<64> other_;
};

} // namespace t3sim
