// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/card.hh"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/card/card_impl.hh"
#include "sim/core/log.hh"
#include "sim/core/recorder.hh"

namespace t3sim {

namespace {

spdlog::logger& log = logger("card");

constexpr std::uint64_t doorbell_window = 8 << 20; // [guess G25]
constexpr std::uint64_t msix_window = 16 << 10;
constexpr std::uint32_t msix_table = 0, msix_pba = 0x2000;
constexpr std::uint32_t tcam_tids = 16384; // entries of the smallest TCAM
constexpr unsigned vectors = 9;            // the slow path and eight queue sets

/// The values by which a driver distinguishes chips.
struct Variant {
    Chip chip;
    std::uint16_t device;   ///< PCI id of the board
    std::uint32_t revision; ///< PL_REV
};
constexpr Variant variants[] = {
    {Chip::t3b, 0x0031, 2}, // T3B20
    {Chip::t3c, 0x0036, 4}, // S320E-CR
};
const Variant& variant(Chip chip) {
    return *std::find_if(std::begin(variants), std::end(variants),
                         [chip](const Variant& v) { return v.chip == chip; });
}

PciIds ids(Chip chip) {
    return {.vendor = 0x1425,
            .device = variant(chip).device,
            .subsystem_vendor = 0x1425,
            .subsystem_device = 0x0001,
            .class_code = 0x020000};
}

constexpr std::uint32_t crst_wrm = hw::bit(1);                        // PL_RST
constexpr std::uint32_t nic_mode = hw::bit(14);                       // TP_IN_CONFIG
constexpr std::uint32_t tm_ready = hw::bit(2), tm_reset = hw::bit(1); // MC5_DB_CONFIG

/// Timers of TCP that the host programs in ticks of 2^TIMERRESOLUTION core clocks.
constexpr struct {
    std::uint32_t offset;
    Time tcp::Params::*timer;
} tcp_timers[] = {
    {reg::TP_INIT_SRTT, &tcp::Params::rto_initial},
    {reg::TP_RXT_MIN, &tcp::Params::rto_min},
    {reg::TP_RXT_MAX, &tcp::Params::rto_max},
    {reg::TP_PERS_MIN, &tcp::Params::persist_min},
    {reg::TP_PERS_MAX, &tcp::Params::persist_max},
    {reg::TP_KEEP_IDLE, &tcp::Params::keepalive_idle},
    {reg::TP_KEEP_INTVL, &tcp::Params::keepalive_interval},
    {reg::TP_MSL, &tcp::Params::msl},
    {reg::TP_FINWAIT2_TIMER, &tcp::Params::fin_wait_2},
};

} // namespace

Card::Impl::Impl(const CardConfig& card, Host& host, EventQueue& queue)
    : config(card), events(queue), real_host(host), faults(counters),
      faulty_bus(host, queue, faults, counters["faults.late_dma_lost"]), recorded_host(host),
      pci(ids(card.chip), 1), vpd(card.mac, card.serial), irq(host, regs), memory(regs, faults.guesses),
      flash(regs), tp(regs), sge(host, queue, regs, irq, faults, counters),
      nic(regs, tp, *this, sge, counters),
      macs{Mac(
               0, queue, regs, counters,
               [this](unsigned port, Bytes frame, const Packet* intact) { received(port, frame, intact); },
               [this](unsigned port, User user) { resume(port, user); }, toe),
           Mac(
               1, queue, regs, counters,
               [this](unsigned port, Bytes frame, const Packet* intact) { received(port, frame, intact); },
               [this](unsigned port, User user) { resume(port, user); }, toe)},
      toe(queue, sge, *this, rnic, faults, counters), rnic({host, queue, sge, memory, toe, faults, counters}),
      free_memory(queue, [this] {
          constexpr unsigned at_a_time = 16;
          for (unsigned n = 0; n < at_a_time; ++n)
              if (!memory.free_piece())
                  return;
          free_memory.soon();
      }) {
    sge.connect(nic, toe, rnic);
    tp.set_mib_source([this](unsigned word) { return toe.mib(word); });
    memory.set_tcb_source([this](Tid tid) { return toe.tcb(tid); });
    tp.set_mtu_listener([this](unsigned index, std::uint16_t mtu) { toe.params().mtus[index] = mtu; });

    pci.add_bar(0, reg::file_size);
    pci.add_bar(2, doorbell_window);
    pci.add_bar(4, msix_window);
    pci.add_pm(0x40);
    pci.add_msi(0x48, 1);
    pci.add_pcie(0x58, {.slot_width = card.lanes});
    pci.add_vpd(
        0x94,
        [this](std::uint32_t addr) {
            const std::uint32_t word = vpd.read(addr);
            return faults.lies.any()
                       ? static_cast<std::uint32_t>(faults.lies.read(Lies::Kind::vpd, word, sizeof word))
                       : word;
        },
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

/// Hooks of registers that belong to no block.
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
    // The microprocessor boots at once: the mailbox reads 0, "no error".
    hooks.on_write(reg::CIM_BOOT_CFG,
                   [this](std::uint32_t, std::uint32_t) { regs.poke(reg::CIM_HOST_ACC_DATA, 0); });
    // Firmware memory, which the driver reads after a fatal error, reads 0.
    hooks.on_write(reg::CIM_HOST_ACC_CTRL,
                   [this](std::uint32_t, std::uint32_t) { regs.poke(reg::CIM_HOST_ACC_DATA, 0); });
    // TP registers with parameters of TCP.
    const auto tcp_changed = [this](std::uint32_t, std::uint32_t) { update_toe(); };
    for (const auto& row : tcp_timers)
        hooks.on_write(row.offset, tcp_changed);
    for (std::uint32_t offset :
         {reg::TP_TIMER_RESOLUTION, reg::TP_DACK_TIMER, reg::TP_SHIFT_CNT, reg::TP_MTU_PORT_TABLE,
          reg::TP_IN_CONFIG, reg::MC5_DB_SERVER_INDEX, reg::MC5_DB_FILTER_TABLE})
        hooks.on_write(offset, tcp_changed);
    // No PHY replies on the MDIO bus.
    hooks.on_write(reg::MI1_OP, [this](std::uint32_t op, std::uint32_t) {
        if ((op & 2) != 0)
            regs.poke(reg::MI1_DATA, 0xffff);
    });
}

/// PL_RST: resets everything except PCI configuration, VPD, flash and cables. Connections end without a
/// segment, and without a message to the host: only their own timers end them at the peers.
void Card::Impl::chip_reset() {
    if (probe)
        probe({.kind = EventKind::reset});
    if (faults.unplugged)
        set_signal(true);
    faults.reset();
    if (std::exchange(bus_faults, faults.lies.any() || faults.timing.any())) {
        faulty_bus.drop();
        select_bus();
    }
    rnic.reset();
    toe.reset();
    toe.params() = {}; // they come from registers, which are reset too
    if (config.secret)
        toe.params().tcp.iss_secret = *config.secret;
    regs.reset();
    regs.poke(reg::PL_REV, variant(config.chip).revision);
    irq.reset();
    memory.reset();
    if (memory.free_piece())
        free_memory.soon();
    flash.reset();
    tp.reset();
    nic.reset();
    sge.reset();
    for (Mac& mac : macs)
        mac.reset();
}

/// Passes the register values to the Toe. For a register that is still 0 the Toe keeps its default.
void Card::Impl::update_toe() {
    ToeParams& params = toe.params();
    const std::uint32_t resolution = regs.peek(reg::TP_TIMER_RESOLUTION);
    for (const auto& row : tcp_timers)
        if (const std::uint32_t count = regs.peek(row.offset); count != 0)
            params.tcp.*row.timer = tp_ticks(count, bits(resolution, 23, 16));
    if (const std::uint32_t count = regs.peek(reg::TP_DACK_TIMER); count != 0)
        params.tcp.delayed_ack = tp_ticks(count, bits(resolution, 7, 0));
    if (const std::uint32_t shifts = regs.peek(reg::TP_SHIFT_CNT); shifts != 0) {
        params.tcp.syn_retries = bits(shifts, 31, 24);
        params.tcp.r1 = bits(shifts, 23, 20);
        params.tcp.r2 = bits(shifts, 19, 16);
        params.tcp.persist_probes = bits(shifts, 11, 8);
        params.tcp.keepalive_probes = bits(shifts, 7, 0);
    }
    for (unsigned port = 0; port < Card::ports; ++port)
        if (const std::uint32_t mtu = regs.peek(reg::TP_MTU_PORT_TABLE) >> 16 * port & 0xffff; mtu != 0)
            params.port_mtu[port] = static_cast<std::uint16_t>(mtu);
    const std::uint32_t servers = regs.peek(reg::MC5_DB_SERVER_INDEX),
                        filters = regs.peek(reg::MC5_DB_FILTER_TABLE);
    if (servers != 0 && filters > servers && filters <= tcam_tids) {
        params.tids = params.stid_base = servers;
        params.stids = filters - servers;
    }
    params.offload_mode = (regs.peek(reg::TP_IN_CONFIG) & nic_mode) == 0;
}

void Card::Impl::resume(unsigned port, User user) {
    if (user == User::nic)
        nic.resume(port);
    else
        toe.resume(port);
}

void Card::Impl::received(unsigned port, Bytes frame, const Packet* intact) {
    if (toe.frame_in(port, frame, intact))
        return;
    if (intact)
        intact->fill_in();
    nic.receive(port, frame);
}

Card::Card(const CardConfig& config, Host& host, EventQueue& queue)
    : impl_(std::make_unique<Impl>(config, host, queue)) {}
Card::~Card() {
    impl_->events.cancel(impl_->restore_signal);
}

Endpoint& Card::port(unsigned index) {
    return impl_->macs.at(index);
}
void Card::connect(unsigned port, Link& link) {
    impl_->macs.at(port).connect(link);
}
const Counters& Card::counters() const {
    return impl_->counters;
}

std::uint32_t Card::connection_limit() const {
    return impl_->toe.tid_limit();
}
std::optional<ConnectionState> Card::connection(std::uint32_t tid) const {
    return impl_->toe.state(tid);
}
std::uint32_t Card::qp_limit() {
    return hw::control_qp;
}
std::optional<QpState> Card::qp(std::uint32_t id) const {
    return impl_->rnic.qp_state(id);
}
std::uint32_t Card::cq_limit() {
    return hw::egress_contexts;
}
std::optional<CqState> Card::cq(std::uint32_t id) const {
    return impl_->sge.cq_state(id);
}
std::uint32_t Card::region_limit() const {
    return Tpt::entries(impl_->memory);
}
std::optional<RegionState> Card::region(std::uint32_t index) const {
    return Tpt::state(impl_->memory, index);
}
std::uint32_t Card::ring_limit() {
    return Sge::rings;
}
std::optional<RingState> Card::ring(std::uint32_t number) const {
    return impl_->sge.ring_state(number);
}

void Card::record(Recorder* recorder) {
    impl_->tee.recorder = recorder;
    impl_->tee.card = recorder ? recorder->add_card(impl_->config.name) : 0;
    impl_->select_bus();
}

void Card::observe(EventSink* observer) {
    impl_->tee.observer = observer;
    impl_->select_bus();
}

void Card::Impl::select_bus() {
    probe = tee.observer ? Probe(&tee, tee.card) : tee.recorder ? Probe(tee.recorder, tee.card) : Probe();
    Host& bus = bus_faults ? static_cast<Host&>(faulty_bus) : real_host;
    recorded_host.set_bus(probe, bus);
    Host& host = probe ? static_cast<Host&>(recorded_host) : bus;
    irq.set_bus(host);
    sge.set_bus(probe, host);
    nic.record(probe);
    toe.record(probe);
    rnic.set_bus(probe, host);
}

inline std::uint64_t Card::Impl::read(unsigned bar, std::uint64_t offset, unsigned size) {
    if (bar != 0)
        return 0; // the doorbell window is write-only
    const std::uint64_t value = regs.read_bytes(offset, size);
    if (faults.lies.any()) [[unlikely]]
        return faults.lies.read(offset == reg::SF_DATA ? Lies::Kind::vpd : Lies::Kind::registers, value,
                                size);
    return value;
}

inline void Card::Impl::write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) {
    if (bar == 0)
        regs.write_bytes(offset, size, value);
    else if (bar == 2 && size == 4 && offset < doorbell_window)
        sge.user_doorbell(offset, static_cast<std::uint32_t>(value), doorbell_window);
}

std::uint64_t Card::Impl::recorded_read(unsigned bar, std::uint64_t offset, unsigned size) {
    const std::uint64_t value = read(bar, offset, size);
    record_mmio(EventKind::mmio_read, bar, offset, size, value);
    return value;
}

void Card::Impl::recorded_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) {
    record_mmio(EventKind::mmio_write, bar, offset, size, value);
    write(bar, offset, size, value);
}

