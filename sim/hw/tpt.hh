// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A TPT entry in card memory (docs/hw/mr.md 2).
#pragma once

#include "sim/hw/be.hh"

namespace t3sim::hw {

struct TptEntry {
    enum Type : unsigned { region = 0, shared_region = 1, window = 2, relaxed_window = 3 };
    // Permissions in bits 31:28 of the second word.
    static constexpr unsigned local_read = 8;
    static constexpr unsigned local_write = 4;
    static constexpr unsigned remote_read = 2;
    static constexpr unsigned remote_write = 1;

    Be32 state_word;
    Be32 rights_word;
    Be32 pbl_addr;
    Be32 length;
    Be64 va; // zero based: the low word is the first byte offset
    Be32 bindings;
    Be32 pbl_size; // ignored [guess G20]

    [[nodiscard]] bool in_use() const { return bits(state_word, 31, 31) != 0; }
    [[nodiscard]] std::uint8_t key() const { return static_cast<std::uint8_t>(bits(state_word, 30, 23)); }
    [[nodiscard]] bool valid() const { return bits(state_word, 22, 22) != 0; }
    [[nodiscard]] unsigned type() const { return bits(state_word, 21, 20); }
    [[nodiscard]] std::uint32_t pd() const { return bits(state_word, 19, 0); }
    [[nodiscard]] bool is_window() const { return type() >= window; }

    [[nodiscard]] unsigned rights() const { return bits(rights_word, 31, 28); }
    [[nodiscard]] bool remote_inv_disabled() const { return bits(rights_word, 27, 27) != 0; }
    [[nodiscard]] bool va_based() const { return bits(rights_word, 26, 26) != 0; }
    [[nodiscard]] bool bind_enabled() const { return bits(rights_word, 25, 25) != 0; }
    [[nodiscard]] unsigned page_code() const { return bits(rights_word, 24, 20); }
    [[nodiscard]] std::uint32_t qp() const { return bits(rights_word, 19, 0); }
    [[nodiscard]] unsigned page_shift() const { return 12 + page_code(); }

    [[nodiscard]] std::uint32_t pbl_index() const { return bits(pbl_addr, 28, 0); }
    /// Region: windows bound to it. Window: TPT index of its region.
    [[nodiscard]] std::uint32_t bound_windows() const { return bindings; }
    [[nodiscard]] std::uint32_t parent() const { return bits(bindings, 23, 0); }

    void set_state(std::uint8_t key, bool valid) {
        state_word = (state_word & ~0x7fc00000U) | std::uint32_t{key} << 23 | (valid ? 1U << 22 : 0);
    }
    void set_rights(unsigned rights, bool va_based, bool bind_enable, unsigned page_code) {
        rights_word = rights << 28 | (rights_word & 1U << 27) | (va_based ? 1U << 26 : 0) |
                      (bind_enable ? 1U << 25 : 0) | page_code << 20 | qp();
    }
};
static_assert(sizeof(TptEntry) == 32);

constexpr std::uint32_t stag_index(std::uint32_t stag) {
    return stag >> 8;
}
constexpr std::uint8_t stag_key(std::uint32_t stag) {
    return static_cast<std::uint8_t>(stag);
}

} // namespace t3sim::hw
