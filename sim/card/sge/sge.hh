// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The SGE: contexts and context commands, doorbells, fetching of work requests, completion queues. Responses
// writes its output to the host.
//
// Steps of a work request: the host writes 1 to 4 descriptors and rings the doorbell. The SGE reads
// descriptors while their generation matches the ring's, concatenates them (with the data of an SGL) in one
// buffer, advances the context's index, passes the buffer to the engine of the context's type, and returns
// the descriptors as credits. Rings of type 0 (QPs) differ: the Rnic fetches them slot by slot.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "sim/card/base/faults.hh"
#include "sim/card/engines.hh"
#include "sim/card/nic/nic.hh"
#include "sim/card/sge/responses.hh"
#include "sim/card/state.hh"
#include "sim/core/budget.hh"

namespace t3sim {

class Sge final : public SgeServices, public PacketSink {
public:
    Sge(Host& host, EventQueue& events, RegisterBank& regs, Irq& irq, Faults& faults, Counters& counters);
    ~Sge() override;
    Sge(const Sge&) = delete;
    Sge& operator=(const Sge&) = delete;

    /// Sets the engines that execute work requests.
    void connect(Nic& nic, ToeServices& toe, RnicServices& rnic);
    void add_hooks(RegisterHooks& hooks);
    void reset();
    /// Replaces the probe and the host.
    void set_bus(Probe probe, Host& host);

    /// A write to BAR2 of @p window bytes: the page selects a group of QPs, the value one of them. [guess
    /// G25]
    void user_doorbell(std::uint64_t offset, std::uint32_t value, std::uint64_t window);

    /// Bytes of messages that wait for the host.
    [[nodiscard]] std::size_t waiting_bytes() const { return responses_.waiting_bytes(); }
    /// Entries of the queues of rings with deferred work, one per ring.
    [[nodiscard]] std::size_t waiting_rings() const;

    [[nodiscard]] std::optional<CqState> cq_state(CqId id) const;
    /// Egress contexts, free lists, response queues.
    static constexpr std::uint32_t rings = hw::egress_contexts + hw::free_lists + hw::queue_sets;
    [[nodiscard]] std::optional<RingState> ring_state(std::uint32_t number) const;

    // PacketSink
    bool post_packet(const RxPacket& packet) override { return responses_.post_packet(packet); }
    void port_ready(unsigned port) override;

    // SgeServices
    void post_cpl(unsigned response_queue, Bytes cpl) override {
        if (faults_.lies.any()) [[unlikely]]
            post_lies(response_queue, cpl);
        else
            post_in_time(response_queue, cpl);
    }
    [[nodiscard]] bool full(unsigned response_queue) const override {
        return responses_.full(response_queue);
    }
    void complete(CqId cq, const Cqe& cqe, bool solicited) override;
    void async_event(CqId cq, const Cqe& cqe) override;
    void open_qp_context(QpId qp, Tid tid, std::uint64_t ring_base, std::uint32_t slots) override;
    void invalidate_qp_context(QpId qp) override;
    Fetch fetch_slot(QpId context, Slot& slot) override;
    void unfetch_slot(QpId context) override;
    void offload_drained() override { responses_drained(); }
    /// Faults: the @p nth completion of @p qp, or of all (NthFault::all), and all of its QP behind it wait;
    /// those that wait are written.
    void hold_completion(QpId qp, std::uint64_t nth);
    void release_completions(QpId qp);
    void fatal(std::uint32_t sge_cause) override { irq_.raise(reg::SG_INT_CAUSE, sge_cause); }

private:
    enum class Take { none, done, error };
    struct Wr {
        std::size_t size = 0; ///< bytes in wr_
        unsigned descriptors = 0;
        std::size_t short_of = 0; ///< bytes that the parts of its SGL lack to part_work
        std::uint32_t hi = 0;     ///< first word of the first descriptor
    };

    [[nodiscard]] bool enabled() const { return (control_ & hw::sg_control::global_enable) != 0; }
    void kernel_doorbell(std::uint32_t value);
    void control_written(std::uint32_t value, std::uint32_t before);
    void context_command(std::uint32_t command);
    [[nodiscard]] hw::Context* find_context(std::uint32_t command);
    void cq_command(std::uint32_t opcode, CqId id);

