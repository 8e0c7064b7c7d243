// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The RDMA engine. It combines the firmware (work requests, RDMA_INIT, fences), ULP-TX (payload from host
// memory into FPDUs) and ULP-RX (FPDUs into host memory) of a T3. "[guess Gn]" marks a
// rule without a public source; docs/hw/open-questions.md lists all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/card/base/faults.hh"
#include "sim/card/base/waiters.hh"
#include "sim/card/engines.hh"
#include "sim/card/rnic/ddp.hh"
#include "sim/card/rnic/rqe.hh"
#include "sim/card/rnic/tpt.hh"
#include "sim/card/state.hh"
#include "sim/core/budget.hh"
#include "sim/core/counters.hh"
#include "sim/core/discard.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/id_table.hh"
#include "sim/core/recorder.hh"

namespace t3sim {

class Host;
struct OutMessage;
struct Qp;

class Rnic final : public RnicServices {
public:
    /// All referenced objects must outlive the Rnic.
    struct Parts {
        Host& host;
        EventQueue& events;
        SgeServices& sge;
        CardMemory& memory;
        RdmaStream& stream;
        Faults& faults;
        Counters& counters; ///< "rnic.*"
    };

    explicit Rnic(const Parts& parts);
    ~Rnic() override;
    Rnic(const Rnic&) = delete;
    Rnic& operator=(const Rnic&) = delete;

    /// Chip reset: removes all connections and QPs without events or segments.
    void reset();
    /// Replaces the probe and the host.
    void set_bus(Probe probe, Host& host) {
        probe_ = probe;
        host_ = &host;
    }

    [[nodiscard]] std::optional<QpState> qp_state(QpId id) const;
    /// The QP of a connection in RDMA mode.
    [[nodiscard]] std::optional<QpId> qp_of(Tid tid) const;

    bool offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) override;
    void control_wr(Bytes wr) override;
    void doorbell(QpId context) override;
    [[nodiscard]] bool rdma_mode(Tid tid) const override;
    void stream_switched(Tid tid) override;
    void stream_in(Tid tid, Bytes data, const Packet* intact = nullptr) override;
    void stream_writable(Tid tid) override;
    void close_requested(Tid tid) override;
    bool peer_closed(Tid tid) override;
    void connection_ended(Tid tid) override;

private:
    /// Work of a QP before the other QPs of the card are served, in ring slots, and of all QPs in one event.
    static constexpr std::size_t qp_work = 256, event_work = 6 * qp_work;
    /// The costs of a segment, which may have 8 pages of host memory, of a ring slot, and of a first access
    /// to a page of card memory. The latter counts only for the event: it does not change the turns of QPs.
    static constexpr std::size_t segment_work = 16, slot_work = 1, page_work = 4;

    /// Result of one step of run().
    enum class Step {
        progress,
        idle,       ///< no valid slot, no message
        wait_peer,  ///< waits for the peer: a fence, the ORD limit or the RTR hold
        wait_space, ///< waits for send buffer space of the TCP connection
        wait_sge,   ///< the SGE did not read the ring
    };

    [[nodiscard]] Qp* find(Tid tid) const { return qps_.get(tid); }
    void end_qp(Tid tid);
    void free_ended();

    /// A work request that is allowed in a QP's ring.
    struct WrRow {
        hw::WrOpcode opcode;
        bool send_side; ///< fences and the RTR hold apply; errors go to the send CQ
        bool immediate; ///< completes when executed; the others complete when their message has been sent
        hw::RdmaOp cqe_op;
        hw::Status (Rnic::*execute)(Qp&, Bytes slot);

        /// The operation code in the CQE: for sends the exact variant [guess G45].
        [[nodiscard]] hw::RdmaOp op(Bytes slot) const;
    };

    // rnic.cc: connections
    bool rdma_init(Tid tid, const hw::RdmaInitWr& wr, std::uint32_t receive_seq);
    [[nodiscard]] hw::Status check_init(const hw::RdmaInitWr& wr) const;
    void send_rtr_read(Qp& qp, Bytes wr);
    void terminate(Qp& qp, Bytes wr);
    static void stop(Qp& qp);
    void fail(Qp& qp, hw::Status status, bool send_side, hw::RdmaOp op, CqId cq,
              const hw::WrHeader* wr = nullptr);

