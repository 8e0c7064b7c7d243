// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Data structures that the SGE and the host share in memory, and the contexts that describe them: field
// positions and opcodes. Words are numbered from 0; descriptors are big-endian in memory.
#pragma once

#include <array>
#include <cstdint>

#include "sim/core/bytes.hh"
#include "sim/hw/cpl.hh"

namespace t3sim::hw {

/// A field of an array of 32-bit words.
struct Field {
    unsigned word, hi, lo;

    template <typename Words> [[nodiscard]] constexpr std::uint32_t get(const Words& words) const {
        return bits(words[word], hi, lo);
    }
    template <typename Words> constexpr void set(Words& words, std::uint32_t value) const {
        const std::uint32_t mask = bits(0xffffffff, hi, lo) << lo;
        words[word] = (words[word] & ~mask) | (value << lo & mask);
    }
};

/// A field of one register or descriptor word.
constexpr std::uint32_t bit(unsigned n) {
    return 1U << n;
}

// --- Contexts: four words each; ring bases are addresses / 4096 -----------------------------------------

using Context = std::array<std::uint32_t, 4>;

namespace egress_context {
constexpr Field index{0, 31, 16}, credits{0, 14, 0};
constexpr Field base_lo{1, 31, 16}, size{1, 15, 0};
constexpr Field base_mid{2, 31, 0};
constexpr Field valid{3, 31, 31}, token{3, 30, 11}, gen{3, 10, 10}, type{3, 9, 7}, rspq{3, 6, 4},
    base_hi{3, 3, 0};
constexpr std::uint64_t base(const Context& c) {
    const std::uint64_t page =
        std::uint64_t{base_hi.get(c)} << 48 | std::uint64_t{base_mid.get(c)} << 16 | base_lo.get(c);
    return page << 12;
}
constexpr void set_base(Context& c, std::uint64_t address) {
    const std::uint64_t page = address >> 12;
    base_lo.set(c, static_cast<std::uint32_t>(page & 0xffff));
    base_mid.set(c, static_cast<std::uint32_t>(page >> 16));
    base_hi.set(c, static_cast<std::uint32_t>(page >> 48));
}
} // namespace egress_context

enum class EgressType : std::uint8_t { rdma = 0, ethernet = 2, offload = 4, control = 5 };

namespace free_list_context {
constexpr Field index_lo{1, 31, 20}, base_hi{1, 19, 0};
constexpr Field entry_size_lo{2, 31, 21}, gen{2, 20, 20}, size{2, 19, 4}, index_hi{2, 3, 0};
constexpr Field entry_size_hi{3, 20, 0};
constexpr std::uint64_t base(const Context& c) {
    return (std::uint64_t{base_hi.get(c)} << 32 | c[0]) << 12;
}
constexpr std::uint32_t index(const Context& c) {
    return index_hi.get(c) << 12 | index_lo.get(c);
}
constexpr std::uint32_t entry_size(const Context& c) {
    return entry_size_hi.get(c) << 11 | entry_size_lo.get(c);
}
} // namespace free_list_context

namespace response_context {
constexpr Field size{0, 31, 16}, index{0, 15, 0};
constexpr Field gen{2, 28, 28}, armed{2, 27, 27}, intr_en{2, 26, 26}, vector{2, 25, 20}, base_hi{2, 19, 0};
constexpr Field threshold{3, 31, 0};
constexpr std::uint64_t base(const Context& c) {
    return (std::uint64_t{base_hi.get(c)} << 32 | c[1]) << 12;
}
} // namespace response_context

namespace cq_context {
constexpr Field size{0, 31, 16}, index{0, 15, 0};
constexpr Field overflow_mode{2, 31, 31}, gen{2, 29, 29}, rspq{2, 25, 20}, base_hi{2, 19, 0};
constexpr Field notify_solicited{2, 28, 28}, armed{2, 27, 27}, notify_any{2, 26, 26};
constexpr Field credits{3, 15, 0};
constexpr std::uint64_t base(const Context& c) {
    return (std::uint64_t{base_hi.get(c)} << 32 | c[1]) << 12;
}
} // namespace cq_context

namespace context_cmd {
constexpr std::uint32_t busy = bit(27), cq = bit(19), response_queue = bit(18), egress = bit(17),
                        free_list = bit(16);
enum Opcode : std::uint32_t {
    read = 0,
    write = 1,
    cq_arm = 2,
    cq_force = 3,
    cq_arm_solicited = 6,
    cq_credits = 7
};
} // namespace context_cmd

constexpr unsigned queue_sets = 8;
constexpr unsigned free_lists = 2 * queue_sets;
constexpr unsigned egress_contexts = 65536;
/// Egress contexts (docs/hw/sge.md 1): those of queue sets below first_qp, then those of QPs, then these two.
constexpr unsigned first_qp = 16;
constexpr unsigned control_qp = 65527; ///< the RDMA driver's ring for memory writes
constexpr unsigned first_control_queue = 65528;

// --- Egress descriptors ------------------------------------------------------------------------------------

constexpr unsigned descriptor_flits = 15; ///< usable; the sixteenth holds the second generation bit
constexpr unsigned max_wr_descriptors = 4;

// --- Responses, 64 bytes -----------------------------------------------------------------------------------

constexpr std::size_t response_size = 64;
constexpr std::size_t immediate_offset = 16, immediate_size = 47;

namespace response {
constexpr std::uint32_t gen1 = bit(31), offload = bit(30), immediate = bit(29), async = bit(26),
                        sop = bit(25),
                        eop = bit(24);           // flags word at byte 8
constexpr unsigned credit_shift[3] = {16, 0, 8}; // of TX queue 0 (Ethernet), 1 (offload), 2 (control)
constexpr std::uint32_t max_credits = 127;
constexpr std::uint32_t free_list_1 = bit(31); // length word at byte 12
} // namespace response

constexpr std::size_t free_list_entry = 16;

namespace async_event { // word 0 of an async notification
constexpr std::uint32_t notify = bit(20), solicited = bit(19), async = bit(18), gen_shift = 16;
} // namespace async_event

// --- Fields of SGE registers -----------------------------------------------------------------------------

namespace sg_control {
constexpr std::uint32_t global_enable = bit(0), one_int_mult_q = bit(5), drop_pkt = bit(20),
                        egr_gen_ctrl = bit(19);
constexpr std::uint32_t pkt_shift(std::uint32_t v) {
    return bits(v, 8, 6);
}
constexpr std::uint32_t host_page_size(std::uint32_t v) {
    return bits(v, 13, 11);
} // log2(bytes) - 11
constexpr std::uint32_t user_space_size(std::uint32_t v) {
    return bits(v, 18, 14);
}
} // namespace sg_control

namespace sg_int {
constexpr std::uint32_t r_req_framing_error = bit(15), uc_req_framing_error = bit(14), rspq_disabled = bit(3),
                        rspq_credit_overflow = bit(2), fl_empty = bit(1);
/// Doorbell FIFOs of high and low priority: full, empty, overflow.
constexpr std::uint32_t db_full = bit(7) | bit(5), db_empty = bit(6) | bit(4), db_drop = bit(11) | bit(10);
} // namespace sg_int

namespace rspq_fl_status {
constexpr std::uint32_t starved(unsigned queue) {
    return bit(queue);
}
constexpr std::uint32_t disabled(unsigned queue) {
    return bit(8 + queue);
}
constexpr std::uint32_t fl_empty(unsigned list) {
    return bit(16 + list);
}
} // namespace rspq_fl_status

// --- Fields of the CPL messages of Ethernet --------------------------------------------------------------

namespace cpl {
// cntrl word of TX_PKT
constexpr std::uint32_t tx_vlan_valid = bit(22), tx_l4_csum_off = bit(21), tx_ip_csum_off = bit(20);
constexpr std::uint32_t tx_interface(std::uint32_t v) {
    return bits(v, 19, 16);
}
constexpr std::uint16_t tx_vlan(std::uint32_t v) {
    return static_cast<std::uint16_t>(v);
}
constexpr std::uint32_t tx_length(std::uint32_t v) {
    return v & 0x7fffffff;
}
// lso_info word of TX_PKT_LSO
constexpr std::uint32_t lso_ip_words(std::uint32_t v) {
    return bits(v, 23, 20);
}
constexpr std::uint32_t lso_tcp_words(std::uint32_t v) {
    return bits(v, 19, 16);
}
constexpr std::uint32_t lso_eth_type(std::uint32_t v) {
    return bits(v, 15, 14);
}
constexpr std::uint32_t lso_mss(std::uint32_t v) {
    return bits(v, 13, 0);
}
// byte 1 of RX_PKT
constexpr std::uint8_t rx_csum_valid = 1 << 4, rx_vlan_valid = 1 << 6, rx_fragment = 1 << 7;
} // namespace cpl

} // namespace t3sim::hw
