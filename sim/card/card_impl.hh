// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Implementation of Card: its blocks and their connections. For card.cc and faults.cc only.
#pragma once

#include "sim/card/base/faults.hh"
#include "sim/card/base/faulty_host.hh"
#include "sim/card/base/flash.hh"
#include "sim/card/base/irq.hh"
#include "sim/card/base/memory.hh"
#include "sim/card/base/recorded_host.hh"
#include "sim/card/base/tp.hh"
#include "sim/card/base/vpd.hh"
#include "sim/card/card.hh"
#include "sim/card/nic/mac.hh"
#include "sim/card/nic/nic.hh"
#include "sim/card/rnic/rnic.hh"
#include "sim/card/sge/sge.hh"
#include "sim/card/toe/toe.hh"
#include "sim/core/pci_config.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

struct Card::Impl final : MacServices {
    Impl(const CardConfig& config, Host& host, EventQueue& queue);

    void transmit(unsigned port, Packet&& frame) override { macs.at(port).transmit(std::move(frame)); }
    bool ready_or_wait(unsigned port, User user) override { return macs.at(port).ready_or_wait(user); }
    void resume(unsigned port, User user);
    void received(unsigned port, Bytes frame, const Packet* intact);
    std::uint64_t read(unsigned bar, std::uint64_t offset, unsigned size);
    void write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value);
    // While recording. Separate functions, so that they do not cost registers on the normal path.
    [[gnu::cold, gnu::noinline]] std::uint64_t recorded_read(unsigned bar, std::uint64_t offset,
                                                             unsigned size);
    [[gnu::cold, gnu::noinline]] void recorded_write(unsigned bar, std::uint64_t offset, unsigned size,
                                                     std::uint64_t value);
    void record_mmio(EventKind kind, unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value);
    void add_hooks(RegisterHooks& hooks);
    void chip_reset();
    void update_toe();
    /// Sets the probe and the Host of all engines: the real one, with bus faults or the recorder in front of
    /// it if enabled.
    void select_bus();
    /// Puts the FaultyHost in front of the real host.
    void enable_bus_faults();
    void set_signal(bool signal);
    /// Removes the signal of both ports for @p time.
    void flap_link(Time time);
    /// Takes the card out of its slot until a reset. All that it does has no effect outside.
    void unplug();
    /// The TID or the QP of a target, as the fault's kind of objects needs it. Throws std::invalid_argument.
    [[nodiscard]] std::uint32_t object_of(const Fault& fault, const Target& target) const;

    /// Passes events to the recorder and to the observer.
    struct Tee final : EventSink {
        void record(std::uint8_t card, const RecordHead& head, Bytes data) override {
            if (recorder)
                recorder->record(card, head, data);
            observer->record(card, head, data);
        }
        Recorder* recorder = nullptr;
        std::uint8_t card = 0;
        EventSink* observer = nullptr;
    };

    CardConfig config;
    EventQueue& events;
    Tee tee;
    Probe probe;
    Host& real_host;
    Counters counters;
    Faults faults;
    FaultyHost faulty_bus;
    bool bus_faults = false; ///< from the injection of a bus fault until the next reset, lies, times
    RecordedHost recorded_host;
    PciConfig pci;
    Vpd vpd;
    RegisterBank regs{"bar0", reg::file_size};
    Irq irq;
    Memory memory;
    Flash flash;
    Tp tp;
    Sge sge;
    Nic nic;
    std::array<Mac, Card::ports> macs;
    Toe toe;
    Rnic rnic;
    EventQueue::Repeated free_memory; ///< what a reset has cleared, a part at a time
    EventQueue::Id restore_signal;
};

} // namespace t3sim
