// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/sge/sge.hh"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/hw/cqe.hh"

namespace t3sim {

namespace ec = hw::egress_context;
namespace cqc = hw::cq_context;
namespace cmd = hw::context_cmd;

namespace {

/// Limit of header and data of a work request: more than a 64 KiB segment.
constexpr std::size_t max_wr_bytes = 256 << 10;

/// Work limits of all rings in one turn, independent of the number of doorbells, and of one ring before the
/// next. In bytes; the overhead of a ring check, which may be the first access to a page, and of a request is
/// counted as bytes too.
constexpr std::size_t turn_work = 64 << 10, ring_work = 32 << 10;
constexpr std::size_t check_work = 128, request_work = 512;
/// A BYPASS request has a command in every 16 bytes, with the work of 128.
constexpr std::size_t bypass_work = 8;
// Each part of an SGL counts as so much at least: it may be the first access to a page.
constexpr std::size_t part_work = 1024;
/// Completions that a fault may delay: the maximum size of a completion queue; messages, also in bytes; and
/// how many of them one event posts.
constexpr std::size_t max_delayed = 65536, max_late_bytes = 8 << 20, late_at_a_time = 256;
/// Fixed cost of a QP's doorbell; the Rnic limits the work itself.
constexpr std::size_t qp_work = 8 << 10;

hw::CqeLayout cqe_layout(const Cqe& cqe, std::uint32_t gen) {
    hw::CqeLayout out;
    out.header = hw::cqe_header(cqe.qp, gen != 0, cqe.status, cqe.send_side, cqe.opcode);
    out.length = cqe.length;
    out.word2 = cqe.word2;
    out.word3 = cqe.word3;
    return out;
}

} // namespace

Sge::Sge(Host& host, EventQueue& events, RegisterBank& regs, Irq& irq, Faults& faults, Counters& counters)
    : host_(&host), events_(events), regs_(regs), control_(regs.value(reg::SG_CONTROL)), irq_(irq),
      faults_(faults),
      responses_(host, events, regs, irq, faults, counters, [this](unsigned) { responses_drained(); }),
      egress_(hw::egress_contexts), cqs_(hw::egress_contexts), wr_(max_wr_bytes),
      wait_queue_(hw::egress_contexts), run_event_(events, [this] { run_queued(); }),
      work_(events, turn_work), doorbells_(counters["sge.doorbells"]),
      work_requests_(counters["sge.work_requests"]), framing_errors_(counters["sge.framing_errors"]),
      unknown_wrs_(counters["sge.unknown_work_requests"]), cqes_(counters["sge.cqes"]),
      async_events_(counters["sge.async_events"]), cq_lost_(counters["sge.cqes_without_queue"]),
      bad_commands_(counters["sge.bad_context_commands"]),
      early_commands_(counters["sge.context_commands_while_busy"]) {}

Sge::~Sge() {
    events_.cancel(delayed_timer_);
    events_.cancel(late_answer_timer_);
    events_.cancel(fetch_timer_);
    events_.cancel(command_timer_);
}

void Sge::connect(Nic& nic, ToeServices& toe, RnicServices& rnic) {
    nic_ = &nic;
    toe_ = &toe;
    rnic_ = &rnic;
}

void Sge::add_hooks(RegisterHooks& hooks) {
    responses_.add_hooks(hooks);
    hooks.on_write(reg::SG_CONTROL,
                   [this](std::uint32_t value, std::uint32_t before) { control_written(value, before); });
    hooks.on_write(reg::SG_KDOORBELL, [this](std::uint32_t value, std::uint32_t) { kernel_doorbell(value); });
    hooks.on_write(reg::SG_CONTEXT_CMD,
                   [this](std::uint32_t value, std::uint32_t) { context_command(value); });
}

void Sge::reset() {
    responses_.reset();
    std::fill(egress_.begin(), egress_.end(), hw::Context{});
    std::fill(cqs_.begin(), cqs_.end(), hw::Context{});
    std::fill(wait_queue_.begin(), wait_queue_.end(), WaitQueue::none);
    run_queue_.clear();
    for (auto& waiting : waiting_for_port_)
        waiting.clear();
    waiting_for_responses_.clear();
    fetching_.clear();
    events_.cancel(fetch_timer_);
    events_.cancel(command_timer_);
    run_event_.cancel();
    delayed_.clear();
    events_.cancel(delayed_timer_);
    holds_ = false;
    held_.clear();
    held_count_ = 0;
    late_answers_.clear();
    late_bytes_ = 0;
    events_.cancel(late_answer_timer_);
}

void Sge::set_bus(Probe probe, Host& host) {
    probe_ = probe;
    host_ = &host;
    responses_.set_bus(probe, host);
}

std::optional<CqState> Sge::cq_state(CqId id) const {
    const hw::Context& c = cqs_[id % cqs_.size()];
    if (cqc::size.get(c) == 0)
        return std::nullopt;
    return CqState{.base = cqc::base(c),
                   .size = cqc::size.get(c),
                   .index = cqc::index.get(c),
                   .generation = cqc::gen.get(c),
                   .armed = cqc::notify_any.get(c) != 0         ? "any"
                            : cqc::notify_solicited.get(c) != 0 ? "solicited"
                                                                : "no",
                   .response_queue = cqc::rspq.get(c)};
}

std::optional<RingState> Sge::ring_state(std::uint32_t number) const {
    if (number >= hw::egress_contexts)
        return responses_.ring_state(number - hw::egress_contexts);
    const hw::Context& c = egress_[number];
    if (ec::valid.get(c) == 0)
        return std::nullopt;
    const auto type = static_cast<hw::EgressType>(ec::type.get(c));
    const bool is_qp = type == hw::EgressType::rdma && number != hw::control_qp;
    return RingState{.type = is_qp                              ? "QP"
                             : type == hw::EgressType::rdma     ? "control QP"
                             : type == hw::EgressType::ethernet ? "Ethernet"
                             : type == hw::EgressType::offload  ? "offload"
                             : type == hw::EgressType::control  ? "control"
                                                                : "unknown",
                     .id = number,
                     .base = ec::base(c),
                     .size = ec::size.get(c),
                     .index = ec::index.get(c),
                     .generation = ec::gen.get(c),
                     .tid = is_qp ? std::optional(ec::token.get(c)) : std::nullopt,
                     .response_queue = ec::rspq.get(c),
                     .credits = {},
                     .waits = {}};
}

// --- Contexts ----------------------------------------------------------------------------------------------

hw::Context* Sge::find_context(std::uint32_t command) {
    const unsigned id = command & 0xffff;
    switch (command & (cmd::cq | cmd::response_queue | cmd::egress | cmd::free_list)) {
    case cmd::cq:
        return &cqs_[id];
    case cmd::egress:
        return &egress_[id];
    case cmd::response_queue:
        return responses_.response_context(id);
    case cmd::free_list:
        return responses_.free_list_context(id);
    default:
        return nullptr;
    }
}

void Sge::context_command(std::uint32_t command) {
    const std::uint32_t opcode = bits(command, 31, 28);
    if (faults_.timing.any()) [[unlikely]]
        stay_busy();
    else
        regs_.clear_bits(reg::SG_CONTEXT_CMD, cmd::busy);
    hw::Context* const context = find_context(command);
    const bool is_cq = (command & cmd::cq) != 0;
    if (!context || (opcode > cmd::write && !is_cq)) {
        ++bad_commands_;
    } else if (opcode == cmd::read) {
        for (unsigned i = 0; i < context->size(); ++i)
            regs_.poke(reg::SG_CONTEXT_DATA0 + 4 * i, (*context)[i]);
    } else if (opcode == cmd::write) {
        for (unsigned i = 0; i < context->size(); ++i) {
            const std::uint32_t mask = regs_.peek(reg::SG_CONTEXT_MASK0 + 4 * i);
            (*context)[i] = ((*context)[i] & ~mask) | (regs_.peek(reg::SG_CONTEXT_DATA0 + 4 * i) & mask);
        }
        if ((command & cmd::response_queue) != 0 && bits(regs_.peek(reg::SG_CONTEXT_MASK0), 31, 16) != 0)
            responses_.restart(command & 0xffff);
    } else {
        cq_command(opcode, command & 0xffff);
    }
}

/// A context command takes time. Its effect is immediate, only its end is late.
void Sge::stay_busy() {
    if (events_.cancel(command_timer_))
        ++early_commands_;
    regs_.set_bits(reg::SG_CONTEXT_CMD, cmd::busy);
    command_timer_ =
        events_.after(faults_.timing.command(), [this] { regs_.clear_bits(reg::SG_CONTEXT_CMD, cmd::busy); });
}

/// docs/hw/cq.md 10, point 5. Credits (opcode 7) belong to T3A: accepted and ignored. [guess G23]
void Sge::cq_command(std::uint32_t opcode, CqId id) {
    hw::Context& c = cqs_[id];
    switch (opcode) {
    case cmd::cq_arm:
        if (faults_.guesses.other(Guess::arming_with_entries_gives_no_event) &&
            (cqc::index.get(c) != 0 || cqc::gen.get(c) == 0)) {
            post_async(id, hw::async_event::async, cqc::index.get(c), Cqe{}, 0);
            break;
        }
        cqc::notify_any.set(c, 1);
        cqc::armed.set(c, 1);
        break;
    case cmd::cq_arm_solicited:
        cqc::notify_solicited.set(c, 1);
        cqc::armed.set(c, 1);
        break;
    case cmd::cq_force: // [guess G24] not used by any driver: an event without a CQE
        post_async(id, hw::async_event::async, cqc::index.get(c), Cqe{}, 0);
        break;
    case cmd::cq_credits:
        return;
    default:
        ++bad_commands_;
        return;
    }
    regs_.poke(reg::SG_CONTEXT_CMD, (regs_.peek(reg::SG_CONTEXT_CMD) & 0xffff0000) | cqc::index.get(c));
}

// --- Doorbells ---------------------------------------------------------------------------------------------

void Sge::control_written(std::uint32_t value, std::uint32_t before) {
    if ((value & ~before & hw::sg_control::global_enable) == 0)
        return;
    // Doorbells that were written while the SGE was disabled are not lost: service every ring.
    for (unsigned id = 0; id < egress_.size(); ++id)
        if (ec::valid.get(egress_[id]) != 0)
            doorbell(id);
}

void Sge::kernel_doorbell(std::uint32_t value) {
    constexpr std::uint32_t select_egress = hw::bit(31);
    ++doorbells_;
    if ((value & select_egress) != 0) {
        if (probe_) [[unlikely]]
            record_doorbell(value & 0xffff);
        if (!loses_doorbell())
            rung(value & 0xffff);
    } else
        responses_.free_list_doorbell(value & 0xffff);
}

void Sge::user_doorbell(std::uint64_t offset, std::uint32_t value, std::uint64_t window) {
    ++doorbells_;
    if (hw::sg_control::user_space_size(control_) == 0)
        return;
    const std::uint64_t page_size = std::uint64_t{1} << (hw::sg_control::host_page_size(control_) + 11);
    const std::uint64_t group = std::max<std::uint64_t>(hw::egress_contexts / (window / page_size), 1);
    const unsigned id =
        static_cast<unsigned>(offset / page_size * group + value % group) % hw::egress_contexts;
    if (faults_.guesses.other(Guess::doorbell_modulo_ids_of_page) && id != value) [[unlikely]] // [guess G25]
        return;
    if (probe_) [[unlikely]]
        record_doorbell(id);
    if (!loses_doorbell())
        rung(id);
}

/// Whether a doorbell has no effect.
inline bool Sge::loses_doorbell() {
    if (faults_.lies.any()) [[unlikely]] {
        const auto [lost, cause] = faults_.lies.doorbell();
        if (cause != 0)
            fatal(cause);
        if (lost)
            return true;
    }
    if (!faults_.doorbell.fires()) [[likely]]
        return false;
    fatal(hw::sg_int::db_drop);
    return true;
}

/// Only a QP's ring belongs to a connection.
void Sge::record_doorbell(unsigned id) const {
    const hw::Context& c = egress_[id];
    RecordHead head{
        .kind = EventKind::doorbell, .unit = static_cast<std::uint16_t>(ec::type.get(c)), .where = id};
    if (static_cast<hw::EgressType>(ec::type.get(c)) == hw::EgressType::rdma && ec::valid.get(c) != 0) {
        head.qp = id;
        if (id != hw::control_qp)
            head.tid = ec::token.get(c);
    }
    probe_(head);
}

inline void Sge::rung(unsigned id) {
    if (faults_.timing.any()) [[unlikely]]
        fetch_later(id);
    else
        doorbell(id);
}

/// Further doorbells of the ring have no effect until then. The order of the rings is kept.
void Sge::fetch_later(unsigned id) {
    if (wait_queue_[id] != WaitQueue::none)
        return;
    wait_queue_[id] = WaitQueue::fetch;
    Time due = events_.now() + faults_.timing.fetch();
    if (fetching_.empty()) {
        events_.cancel(fetch_timer_);
        fetch_timer_ = events_.at(due, [this] { fetch_due(); });
    } else {
        due = std::max(due, fetching_.back().due);
    }
    fetching_.push_back({due, id});
}

void Sge::fetch_due() {
    while (!fetching_.empty() && fetching_.front().due <= events_.now()) {
        const unsigned id = fetching_.front().id;
        fetching_.pop_front();
        if (wait_queue_[id] != WaitQueue::fetch)
            continue; // queued for another reason meanwhile
        wait_queue_[id] = WaitQueue::none;
        doorbell(id);
    }
    if (!fetching_.empty())
        fetch_timer_ = events_.at(fetching_.front().due, [this] { fetch_due(); });
}

/// Handles a doorbell. The first doorbells since the last event are serviced at once until the work limit of
/// a turn; further ones are queued. A doorbell of a queued ring has no effect.
void Sge::doorbell(unsigned id) {
    if (wait_queue_[id] != WaitQueue::none)
        return;
    if (work_.left() == 0 || !run_queue_.empty())
        enqueue(id);
    else
        service(id);
}

void Sge::service(unsigned id) {
    const hw::Context& c = egress_[id];
    if (!enabled() || ec::valid.get(c) == 0)
        return;
    work_.use(check_work);
    if (static_cast<hw::EgressType>(ec::type.get(c)) == hw::EgressType::rdma) {
        work_.use(qp_work);
        rnic_->doorbell(id); // no descriptor credits [guess G31]
    } else {
        drain(id);
    }
}

void Sge::enqueue(unsigned id) {
    if (wait_queue_[id] == WaitQueue::run)
        return;
    wait_queue_[id] = WaitQueue::run;
    run_queue_.push_back(id);
    run_event_.soon();
}

/// The next turn is an event behind all that are already due, so that frames and other cards are served
/// first.
void Sge::run_queued() {
    for (std::size_t rings = run_queue_.size(); rings != 0 && work_.left() != 0; --rings) {
        const unsigned id = run_queue_.front();
        run_queue_.pop_front();
        wait_queue_[id] = WaitQueue::none;
        service(id);
    }
    if (!run_queue_.empty())
        run_event_.after(0); // also behind the frames of this turn
}

/// A QP's ring may be queued already: the Rnic also runs a QP without a doorbell. Then the ring is checked
/// again at its turn.
void Sge::wait_for_responses(unsigned id) {
    if (wait_queue_[id] != WaitQueue::none)
        return;
    wait_queue_[id] = WaitQueue::responses;
    waiting_for_responses_.push_back(id);
}

std::size_t Sge::waiting_rings() const {
    std::size_t sum = run_queue_.size() + waiting_for_responses_.size();
    for (const auto& waiting : waiting_for_port_)
        sum += waiting.size();
    return sum;
}

void Sge::responses_drained() {
    for (const unsigned id : std::exchange(waiting_for_responses_, {}))
        if (wait_queue_[id] == WaitQueue::responses)
            enqueue(id);
}

/// Whether the next request of an Ethernet ring seems to have to wait for its port.
bool Sge::wait_for_port(unsigned id) {
    if (!nic_->busy())
        return false;
    const hw::Context& c = egress_[id];
    Slot slot;
    return read_slot(c, ec::index.get(c), ec::gen.get(c), slot) == Fetch::slot && wait_for_port(id, slot);
}

/// Whether a request of an Ethernet ring must wait for its port. If so, port_ready() queues the ring.
bool Sge::wait_for_port(unsigned id, Bytes wr) {
    const unsigned port = Nic::port_of(wr);
    if (!nic_->busy(port))
        return false;
    wait_queue_[id] = port == 0 ? WaitQueue::port0 : WaitQueue::port1;
    waiting_for_port_[port].push_back(id);
    return true;
}

/// The Mac has given the NIC its turn at the port: the rings that wait for it continue at once, in turn,
/// until the port is busy again. In a later event the TOE would have filled the wire before. [guess G52]
void Sge::port_ready(unsigned port) {
    auto& waiting = waiting_for_port_[port];
    for (std::size_t rings = waiting.size(); rings != 0 && !nic_->busy(port); --rings) {
        const unsigned id = waiting.front();
        waiting.pop_front();
        wait_queue_[id] = WaitQueue::none;
        if (work_.left() == 0)
            enqueue(id);
        else
            service(id); // if the port is busy then, the ring waits behind the others
    }
}

// --- Work requests -----------------------------------------------------------------------------------------

SgeServices::Fetch Sge::read_slot(const hw::Context& c, std::uint32_t index, std::uint32_t gen, Slot& slot) {
    const std::uint64_t addr = ec::base(c) + std::uint64_t{index} * slot_size;
    // The host writes the word with the first generation bit last, so all other words are valid if it
    // matches.
    std::uint32_t lo = 0;
    if (!host_->dma_load(addr + 4, lo)) {
        responses_.bus_error();
        return Fetch::bus_error;
    }
    if (hw::wr::gen(__builtin_bswap32(lo)) != gen)
        return Fetch::empty;
    if (!host_->dma_read(addr, slot)) {
        responses_.bus_error();
        return Fetch::bus_error;
    }
    const bool one_bit = (control_ & hw::sg_control::egr_gen_ctrl) != 0;
    return one_bit || (slot.back() & 1U) == gen ? Fetch::slot : Fetch::empty;
}

/// Stops an invalid ring: invalidates its context and reports a fatal error to the host.
Sge::Take Sge::framing_error(unsigned id) {
    ++framing_errors_;
    ec::valid.set(egress_[id], 0);
    fatal(hw::sg_int::r_req_framing_error);
    return Take::error;
}

Sge::Take Sge::take_wr(unsigned id, Wr& wr) {
    hw::Context& c = egress_[id];
    std::uint32_t index = ec::index.get(c), gen = ec::gen.get(c);
    const std::uint32_t ring = ec::size.get(c);
    if (index >= ring)
        return framing_error(id);

    Slot slot;
    std::array<std::uint8_t, hw::max_wr_descriptors * slot_size> sgl;
    std::size_t sgl_size = 0;
    bool has_sgl = false, last = false;
    wr = Wr{};
    while (!last) {
        if (wr.descriptors == hw::max_wr_descriptors)
            return framing_error(id);
        const Fetch got = read_slot(c, index, gen, slot);
        if (got == Fetch::bus_error) {
            ec::valid.set(c, 0);
            return Take::error;
        }
        if (got != Fetch::slot) // the first descriptor becomes valid last
            return wr.descriptors == 0 ? Take::none : framing_error(id);

        const std::uint32_t hi = be32(&slot[0]), flits = hw::wr::flits(be32(&slot[4]));
        const bool first = wr.descriptors == 0;
        if (((hi & hw::wr::sop) != 0) != first || flits == 0 || flits > hw::descriptor_flits)
            return framing_error(id);
        if (first) {
            wr.hi = hi;
            has_sgl = (hi & hw::wr::sgl) != 0;
        }
        const std::uint32_t body = first ? 0 : 1; // continuations repeat the header
        const std::uint32_t split = has_sgl ? hw::wr::sgl_flit(hi) : flits;
        if (split < std::max(body, 1U) || split > flits)
            return framing_error(id);
        std::copy(&slot[body * hw::flit], &slot[0] + split * hw::flit, &wr_[wr.size]);
        wr.size += (split - body) * hw::flit;
        std::copy(&slot[0] + split * hw::flit, &slot[0] + flits * hw::flit, &sgl[sgl_size]);
        sgl_size += (flits - split) * hw::flit;

        ++wr.descriptors;
        last = (hi & hw::wr::eop) != 0;
        if (++index == ring) {
            index = 0;
            gen ^= 1;
        }
    }
    ec::index.set(c, index);
    ec::gen.set(c, gen);
    if (!has_sgl)
        return Take::done;
    put_be32(&wr_[0], wr.hi & ~hw::wr::sgl);
    return gather(Bytes(sgl).first(sgl_size), wr);
}

/// Appends the data of an SGL: groups of two lengths and two addresses; the last group may have one of each.
/// A WR whose data cannot be read is dropped, and its descriptors are returned as credits.
Sge::Take Sge::gather(Bytes sgl, Wr& wr) {
    constexpr std::size_t single = 2 * hw::flit, pair = 3 * hw::flit;
    const auto append = [&](std::uint64_t addr, std::uint32_t length) {
        if (length > wr_.size() - wr.size) {
            ++framing_errors_;
            return false;
        }
        if (!host_->dma_read(addr, MutableBytes(wr_).subspan(wr.size, length))) {
            responses_.bus_error();
            return false;
        }
        wr.short_of += part_work - std::min<std::size_t>(part_work, length);
        wr.size += length;
        return true;
    };
    bool good = true;
    while (good && sgl.size() >= single) {
        const std::uint32_t second = be32(&sgl[4]);
        good = append(be64(&sgl[8]), be32(&sgl[0]));
        if (second == 0 || sgl.size() < pair)
            break;
        good = good && append(be64(&sgl[16]), second);
        sgl = sgl.subspan(pair);
    }
    if (!good) { // what was read counts nevertheless
        wr.short_of += wr.size;
        wr.size = 0;
    }
    return Take::done;
}

void Sge::drain(unsigned id) {
    hw::Context& c = egress_[id];
    const auto type = static_cast<hw::EgressType>(ec::type.get(c));
    const unsigned queue = ec::rspq.get(c);
    const auto tx_queue = type == hw::EgressType::ethernet  ? Responses::ethernet
                          : type == hw::EgressType::offload ? Responses::offload
                                                            : Responses::control;
    // Limits the work of one ring: the host may post as fast as this loop reads.
    for (std::size_t left = ring_work;;) {
        if (type != hw::EgressType::ethernet && faults_.firmware_stopped) [[unlikely]]
            return;
        // Ethernet requests never produce messages; the others wait until the queue has drained.
        if (type != hw::EgressType::ethernet && responses_.congested(queue)) {
            wait_for_responses(id);
            return;
        }
        if (type == hw::EgressType::offload && toe_->congested()) {
            wait_for_responses(id);
            return;
        }
        if (type == hw::EgressType::ethernet && wait_for_port(id))
            return;
        const hw::Context before = c;
        Wr wr;
        if (take_wr(id, wr) != Take::done)
            return;
        // The host may have changed the descriptor meanwhile, or its port is in the SGL: read again later.
        if (type == hw::EgressType::ethernet && nic_->busy() && wr.size >= 2 * hw::flit &&
            wait_for_port(id, wr_)) [[unlikely]] {
            c = before;
            work_.use(wr.size + request_work + wr.short_of);
            return;
        }
        ++work_requests_;
        if (probe_) [[unlikely]]
            probe_({.kind = EventKind::work_request, .unit = static_cast<std::uint16_t>(type), .where = id},
                   Bytes(wr_).first(wr.size));
        if (wr.size != 0)
            execute(type, queue, wr);
        const bool now = type == hw::EgressType::ethernet && (wr.hi & hw::wr::compl_) != 0;
        responses_.return_credits(queue, tx_queue, wr.descriptors, now);
        const bool bypass = type != hw::EgressType::ethernet &&
                            static_cast<hw::FwOp>(hw::wr::opcode(wr.hi)) == hw::FwOp::bypass;
        const std::size_t work = wr.size * (bypass ? bypass_work : 1) + request_work + wr.short_of;
        left -= std::min(left, work);
        work_.use(work);
        if (left == 0 || work_.left() == 0) {
            enqueue(id);
            return;
        }
    }
}

void Sge::execute(hw::EgressType type, unsigned queue, const Wr& wr) {
    const MutableBytes bytes = MutableBytes(wr_).first(wr.size);
    const auto opcode = static_cast<hw::FwOp>(hw::wr::opcode(wr.hi));
    switch (type) {
    case hw::EgressType::ethernet:
        if (opcode != hw::FwOp::tunnel_tx_pkt)
            break;
        nic_->transmit(bytes);
        return;
    case hw::EgressType::offload:
        toe_->offload_wr(queue, bytes, wr.descriptors);
        return;
    case hw::EgressType::control:
        if (opcode == hw::FwOp::ri_modify_qp)
            rnic_->control_wr(bytes);
        else
            toe_->control_wr(queue, bytes);
        return;
    default:
        break;
    }
    ++unknown_wrs_;
}

// --- QP rings ----------------------------------------------------------------------------------------------

void Sge::open_qp_context(QpId qp, Tid tid, std::uint64_t ring_base, std::uint32_t slots) {
    constexpr std::uint32_t wr_credits = 16;
    if (qp < hw::first_qp || qp > hw::control_qp || slots > 0xffff) {
        ++bad_commands_;
        return;
    }
    if (holds_) [[unlikely]]
        release_completions(qp); // of an earlier connection, whose QP had the same number
    hw::Context c{};
    ec::credits.set(c, wr_credits);
    ec::size.set(c, slots);
    ec::set_base(c, ring_base);
    ec::token.set(c, tid);
    ec::type.set(c, static_cast<std::uint32_t>(hw::EgressType::rdma));
    ec::gen.set(c, 1);
    ec::valid.set(c, 1);
    egress_[qp] = c;
}

void Sge::invalidate_qp_context(QpId qp) {
    faults_.cqe.forget(qp);
    if (qp >= hw::first_qp && qp <= hw::control_qp)
        egress_[qp] = {};
}

SgeServices::Fetch Sge::fetch_slot(QpId context, Slot& slot) {
    if (context >= egress_.size())
        return Fetch::invalid_context;
    hw::Context& c = egress_[context];
    const std::uint32_t index = ec::index.get(c), gen = ec::gen.get(c), ring = ec::size.get(c);
    if (!enabled() || ec::valid.get(c) == 0 || index >= ring)
        return Fetch::invalid_context;
    if (faults_.firmware_stopped) [[unlikely]]
        return Fetch::busy;
    if (responses_.congested(ec::rspq.get(c))) {
        wait_for_responses(context);
        return Fetch::busy;
    }
    const Fetch got = read_slot(c, index, gen, slot);
    if (got == Fetch::slot) {
        ++work_requests_;
        const bool wrap = index + 1 == ring;
        ec::index.set(c, wrap ? 0 : index + 1);
        ec::gen.set(c, gen ^ (wrap ? 1U : 0U));
    }
    return got;
}

void Sge::unfetch_slot(QpId context) {
    hw::Context& c = egress_[context % egress_.size()];
    const std::uint32_t index = ec::index.get(c), ring = ec::size.get(c);
    if (ring == 0)
        return;
    ec::index.set(c, index == 0 ? ring - 1 : index - 1);
    ec::gen.set(c, ec::gen.get(c) ^ (index == 0 ? 1U : 0U));
}

// --- Completion queues -------------------------------------------------------------------------------------

void Sge::record_cqe(EventKind kind, CqId cq, const Cqe& cqe, std::uint32_t gen) const {
    RecordHead head{.kind = kind, .where = cq, .qp = cqe.qp};
    if (const hw::Context& c = egress_[cqe.qp % egress_.size()];
        ec::valid.get(c) != 0 && cqe.qp >= hw::first_qp && cqe.qp < hw::control_qp)
        head.tid = ec::token.get(c);
    probe_(head, hw::bytes_of(cqe_layout(cqe, gen)));
}

void Sge::post_async(CqId cq, std::uint32_t head, std::uint32_t index, const Cqe& cqe, std::uint32_t gen) {
    ++async_events_;
    if (probe_) [[unlikely]]
        record_cqe(EventKind::async_event, cq, cqe, gen);
    std::array<std::uint32_t, 2> words{head | gen << hw::async_event::gen_shift, index << 16 | cq};
    hw::CqeLayout layout = cqe_layout(cqe, gen);
    if (faults_.lies.any()) [[unlikely]]
        faults_.lies.event(words, layout);
    responses_.post_async(cqc::rspq.get(cqs_[cq]), words, layout);
}

/// Queues a delayed completion or event; their order is kept.
void Sge::delay_completion(CqId cq, const Cqe& cqe, std::optional<bool> solicited) {
    if (delayed_.size() >= max_delayed) // the first one is not as late
        post_delayed();
    if (delayed_.empty()) {
        events_.cancel(delayed_timer_);
        delayed_timer_ = events_.at(faults_.completion.until(), [this] { flush_delayed(); });
    }
    delayed_.push_back({cq, cqe, solicited});
}

/// Posts the first ones. The others follow in events of their own.
void Sge::flush_delayed() {
    faults_.completion.arm(0);
    for (std::size_t left = late_at_a_time; left != 0 && !delayed_.empty(); --left)
        post_delayed();
    if (!delayed_.empty())
        delayed_timer_ = events_.after(0, [this] { flush_delayed(); });
}

void Sge::post_delayed() {
    const DelayedCompletion one = delayed_.front();
    delayed_.pop_front();
    posts_delayed_ = true;
    if (one.solicited)
        post_completion(one.cq, one.cqe, *one.solicited);
    else
        post_event(one.cq, one.cqe);
    posts_delayed_ = false;
}

void Sge::hold_completion(QpId qp, std::uint64_t nth) {
    faults_.cqe.arm(qp, nth);
    holds_ = true;
}

void Sge::release_completions(QpId qp) {
    for (auto it = held_.begin(); it != held_.end();) {
        if (qp != NthFault::all && it->first != qp) {
            ++it;
            continue;
        }
        const auto late = std::move(it->second);
        it = held_.erase(it);
        held_count_ -= late.size();
        delayed_.insert(delayed_.end(), late.begin(), late.end());
    }
    if (!delayed_.empty() && !faults_.completion.delays(events_)) {
        events_.cancel(delayed_timer_);
        delayed_timer_ = events_.after(0, [this] { flush_delayed(); });
    }
    holds_ = faults_.cqe.armed() || !held_.empty();
}

/// Whether a completion or event waits for release_completions().
bool Sge::held(CqId cq, const Cqe& cqe, std::optional<bool> solicited) {
    const bool begins = solicited && faults_.cqe.fires(cqe.qp);
    if (!begins && !held_.contains(cqe.qp))
        return false;
    if (held_count_ >= max_delayed) { // the fault ends early
        release_completions(NthFault::all);
        return false;
    }
    held_[cqe.qp].push_back({cq, cqe, solicited});
    ++held_count_;
    return true;
}

/// Posts the messages that a card that lies sends instead of one.
void Sge::post_lies(unsigned queue, Bytes cpl) {
    for (const Lies::Message& one : faults_.lies.messages(queue, cpl))
        post_in_time(one.queue, one.cpl);
}

/// Queues a message of the TOE. Their order is kept when the delay becomes shorter.
void Sge::delay_answer(unsigned queue, Bytes cpl) {
    while (late_answers_.size() >= max_delayed || late_bytes_ > max_late_bytes)
        post_late_answer(); // earlier than it is due
    Time due = events_.now() + faults_.answer_delay;
    if (late_answers_.empty()) {
        events_.cancel(late_answer_timer_);
        late_answer_timer_ = events_.at(due, [this] { post_late_answers(); });
    } else {
        due = std::max(due, late_answers_.back().due);
    }
    ++faults_.answers_late;
    late_answers_.push_back({due, queue, Buffer(cpl.begin(), cpl.end())});
    late_bytes_ += cpl.size();
}

void Sge::post_late_answer() {
    const LateAnswer first = std::move(late_answers_.front());
    late_answers_.pop_front();
    late_bytes_ -= first.cpl.size();
    responses_.post_cpl(first.queue, first.cpl);
}

void Sge::post_late_answers() {
    for (std::size_t left = late_at_a_time;
         left != 0 && !late_answers_.empty() && late_answers_.front().due <= events_.now(); --left)
        post_late_answer();
    if (!late_answers_.empty())
        late_answer_timer_ = events_.at(late_answers_.front().due, [this] { post_late_answers(); });
}

/// Whether a completion or event must not be posted now: a fault delays it, or there is no such queue. If
/// not, the earlier ones have been posted.
inline bool Sge::delayed_or_lost(CqId cq, const Cqe& cqe, std::optional<bool> solicited) {
    if ((faults_.completion.delays(events_) || !delayed_.empty()) && !posts_delayed_) [[unlikely]] {
        delay_completion(cq, cqe, solicited);
        return true;
    }
    if (cq < cqs_.size())
        return false;
    ++cq_lost_;
    return true;
}

void Sge::complete(CqId cq, const Cqe& cqe, bool solicited) {
    if (holds_ && held(cq, cqe, solicited)) [[unlikely]]
        return;
    post_completion(cq, cqe, solicited);
}

inline void Sge::post_completion(CqId cq, const Cqe& cqe, bool solicited) {
    if (delayed_or_lost(cq, cqe, solicited))
        return;
    for (unsigned n = faults_.lies.any() ? faults_.lies.completions() : 1; n != 0; --n)
        write_completion(cq, cqe, solicited);
}

inline void Sge::write_completion(CqId cq, const Cqe& cqe, bool solicited) {
    hw::Context& c = cqs_[cq];
    const std::uint32_t size = cqc::size.get(c), index = cqc::index.get(c), gen = cqc::gen.get(c);
    if (!enabled() || index >= size) { // size 0: none
        ++cq_lost_;
        return;
    }
    if (cqc::overflow_mode.get(c) != 0 &&
        cqc::credits.get(c) == 0) { // a queue without memory, as the control CQ
        post_event(cq, cqe);
        return;
    }
    // The host has returned no credits [guess G23].
    if (gen == 0 && faults_.guesses.other(Guess::full_cq_overwritten)) {
        ++cq_lost_;
        return;
    }
    if (probe_) [[unlikely]]
        record_cqe(EventKind::cqe, cq, cqe, gen);
    // Write the word with the generation last.
    hw::CqeLayout entry = cqe_layout(cqe, gen);
    std::uint32_t place = index;
    if (faults_.lies.any()) [[unlikely]]
        faults_.lies.entry(entry, place, size);
    const std::uint64_t addr = cqc::base(c) + std::uint64_t{place} * sizeof entry;
    std::uint32_t raw;
    std::memcpy(&raw, &entry.header, sizeof raw);
    if (!host_->dma_write(addr + 4, hw::bytes_of(entry).subspan(4)) || !host_->dma_store(addr, raw))
        responses_.bus_error();
    ++cqes_;
    const bool wrap = index + 1 == size;
    cqc::index.set(c, wrap ? 0 : index + 1);
    cqc::gen.set(c, gen ^ (wrap ? 1U : 0U));

    const bool urgent = solicited || cqe.status != 0; // [guess G24] an error counts as solicited
    if (cqc::notify_any.get(c) == 0 && (cqc::notify_solicited.get(c) == 0 || !urgent))
        return;
    cqc::notify_any.set(c, 0);
    cqc::notify_solicited.set(c, 0);
    cqc::armed.set(c, 0);
    post_async(cq, hw::async_event::async | (solicited ? hw::async_event::solicited : 0),
               faults_.guesses.other(Guess::event_index_is_after_its_entry) ? index : cqc::index.get(c), cqe,
               gen);
}

void Sge::async_event(CqId cq, const Cqe& cqe) {
    if (holds_ && held(cq, cqe, std::nullopt)) [[unlikely]]
        return;
    post_event(cq, cqe);
}

void Sge::post_event(CqId cq, const Cqe& cqe) {
    if (delayed_or_lost(cq, cqe, std::nullopt))
        return;
    // Only these work requests request an event. Without a CQ entry the index is 0 [guess G22].
    const auto op = static_cast<hw::RdmaOp>(cqe.opcode);
    const bool notify =
        cqe.send_side && cqe.status == 0 && (op == hw::RdmaOp::terminate || op == hw::RdmaOp::modify_qp);
    post_async(cq, hw::async_event::async | (notify ? hw::async_event::notify : 0), 0, cqe, 0);
}

} // namespace t3sim
