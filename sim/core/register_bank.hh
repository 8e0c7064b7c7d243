// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A bank of 32-bit registers described by rows. What a register is (name, reset value, which bits can be
// written, which clear on write or read) is data; only what it *does* is code, in two hooks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace t3sim {

struct Register {
    std::uint32_t offset;
    const char* name;
    std::uint32_t reset = 0;
    /// Bits that take the written value and read back. Others keep theirs.
    std::uint32_t write = 0xffffffff;
    /// Bits that a written 1 clears (write-1-to-clear); they are never set by a write, whatever `write` says.
    std::uint32_t w1c = 0;
    /// Bits that a read clears, after it has returned them.
    std::uint32_t rc = 0;
    /// Bits that a write hook sees but that always read 0: commands, "go" and busy bits of what is instant.
    std::uint32_t self_clear = 0;
    /// Computes what a read returns; gets the stored value. Empty: the stored value.
    std::function<std::uint32_t(std::uint32_t stored)> on_read = {};
    /// Runs after the bits were stored; @p written is what came over the bus (with self-clearing and W1C
    /// bits; byte lanes that a narrow write did not touch are 0 there). May poke() any register.
    std::function<void(std::uint32_t written, std::uint32_t before)> on_write = {};
    /// False: known by name only. Reads answer the reset value, writes vanish, the first touch is logged.
    bool modelled = true;
};

/// A name with nothing behind it.
inline Register unmodelled(std::uint32_t offset, const char* name, std::uint32_t reset = 0) {
    Register r{.offset = offset, .name = name, .reset = reset};
    r.modelled = false;
    return r;
}

/// Registers at word-aligned offsets 0 .. size-1. Mistakes in the description (overlap, misalignment, out of
/// the bank, a missing name) throw std::logic_error when a row is added: a wrong table never runs.
/// Mistakes of the guest never throw.
class RegisterBank {
public:
    /// @p stride: distance between registers; 4 for a BAR, 1 for a window whose registers are numbered.
    RegisterBank(std::string name, std::uint32_t size, std::uint32_t stride = 4);

    /// Adds a row; @p base is added to its offset and @p prefix put before its name, for a block that the
    /// card has several times.
    void add(Register row, std::uint32_t base = 0, const std::string& prefix = {});
    void add(std::initializer_list<Register> rows, std::uint32_t base = 0, const std::string& prefix = {});
    void add(std::span<const Register> rows, std::uint32_t base = 0, const std::string& prefix = {});

    /// Bus accesses to one whole register: hooks, masks and clearing apply. An offset with no row reads 0.
    std::uint32_t read(std::uint32_t offset);
    void write(std::uint32_t offset, std::uint32_t value) { write_lanes(offset, value, 0xffffffff); }

    /// Bus accesses of 1, 2, 4 or 8 bytes, little-endian, at any offset; each register that is touched sees
    /// one access. Narrow writes act as PCI byte enables do: other byte lanes keep their value.
    std::uint64_t read_bytes(std::uint64_t offset, unsigned size);
    void write_bytes(std::uint64_t offset, unsigned size, std::uint64_t value);

    /// The card's own view: no hooks, no masks. The offset must have a row (std::logic_error).
    [[nodiscard]] std::uint32_t peek(std::uint32_t offset) const { return at(offset).value; }
    void poke(std::uint32_t offset, std::uint32_t value) { at(offset).value = value; }
    void set_bits(std::uint32_t offset, std::uint32_t mask) { at(offset).value |= mask; }
    void clear_bits(std::uint32_t offset, std::uint32_t mask) { at(offset).value &= ~mask; }

    /// The name of a register, or nullptr.
    [[nodiscard]] const char* name(std::uint32_t offset) const;
    [[nodiscard]] bool has(std::uint32_t offset) const { return find(offset) != nullptr; }

    /// Every register to its reset value; no hook runs. What was logged once stays logged.
    void reset();

private:
    struct Entry {
        Register row;
        std::string name;
        std::uint32_t value;
        bool logged = false;
    };

    [[nodiscard]] const Entry* find(std::uint32_t offset) const;
    [[nodiscard]] Entry* find(std::uint32_t offset);
    [[nodiscard]] const Entry& at(std::uint32_t offset) const;
    [[nodiscard]] Entry& at(std::uint32_t offset);
    void write_lanes(std::uint32_t offset, std::uint32_t value, std::uint32_t lanes);
    void log_unmodelled(Entry& entry, const char* how);
    void log_unknown(std::uint32_t offset, const char* how);

    std::string name_;
    std::uint32_t size_;
    std::uint32_t stride_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> index_; ///< slot of a register -> its place in entries_ plus 1; 0: no row
    std::vector<bool> unknown_logged_; ///< per slot
};

} // namespace t3sim
