// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The catalogue of faults. docs/faults.md describes for each what a driver does and what user space sees.
#include <stdexcept>
#include <string>

#include "sim/card/card_impl.hh"
#include "sim/core/log.hh"

namespace t3sim {

namespace {

spdlog::logger& flog = logger("faults");

constexpr Time millisecond = 1'000'000;

constexpr std::uint32_t pcie_unexpected_completion = hw::bit(6);
constexpr std::uint32_t mc7_uncorrectable = hw::bit(1);

} // namespace

void Card::Impl::enable_bus_faults() {
    bus_faults = true;
    select_bus();
}

void Card::Impl::set_signal(bool signal) {
    for (Mac& mac : macs)
        mac.set_signal(signal);
}

void Card::Impl::flap_link(Time time) {
    set_signal(false);
    events.cancel(restore_signal);
    restore_signal = events.after(time, [this] { set_signal(true); });
}

void Card::Impl::unplug() {
    set_signal(false);
    events.cancel(restore_signal);
    enable_bus_faults();
    faulty_bus.drop();
    real_host.set_intx(false);
    faults.unplugged = true;
}

std::uint32_t Card::Impl::object_of(const Fault& fault, const Target& target) const {
    if (!target.tid && !target.qp)
        return NthFault::all;
    if (fault.object == Fault::Object::none)
        throw std::invalid_argument("the fault '" + std::string(fault.name) + "' has no tid= or qp=");
    if (target.tid && target.qp)
        throw std::invalid_argument("expected tid= or qp=, not both");
    if (target.qp) {
        const auto qp = rnic.qp_state(*target.qp);
        if (!qp)
            throw std::invalid_argument("no connected QP has the number " + std::to_string(*target.qp));
        return fault.object == Fault::Object::qp ? *target.qp : qp->tid;
    }
    if (!toe.state(*target.tid))
        throw std::invalid_argument("no connection has the TID " + std::to_string(*target.tid));
    if (fault.object == Fault::Object::connection)
        return *target.tid;
    if (const auto qp = rnic.qp_of(*target.tid))
        return *qp;
    throw std::invalid_argument("the connection with the TID " + std::to_string(*target.tid) + " has no QP");
}

struct Card::FaultRow {
    Fault fault;
    /// @p object: a TID or QP number, or NthFault::all.
    void (*inject)(Impl& card, std::uint64_t amount, std::uint32_t object);
    template <NthFault ArmedFaults::*losses, unsigned kind>
    static void lose(Impl& card, std::uint64_t nth, std::uint32_t tid) {
        (card.faults.*losses).arm(tid, nth, kind);
    }
};

std::span<const Card::FaultRow> Card::fault_rows() {
    constexpr auto none = Fault::Amount::none;
    constexpr auto times = Fault::Amount::times;
    constexpr auto time = Fault::Amount::time;
    constexpr auto nth = Fault::Amount::nth;
    constexpr auto connection = Fault::Object::connection;
    constexpr auto qp = Fault::Object::qp;
    constexpr bool at_once = true;
    static constexpr FaultRow rows[] = {
        // The bus
        {{"lost-interrupt", times, 1, "an MSI or MSI-X edge is lost"},
         [](Impl& card, std::uint64_t n, std::uint32_t) {
             card.enable_bus_faults();
             card.faults.interrupt.arm(n);
         }},
        {{"late-dma", time, 200 * millisecond, "writes of the card reach the host's memory late, in order"},
         [](Impl& card, std::uint64_t t, std::uint32_t) {
             card.enable_bus_faults();
             card.faults.dma.arm(card.events.now() + t);
         }},
        {{"pci-error", none, 0, "the PCI Express block reports an unexpected completion (fatal)"},
         [](Impl& card, std::uint64_t, std::uint32_t) {
             card.regs.set_bits(reg::PCIE_PEX_ERR, pex_err_completion);
             card.irq.raise(reg::PCIE_INT_CAUSE, pcie_pexerr | pcie_unexpected_completion);
         }},
        // The SGE
        {{"framing-error", none, 0, "the SGE reports an invalid egress ring (fatal)"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.sge.fatal(hw::sg_int::r_req_framing_error); }},
        {{"drop-doorbell", times, 1, "the doorbell FIFO drops a doorbell and reports it"},
         [](Impl& card, std::uint64_t n, std::uint32_t) { card.faults.doorbell.arm(n); }},
        {{"db-full", none, 0, "the doorbell FIFO reports full"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.sge.fatal(hw::sg_int::db_full); }},
        {{"db-empty", none, 0, "the doorbell FIFO reports empty"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.sge.fatal(hw::sg_int::db_empty); }},
        {{"db-drop", none, 0, "the doorbell FIFO reports a dropped doorbell"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.sge.fatal(hw::sg_int::db_drop); }},
        {{"late-cqe", time, 200 * millisecond, "completions and async events are late, in order"},
         [](Impl& card, std::uint64_t t, std::uint32_t) {
             card.faults.completion.arm(card.events.now() + t);
         }},
        // Memory
        {{"tpt-ecc", times, 1, "an access reads a TPT entry with an uncorrectable error"},
         [](Impl& card, std::uint64_t n, std::uint32_t) { card.faults.tpt_entry.arm(n); }},
        {{"pmrx-ecc", none, 0, "the memory of TPT, PBL and RQT reports an uncorrectable error (fatal)"},
         [](Impl& card, std::uint64_t, std::uint32_t) {
             card.irq.raise(reg::MC7_INT_CAUSE, mc7_uncorrectable);
         }},
        // The card
        {{"adapter-reset", none, 0, "the chip resets itself without a report"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.chip_reset(); }},
        {{"firmware-death", none, 0,
          "no work requests other than those of Ethernet are executed until a reset"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.faults.firmware_stopped = true; }},
        {{"link-flap", time, 500 * millisecond, "both ports lose their signal for a time"},
         [](Impl& card, std::uint64_t t, std::uint32_t) { card.flap_link(t); }},
        // Offload
        {{"late-answers", time, 5 * millisecond,
          "each message about offloaded connections is that late, until a reset or 0ms"},
         [](Impl& card, std::uint64_t t, std::uint32_t) { card.faults.answer_delay = t; }},
        {{"abort", none, 0, "the card aborts all offloaded connections (CPL status 31)"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.toe.abort_all(); }},
        {{"negative-advice", none, 0,
          "the card reports negative advice for all offloaded connections (CPL status 35)"},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.toe.advise_all(); }},
        {{"no-tid", times, 1, "no TID is free: SYNs are dropped, opens refused"},
         [](Impl& card, std::uint64_t n, std::uint32_t) { card.faults.tid.arm(n); }},
        {{"no-stid", times, 1, "no STID is free: a listener is refused"},
         [](Impl& card, std::uint64_t n, std::uint32_t) { card.faults.stid.arm(n); }},
        // One operation of a connection
        {{"lose-sent-segment", nth, 1, "a TCP segment that the card sends is lost", connection, at_once},
         FaultRow::lose<&Faults::sent, SegmentKind::any>},
        {{"lose-sent-fpdu", nth, 1, "a segment with an FPDU that the card sends is lost", connection,
          at_once},
         FaultRow::lose<&Faults::sent, SegmentKind::fpdu>},
        {{"lose-sent-ack", nth, 1, "an ACK without data that the card sends is lost", connection, at_once},
         FaultRow::lose<&Faults::sent, SegmentKind::ack>},
        {{"lose-received-segment", nth, 1, "a TCP segment that arrives is lost", connection, at_once},
         FaultRow::lose<&Faults::received, SegmentKind::any>},
        {{"lose-received-fpdu", nth, 1, "a segment with an FPDU that arrives is lost", connection, at_once},
         FaultRow::lose<&Faults::received, SegmentKind::fpdu>},
        {{"lose-received-ack", nth, 1, "an ACK without data that arrives is lost", connection, at_once},
         FaultRow::lose<&Faults::received, SegmentKind::ack>},
        {{"bad-crc", nth, 1, "an FPDU that the card sends has a wrong CRC", connection, at_once},
         [](Impl& card, std::uint64_t n, std::uint32_t tid) { card.faults.bad_crc.arm(tid, n); }},
        {{"hold-cqe", nth, 1, "a completion, and all later ones of its QP, wait for release-cqe", qp,
          at_once},
         [](Impl& card, std::uint64_t n, std::uint32_t id) { card.sge.hold_completion(id, n); }},
        {{"release-cqe", none, 0, "completions that hold-cqe holds are written", qp},
         [](Impl& card, std::uint64_t, std::uint32_t id) { card.sge.release_completions(id); }},
        {{"unplug", none, 0, "the card is out of its slot until a reset of its function", Fault::Object::none,
          at_once},
         [](Impl& card, std::uint64_t, std::uint32_t) { card.unplug(); }},
    };
    return rows;
}

