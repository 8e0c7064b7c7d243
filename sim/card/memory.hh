// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The three memories of the card and their controllers (MC7): packet memory RX (the driver puts TPT, RQT and
// PBL into its upper half), packet memory TX, and context memory. Pages of them exist once they are written.
#pragma once

#include <array>
#include <vector>

#include "sim/card/engines.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// Memory full of one word, at first of 0, that costs nothing until it is touched.
class SparseMemory {
public:
    explicit SparseMemory(std::size_t size);
    ~SparseMemory();
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;

    [[nodiscard]] std::size_t size() const { return size_; }
    /// Null if the range is not inside.
    [[nodiscard]] std::uint8_t* at(std::uint64_t addr, std::size_t count) {
        if (addr > size_ || count > size_ - addr)
            return nullptr;
        if (pattern_ != 0) [[unlikely]]
            fill_in(addr, count);
        return bytes_ + addr;
    }
    void clear() { fill(0); }
    /// All of it becomes @p pattern, big-endian.
    void fill(std::uint32_t pattern);

private:
    static constexpr std::size_t piece = 64 << 10; ///< in which a pattern is filled in
    void fill_in(std::uint64_t addr, std::size_t count);

    std::size_t size_;
    std::uint8_t* bytes_;
    std::uint32_t pattern_ = 0;
    std::vector<bool> filled_; ///< pieces that hold the pattern, or what was written since
};

class Memory final : public CardMemory {
public:
    explicit Memory(RegisterBank& regs);
    void add_hooks(RegisterHooks& hooks);
    /// After the registers were reset: empty, with the straps in place.
    void reset();

    bool pmrx_read(std::uint32_t addr, MutableBytes to) const override;
    bool pmrx_write(std::uint32_t addr, Bytes from) override;
    [[nodiscard]] Region tpt() const override;
    [[nodiscard]] Region pbl() const override;
    [[nodiscard]] Region rqt() const override;

private:
    enum Which { pmrx, pmtx, cm };
    void back_door_read(unsigned which);
    void fill(unsigned which);

    RegisterBank& regs_;
    mutable std::array<SparseMemory, 3> memories_; ///< a first look may have to fill in
};

} // namespace t3sim