/// Records the value in the byte order of the bus.
void Card::Impl::record_mmio(EventKind kind, unsigned bar, std::uint64_t offset, unsigned size,
                             std::uint64_t value) {
    std::array<std::uint8_t, 8> data;
    for (unsigned byte = 0; byte < data.size(); ++byte)
        data[byte] = static_cast<std::uint8_t>(value >> 8 * byte);
    probe({.kind = kind, .unit = static_cast<std::uint16_t>(bar), .where = offset},
          Bytes(data).first(std::min<std::size_t>(size, data.size())));
}

std::uint64_t Card::bar_size(unsigned bar) const {
    return impl_->pci.bar_size(bar);
}
unsigned Card::msix_vectors() const {
    return vectors;
}

std::uint64_t Card::mmio_read(unsigned bar, std::uint64_t offset, unsigned size) {
    if (impl_->bus_faults) [[unlikely]] {
        if (impl_->faults.unplugged)
            return ~std::uint64_t{0} >> (64 - 8 * size);
        impl_->faulty_bus.flush();
    }
    if (impl_->probe) [[unlikely]]
        return impl_->recorded_read(bar, offset, size);
    return impl_->read(bar, offset, size);
}

void Card::mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) {
    if (impl_->faults.unplugged) [[unlikely]]
        return;
    if (impl_->probe) [[unlikely]]
        return impl_->recorded_write(bar, offset, size, value);
    impl_->write(bar, offset, size, value);
}

void Card::config_read(std::uint32_t offset, MutableBytes to) {
    if (impl_->faults.unplugged)
        std::fill(to.begin(), to.end(), std::uint8_t{0xff});
    else
        impl_->pci.read(offset, to);
}
void Card::config_write(std::uint32_t offset, Bytes from) {
    if (!impl_->faults.unplugged)
        impl_->pci.write(offset, from);
}

void Card::reset() {
    log.debug("{}: function reset", impl_->config.name);
    impl_->pci.reset();
    impl_->chip_reset();
}

void Card::restore_nonvolatile() {
    impl_->vpd = Vpd(impl_->config.mac, impl_->config.serial);
    impl_->flash.restore();
}

} // namespace t3sim