std::vector<Card::LieKind> Card::lie_kinds() {
    std::vector<LieKind> all;
    for (const Lies::Row& row : Lies::rows())
        all.push_back({row.name, row.what});
    return all;
}

void Card::lie(std::uint64_t seed, double rate, std::span<const std::string> kinds) {
    impl_->faults.lies.begin(seed, rate, kinds);
    impl_->enable_bus_faults();
    flog.info("{}: lies, seed {}", impl_->config.name, seed);
}

void Card::stop_lies() {
    impl_->faults.lies.end();
    flog.info("{}: no more lies", impl_->config.name);
}

void Card::guess(std::string_view text) {
    impl_->faults.guesses.set(text);
    for (Mac& mac : impl_->macs) // [guess G43]
        mac.counts_fcs = !impl_->faults.guesses.other(Guess::byte_counts_include_fcs);
    flog.info("{}: {}", impl_->config.name, text);
}

void Card::set_time(std::string_view text) {
    impl_->faults.timing.set(text);
    impl_->enable_bus_faults();
    flog.info("{}: time {}", impl_->config.name, impl_->faults.timing.text());
}

void Card::check_time(std::string_view text) {
    Timing().set(text);
}

std::string Card::time() const {
    return impl_->faults.timing.text();
}

void Card::check_guess(std::string_view text) {
    Guesses().set(text);
}

