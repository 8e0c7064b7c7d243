// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A bank of 32-bit registers described by rows. The properties of a register (name, reset value, writable
// bits, bits that clear on write or read) are data; only its behaviour is code, in two hooks.
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
    /// Writable bits, which read back. A write does not change the other bits.
    std::uint32_t write = 0xffffffff;
    /// Write-1-to-clear bits. A write never sets them, even if they are in `write`.
    std::uint32_t w1c = 0;
    /// Bits that a read clears, after it has returned them.
    std::uint32_t rc = 0;
    /// Bits that a write hook receives but that always read 0: commands, "go" bits, and busy bits of
    /// operations that complete at once.
    std::uint32_t self_clear = 0;
    /// Computes the value that a read returns from the stored value. Empty: the stored value.
    std::function<std::uint32_t(std::uint32_t stored)> on_read = {};
    /// Runs after the bits were stored. @p written is the value on the bus, with self-clearing and W1C bits;
    /// byte lanes that a narrow write does not cover are 0. May poke() any register.
    std::function<void(std::uint32_t written, std::uint32_t before)> on_write = {};
    /// False: only the name is known. Reads return the reset value, writes are ignored, the first access is
    /// logged.
    bool modelled = true;
};

/// A register without behaviour.
inline Register unmodelled(std::uint32_t offset, const char* name, std::uint32_t reset = 0) {
    Register r{.offset = offset, .name = name, .reset = reset};
    r.modelled = false;
    return r;
}

/// Registers at word-aligned offsets 0 .. size-1. Adding a row with a mistake (overlap, misalignment, an
/// offset outside of the bank, a missing name) throws std::logic_error. Bad accesses of the guest never
/// throw.
class RegisterBank {
public:
    /// @p stride: distance between registers, a power of two; 4 for a BAR, 1 for a window whose registers are
    /// numbered.
    RegisterBank(std::string name, std::uint32_t size, std::uint32_t stride = 4);

    /// Adds a row. @p base is added to its offset and @p prefix is put before its name, for blocks of which
    /// the card has several instances.
    void add(Register row, std::uint32_t base = 0, const std::string& prefix = {});
    void add(std::initializer_list<Register> rows, std::uint32_t base = 0, const std::string& prefix = {});
    void add(std::span<const Register> rows, std::uint32_t base = 0, const std::string& prefix = {});

    /// Bus accesses to one full register: hooks, masks and clearing apply. An offset without a row reads 0.
    std::uint32_t read(std::uint32_t offset);
    void write(std::uint32_t offset, std::uint32_t value) { write_lanes(offset, value, 0xffffffff); }

    /// Bus accesses of 1, 2, 4 or 8 bytes, little-endian, at any offset; each register in the range sees one
    /// access. Narrow writes act as PCI byte enables do: the other byte lanes keep their value.
    std::uint64_t read_bytes(std::uint64_t offset, unsigned size);
    void write_bytes(std::uint64_t offset, unsigned size, std::uint64_t value);

    /// Accesses of the card itself: no hooks, no masks. Throws std::logic_error if the offset has no row.
    [[nodiscard]] std::uint32_t peek(std::uint32_t offset) const { return values_[place(offset)]; }
    void poke(std::uint32_t offset, std::uint32_t value) { values_[place(offset)] = value; }
    void set_bits(std::uint32_t offset, std::uint32_t mask) { values_[place(offset)] |= mask; }
    void clear_bits(std::uint32_t offset, std::uint32_t mask) { values_[place(offset)] &= ~mask; }

    /// The same for hot paths, which look registers up once: the stored values of @p count registers from @p
    /// offset on, whose rows may be added later. They stay in place as long as the bank. Throws
    /// std::logic_error if a register is outside of the bank.
    [[nodiscard]] std::span<std::uint32_t> values(std::uint32_t offset, std::uint32_t count);
    [[nodiscard]] const std::uint32_t& value(std::uint32_t offset) { return values(offset, 1).front(); }

    /// The name of a register, or nullptr.
    [[nodiscard]] const char* name(std::uint32_t offset) const;
    [[nodiscard]] bool has(std::uint32_t offset) const { return find(offset) != nowhere; }

    /// Sets every register to its reset value without running hooks. First accesses that were logged are not
    /// logged again.
    void reset();

private:
    struct Entry {
        Register row;
        std::string name;
        bool logged = false;
    };

    static constexpr std::uint32_t nowhere = ~0U;
    [[nodiscard]] std::uint32_t slot(std::uint32_t offset) const { return offset >> shift_; }
    /// Index of a register in entries_, or nowhere.
    [[nodiscard]] std::uint32_t find(std::uint32_t offset) const {
        return offset < size_ && slot(offset) << shift_ == offset ? index_[slot(offset)] - 1 : nowhere;
    }
    /// Index of a register in values_.
    [[nodiscard]] std::uint32_t place(std::uint32_t offset) const {
        if (find(offset) == nowhere) [[unlikely]]
            no_row(offset);
        return slot(offset);
    }
    [[noreturn, gnu::cold]] void no_row(std::uint32_t offset) const;
    void write_lanes(std::uint32_t offset, std::uint32_t value, std::uint32_t lanes);
    void log_unmodelled(Entry& entry, const char* how);
    void log_unknown(std::uint32_t offset, const char* how);

    std::string name_;
    std::uint32_t size_;
    unsigned shift_; ///< binary logarithm of the stride
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> values_; ///< per slot; apart, because the card needs only these
    std::vector<std::uint32_t> index_;  ///< slot of a register -> its index in entries_ plus 1; 0: no row
    std::vector<bool> unknown_logged_;  ///< per slot
};

} // namespace t3sim
