// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Interrupts: the tree of cause and enable registers below PL_INT_CAUSE0, and the ways to the host (MSI-X or
// MSI vectors; INTx with SG_DATA_INTR).
#pragma once

#include "sim/core/host.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

class Irq {
public:
    Irq(Host& host, RegisterBank& regs) : host_(&host), regs_(regs) {}
    void add_hooks(RegisterHooks& hooks);
    /// From now on the machine is reached through @p host.
    void use(Host& host) { host_ = &host; }

    /// Sets bits of a block's cause register, and interrupts if they are enabled up to the top.
    void raise(std::uint32_t cause_register, std::uint32_t bits);
    /// A response queue that has interrupts enabled: one edge on its vector.
    void data_vector(unsigned vector) { host_->raise_irq(vector); }
    /// A response queue that has not (INTx): its bit in SG_DATA_INTR, and the pin.
    void data_intx(unsigned queue);
    /// After the registers were reset.
    void reset();

private:
    /// Latches what the blocks report and tells the host if something new is enabled at the top.
    void update();
    void set_pin(bool asserted);

    Host* host_;
    RegisterBank& regs_;
    std::uint32_t reported_ = 0; ///< enabled bits of PL_INT_CAUSE0 that the host has been told of
    bool pin_ = false;
};

} // namespace t3sim