std::vector<Card::Question> Card::questions() {
    std::vector<Question> all;
    for (const Guesses::Row& row : Guesses::rows())
        all.push_back({row.number, row.modelled, row.other});
    return all;
}

std::string Card::guesses() const {
    return impl_->faults.guesses.text();
}

std::vector<Card::Fault> Card::faults() {
    std::vector<Fault> all;
    for (const FaultRow& row : fault_rows())
        all.push_back(row.fault);
    return all;
}

void Card::inject(std::string_view name, std::optional<std::uint64_t> amount, const Target& target) {
    for (const FaultRow& row : fault_rows()) {
        if (name != row.fault.name)
            continue;
        if (amount && row.fault.amount == Fault::Amount::none)
            throw std::invalid_argument("the fault '" + std::string(name) + "' has no amount");
        if (amount == 0U && row.fault.amount == Fault::Amount::nth)
            throw std::invalid_argument("nth is counted from 1");
        const std::uint32_t object = impl_->object_of(row.fault, target);
        flog.info("{}: {}", impl_->config.name, row.fault.name);
        row.inject(*impl_, amount.value_or(row.fault.default_amount), object);
        return;
    }
    throw std::invalid_argument("there is no fault '" + std::string(name) + "'; cause --list shows all");
}

} // namespace t3sim
