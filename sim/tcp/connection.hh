// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One TCP connection of an Engine. Private to sim/tcp.
//
// The send queue holds units (future segments), front = oldest unacknowledged. The first sent_ of them are in
// flight; a retransmission timeout sets sent_ to 0 and the same units are sent again. A FIN is the last unit
// and has no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sim/core/fifo.hh"
#include "sim/tcp/engine.hh"
#include "sim/tcp/reassembly.hh"

namespace t3sim::tcp {

enum class TimerKind : std::uint8_t {
    retransmit,  // RFC 6298
    tail_probe,  // sends the last segment again before the retransmission timeout: its ACK may be lost
    persist,     // the peer's window is closed
    override_sws // the peer's window is open, but too small for a segment
};

/// Of segments that a third party can cause.
class RateLimit {
public:
    /// Whether one more may be sent.
    [[nodiscard]] bool take(Time now) {
        if (std::exchange(second_, now / second) != now / second)
            taken_ = 0;
        return taken_++ < per_second;
    }

private:
    static constexpr unsigned per_second = 10;
    Time second_ = 0;
    unsigned taken_ = 0;
};

// The members are grouped by subject. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class Connection {
public:
    struct ConnTimer : Timer {
        Connection* owner = nullptr;
        void (Connection::*fire)() = nullptr;
    };

    Connection(Engine& engine, ConnId id, const FourTuple& tuple);
    ~Connection();

    void start_active(const Options& options);
    void start_held(const Segment& syn);
    void accept(const Options& options);

    void input(const Segment& segment);
    void output();

    bool send(Packet&& record, bool push);
    void credit(std::uint32_t bytes, bool force_ack);
    void auto_credit();
    void hold(bool on);
    bool close();
    void send_rst();
    void limit_mss(std::uint16_t mss) { mss_ = std::min(mss_, mss); }
    void mark_dirty(); // schedules output() for the end of the outermost call into the engine, or of a burst
    void abort(AbortReason reason);
    void stop_timers();
    void release_memory();
    bool drop_one(); // frees one element of a queue; false: nothing is left

    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] bool accepts_new_syn(const Segment& syn) const; // in TIME_WAIT, for a later SYN
    [[nodiscard]] std::size_t queued() const { return queued_; }
    [[nodiscard]] View view() const;
    [[nodiscard]] SynInfo syn_info() const;

    const ConnId id;
    const FourTuple tuple;
    bool dirty = false;

