// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Impairments of the frames that one port of a wire sends to the others. All choices come from a seeded
// generator, so a run can be repeated frame by frame on any machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/random.hh"
#include "sim/core/time.hh"

namespace t3sim {

struct Impairments {
    // Probabilities per frame, 0 to 1.
    double loss = 0;
    double duplicate = 0;
    double reorder = 0; ///< delayed by `reorder_delay`, so that later frames overtake it
    double corrupt = 0; ///< one bit flipped, anywhere in the frame

    Time delay = 0;
    Time jitter = 0; ///< maximum of an additional random delay; does not reorder
    Time reorder_delay = 1'000'000;
    std::uint64_t rate = 0;        ///< bits per second, counted with preamble, FCS and gap; 0: no limit
    std::uint64_t queue = 1 << 20; ///< bytes that may wait for a limited line; further frames are lost
    std::uint64_t seed = 1;
};

/// Reads one of "loss=0.01", "delay=50us", "rate=1G", "queue=64K", "seed=7" ... into @p impairments. "none"
/// resets all. On false, @p wrong is a sentence that describes the mistake.
bool parse_impairment(std::string_view text, Impairments& impairments, std::string& wrong);

/// One direction of a wire.
class Impairer {
public:
    explicit Impairer(const Impairments& impairments) : what_(impairments), random_(impairments.seed) {}

    struct Copy {
        Time when;
        std::size_t flipped_bit = not_flipped; ///< number of the bit in the frame
    };
    static constexpr std::size_t not_flipped = ~std::size_t{0};

    /// The copies of a frame sent at @p now that arrive: none (lost), one or two.
    std::vector<Copy> plan(Time now, std::size_t size);
    /// For captures: the effects that the last plan() chose, such as "lost" or "corrupted, held back"; empty
    /// if none.
    [[nodiscard]] const std::string& fate() const { return fate_; }

    struct Statistics {
        std::uint64_t lost = 0, overflowed = 0, duplicated = 0, reordered = 0, corrupted = 0;
    };
    [[nodiscard]] const Statistics& statistics() const { return statistics_; }
    [[nodiscard]] const Impairments& what() const { return what_; }

private:
    void note(const char* what) { fate_ += (fate_.empty() ? "" : ", ") + std::string(what); }

    Impairments what_;
    Random random_;
    Time line_free_ = 0; ///< when the limited line has sent all queued frames
    Time last_ = 0;      ///< when the latest frame in order arrives
    std::string fate_;
    Statistics statistics_;
};

} // namespace t3sim
