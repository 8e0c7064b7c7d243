// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Implementation of Toe; only the files of this folder include it.
//
//   toe.cc  demultiplexing, frames, events of TCP (Sink), TIDs
//   cpl.cc  CPL messages in FORWARD work requests: tables, listeners, opening, credits, release
//   wr.cc   work requests of a connection: data, close, abort, RDMA; order and acknowledgement
//   tcb.cc  the TCB as returned by GET_TCB, and as read in the context memory
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/card/base/waiters.hh"
#include "sim/card/toe/toe.hh"
#include "sim/core/budget.hh"
#include "sim/core/id_table.hh"
#include "sim/core/log.hh"
#include "sim/hw/cpl.hh"
#include "sim/tcp/engine.hh"

namespace t3sim {

using Tcb = std::array<std::uint32_t, 32>;

/// Writes the TCB fields that the card maintains (docs/hw/tcb.md 1); other fields of @p tcb do not change.
void show_in_tcb(Tcb& tcb, const tcp::View& view, unsigned mtu_index);
/// A field by (word, shift), numbered as in docs/hw/tcb.md.
std::uint32_t tcb_field(const Tcb& tcb, unsigned word, unsigned shift, unsigned width);
void set_tcb_field(Tcb& tcb, unsigned word, unsigned shift, unsigned width, std::uint32_t value);

/// An offloaded connection, from the allocation of its TID to TID_RELEASE.
struct Flow {
    enum class Phase : std::uint8_t {
        opening,      // SYN sent; the TID has not been announced to the host
        syn_received, // PASS_ACCEPT_REQ sent, no SYN|ACK sent
        accepted,     // SYN|ACK sent
        established,  // ESTABLISH sent
        aborting,     // ABORT_REQ_RSS sent: waits for ABORT_RPL, consumes segments
        closed        // removed from the TCP engine; waits for TID_RELEASE
    };
    Phase phase = Phase::opening;
    std::uint32_t peer_id = 0; // ATID or STID
    unsigned l2t_index = 0;
    unsigned channel = 0;
    std::uint8_t tos = 0;
    tcp::FourTuple tuple;

    // From the SYN's frame, to send the RST that rejects a held SYN.
    hw::MacAddress syn_dst{}, syn_src{};
    std::uint16_t syn_vlan = hw::vlan_untagged;

    // Work requests in order; the first may wait for send buffer space.
    struct PendingWr {
        unsigned queue;
        Buffer bytes;
        unsigned descriptors;
        std::size_t cost; // of bytes, also while execute() has moved them, with place_cost
        static constexpr std::size_t place_cost = 96; // its place in the queue, and the block's overhead
    };
    std::deque<PendingWr> pending;
    unsigned pending_descriptors = 0;
    unsigned unreported = 0; // WR credits since the last TX_DMA_ACK
    std::size_t send_buffer = 32U << 10;

    // RDMA
    bool rdma = false;      // RDMA_INIT was executed
    bool switching = false; // passive side: the next TX_DATA is the last streaming message [guess G4]
    bool quiesced = false;  // TCB RX_QUIESCE
    bool aborted = false;   // the last abort message was sent or received: no message may follow
    bool running = false;   // in run_pending()
    bool half_open = false; // counted for its server
};

struct Toe::Impl final : tcp::Sink {
    Impl(EventQueue& events_, SgeServices& sge_, MacServices& mac_, RnicServices& rnic_, Faults& faults_,
         Counters& counters_, Discard& discard_);

    // ---- toe.cc
    bool frame_in(unsigned port, Bytes frame, const Packet* intact);
    /// Whether a fault loses a segment. @p packet: from its IP header on.
    [[nodiscard, gnu::cold]] bool lost(NthFault& losses, std::optional<Tid> tid, Bytes packet) const;
    Flow* find(Tid tid) const { return flows.get(tid); }
    Flow& add(Tid tid);
    /// After a reset has replaced this object: nothing happens in it any more.
    void stop();
    /// Then: frees a part of its tables; false: nothing is left.
    bool drop_one();
    std::optional<Tid> allocate_tid();
    void drop_pending(Flow& flow);
    void clear_half_open(Flow& flow);
    /// Bytes that a connection with a send buffer of @p buffer may queue now. After 0 it is resumed later.
    /// @p record: size of what is to be queued, not 0.
    std::size_t send_space_or_wait(Tid tid, std::size_t buffer, std::size_t record);
    void resume_memory_waiters();
    void release(Tid tid);
    /// Ends RDMA mode of the connection; the TCP connection may still exist.
    void end_rdma(Tid tid, Flow& flow);
    /// Call after every use of the engine: schedules an event for its next deadline.
    void rearm();
    unsigned queue_of(Tid tid) const;
    template <class Layout> void post(unsigned queue, const Layout& cpl) {
        sge.post_cpl(queue, hw::bytes_of(cpl));
    }
    template <class Layout> void post_tp(Tid tid, const Layout& cpl) { post(queue_of(tid), cpl); }
    void post_advice(Tid tid, hw::CplStatus status);
    /// TIDs of the established connections, in order.
    [[nodiscard]] std::vector<Tid> established_tids() const;
    void post_abort(Tid tid, hw::Cpl opcode, hw::CplStatus status);
    void announce_syn(Tid tid, const tcp::SynInfo& info);
    unsigned mtu_index(std::uint16_t mss) const;
    tcp::Options options(hw::Opt0h opt0h, hw::Opt0l opt0l) const;
    void count_ignored(const char* what, Tid tid);