    // tx.cc: slots, messages, segments
    void run(Qp& qp);
    void enqueue(Qp& qp);
    void run_queued();
    Step step(Qp& qp);
    Step next_slot(Qp& qp);
    Step run_slot(Qp& qp, const Slot& slot);
    [[nodiscard]] bool must_wait(const Qp& qp, const hw::WrHeader& wr, bool send_side) const;
    hw::Status execute(Qp& qp, const WrRow* row, Bytes slot);
    void start_response(Qp& qp);
    Step send_segment(Qp& qp);
    [[nodiscard]] std::uint32_t max_payload(const Qp& qp, hw::RdmaOp op) const;
    void message_done(Qp& qp);
    void complete_acknowledged(Qp& qp);
    void complete_wr(Qp& qp, const hw::WrHeader& wr, hw::RdmaOp op, std::uint32_t length = 0);
    [[nodiscard]] hw::Status gather(const OutMessage& message, MutableBytes to) const;

    // wr.cc: one function per work request
    [[nodiscard]] const WrRow* wr_row(hw::WrOpcode opcode) const;
    hw::Status wr_send(Qp& qp, Bytes slot);
    hw::Status wr_write(Qp& qp, Bytes slot);
    hw::Status wr_read(Qp& qp, Bytes slot);
    hw::Status wr_receive(Qp& qp, Bytes slot);
    hw::Status wr_local_inv(Qp& qp, Bytes slot);
    hw::Status wr_fast_register(Qp& qp, Bytes slot);
    hw::Status wr_bind(Qp& qp, Bytes slot);
    hw::Status wr_bypass(Qp& qp, Bytes slot);
    [[nodiscard]] hw::Status take_payload(const Qp& qp, std::uint32_t plen, std::uint32_t num_sge,
                                          const hw::Sge* sge, const std::uint8_t* inline_data,
                                          OutMessage* message) const;
    template <typename Wr>
    hw::Status add_message(Qp& qp, const Wr& wr, Bytes slot, const DdpSegment& segment);

    [[gnu::cold]] void record_slot(QpId context, std::uint32_t tid, Bytes slot) const;

    // rx.cc: FPDUs
    void receive(Qp& qp, Bytes data, const Packet* intact);
    bool fpdu_in(Qp& qp, Bytes ulpdu, MpaError error);
    hw::Status in_write(Qp& qp, const DdpSegment& segment);
    hw::Status in_read_request(Qp& qp, const DdpSegment& segment);
    hw::Status in_read_response(Qp& qp, const DdpSegment& segment);
    hw::Status in_send(Qp& qp, const DdpSegment& segment);
    hw::Status in_terminate(Qp& qp, const DdpSegment& segment);
    void inbound_error(Qp& qp, hw::RdmaOp op, hw::Status status);
    [[nodiscard]] hw::Status place_message(const Qp& qp, std::uint32_t offset, Bytes payload) const;

    [[nodiscard]] std::uint32_t rqe_address(const Qp& qp, std::uint32_t number) const;
    [[nodiscard]] RqeLayout rqe_layout() const;

    // control_qp.cc
    void run_control_qp();
    void control_slot(const hw::BypassWr& wr);
    bool memory_write(const hw::BypassWr& wr);
    bool write_memory(std::uint32_t addr, Bytes data);

    Parts parts_;
    Host* host_; ///< parts_.host, or a wrapper of it
    Probe probe_;
    const Guesses& guesses_;
    Tpt tpt_;
    /// The other answer to G55: the last write of a page list, which has no effect yet.
    std::optional<std::pair<std::uint32_t, Buffer>> late_list_;
    EventQueue::Repeated control_resume_{parts_.events, [this] { run_control_qp(); }};
    Waiters run_queue_;                ///< connections whose QP has more work than one event does
    EventQueue::Repeated run_event_;   ///< scheduled while run_queue_ is not empty
    Budget work_;                      ///< of all run()
    IdTable<std::unique_ptr<Qp>> qps_; ///< by TID
    IdTable<Qp*> by_id_;               ///< those of qps_ with an egress context
    /// QPs whose connection has ended. A call may still use one of them, so an event frees them.
    std::vector<std::unique_ptr<Qp>> ended_;
    EventQueue::Repeated free_ended_;

    Counter& count_wrs_;
    Counter& count_malformed_;
    Counter& count_fpdus_in_;
    Counter& count_fpdus_out_;
    Counter& count_errors_;
    Counter& count_idle_doorbells_;
    Counter& count_dropped_bytes_;
    Discard discard_;
};

} // namespace t3sim
