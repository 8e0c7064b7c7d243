// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/tcp/connection.hh"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

namespace t3sim::tcp {
namespace {

constexpr std::uint8_t max_scale = 14; // RFC 7323 2.3
constexpr std::uint32_t max_cwnd = 1U << 30;
constexpr Time min_tail_probe = 10 * millisecond;

} // namespace

Connection::Connection(Engine& engine, ConnId conn_id, const FourTuple& four_tuple)
    : id(conn_id), tuple(four_tuple), engine_(engine) {
    for (ConnTimer* t : {&transmit_timer_, &ack_timer_, &keepalive_timer_, &linger_timer_, &more_timer_})
        t->owner = this;
    transmit_timer_.fire = &Connection::transmit_timer_fired;
    ack_timer_.fire = &Connection::delayed_ack_fired;
    keepalive_timer_.fire = &Connection::keepalive_fired;
    linger_timer_.fire = &Connection::linger_fired;
    more_timer_.fire = &Connection::proceed;
}

Connection::~Connection() = default;

void Connection::enter(State state) {
    const auto counts = [](State s) { return s == State::established || s == State::close_wait; };
    engine_.established_ += counts(state);
    engine_.established_ -= counts(state_);
    state_ = state;
}

// ---- Memory -------------------------------------------------------------------------------------------

/// Update the memory totals. Call after every change of a queue.
void Connection::account_sending() {
    static_assert(Fifo<Unit>::place_cost <= Engine::segment_place);
    // The block of a record is there as a whole until its last unit is acknowledged.
    const std::size_t acked = queue_.empty() ? 0 : queue_.front().offset;
    const std::size_t now = acked + queued_ + queue_.size() * Engine::segment_cost;
    engine_.memory_.sending += now - std::exchange(memory_.sending, now);
}
void Connection::account_receiving() {
    const std::size_t now = held_blocks_ + reassembly_.cost();
    engine_.memory_.receiving += now - std::exchange(memory_.receiving, now);
}

/// Whether the receive memory can hold @p bytes more that cannot be delivered yet.
bool Connection::has_receive_memory(std::size_t bytes) const {
    return engine_.memory_.receiving + bytes <= params().receive_memory;
}

bool Connection::drop_one_of(Fifo<Unit>& queue, Fifo<Buffer>& held, Reassembly& reassembly) {
    if (!queue.empty())
        queue.pop_front();
    else if (!held.empty())
        held.pop_front();
    else if (!reassembly.empty())
        reassembly.drop_last();
    return !queue.empty() || !held.empty() || !reassembly.empty();
}

bool Connection::drop_one() {
    return drop_one_of(queue_, held_, reassembly_);
}

void Connection::release_memory() {
    constexpr std::size_t few = 16;
    if (queue_.size() + held_.size() + reassembly_.size() > few)
        engine_.sink_.discard_table(
            [old = std::make_shared<std::tuple<Fifo<Unit>, Fifo<Buffer>, Reassembly>>(
                 std::exchange(queue_, {}), std::exchange(held_, {}), std::exchange(reassembly_, {}))] {
                return std::apply(drop_one_of, *old);
            });
    queue_.clear();
    sent_ = queued_ = 0;
    reassembly_.clear();
    held_.clear();
    held_bytes_ = held_blocks_ = front_done_ = 0;
    account_sending();
    account_receiving();
}

// ---- Opening ------------------------------------------------------------------------------------------

void Connection::start_active(const Options& options) {
    options_ = options;
    enter(State::syn_sent);
    iss_ = Seq(engine_.choose_iss(tuple));
    snd_una_ = snd_max_ = recover_ = iss_;
    syn_needed_ = true;
    mark_dirty();
}

void Connection::start_held(const Segment& syn) {
    enter(State::syn_held);
    take_options(syn);
}

void Connection::accept(const Options& options) {
    options_ = options;
    enter(State::syn_received);
    iss_ = Seq(engine_.choose_iss(tuple));
    snd_una_ = snd_max_ = recover_ = iss_;
    rcv_adv_ = rcv_nxt_ + std::min<std::uint32_t>(options_.receive_buffer, 0xffff);
    syn_needed_ = true;
    mark_dirty();
}

/// Stores the options of the peer's SYN; become_established() computes the negotiated values.
void Connection::take_options(const Segment& syn) {
    irs_ = syn.seq;
    rcv_nxt_ = irs_ + 1;
    rcv_adv_ = rcv_nxt_ + std::min<std::uint32_t>(options_.receive_buffer, 0xffff);
    peer_mss_ = syn.mss.value_or(params().default_mss);
    peer_scale_ = syn.window_scale;
    peer_sack_ = syn.sack_permitted;
    peer_timestamps_ = syn.timestamps;
    syn_tos_ = syn.tos;
}

SynInfo Connection::syn_info() const {
    return {.tuple = tuple,
            .irs = irs_,
            .mss = peer_mss_,
            .window_scale = peer_scale_,
            .sack_permitted = peer_sack_,
            .timestamps = peer_timestamps_,
            .tos = syn_tos_};
}

void Connection::send_syn() {
    syn_needed_ = false;
    ack_now_ = false;
    const bool passive = state_ == State::syn_received;
    Segment s{.tuple = tuple,
              .seq = iss_,
              .ack = rcv_nxt_,
              .flags = static_cast<std::uint8_t>(flag_syn | (passive ? flag_ack : 0)),
              .window = static_cast<std::uint16_t>(std::min<std::uint32_t>(options_.receive_buffer, 0xffff)),
              .tos = options_.tos,
              .mss = options_.mss,
              .payload = {}};
    if (options_.offer_window_scale && (!passive || peer_scale_))
        s.window_scale = std::min(options_.window_scale, max_scale);
    snd_max_ = iss_ + 1;
    transmit(s);
    if (transmit_timer_.running()) // a reply to a repeated SYN, which gives the peer no more time
        return;
    syn_sent_at_ = now();
    start_transmit_timer(TimerKind::retransmit, backed_off(params().rto_initial, retries_, params().rto_max));
}

/// @p s acknowledges our SYN.
void Connection::become_established(const Segment& s) {
    enter(State::established);
    const bool scaling = peer_scale_ && options_.offer_window_scale;
    snd_scale_ = scaling ? std::min(*peer_scale_, max_scale) : 0;
    rcv_scale_ = scaling ? std::min(options_.window_scale, max_scale) : 0;
    mss_ = std::max(Engine::min_mss, std::min(peer_mss_, options_.mss));
    snd_una_ = iss_ + 1;
    wl1_ = s.seq;
    wl2_ = s.ack;
    // The window of a SYN is never scaled.
    snd_wnd_ = s.has(flag_syn) ? s.window : std::uint32_t{s.window} << snd_scale_;
    max_snd_wnd_ = std::max(max_snd_wnd_, snd_wnd_);
    if (s.has(flag_syn)) {
        ack_now_ = true;
        mark_dirty();
    }
    stop(transmit_timer_);
    rto_ = params().rto_initial;
    if (retries_ == 0)
        measure_rtt(now() - syn_sent_at_);
    // RFC 3390, and RFC 5681 3.1 if the SYN was lost.
    cwnd_ = retries_ ? mss_ : std::min<std::uint32_t>(4 * mss_, std::max<std::uint32_t>(2 * mss_, 4380));
    retries_ = 0;
    last_input_ = now();
    if (options_.keepalive)
        start(keepalive_timer_, params().keepalive_idle);
    engine_.sink_.established(id, {.snd_isn = snd_una_,
                                   .rcv_isn = irs_ + 1,
                                   .window_scaling = scaling,
                                   .peer_window_scale = snd_scale_,
                                   .mss = mss_});
}

// ---- Receiving ----------------------------------------------------------------------------------------

void Connection::input(const Segment& s) {
    switch (state_) {
    case State::aborted:
        return;
    case State::syn_held:
        if (s.has(flag_rst) && s.seq == rcv_nxt_)
            abort(AbortReason::reset);
        return;
    // While our SYN waits for the wire, nothing can acknowledge it.
    case State::syn_sent:
        if (snd_max_ != iss_)
            input_syn_sent(s);
        return;
    case State::syn_received:
        if (snd_max_ == iss_)
            return;
        break;
    default:
        break;
    }

    const bool syn_again = state_ == State::syn_received && s.has(flag_syn) && s.seq == irs_;
    if (syn_again && !s.has(flag_ack) && !s.has(flag_rst)) {
        syn_needed_ = true; // our SYN|ACK was lost
        mark_dirty();
        return;
    }
    // RFC 9293 3.10.7.4, first: the sequence number. A segment that ends at rcv_nxt may still carry an ACK.
    // The SYN|ACK of a simultaneous open has the sequence number of the SYN that was already received.
    if (!syn_again && (s.seq + s.length() < rcv_nxt_ || s.seq > rcv_adv_)) {
        if (s.has(flag_rst))
            return;
        // A keepalive or window probe: without replies the peer aborts the connection (RFC 9293 3.8.4,
        // 3.8.6.1). So challenges, which any third party can cause, do not use up the limit of these replies.
        // They have one: if each end is a byte ahead of the other, each takes a reply for a probe.
        const bool probe = s.seq + 1 == rcv_nxt_;
        if (s.length() > 0 || (probe && replies_to_probes_.take(now()))) {
            ack_now_ = true;
            mark_dirty();
        } else if (!probe) {
            challenge();
        }
        return;
    }
    // Second: RST, exact or challenged (RFC 5961 3.2).
    if (s.has(flag_rst)) {
        if (s.seq != rcv_nxt_)
            challenge();
        else if (state_ != State::time_wait)
            abort(AbortReason::reset);
        return;
    }
    // The third check is of the security compartment, an IP option, which a Segment does not have. Fourth:
    // SYN (RFC 5961 4.2).
    if (s.has(flag_syn) && !syn_again) {
        challenge();
        return;
    }
    // Fifth: ACK.
    if (!s.has(flag_ack))
        return;
    if (state_ == State::syn_received) {
        if (s.ack != snd_max_) {
            reply_rst(s.ack);
            return;
        }
        become_established(s);
        if (state_ == State::aborted)
            return;
    } else if (!process_ack(s)) {
        return;
    }
    last_input_ = now(); // of the peer, and not of a third party that knows the four-tuple only
    keepalive_probes_ = 0;
    if (!syn_again)
        receive_data(s);
}

void Connection::input_syn_sent(const Segment& s) {
    const bool acceptable = s.has(flag_ack) && s.ack == snd_max_;
    if (s.has(flag_ack) && !acceptable) {
        if (!s.has(flag_rst))
            reply_rst(s.ack);
        return;
    }
    if (s.has(flag_rst)) {
        if (acceptable)
            abort(AbortReason::reset);
        return;
    }
    if (!s.has(flag_syn))
        return;
    take_options(s);
    if (!acceptable) { // simultaneous open
        enter(State::syn_received);
        syn_needed_ = true;
        mark_dirty();
        return;
    }
    become_established(s);
}

/// False: drop the segment.
bool Connection::process_ack(const Segment& s) {
    if (s.ack > snd_max_ || s.ack < snd_una_ - max_snd_wnd_) { // RFC 5961 5.2
        challenge();
        return false;
    }
    if (transmit_timer_.running() && transmit_kind_ == TimerKind::persist)
        retries_ = 0; // the peer replies to probes
    const bool acks_new_data = s.ack > snd_una_;
    if (acks_new_data)
        new_ack(s.ack);
    else if (s.ack == snd_una_ && snd_max_ > snd_una_ && s.length() == 0 &&
             std::uint32_t{s.window} << snd_scale_ == snd_wnd_)
        duplicate_ack();
    if (state_ == State::aborted)
        return false;
    // The window counts from snd_una_. RFC 9293 3.10.7.4 does not update it for a retransmission (with its
    // old sequence number) that carries a new acknowledgement. The right edge would then advance by the
    // acknowledged length, so update the window on any new acknowledgement.
    if (s.ack >= snd_una_ && (acks_new_data || wl1_ < s.seq || (wl1_ == s.seq && wl2_ <= s.ack))) {
        snd_wnd_ = std::uint32_t{s.window} << snd_scale_;
        max_snd_wnd_ = std::max(max_snd_wnd_, snd_wnd_);
        wl1_ = s.seq;
        wl2_ = s.ack;
        mark_dirty();
    }
    return true;
}

/// An ACK of many segments counts as several, in events of their own.
void Connection::new_ack(Seq ack) {
    if (acked_later_)
        ack = std::max(ack, *std::exchange(acked_later_, std::nullopt));
    std::size_t& left = engine_.left().acked;
    const std::size_t before = queued_;
    // Karn's algorithm: no RTT sample from an ACK that covers a retransmission.
    bool measured = false, retransmitted = false;
    Time sent_at = 0;
    while (!queue_.empty() && queue_.front().end() <= ack) {
        const Unit& u = queue_.front();
        if (left == 0) {
            acked_later_ = std::exchange(ack, u.seq);
            start(more_timer_, 1); // the clock stands still during an event
            break;
        }
        --left;
        measured = true;
        retransmitted |= u.sends != 1;
        sent_at = u.sent_at;
        queued_ -= u.size;
        queue_.pop_front();
        if (sent_)
            --sent_;
    }
    if (!queue_.empty() && queue_.front().seq < ack) { // partly acknowledged: keep the unacknowledged part
        Unit& u = queue_.front();
        const auto part = static_cast<std::uint32_t>(ack - u.seq);
        u.seq = ack;
        u.offset += part;
        u.size -= part;
        queued_ -= part;
    }
    if (ack == snd_una_)
        return;
    account_sending();
    const auto acked = static_cast<std::uint32_t>(ack - snd_una_);
    snd_una_ = ack;
    if (measured && !retransmitted)
        measure_rtt(now() - sent_at);
    retries_ = 0;
    tail_probed_ = probe_due_ = false;
    stop(transmit_timer_); // output() restarts it if data is in flight

    if (in_recovery_ && ack < recover_) { // RFC 6582 3.2 step 3, partial acknowledgement
        retransmit_front_ = true;
        cwnd_ -= std::min(cwnd_, acked);
        if (acked >= mss_)
            cwnd_ += mss_;
    } else if (in_recovery_) { // full acknowledgement
        in_recovery_ = retransmit_front_ = false;
        dupacks_ = 0;
        cwnd_ = std::min(ssthresh_, std::max<std::uint32_t>(in_flight(), mss_) + mss_);
    } else {
        dupacks_ = 0;
        if (cwnd_ < ssthresh_)
            cwnd_ += std::min<std::uint32_t>(acked, mss_);
        else
            cwnd_ +=
                std::max<std::uint32_t>(1, static_cast<std::uint32_t>(std::uint64_t{mss_} * mss_ / cwnd_));
        cwnd_ = std::min(cwnd_, max_cwnd);
    }
    recover_ = std::max(recover_, ack - 1); // stays near, where comparisons of sequence numbers are valid
    mark_dirty();
    if (queued_ != before)
        engine_.sink_.acked(id);
    if (state_ != State::aborted && fin_queued_ && !fin_acked_ && queue_.empty())
        our_fin_acked();
}

void Connection::duplicate_ack() {
    ++dupacks_;
    if (in_recovery_) {
        cwnd_ = std::min<std::uint32_t>(cwnd_ + mss_, max_cwnd);
    } else if (dupacks_ == 3 && snd_una_ > recover_) {
        enter_recovery();
    }
    mark_dirty(); // limited transmit (RFC 3042) below three
}

void Connection::our_fin_acked() {
    fin_acked_ = true;
    const State was = state_;
    if (was == State::fin_wait_1) {
        enter(State::fin_wait_2);
        start(linger_timer_, params().fin_wait_2);
    }
    engine_.sink_.closed(id, snd_una_, rcv_nxt_);
    if (state_ == State::aborted)
        return;
    if (was == State::closing)
        time_wait();
    else if (was == State::last_ack)
        finish();
}

void Connection::receive_data(const Segment& s) {
    Seq seq = s.seq;
    Bytes data = s.payload;
    bool fin = s.has(flag_fin);
    const bool push = s.has(flag_psh);
    if (state_ == State::aborted || (data.empty() && !fin))
        return;
    mark_dirty();
    // Only data that is delivered at once, and as a whole, may lack sums.
    const Packet* intact = s.intact;
    if (intact &&
        (seq != rcv_nxt_ || holds() || !reassembly_.empty() || data.size() > Engine::delivered_at_once ||
         static_cast<std::int64_t>(data.size()) > rcv_adv_ - seq)) [[unlikely]] {
        intact->fill_in();
        intact = nullptr;
    }
    if (peer_fin_done_) {
        ack_now_ = true;
        if (fin && state_ == State::time_wait) // our ACK of its FIN was lost
            start(linger_timer_, 2 * params().msl);
        return;
    }
    if (seq < rcv_nxt_) { // the segment starts with data that was already received
        ack_now_ = true;
        const auto old = std::min<std::size_t>(static_cast<std::uint32_t>(rcv_nxt_ - seq), data.size());
        data = data.subspan(old);
        seq += static_cast<std::uint32_t>(old);
    }
    const auto space = static_cast<std::size_t>(std::max(0, rcv_adv_ - seq));
    if (data.size() > space) {
        data = data.first(space);
        fin = false;
        ack_now_ = true;
    }
    if (peer_fin_ &&
        seq + static_cast<std::uint32_t>(data.size()) > *peer_fin_) { // data after the peer's FIN
        ack_now_ = true;
        return;
    }
    if (fin && !peer_fin_)
        peer_fin_ = seq + static_cast<std::uint32_t>(data.size());
    if (seq != rcv_nxt_) {
        duplicate_ack_now();
        if (!has_receive_memory(data.size()) || !reassembly_.insert(seq, data))
            ++engine_.stats_.reassembly_dropped;
        account_receiving();
        return;
    }
    if (data.size() > Engine::delivered_at_once &&
        !has_receive_memory(data.size() - Engine::delivered_at_once)) [[unlikely]] {
        data = data.first(Engine::delivered_at_once); // the peer sends the rest again
        duplicate_ack_now();
    }
    if (!data.empty() && (holds() ? !has_receive_memory(data.size()) : !engine_.sink_.can_receive(id))) {
        duplicate_ack_now();
        ++engine_.stats_.reassembly_dropped;
        return;
    }
    if (!data.empty()) {
        if (reassembly_.empty())
            acknowledge_later(data.size());
        else
            ack_now_ = true;
        deliver(seq, data, push, intact);
        while (state_ != State::aborted && !reassembly_.empty()) {
            Buffer more = reassembly_.take(rcv_nxt_);
            if (!more.empty())
                keep(std::move(more), push);
            else
                break;
        }
        account_receiving();
        if (!more_timer_.running()) {
            drain();
            return;
        }
    }
    maybe_peer_fin();
}

void Connection::deliver(Seq seq, Bytes data, bool push, const Packet* intact) {
    if (holds()) {
        keep(Buffer(data.begin(), data.end()), push);
        account_receiving();
        return;
    }
    const Bytes rest = data.subspan(std::min(data.size(), Engine::delivered_at_once));
    data = data.first(data.size() - rest.size());
    rcv_nxt_ += static_cast<std::uint32_t>(data.size());
    if (!auto_credit_)
        uncredited_ += static_cast<std::uint32_t>(data.size());
    engine_.sink_.received(id, seq, data, push && rest.empty(), intact);
    if (rest.empty() || state_ == State::aborted) [[likely]]
        return;
    keep(Buffer(rest.begin(), rest.end()), push);
    account_receiving();
    start(more_timer_, 1); // in an event of its own
}

/// Adds the next bytes to those that are not delivered yet. Only small ones are copied.
void Connection::keep(Buffer&& data, bool push) {
    rcv_nxt_ += static_cast<std::uint32_t>(data.size());
    held_bytes_ += data.size();
    held_push_ |= push;
    if (held_.empty() || data.size() > Reassembly::small ||
        held_.back().size() + data.size() > Engine::drained_at_a_time) {
        held_blocks_ += data.capacity() + Fifo<Buffer>::place_cost;
        held_.push_back(std::move(data));
        return;
    }
    Buffer& last = held_.back();
    held_blocks_ -= last.capacity();
    last.insert(last.end(), data.begin(), data.end());
    held_blocks_ += last.capacity();
}

/// Delivers a part of the data that waits. The remaining parts follow in events of their own.
void Connection::drain() {
    bool drained = false;
    while (!hold_ && !held_.empty() && !held_.front().empty()) {
        std::size_t& left = engine_.left().bytes;
        if (left == 0)
            break;
        drained = true;
        // The owner may abort the connection meanwhile, which frees what is held. Empty: it calls drain().
        Buffer block = std::move(held_.front());
        const Bytes data = Bytes(block).subspan(front_done_, std::min(left, block.size() - front_done_));
        const Seq seq = rcv_nxt_ - static_cast<std::uint32_t>(held_bytes_);
        const bool last = data.size() == held_bytes_;
        left -= data.size();
        held_bytes_ -= data.size();
        front_done_ += data.size();
        if (!auto_credit_)
            uncredited_ += static_cast<std::uint32_t>(data.size());
        const bool done = front_done_ == block.size();
        if (done) {
            held_blocks_ -= block.capacity() + Fifo<Buffer>::place_cost;
            held_.pop_front();
            front_done_ = 0;
            account_receiving();
        }
        engine_.sink_.received(id, seq, data, last && std::exchange(held_push_, false), nullptr);
        if (state_ == State::aborted)
            return;
        if (!done)
            held_.front() = std::move(block);
    }
    if (drained)
        credit(0, false);
    if (!hold_ && !held_.empty())
        start(more_timer_, 1); // the clock stands still during an event
    else
        maybe_peer_fin();
}

/// What an event has left of drain(), output() or new_ack().
void Connection::proceed() {
    if (acked_later_)
        new_ack(*acked_later_);
    if (state_ == State::aborted)
        return;
    drain();
    mark_dirty();
}

/// Processes the peer's FIN if all data before it has been received.
void Connection::maybe_peer_fin() {
    if (state_ == State::aborted || holds() || peer_fin_done_ || peer_fin_ != rcv_nxt_)
        return;
    peer_fin_done_ = true;
    rcv_nxt_ += 1;
    rcv_adv_ = std::max(rcv_adv_, rcv_nxt_);
    reassembly_.clear();
    account_receiving();
    ack_now_ = true;
    mark_dirty();
    const State was = state_;
    if (was == State::established)
        enter(State::close_wait);
    else if (was == State::fin_wait_1)
        enter(State::closing);
    engine_.sink_.peer_closed(id, rcv_nxt_);
    if (was == State::fin_wait_2 && state_ == was)
        time_wait();
}

/// At least every second full-sized segment is acknowledged at once (RFC 9293 3.8.6.3). The FPDUs of a peer
/// may all be a few bytes shorter than the MSS.
void Connection::acknowledge_later(std::size_t bytes) {
    unacked_in_ += bytes;
    longest_in_ = std::max(longest_in_, bytes);
    if (!options_.delayed_ack || unacked_in_ >= 2 * std::min<std::size_t>(longest_in_, mss_))
        ack_now_ = true;
    else if (!ack_timer_.running())
        start(ack_timer_, params().delayed_ack);
}

/// The segment is lost, or follows a lost one. The peer counts the ACKs of these (fast retransmit), so each
/// has one of its own, behind that of the segments before it: a burst ends here.
void Connection::duplicate_ack_now() {
    if (std::exchange(engine_.burst_, false) && ack_now_ && wire_is_ready())
        send_control(flag_ack, std::max(snd_nxt(), snd_max_));
    ack_now_ = true;
}

void Connection::delayed_ack_fired() {
    ack_now_ = true;
    mark_dirty();
}

/// Sends a challenge ACK (RFC 5961), rate limited. Each connection has a limit of its own: one for all would
/// show a third party, on its own connection, how many challenges it has caused on another (CVE-2016-5696).
void Connection::challenge() {
    if (!challenges_.take(now()))
        return;
    ++engine_.stats_.challenge_acks;
    ack_now_ = true;
    mark_dirty();
}

bool Connection::accepts_new_syn(const Segment& syn) const {
    return state_ == State::time_wait && syn.has(flag_syn) && !syn.has(flag_ack) && !syn.has(flag_rst) &&
           syn.seq > rcv_nxt_;
}

// ---- The receive window -------------------------------------------------------------------------------

std::uint32_t Connection::free_buffer() const {
    const std::size_t used = uncredited_ + held_bytes_;
    return used < options_.receive_buffer ? options_.receive_buffer - static_cast<std::uint32_t>(used) : 0;
}

/// Returns the window field of a segment and advances the right edge of the window. The edge never moves
/// back, and it advances only by steps of about a segment (RFC 9293 3.8.6.2.2). The scaled field is rounded
/// down, so the peer may see the edge move back by less than a unit (RFC 7323 2.4). Rounding up would let a
/// peer that sends tiny segments advance it without limit.
std::uint16_t Connection::advertise() {
    const auto advertised = static_cast<std::uint32_t>(rcv_adv_ - rcv_nxt_);
    const std::uint32_t free = std::min(free_buffer(), 0xffffU << rcv_scale_) >> rcv_scale_ << rcv_scale_;
    if (free > advertised && free - advertised >= std::min<std::uint32_t>(options_.receive_buffer / 2, mss_))
        rcv_adv_ = rcv_nxt_ + free;
    return static_cast<std::uint16_t>(
        std::min<std::uint32_t>(static_cast<std::uint32_t>(rcv_adv_ - rcv_nxt_) >> rcv_scale_, 0xffff));
}

void Connection::credit(std::uint32_t bytes, bool force_ack) {
    uncredited_ -= std::min(uncredited_, bytes);
    const auto advertised = static_cast<std::uint32_t>(rcv_adv_ - rcv_nxt_);
    const std::uint32_t free = free_buffer();
    // While the peer can still send a segment, wait until a larger update is possible.
    const std::uint32_t step = std::min<std::uint32_t>(options_.receive_buffer / 2,
                                                       advertised < mss_ ? mss_ : std::uint32_t{2} * mss_);
    if (force_ack || (free > advertised && free - advertised >= step)) {
        ack_now_ = true;
        mark_dirty();
    }
}

void Connection::auto_credit() {
    auto_credit_ = true;
    credit(uncredited_, false);
}

void Connection::hold(bool on) {
    hold_ = on;
    if (!on)
        drain();
}

// ---- Sending ------------------------------------------------------------------------------------------

bool Connection::send(Packet&& record, bool push) {
    if ((state_ != State::established && state_ != State::close_wait) || fin_queued_)
        return false;
    const auto size = static_cast<std::uint32_t>(record.size());
    for (std::uint32_t offset = 0; offset < size;) {
        const std::uint32_t part = std::min<std::uint32_t>(mss_, size - offset);
        const bool last = offset + part == size;
        const Seq seq = queue_end();
        Unit& unit = queue_.emplace_back();
        unit.seq = seq;
        unit.record = last ? std::move(record) : record;
        unit.offset = offset;
        unit.size = part;
        unit.push = push && last;
        offset += part;
    }
    queued_ += size;
    account_sending();
    mark_dirty();
    return true;
}

bool Connection::close() {
    if (state_ == State::established)
        enter(State::fin_wait_1);
    else if (state_ == State::close_wait)
        enter(State::last_ack);
    else
        return false;
    fin_queued_ = true;
    queue_.push_back({.seq = queue_end(), .fin = true});
    account_sending();
    mark_dirty();
    return true;
}

void Connection::mark_dirty() {
    if (dirty)
        return;
    dirty = true;
    engine_.dirty_.push_back(this);
}

void Connection::output() {
    if (state_ == State::aborted || state_ == State::syn_held)
        return;
    if (state_ == State::syn_sent || state_ == State::syn_received) {
        if ((syn_needed_ || ack_now_) && wire_is_ready()) {
            if (syn_needed_)
                send_syn();
            else
                send_control(flag_ack, snd_max_);
        }
        return;
    }
    if (sent_ == 0)
        retransmit_front_ = false;
    if (retransmit_front_ && wire_is_ready()) {
        retransmit_front_ = false;
        send_unit(queue_.front());
        probe_due_ = probe_due_ && sent_ > 1;
    }
    if (sent_ == 0)
        probe_due_ = false;
    if (probe_due_ && wire_is_ready()) {
        probe_due_ = false;
        send_unit(queue_[sent_ - 1]);
    }
    waits_for_wire_ = false;
    for (std::size_t& left = engine_.left().units; sent_ < queue_.size(); --left) {
        if (left == 0) {
            start(more_timer_, 1);
            break;
        }
        if (!may_send_next())
            break;
        send_unit(queue_[sent_++]);
    }
    if (ack_now_ && wire_is_ready())
        send_control(flag_ack, std::max(snd_nxt(), snd_max_));
    arm_transmit_timer();
}

/// Also for a segment without data. Otherwise replies, of which a peer causes any number, would fill the
/// wire, and no connection of the port could send data. Of the replies that wait, one is sent.
bool Connection::wire_is_ready() {
    return engine_.sink_.wire_ready_or_wait(id);
}

/// Whether the next unit may be sent now. Cuts it if the peer's window never holds all of it.
bool Connection::may_send_next() {
    Unit& u = queue_[sent_];
    const std::int32_t usable = usable_window();
    std::uint32_t length = u.length();
    const bool cut = usable < static_cast<std::int32_t>(length);
    if (cut) {
        // Sender's silly window avoidance: wait for a larger window, unless the peer's buffer is smaller than
        // the unit.
        if (usable <= 0 ||
            (!override_ && (length <= max_snd_wnd_ || static_cast<std::uint32_t>(usable) < max_snd_wnd_ / 2)))
            return false;
        length = static_cast<std::uint32_t>(usable);
    }
    if (in_flight() > 0) {
        const std::uint32_t limited_transmit = in_recovery_ ? 0 : std::min(dupacks_, 2U) * mss_;
        if (options_.congestion_control && in_flight() + length > cwnd_ + limited_transmit)
            return false;
        if (options_.nagle && length < mss_ && !u.fin)
            return false;
    }
    // Last check: after a refusal the sink calls resume(), which must find all else fulfilled.
    waits_for_wire_ = !wire_is_ready();
    if (waits_for_wire_)
        return false;
    if (cut)
        cut_next(length);
    override_ = false;
    persist_shift_ = 0;
    return true;
}

/// Cuts the next unit to @p length. What is left joins the rest that an earlier cut has made of the same
/// unit, so a peer that changes its window cannot make more and more units of the same data.
void Connection::cut_next(std::uint32_t length) {
    if (sent_ + 1 == queue_.size() || !queue_[sent_ + 1].rest) {
        Unit rest = queue_[sent_];
        rest.seq = rest.end();
        rest.offset += std::exchange(rest.size, 0);
        rest.rest = true;
        queue_.insert(sent_ + 1, std::move(rest));
        account_sending();
    }
    Unit &u = queue_[sent_], &rest = queue_[sent_ + 1];
    const std::uint32_t moved = u.size - length;
    rest.seq = rest.seq - moved;
    rest.offset -= moved;
    rest.size += moved;
    rest.sends = std::max(rest.sends, u.sends);
    u.size = length;
    u.push = false;
}

void Connection::send_unit(Unit& u) {
    if (u.sends++ > 0)
        ++engine_.stats_.retrans_segs;
    u.sent_at = now();
    snd_max_ = std::max(snd_max_, u.end());
    ack_now_ = false;
    unacked_in_ = 0;
    stop(ack_timer_);
    const bool whole = u.size == u.record.size() && u.size != 0;
    const Bytes record = whole ? u.record.raw() : Bytes(u.record);
    transmit({.tuple = tuple,
              .seq = u.seq,
              .ack = rcv_nxt_,
              .flags = static_cast<std::uint8_t>(flag_ack | (u.push ? flag_psh : 0) | (u.fin ? flag_fin : 0)),
              .window = advertise(),
              .tos = options_.tos,
              .payload = record.subspan(u.offset, u.size)},
             whole ? &u.record : nullptr);
}

/// Sends a segment without data, which acknowledges what has been received.
void Connection::send_control(std::uint8_t flags, Seq seq) {
    ack_now_ = false;
    unacked_in_ = 0;
    stop(ack_timer_);
    send_without_data(flags, seq);
}

/// The peer takes no acknowledgement from a segment with an old sequence number.
void Connection::send_without_data(std::uint8_t flags, Seq seq) {
    transmit({.tuple = tuple,
              .seq = seq,
              .ack = rcv_nxt_,
              .flags = flags,
              .window = advertise(),
              .tos = options_.tos,
              .payload = {}});
}

void Connection::send_rst() {
    switch (state_) {
    case State::syn_held:
        send_control(flag_rst | flag_ack, Seq(0));
        break;
    case State::syn_sent:
    case State::time_wait:
        return;
    default:
        send_control(flag_rst | flag_ack, snd_max_);
    }
    ++engine_.stats_.out_rsts;
}

/// Sends a RST for a segment with an unacceptable ACK in a state that is not synchronized, unless the wire is
/// full.
void Connection::reply_rst(Seq seq) {
    if (!wire_is_ready())
        return;
    ++engine_.stats_.out_rsts;
    transmit({.tuple = tuple, .seq = seq, .flags = flag_rst, .tos = options_.tos, .payload = {}});
}

void Connection::transmit(const Segment& s, const Packet* record) {
    ++engine_.stats_.out_segs;
    const std::size_t headers = header_size(s), headroom = headers + Sink::link_headroom;
    // While an earlier transmission exists, the record's headroom holds its headers.
    const bool in_place = record && !record->shared() && record->headroom() >= headroom;
    if (record && !in_place)
        record->fill_in();
    Packet packet = in_place ? *record : Packet::copy(s.payload, headroom);
    std::uint8_t* const at = packet.prepend(headers);
    if (s.payload.empty()) {
        encode(s, ++ip_id_, params().ttl, at);
        packet.set_intact();
    } else {
        encode_without_payload(s, ++ip_id_, params().ttl, at);
        packet.omit_checksum(s.payload.size());
    }
    engine_.sink_.transmit(id, std::move(packet));
}

// ---- Congestion control and timers --------------------------------------------------------------------

void Connection::enter_recovery() {
    in_recovery_ = true;
    recover_ = snd_max_;
    ssthresh_ = std::max<std::uint32_t>(in_flight() / 2, std::uint32_t{2} * mss_);
    cwnd_ = ssthresh_ + std::uint32_t{3} * mss_;
    retransmit_front_ = true; // independent of cwnd
}

void Connection::measure_rtt(Time sample) { // RFC 6298 section 2
    if (!have_rtt_) {
        have_rtt_ = true;
        srtt_ = sample;
        rttvar_ = sample / 2;
    } else {
        const Time error = srtt_ > sample ? srtt_ - sample : sample - srtt_;
        rttvar_ = (3 * rttvar_ + error) / 4;
        srtt_ = (7 * srtt_ + sample) / 8;
    }
    rto_ = srtt_ + 4 * rttvar_;
    backoff_ = 0;
}

Time Connection::backed_off(Time base, unsigned shift, Time max) {
    for (; shift > 0 && base < max; --shift)
        base *= 2;
    return std::min(base, max);
}

Time Connection::rto() const {
    return backed_off(std::max(rto_, params().rto_min), backoff_, params().rto_max);
}

void Connection::arm_transmit_timer() {
    const bool waiting_for_window =
        transmit_kind_ == TimerKind::persist || transmit_kind_ == TimerKind::override_sws;
    if (in_flight() > 0) {
        if (transmit_timer_.running() && !waiting_for_window)
            return;
        const bool tail = have_rtt_ && !tail_probed_ && !in_recovery_ && backoff_ == 0 && retries_ == 0 &&
                          sent_ == queue_.size();
        const Time probe_after = std::max(2 * srtt_, min_tail_probe);
        if (tail && probe_after < rto())
            start_transmit_timer(TimerKind::tail_probe, probe_after);
        else
            start_transmit_timer(TimerKind::retransmit, rto());
    } else if (sent_ < queue_.size() && !waits_for_wire_) {
        const TimerKind kind = usable_window() > 0 ? TimerKind::override_sws : TimerKind::persist;
        if (transmit_timer_.running() && transmit_kind_ == kind)
            return;
        if (kind == TimerKind::override_sws)
            start_transmit_timer(kind, params().sws_override);
        else
            start_transmit_timer(kind,
                                 backed_off(params().persist_min, persist_shift_, params().persist_max));
    } else {
        stop(transmit_timer_);
    }
}

void Connection::start_transmit_timer(TimerKind kind, Time delay) {
    transmit_kind_ = kind;
    start(transmit_timer_, delay);
}

void Connection::transmit_timer_fired() {
    if (state_ == State::syn_sent || state_ == State::syn_received) {
        syn_timeout();
        return;
    }
    switch (transmit_kind_) {
    case TimerKind::retransmit:
        retransmit_timeout();
        break;
    case TimerKind::tail_probe:
        tail_probed_ = probe_due_ = true;
        break;
    case TimerKind::persist:
        persist_timeout();
        break;
    case TimerKind::override_sws:
        override_ = true;
        break;
    }
    if (state_ != State::aborted)
        mark_dirty();
}

void Connection::syn_timeout() {
    if (++retries_ > params().syn_retries) {
        abort(AbortReason::syn_timeout);
        return;
    }
    ++engine_.stats_.retrans_segs;
    syn_needed_ = true;
    mark_dirty();
}

void Connection::retransmit_timeout() {
    if (++retries_ > params().r2) {
        send_rst();
        abort(AbortReason::retransmit_timeout);
        return;
    }
    if (retries_ == 1)
        ssthresh_ = std::max<std::uint32_t>(in_flight() / 2, std::uint32_t{2} * mss_);
    cwnd_ = mss_;
    in_recovery_ = false;
    recover_ = snd_max_;
    dupacks_ = 0;
    ++backoff_;
    sent_ = 0; // retransmit all, as the window allows
    if (retries_ == params().r1 + 1)
        engine_.sink_.advice(id, Advice::retransmit);
}

/// Sends a zero-window probe with an old sequence number and without data, so that no unit is cut. Any TCP
/// replies to it.
void Connection::persist_timeout() {
    if (++retries_ > params().persist_probes) {
        send_rst();
        abort(AbortReason::persist_timeout);
        return;
    }
    ++persist_shift_;
    send_without_data(flag_ack, snd_una_ - 1);
    if (retries_ == params().r1 + 1)
        engine_.sink_.advice(id, Advice::persist);
}

void Connection::keepalive_fired() {
    const Time idle = now() - last_input_;
    if (idle < params().keepalive_idle) {
        start(keepalive_timer_, params().keepalive_idle - idle);
        return;
    }
    if (keepalive_probes_ == params().keepalive_probes) {
        send_rst();
        abort(AbortReason::keepalive_timeout);
        return;
    }
    ++keepalive_probes_;
    send_without_data(flag_ack, snd_una_ - 1);
    start(keepalive_timer_, params().keepalive_interval);
}

void Connection::start(Timer& t, Time delay) {
    engine_.timers_.start(t, now() + delay);
}
void Connection::stop(Timer& t) {
    engine_.timers_.stop(t);
}

void Connection::stop_timers() {
    for (ConnTimer* t : {&transmit_timer_, &ack_timer_, &keepalive_timer_, &linger_timer_, &more_timer_})
        stop(*t);
}

// ---- The end ------------------------------------------------------------------------------------------

void Connection::abort(AbortReason reason) {
    if (state_ < State::established)
        ++engine_.stats_.attempt_fails;
    else if (state_ == State::established || state_ == State::close_wait)
        ++engine_.stats_.estab_resets;
    enter(State::aborted);
    stop_timers();
    release_memory();
    engine_.sink_.aborted(id, reason);
}

void Connection::linger_fired() {
    if (state_ == State::fin_wait_2) {
        send_rst();
        abort(AbortReason::fin_wait_2_timeout);
    } else {
        finish();
    }
}

void Connection::time_wait() {
    stop_timers();
    enter(State::time_wait);
    if (ack_now_) // acknowledge the peer's FIN now: finish() may follow
        send_control(flag_ack, snd_max_);
    if (params().msl > 0)
        start(linger_timer_, 2 * params().msl);
    else
        finish();
}

void Connection::finish() {
    const ConnId finished = id;
    Sink& sink = engine_.sink_;
    engine_.remove(*this);
    sink.finished(finished);
}

View Connection::view() const {
    return {.state = state_,
            .tuple = tuple,
            .snd_una = snd_una_,
            .snd_nxt = synchronized() ? snd_nxt() : snd_max_,
            .snd_max = snd_max_,
            .rcv_nxt = rcv_nxt_,
            .rcv_adv = rcv_adv_,
            .snd_end = queue_end(),
            .delivered = rcv_nxt_ - static_cast<std::uint32_t>(held_bytes_),
            .snd_wnd = snd_wnd_,
            .cwnd = cwnd_,
            .ssthresh = ssthresh_,
            .mss = mss_,
            .snd_scale = snd_scale_,
            .rcv_scale = rcv_scale_,
            .tos = options_.tos,
            .retries = retries_,
            .dupacks = dupacks_,
            .srtt = srtt_,
            .rttvar = rttvar_,
            .rto = rto_,
            .in_recovery = in_recovery_};
}

} // namespace t3sim::tcp