    // tcp::Sink
    std::optional<tcp::ConnId> syn(tcp::ListenId listener, const tcp::SynInfo& info) override;
    void established(tcp::ConnId id, const tcp::Established& info) override;
    void received(tcp::ConnId id, tcp::Seq seq, Bytes data, bool push, const Packet* intact) override;
    bool can_receive(tcp::ConnId id) override;
    void acked(tcp::ConnId id) override;
    void peer_closed(tcp::ConnId id, tcp::Seq rcv_nxt) override;
    void closed(tcp::ConnId id, tcp::Seq snd_nxt, tcp::Seq rcv_nxt) override;
    void finished(tcp::ConnId id) override;
    void aborted(tcp::ConnId id, tcp::AbortReason reason) override;
    void advice(tcp::ConnId id, tcp::Advice advice) override;
    void transmit(tcp::ConnId id, Packet&& packet) override;
    void discard_table(std::function<bool()> drop_one) override { discard.add(std::move(drop_one)); }
    bool wire_ready_or_wait(tcp::ConnId id) override;
    void resume(unsigned port);
    void resume_waiters();

    // ---- cpl.cc. @p cpl always starts with a work request header.
    void forward(unsigned queue, Bytes cpl);
    void bypass(unsigned queue, Bytes wr);
    void l2t_write(unsigned queue, const hw::L2tWriteReq& req);
    void smt_write(unsigned queue, const hw::SmtWriteReq& req);
    void rte_write(unsigned queue, const hw::CplRequest& req);
    void set_tcb_field(unsigned queue, const hw::SetTcbField& req);
    void get_tcb(unsigned queue, const hw::GetTcb& req);
    /// The TCB with the fields that the engine keeps.
    [[nodiscard]] TcbBytes composed_tcb(Tid tid) const;
    void pass_open(unsigned queue, const hw::PassOpenReq& req);
    void close_listener(unsigned queue, const hw::CloseListsrvReq& req);
    void act_open(unsigned queue, const hw::ActOpenReq& req);
    void pass_accept(unsigned queue, const hw::PassAcceptRpl& req);
    void rx_data_ack(unsigned queue, const hw::RxDataAck& req);
    void tid_release(unsigned queue, const hw::CplRequest& req);
    void barrier(unsigned, const hw::CplRequest&) {}

    // ---- wr.cc
    void offload_wr(unsigned queue, Bytes wr, unsigned descriptors);
    void control_wr(unsigned queue, Bytes wr);
    /// Executes the requests in flow.pending while the send buffer has space.
    void run_pending(Tid tid);
    /// False: the request must wait.
    bool execute(Tid tid, Flow& flow, const Flow::PendingWr& wr);
    bool tx_data(Tid tid, Flow& flow, const Flow::PendingWr& wr);
    /// Frees elements that are not used any more, as the host may make others as fast. False: this event
    /// frees no more, another one must.
    bool free_old(std::size_t elements);
    void wait_for_another_event(Tid tid);
    std::size_t record_space_or_wait(Tid tid);
    void close_con(Tid tid, Flow& flow, const Flow::PendingWr& wr);
    void rdma_wr(Tid tid, Flow& flow, const Flow::PendingWr& wr);
    void abort_req(Tid tid, Bytes wr);
    void abort_rpl(Tid tid, Bytes wr);
    void acknowledge(Tid tid, unsigned queue, unsigned credits);
    void apply_hold(Tid tid, const Flow& flow);

    EventQueue& events;
    Probe probe;
    SgeServices& sge;
    MacServices& mac;
    RnicServices& rnic;
    Faults& faults;
    Counters& counters;
    Discard& discard;
    ToeParams params;
    ToeKnobs knobs;

    struct L2tEntry {
        hw::MacAddress dst{}; // all zero: not written [guess G15]
        unsigned vlan = hw::vlan_untagged, interface = 0, priority = 0;
        [[nodiscard]] bool valid() const { return dst != hw::MacAddress{}; }
    };
    static constexpr unsigned l2t_entries = 2048, smt_entries = 16;
    std::array<L2tEntry, l2t_entries> l2t;
    std::array<hw::MacAddress, smt_entries> smt{};

    IdTable<std::unique_ptr<Flow>> flows;
    std::unordered_map<Tid, Tcb> tcbs; // independent of flows, as card memory is
    std::deque<Tid> free_tids;         // released TIDs, oldest first [guess G41]
    Tid next_unused_tid = 0;
    std::shared_ptr<int> lifetime = std::make_shared<int>(); // detects events from before a reset

    std::size_t pending_bytes = 0;     // of all flows
    bool was_congested = false;        // rings may wait for SgeServices::offload_drained()
    Waiters waiting_for_memory;        // of the send queues
    std::size_t not_asked = 0;         // how many of them, since memory became free
    std::size_t memory_refused_at = 0; // most used send memory at a refusal since then
    static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
    Budget writes{events, 256 << 10}; // bytes of waiting work requests that are executed, and free_old()
    EventQueue::Repeated memory_timer{events, [this] { resume_memory_waiters(); }};
    std::unordered_map<std::uint32_t, unsigned> half_open;                  // by STID
    std::array<Waiters, 2> waiting_for_port;                                // by channel; for the wire
    EventQueue::Repeated resume_more{events, [this] { resume_waiters(); }}; // what an event has left

    tcp::Engine engine;
    EventQueue::Repeated timer; ///< at the engine's next deadline or before it

    // The current frame and the TID of its SYN. PASS_ACCEPT_REQ is sent after the engine has processed it.
    struct Arrival {
        unsigned port = 0;
        hw::MacAddress dst{}, src{};
        std::uint16_t vlan = hw::vlan_untagged;
        std::optional<std::pair<Tid, tcp::SynInfo>> syn;
    } arrival;

    spdlog::logger& log;
};

} // namespace t3sim
