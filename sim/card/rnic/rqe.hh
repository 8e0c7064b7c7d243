// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Receive descriptors. A RECEIVE work request is checked and resolved when it is executed and stored as one
// 64-byte entry of the QP's RQT area; the message that consumes it only reads the page list [guess G17]. The
// layout of an entry is private to the firmware, so the model defines its own [guess G20].
#pragma once

#include <array>

#include "sim/card/rnic/tpt.hh"

namespace t3sim {

struct Rqe {
    std::array<Extent, hw::max_sge> part;
    [[nodiscard]] std::uint64_t length() const;
};

constexpr std::size_t rqe_size = 64;

/// What form B of a receive names (docs/hw/wr.md 7).
enum class FormB : std::uint8_t {
    in_region, ///< a page of the region
    anywhere,  ///< any page list and page size: another answer to G58
    none,      ///< form B is form A: another answer to G16
};

[[nodiscard]] hw::Status resolve_receive(Tpt& tpt, const Protection& prot, const hw::ReceiveWr& wr, Rqe* rqe,
                                         FormB form_b = FormB::in_region);

/// Order of the words of an SGE.
enum class RqeLayout : std::uint8_t { modelled, other };

[[nodiscard]] bool store_rqe(CardMemory& memory, std::uint32_t addr, const Rqe& rqe,
                             RqeLayout layout = RqeLayout::modelled);
[[nodiscard]] bool load_rqe(const CardMemory& memory, std::uint32_t addr, Rqe* rqe,
                            RqeLayout layout = RqeLayout::modelled);

} // namespace t3sim
