// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The interface between a card and its host. Host: what a card can do to the host; Device: what the host can
// do to the card. sim/vfio implements the transport of both.
#pragma once

#include <cstdint>

#include "sim/core/bytes.hh"

namespace t3sim {

/// The host as seen by a bus master. Addresses are bus addresses. Single threaded.
class Host {
public:
    virtual ~Host() = default;

    /// Copies host memory into @p to. False (and @p to zeroed): part of the range is not mapped, a bus error.
    virtual bool dma_read(std::uint64_t addr, MutableBytes to) = 0;
    /// Copies @p from into host memory. False: part of the range is not mapped; nothing was written.
    virtual bool dma_write(std::uint64_t addr, Bytes from) = 0;
    /// Reads one aligned 32-bit word, in memory order (no swap), with acquire semantics: later reads return
    /// data that is at least as new. False: bus error.
    virtual bool dma_load(std::uint64_t addr, std::uint32_t& raw) = 0;
    /// Writes one aligned 32-bit word, in memory order, with release semantics: a reader that sees it also
    /// sees all earlier writes.
    virtual bool dma_store(std::uint64_t addr, std::uint32_t raw) = 0;

    /// Raises one edge on an MSI-X (or MSI) vector. Ignored if the guest has not enabled the vector.
    virtual void raise_irq(unsigned vector) = 0;
    /// Sets the level of the INTx pin.
    virtual void set_intx(bool asserted) = 0;
};

/// A PCI function as seen by the host.
class Device {
public:
    virtual ~Device() = default;

    /// Size of a BAR in bytes, a power of two; 0: no such BAR. BARs 2n are 64-bit if their size is not 0.
    [[nodiscard]] virtual std::uint64_t bar_size(unsigned bar) const = 0;
    [[nodiscard]] virtual unsigned msix_vectors() const = 0;

    virtual std::uint64_t mmio_read(unsigned bar, std::uint64_t offset, unsigned size) = 0;
    virtual void mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) = 0;
    virtual void config_read(std::uint32_t offset, MutableBytes to) = 0;
    virtual void config_write(std::uint32_t offset, Bytes from) = 0;
    /// Function-level reset: restores the state after power-on. Also called when the client disconnects.
    virtual void reset() = 0;
    /// Gives non-volatile memory its first contents. Called before reset() when the client disconnects.
    virtual void restore_nonvolatile() {}
};

} // namespace t3sim
