// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The tables of the protocol engine that the host accesses through windows of TP registers: RSS, MTU and
// congestion control tables, the PIO spaces, the MIB.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "sim/card/base/vpd.hh"
#include "sim/core/time.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// The time of a register of TP that counts ticks of 2^@p resolution core clocks: never 0, at most two years.
constexpr Time tp_ticks(std::uint32_t count, std::uint32_t resolution) {
    using Wide = unsigned __int128;
    const Wide time = (Wide{count} << std::min(resolution, 31U)) * 1'000'000 / core_clock_khz;
    return static_cast<Time>(std::clamp<Wide>(time, 1, Wide{1} << 56));
}

class Tp {
public:
    explicit Tp(RegisterBank& regs);
    void add_hooks(RegisterHooks& hooks);
    void reset();

    /// The response queue of a packet: lookup table by hash, map table by port. [guess G43]
    [[nodiscard]] unsigned rss_queue(unsigned port, std::uint32_t hash) const;
    /// Counts a frame that was dropped for lack of host buffers, TP_MIB words 50 and 51.
    void count_congestion_drop(unsigned port) { ++congestion_drops_[port]; }
    /// Sets the source of MIB words 0..45.
    void set_mib_source(std::function<std::uint32_t(unsigned word)> source) {
        mib_source_ = std::move(source);
    }
    /// Sets the function that receives changes of the MTU table.
    void set_mtu_listener(std::function<void(unsigned index, std::uint16_t mtu)> listener) {
        mtu_listener_ = std::move(listener);
    }

private:
    [[nodiscard]] std::uint32_t mib(std::uint32_t index) const;

    RegisterBank& regs_;
    RegisterBank pio_, tm_pio_;
    std::array<std::uint32_t, 64> rss_map_{};
    std::array<std::uint32_t, 64> rss_lookup_{}; ///< two entries each, as the register holds them
    std::array<std::uint16_t, 16> mtu_{};
    std::array<std::array<std::uint16_t, 32>, 16> congestion_control_{};
    std::array<std::uint32_t, 2> congestion_drops_{};
    std::function<std::uint32_t(unsigned)> mib_source_;
    std::function<void(unsigned, std::uint16_t)> mtu_listener_;
};

} // namespace t3sim