    void rung(unsigned id);
    void doorbell(unsigned id);
    [[gnu::cold]] void fetch_later(unsigned id);
    void fetch_due();
    [[gnu::cold]] void stay_busy();
    void service(unsigned id);
    void drain(unsigned id);
    void enqueue(unsigned id);
    void wait_for_responses(unsigned id);
    [[nodiscard]] bool wait_for_port(unsigned id);
    [[nodiscard]] bool wait_for_port(unsigned id, Bytes wr);
    void responses_drained();
    void run_queued();
    Fetch read_slot(const hw::Context& c, std::uint32_t index, std::uint32_t gen, Slot& slot);
    Take take_wr(unsigned id, Wr& wr);
    Take gather(Bytes sgl, Wr& wr);
    void execute(hw::EgressType type, unsigned queue, const Wr& wr);
    Take framing_error(unsigned id);
    [[gnu::cold]] void record_doorbell(unsigned id) const;
    [[gnu::cold]] void record_cqe(EventKind kind, CqId cq, const Cqe& cqe, std::uint32_t gen) const;
    bool delayed_or_lost(CqId cq, const Cqe& cqe, std::optional<bool> solicited);
    [[gnu::cold]] void delay_completion(CqId cq, const Cqe& cqe, std::optional<bool> solicited);
    void flush_delayed();
    void post_completion(CqId cq, const Cqe& cqe, bool solicited);
    void post_event(CqId cq, const Cqe& cqe);
    [[nodiscard, gnu::cold]] bool held(CqId cq, const Cqe& cqe, std::optional<bool> solicited);
    [[gnu::cold]] void delay_answer(unsigned queue, Bytes cpl);
    void post_late_answers();
    void post_in_time(unsigned response_queue, Bytes cpl) {
        if (faults_.answer_delay != 0 || !late_answers_.empty()) [[unlikely]]
            delay_answer(response_queue, cpl);
        else
            responses_.post_cpl(response_queue, cpl);
    }
    [[gnu::cold]] void post_lies(unsigned queue, Bytes cpl);
    void write_completion(CqId cq, const Cqe& cqe, bool solicited);
    [[nodiscard]] bool loses_doorbell();
    void post_async(CqId cq, std::uint32_t head, std::uint32_t index, const Cqe& cqe, std::uint32_t gen);

    Host* host_;
    EventQueue& events_;
    Probe probe_;
    RegisterBank& regs_;
    const std::uint32_t& control_; ///< SG_CONTROL
    Irq& irq_;
    Faults& faults_;
    Responses responses_;
    Nic* nic_ = nullptr;
    ToeServices* toe_ = nullptr;
    RnicServices* rnic_ = nullptr;

    std::vector<hw::Context> egress_, cqs_;
    Buffer wr_; ///< the current work request

    /// Each ring is in at most one of the queues below; wait_queue_ names it. run_queued() serves a ring of
    /// run_queue_, port_ready() and responses_drained() move the others there; fetch_due() ends the time of a
    /// fetch.
    enum class WaitQueue : std::uint8_t { none, run, port0, port1, responses, fetch };
    std::vector<WaitQueue> wait_queue_; ///< by context
    std::deque<unsigned> run_queue_;    ///< rings to service in the next turns
    std::array<std::deque<unsigned>, Nic::ports> waiting_for_port_;
    std::deque<unsigned> waiting_for_responses_;
    struct Fetching {
        Time due;
        unsigned id;
    };
    std::deque<Fetching> fetching_; ///< rings whose doorbell was rung, while the card takes time
    EventQueue::Id fetch_timer_, command_timer_;
    EventQueue::Repeated run_event_; ///< the next turn, while run_queue_ is not empty
    Budget work_;                    ///< of a turn, in bytes

    struct DelayedCompletion {
        CqId cq;
        Cqe cqe;
        std::optional<bool> solicited; ///< of a completion; nothing: an async event
    };
    std::deque<DelayedCompletion> delayed_; ///< delayed by a fault
    EventQueue::Id delayed_timer_;
    bool posts_delayed_ = false; ///< post_delayed() runs
    void post_delayed();

    bool holds_ = false; ///< a fault holds completions, or may do so
    std::map<QpId, std::deque<DelayedCompletion>> held_;
    std::size_t held_count_ = 0;

    struct LateAnswer {
        Time due;
        unsigned queue;
        Buffer cpl;
    };
    std::deque<LateAnswer> late_answers_; ///< delayed by a fault, each on its own
    std::size_t late_bytes_ = 0;          ///< of their data
    void post_late_answer();
    EventQueue::Id late_answer_timer_;

    Counter &doorbells_, &work_requests_, &framing_errors_, &unknown_wrs_, &cqes_, &async_events_, &cq_lost_,
        &bad_commands_, &early_commands_;
};

} // namespace t3sim
