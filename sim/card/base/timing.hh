// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The time that a card takes: by default none, so that a work request is done when its doorbell's write
// returns. With times the host sees what a card's driver must live with: it runs on while a ring is not read
// yet, data, completions and interrupts arrive late, and a context command is busy for a while.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/random.hh"
#include "sim/core/time.hh"

namespace t3sim {

class Timing {
public:
    /// Reads "t3", "instant", or a value such as "fetch=2us", "jitter=100us", "seed=7". Throws
    /// std::invalid_argument, with a complete sentence.
    void set(std::string_view text);
    /// All values, as set() reads them; "instant" if there is none.
    [[nodiscard]] std::string text() const;

    [[nodiscard]] bool any() const { return any_; }
    // The time of an operation that begins now.
    [[nodiscard]] Time fetch() { return drawn(values_.fetch); }
    [[nodiscard]] Time write() { return drawn(values_.write); }
    [[nodiscard]] Time command() { return drawn(values_.command); }

private:
    struct Values {
        Time fetch = 0;   ///< from a doorbell to the read of its ring
        Time write = 0;   ///< of a write or an interrupt to the host
        Time command = 0; ///< of an operation on a context
        Time jitter = 0;  ///< maximum of a random time that is added to each of them
        std::uint64_t seed = 1;
    };
    struct Row {
        std::string_view key;
        Time Values::*value;
    };
    static constexpr Row rows[] = {{"fetch", &Values::fetch},
                                   {"write", &Values::write},
                                   {"command", &Values::command},
                                   {"jitter", &Values::jitter}};
    [[nodiscard]] Time drawn(Time time) {
        return time + (values_.jitter == 0 ? 0 : random_() % (values_.jitter + 1));
    }

    Values values_;
    bool any_ = false;
    Random random_{1};
};

} // namespace t3sim