private:
    friend class Engine;

    struct Unit { // data of one future segment
        Seq seq = {};
        Packet record = {};
        std::uint32_t offset = 0, size = 0; // of its data in the record
        bool push = false, fin = false;
        bool rest = false; // cut off the unit before it
        unsigned sends = 0;
        Time sent_at = 0;
        [[nodiscard]] std::uint32_t length() const { return size + fin; }
        [[nodiscard]] Seq end() const { return seq + length(); }
    };

    /// The same of queues that may be those of no connection any more.
    static bool drop_one_of(Fifo<Unit>& queue, Fifo<Buffer>& held, Reassembly& reassembly);

    void enter(State state);
    void account_sending();
    void account_receiving();
    [[nodiscard]] bool has_receive_memory(std::size_t bytes) const;

    // Receiving
    void input_syn_sent(const Segment& s);
    void take_options(const Segment& syn);
    void become_established(const Segment& s);
    bool process_ack(const Segment& s);
    void new_ack(Seq ack);
    void duplicate_ack();
    void our_fin_acked();
    void receive_data(const Segment& s);
    void deliver(Seq seq, Bytes data, bool push, const Packet* intact);
    void keep(Buffer&& data, bool push);
    void drain();
    void proceed();
    [[nodiscard]] bool holds() const { return hold_ || !held_.empty(); }
    void maybe_peer_fin();
    void challenge();
    void reply_rst(Seq seq);
    void acknowledge_later(std::size_t bytes);
    void duplicate_ack_now();

    // Sending
    void send_syn();
    void send_control(std::uint8_t flags, Seq seq);
    void send_without_data(std::uint8_t flags, Seq seq);
    void send_unit(Unit& unit);
    /// @p record: shares the block of the payload, which is all of it; or nullptr.
    void transmit(const Segment& s, const Packet* record = nullptr);
    bool wire_is_ready();
    bool may_send_next();
    void cut_next(std::uint32_t length);
    [[nodiscard]] Seq snd_nxt() const { return sent_ ? queue_[sent_ - 1].end() : snd_una_; }
    [[nodiscard]] Seq queue_end() const { return queue_.empty() ? snd_una_ : queue_.back().end(); }
    [[nodiscard]] std::uint32_t in_flight() const { return static_cast<std::uint32_t>(snd_nxt() - snd_una_); }
    [[nodiscard]] std::int32_t usable_window() const { return (snd_una_ + snd_wnd_) - snd_nxt(); }
    [[nodiscard]] std::uint32_t free_buffer() const;
    std::uint16_t advertise();

    // Congestion control and timing
    void enter_recovery();
    void measure_rtt(Time sample);
    [[nodiscard]] static Time backed_off(Time base, unsigned shift, Time max);
    [[nodiscard]] Time rto() const;
    void arm_transmit_timer();
    void start_transmit_timer(TimerKind kind, Time delay);
    void start(Timer& t, Time delay);
    void stop(Timer& t);
    void transmit_timer_fired();
    void retransmit_timeout();
    void syn_timeout();
    void persist_timeout();
    void delayed_ack_fired();
    void keepalive_fired();
    void linger_fired();
    void time_wait();
    void finish();
    [[nodiscard]] bool synchronized() const {
        return state_ >= State::established && state_ < State::aborted;
    }
    [[nodiscard]] Time now() const { return engine_.clock_(); }
    [[nodiscard]] const Params& params() const { return engine_.params_; }

    Engine& engine_;
    Options options_;
    State state_ = State::aborted;

    Engine::Memory memory_; // this connection's part of the engine's totals

    // Send side
    Seq iss_, snd_una_, snd_max_, wl1_, wl2_;
    std::uint32_t snd_wnd_ = 0, max_snd_wnd_ = 0;
    std::uint8_t snd_scale_ = 0;
    std::uint16_t mss_ = 0;
    std::uint16_t ip_id_ = 0; // of the last packet; not shared: peers would count each other's packets
    Fifo<Unit> queue_;
    std::size_t sent_ = 0;
    std::size_t queued_ = 0;         // bytes in queue_
    std::optional<Seq> acked_later_; // what an event has left of an ACK
    bool fin_queued_ = false, fin_acked_ = false;
    bool override_ = false; // the override timer has fired: a small segment may be sent
    bool syn_needed_ = false;
    bool retransmit_front_ = false;
    bool probe_due_ = false;      // the last segment in flight is sent again when the wire is ready
    bool waits_for_wire_ = false; // the next unit waits for Engine::resume()
    Time syn_sent_at_ = 0;

    // Receive side
    Seq irs_, rcv_nxt_, rcv_adv_; // rcv_adv_: advertised right edge, never moves back
    std::uint8_t rcv_scale_ = 0;
    std::uint32_t uncredited_ = 0; // bytes delivered and not credited
    bool auto_credit_ = false, hold_ = false, ack_now_ = false;
    Fifo<Buffer> held_; // in-order data that is not delivered: hold_ is set, or drain() has begun
    std::size_t held_bytes_ = 0, held_blocks_ = 0; // not delivered yet; memory
    std::size_t front_done_ = 0;                   // bytes of the first element that have been delivered
    bool held_push_ = false;
    Reassembly reassembly_;
    std::optional<Seq> peer_fin_; // sequence number of the peer's FIN, which may follow a hole
    bool peer_fin_done_ = false;
    std::size_t unacked_in_ = 0; // received since the last ACK
    std::size_t longest_in_ = 0; // of the peer's segments: a full-sized one, which may be shorter than mss_

    // The peer's SYN
    std::uint16_t peer_mss_ = 0;
    std::optional<std::uint8_t> peer_scale_;
    bool peer_sack_ = false, peer_timestamps_ = false;
    std::uint8_t syn_tos_ = 0;

    // Congestion control
    std::uint32_t cwnd_ = 0, ssthresh_ = UINT32_MAX;
    unsigned dupacks_ = 0;
    bool in_recovery_ = false;
    Seq recover_;

    // Timing
    Time srtt_ = 0, rttvar_ = 0, rto_ = 0;
    bool have_rtt_ = false, tail_probed_ = false;
    unsigned backoff_ = 0; // shift of the RTO, until a new measurement
    unsigned retries_ = 0; // retransmission timeouts, or probes, without a reply
    unsigned persist_shift_ = 0;
    unsigned keepalive_probes_ = 0;
    Time last_input_ = 0;                      // of an acceptable segment
    RateLimit challenges_, replies_to_probes_; // RFC 5961 section 7
    TimerKind transmit_kind_ = TimerKind::retransmit;
    ConnTimer transmit_timer_, ack_timer_, keepalive_timer_, linger_timer_, more_timer_;
};

} // namespace t3sim::tcp
