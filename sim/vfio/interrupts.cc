// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/interrupts.hh"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "sim/core/log.hh"

namespace t3sim::vfio {
namespace {

spdlog::logger& log = logger("irq");

} // namespace

void Interrupts::set_counts(unsigned intx, unsigned msi, unsigned msix) {
    indexes_[irq_intx].vectors.resize(intx);
    indexes_[irq_msi].vectors.resize(msi);
    indexes_[irq_msix].vectors.resize(msix);
    // The error interrupt stops the guest. It is offered because QEMU warns without it; it is never raised.
    indexes_[irq_error].vectors.resize(1);
}

IrqInfo Interrupts::info(std::uint32_t index) const {
    const std::uint32_t flags = index == irq_intx ? irq_eventfd | irq_maskable | irq_automasked : irq_eventfd;
    return {.argsz = sizeof(IrqInfo),
            .flags = flags,
            .index = index,
            .count = static_cast<std::uint32_t>(indexes_[index].vectors.size())};
}

int Interrupts::set(const SetIrqs& request, Bytes data, std::vector<Fd>& fds) {
    if (request.index >= num_irqs)
        return EINVAL;
    Index& index = indexes_[request.index];
    const std::uint32_t kind = request.flags & set_irqs::data_mask;
    const std::uint32_t action = request.flags & set_irqs::action_mask;
    if ((request.flags & ~(set_irqs::data_mask | set_irqs::action_mask)) != 0 || !std::has_single_bit(kind) ||
        !std::has_single_bit(action) || request.start > index.vectors.size() ||
        request.count > index.vectors.size() - request.start)
        return EINVAL;
    if (kind != set_irqs::data_eventfd && !fds.empty())
        return EINVAL;
    if (kind == set_irqs::data_bool && data.size() < request.count)
        return EINVAL;

    if (request.count == 0) { // "none, trigger" with count 0 disables the index
        if (kind != set_irqs::data_none || action != set_irqs::trigger)
            return EINVAL;
        for (Vector& vector : index.vectors)
            clear(vector);
        index.enabled = false;
        if (request.index == irq_intx)
            intx_masked_ = false;
        return 0;
    }

    if (action != set_irqs::trigger) {
        if (request.index != irq_intx || kind == set_irqs::data_eventfd)
            return EINVAL;
        if (kind == set_irqs::data_bool && data[0] == 0)
            return 0;
        intx_masked_ = action == set_irqs::mask;
        update_intx();
        return 0;
    }

    if (kind == set_irqs::data_eventfd) {
        // All vectors of the range get a descriptor; a request without descriptors removes all of them.
        if (!fds.empty() && fds.size() != request.count)
            return EINVAL;
        if (!std::all_of(fds.begin(), fds.end(), usable_eventfd))
            return EINVAL;
        index.enabled = true;
        for (std::uint32_t i = 0; i < request.count; i++) {
            Vector& vector = index.vectors[request.start + i];
            signals_.release(std::move(vector.eventfd));
            vector.eventfd = fds.empty() ? nullptr : std::make_shared<Eventfd>(std::move(fds[i]));
            if (vector.eventfd && vector.pending)
                signal(vector);
        }
        if (request.index == irq_intx) {
            intx_masked_ = false;
            update_intx();
        }
        return 0;
    }

    // A client may trigger interrupts itself, to test its own path.
    for (std::uint32_t i = 0; i < request.count; i++)
        if (kind == set_irqs::data_none || data[i] != 0)
            signal(index.vectors[request.start + i]);
    return 0;
}

void Interrupts::signal(Vector& vector) {
    vector.pending = !vector.eventfd;
    if (vector.eventfd)
        signals_.signal(vector.eventfd);
}

void Interrupts::clear(Vector& vector) {
    signals_.release(std::move(vector.eventfd));
    vector = {};
}

void Interrupts::raise(unsigned vector) {
    for (const auto kind : {irq_msix, irq_msi}) {
        Index& index = indexes_[kind];
        if (!index.enabled)
            continue;
        log.trace("raise {} vector {}", kind == irq_msix ? "MSI-X" : "MSI", vector);
        if (vector < index.vectors.size())
            signal(index.vectors[vector]);
        return;
    }
    log.debug("vector {} raised, but the guest has enabled neither MSI-X nor MSI", vector);
}

void Interrupts::set_intx(bool asserted) {
    if (asserted != intx_asserted_)
        log.trace("INTx {}", asserted ? "asserted" : "deasserted");
    intx_asserted_ = asserted;
    update_intx();
}

void Interrupts::set_intx_disabled(bool disabled) {
    intx_disabled_ = disabled;
    update_intx();
}

void Interrupts::update_intx() {
    Index& index = indexes_[irq_intx];
    if (!intx_asserted_ || intx_disabled_ || intx_masked_ || index.vectors.empty() ||
        !index.vectors[0].eventfd)
        return;
    // The client masks the line when it handles the event and unmasks it later. If the line is still asserted
    // then, it is signalled again.
    intx_masked_ = true;
    signal(index.vectors[0]);
}

void Interrupts::clear() {
    for (Index& index : indexes_) {
        for (Vector& vector : index.vectors)
            clear(vector);
        index.enabled = false;
    }
    intx_asserted_ = intx_disabled_ = intx_masked_ = false;
}

} // namespace t3sim::vfio
