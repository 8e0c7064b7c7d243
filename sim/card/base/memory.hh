// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The three memories of the card and their controllers (MC7): packet memory RX (the driver puts TPT, RQT and
// PBL into its upper half), packet memory TX, and context memory.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/card/base/guesses.hh"
#include "sim/card/engines.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// Memory that is filled with one word, initially 0. It is divided into pieces: fill() only marks those that
/// were used, because to free the pages of all of them takes milliseconds.
class SparseMemory {
public:
    /// @p filled counts first accesses to pieces.
    SparseMemory(std::size_t size, std::size_t& filled);
    ~SparseMemory();
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;

    [[nodiscard]] std::size_t size() const { return size_; }
    /// Null if the range is outside of the memory.
    [[nodiscard]] std::uint8_t* at(std::uint64_t addr, std::size_t count) {
        if (addr > size_ || count > size_ - addr)
            return nullptr;
        for (std::size_t n = addr / piece; n * piece < addr + count; ++n)
            if (state_[n] != State::used) [[unlikely]]
                use(n);
        return bytes_ + addr;
    }
    /// Fills all of it with @p pattern, big-endian.
    void fill(std::uint32_t pattern);
    /// Frees the pages of one piece that was used before the last fill(); false: nothing is left.
    bool free_piece();

    /// Small, as a first access writes the pattern into all of it.
    static constexpr std::size_t piece = 4 << 10;

private:
    enum class State : std::uint8_t {
        unused, ///< without pages: all 0
        used,   ///< since the last fill()
        old     ///< has contents from before the last fill()
    };
    void use(std::size_t piece_number);

    std::size_t size_;
    std::size_t& filled_;
    std::uint8_t* bytes_;
    std::uint32_t pattern_ = 0;
    std::vector<State> state_; ///< of each piece
    std::size_t next_to_free_; ///< no earlier piece is old
};

class Memory final : public CardMemory {
public:
    Memory(RegisterBank& regs, const Guesses& guesses);

    /// Sets the source of the TCBs, which begin at address 0 of the context memory (docs/hw/memory.md 2).
    /// Nothing: there is no TCB, and the memory is read as it is.
    void set_tcb_source(std::function<std::optional<TcbBytes>(Tid tid)> source) {
        tcb_source_ = std::move(source);
    }
    void add_hooks(RegisterHooks& hooks);
    /// Call after the registers were reset: clears the memories and sets the straps. Call free_piece() later.
    void reset();
    /// Frees a part of what was cleared; false: nothing is left.
    bool free_piece();

    [[nodiscard]] const std::uint8_t* pmrx(std::uint32_t addr, std::size_t count) const override {
        return memories_[pmrx_memory].at(addr, count);
    }
    bool pmrx_write(std::uint32_t addr, Bytes from) override;
    [[nodiscard]] Region tpt() const override { return tpt_; }
    [[nodiscard]] Region pbl() const override { return pbl_; }
    [[nodiscard]] Region rqt() const override { return rqt_; }

private:
    enum Which { pmrx_memory, pmtx_memory, context_memory };
    void back_door_read(unsigned which);
    [[nodiscard]] std::uint64_t word_at(unsigned which, std::uint64_t addr) const;
    void fill(unsigned which);

    /// Two registers, and the range that they describe.
    struct Limits {
        const std::uint32_t &lower, &upper;
        operator Region() const { return {lower, upper}; }
    };

    RegisterBank& regs_;
    const Guesses& guesses_;
    std::function<std::optional<TcbBytes>(Tid tid)> tcb_source_;
    const Limits tpt_, pbl_, rqt_;
    mutable std::array<SparseMemory, 3> memories_; ///< mutable: a first read may have to fill in the pattern
};

} // namespace t3sim
