// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Interrupts: the tree of cause and enable registers below PL_INT_CAUSE0, and their delivery to the host
// (MSI-X or MSI vectors; INTx with SG_DATA_INTR).
#pragma once

#include "sim/core/host.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

/// The bus refused an access of the card: bits of PCIE_INT_CAUSE and of PCIE_PEX_ERR.
inline constexpr std::uint32_t pcie_pexerr = 1U << 0, pex_err_completion = 1U << 0;

class Irq {
public:
    Irq(Host& host, RegisterBank& regs) : host_(&host), regs_(regs) {}
    void add_hooks(RegisterHooks& hooks);
    /// Replaces the host.
    void set_bus(Host& host) { host_ = &host; }

    /// Sets bits of a block's cause register, and raises an interrupt if all levels of the tree enable them.
    void raise(std::uint32_t cause_register, std::uint32_t bits);
    /// Interrupt of a response queue with vectors enabled: one edge on its vector.
    void data_vector(unsigned vector) { host_->raise_irq(vector); }
    /// Interrupt of a response queue without vectors (INTx): sets its bit in SG_DATA_INTR and asserts the
    /// pin.
    void data_intx(unsigned queue);
    /// Call after the registers were reset.
    void reset();

private:
    /// Latches the causes of the blocks and raises an interrupt for new enabled bits of PL_INT_CAUSE0.
    void update();
    void set_pin(bool asserted);

    Host* host_;
    RegisterBank& regs_;
    std::uint32_t reported_ = 0; ///< enabled bits of PL_INT_CAUSE0 that have raised an interrupt
    bool pin_ = false;
};

} // namespace t3sim
