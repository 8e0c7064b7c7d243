// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/card.hh"

#include <stdexcept>

#include "sim/card/flash.hh"
#include "sim/card/irq.hh"
#include "sim/card/mac.hh"
#include "sim/card/memory.hh"
#include "sim/card/nic.hh"
#include "sim/card/sge.hh"
#include "sim/card/tp.hh"
#include "sim/card/vpd.hh"
#include "sim/core/log.hh"
#include "sim/core/pci_config.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

namespace {

spdlog::logger& log = logger("card");

constexpr std::uint64_t doorbell_window = 8 << 20; // [guess G25]
constexpr std::uint64_t msix_window = 16 << 10;
constexpr std::uint32_t msix_table = 0, msix_pba = 0x2000;
constexpr unsigned vectors = 9; // the slow path and eight queue sets

constexpr PciIds ids{.vendor = 0x1425,
                     .device = 0x0036, // S320E-CR
                     .subsystem_vendor = 0x1425,
                     .subsystem_device = 0x0001,
                     .class_code = 0x020000};

constexpr std::uint32_t crst_wrm = hw::bit(1);                        // PL_RST
constexpr std::uint32_t nic_mode = hw::bit(14);                       // TP_IN_CONFIG
constexpr std::uint32_t tm_ready = hw::bit(2), tm_reset = hw::bit(1); // MC5_DB_CONFIG

/// Until an engine is there: the card is a NIC.
class NoToe final : public ToeServices {
public:
    void offload_wr(unsigned, Bytes) override {}
    void control_wr(unsigned, Bytes) override {}
    bool frame_in(unsigned, Bytes) override { return false; }
};
class NoRnic final : public RnicServices {
public:
    bool offload_wr(Tid, Bytes, std::uint32_t) override { return false; }
    void control_wr(Bytes) override {}
    void doorbell(QpId) override {}
    [[nodiscard]] bool rdma_mode(Tid) const override { return false; }
    void stream_switched(Tid) override {}
    void stream_in(Tid, Bytes) override {}
    void stream_room(Tid) override {}
    void close_requested(Tid) override {}
    bool peer_closed(Tid) override { return false; }
    void connection_gone(Tid) override {}
};

} // namespace

struct Card::Impl final : MacServices {
    Impl(const CardConfig& config, Host& host, EventQueue& queue);

    void transmit(unsigned port, Bytes frame) override { macs.at(port).transmit(frame); }
    void received(unsigned port, Bytes frame);
    void add_hooks(RegisterHooks& hooks);
    void chip_reset();

    CardConfig config;
    Counters counters;
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
    NoToe toe;
    NoRnic rnic;
};

Card::Impl::Impl(const CardConfig& card, Host& host, EventQueue& queue)
    : config(card), pci(ids, 1), vpd(card.mac, card.serial), irq(host, regs), memory(regs), flash(regs),
      tp(regs), sge(host, queue, regs, irq, counters), nic(regs, tp, *this, sge, counters),
      macs{Mac(0, regs, counters, [this](unsigned port, Bytes frame) { received(port, frame); }),
           Mac(1, regs, counters, [this](unsigned port, Bytes frame) { received(port, frame); })} {
    sge.connect(nic, toe, rnic);

    pci.add_bar(0, reg::file_size);
    pci.add_bar(2, doorbell_window);
    pci.add_bar(4, msix_window);
    pci.add_pm(0x40);
    pci.add_msi(0x48, 1);
    pci.add_pcie(0x58, {});
    pci.add_vpd(
        0x94, [this](std::uint32_t addr) { return vpd.read(addr); },
        [this](std::uint32_t addr, std::uint32_t word) { vpd.write(addr, word); });
    pci.add_msix(0x9c, vectors, 4, msix_table, msix_pba);

    RegisterHooks hooks;
    add_hooks(hooks);
    irq.add_hooks(hooks);
    memory.add_hooks(hooks);
    flash.add_hooks(hooks);
    tp.add_hooks(hooks);
    sge.add_hooks(hooks);
    for (Mac& mac : macs)
        mac.add_hooks(hooks);
    fill_register_file(regs, hooks);
    chip_reset();
}

/// What belongs to no block of its own.
void Card::Impl::add_hooks(RegisterHooks& hooks) {
    hooks.on_write(reg::PL_RST, [this](std::uint32_t written, std::uint32_t) {
        if ((written & crst_wrm) != 0) {
            log.debug("{}: chip reset", config.name);
            chip_reset();
        }
    });
    hooks.on_write(reg::MC5_DB_CONFIG, [this](std::uint32_t written, std::uint32_t) {
        if ((written & tm_reset) != 0)
            regs.set_bits(reg::MC5_DB_CONFIG, tm_ready);
    });
    // The microprocessor boots as fast as the host can look: the mailbox holds its "no error".
    hooks.on_write(reg::CIM_BOOT_CFG,
                   [this](std::uint32_t, std::uint32_t) { regs.poke(reg::CIM_HOST_ACC_DATA, 0); });
    // Firmware memory, which the driver reads after a fatal error: nothing to report.
    hooks.on_write(reg::CIM_HOST_ACC_CTRL,
                   [this](std::uint32_t, std::uint32_t) { regs.poke(reg::CIM_HOST_ACC_DATA, 0); });
    // Nobody answers on the MDIO bus.
    hooks.on_write(reg::MI1_OP, [this](std::uint32_t op, std::uint32_t) {
        if ((op & 2) != 0)
            regs.poke(reg::MI1_DATA, 0xffff);
    });
}

/// PL_RST: all but PCI configuration, VPD, flash and cables.
void Card::Impl::chip_reset() {
    regs.reset();
    irq.reset();
    memory.reset();
    flash.reset();
    tp.reset();
    sge.reset();
    for (Mac& mac : macs)
        mac.reset();
}

void Card::Impl::received(unsigned port, Bytes frame) {
    const bool offload = (regs.peek(reg::TP_IN_CONFIG) & nic_mode) == 0;
    if (!offload || !toe.frame_in(port, frame))
        nic.receive(port, frame);
}

Card::Card(const CardConfig& config, Host& host, EventQueue& queue)
    : impl_(std::make_unique<Impl>(config, host, queue)) {}
Card::~Card() = default;

Endpoint& Card::port(unsigned index) {
    return impl_->macs.at(index);
}
void Card::connect(unsigned port, Link& link) {
    impl_->macs.at(port).connect(link);
}
const Counters& Card::counters() const {
    return impl_->counters;
}

std::uint64_t Card::bar_size(unsigned bar) const {
    return impl_->pci.bar_size(bar);
}
unsigned Card::msix_vectors() const {
    return vectors;
}

std::uint64_t Card::mmio_read(unsigned bar, std::uint64_t offset, unsigned size) {
    return bar == 0 ? impl_->regs.read_bytes(offset, size) : 0; // the doorbell window is write-only
}

void Card::mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) {
    if (bar == 0)
        impl_->regs.write_bytes(offset, size, value);
    else if (bar == 2 && size == 4 && offset < doorbell_window)
        impl_->sge.user_doorbell(offset, static_cast<std::uint32_t>(value), doorbell_window);
}

void Card::config_read(std::uint32_t offset, MutableBytes to) {
    impl_->pci.read(offset, to);
}
void Card::config_write(std::uint32_t offset, Bytes from) {
    impl_->pci.write(offset, from);
}

void Card::reset() {
    log.debug("{}: function reset", impl_->config.name);
    impl_->pci.reset();
    impl_->chip_reset();
}

} // namespace t3sim
