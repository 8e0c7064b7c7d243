// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The three memories of the card and their controllers (MC7): packet memory RX (the driver puts TPT, RQT and
// PBL into its upper half), packet memory TX, and context memory. Pages of them exist once they are written.
#pragma once

#include <array>

#include "sim/card/engines.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// Zeroed memory that costs nothing until it is touched.
class SparseMemory {
public:
    explicit SparseMemory(std::size_t size);
    ~SparseMemory();
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;

    [[nodiscard]] std::size_t size() const { return size_; }
    /// Null if the range is not inside.
    [[nodiscard]] std::uint8_t* at(std::uint64_t addr, std::size_t count) const {
        return addr <= size_ && count <= size_ - addr ? bytes_ + addr : nullptr;
    }
    void clear();

private:
    std::size_t size_;
    std::uint8_t* bytes_;
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
    std::array<SparseMemory, 3> memories_;
};

} // namespace t3sim
