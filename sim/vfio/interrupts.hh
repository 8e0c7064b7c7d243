// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Delivers the card's interrupts to the client: one eventfd per vector, received with DEVICE_SET_IRQS.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/client_fd.hh"
#include "sim/core/fd.hh"
#include "sim/vfio/protocol.hh"

namespace t3sim::vfio {

class Interrupts {
public:
    explicit Interrupts(Signals& signals) : signals_(signals) {}

    /// Vectors per index: INTx (0 or 1), MSI, MSI-X.
    void set_counts(unsigned intx, unsigned msi, unsigned msix);

    [[nodiscard]] IrqInfo info(std::uint32_t index) const;
    /// Executes DEVICE_SET_IRQS; @p data follows the structure in the message. Moves the used descriptors out
    /// of @p fds. Returns 0 or an errno.
    int set(const SetIrqs& request, Bytes data, std::vector<Fd>& fds);

    /// Raises an edge on an MSI-X vector, or on an MSI vector if the guest uses MSI. Latched while the vector
    /// has no eventfd; dropped if the guest uses neither.
    void raise(unsigned vector);
    void set_intx(bool asserted);
    /// Command register bit 10.
    void set_intx_disabled(bool disabled);

    /// Resets the state after the client has disconnected.
    void clear();

private:
    struct Vector {
        SharedEventfd eventfd;
        bool pending = false; ///< raised while there was no eventfd
    };
    struct Index {
        std::vector<Vector> vectors;
        bool enabled = false;
    };

    void signal(Vector& vector);
    void clear(Vector& vector);
    void update_intx();

    Signals& signals_;
    std::array<Index, num_irqs> indexes_;
    bool intx_asserted_ = false;
    bool intx_disabled_ = false;
    bool intx_masked_ = false; ///< signalled, and not unmasked by the client yet
};

} // namespace t3sim::vfio
