// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/toe/toe.hh"

#include <algorithm>

#include "sim/card/toe/impl.hh"

namespace t3sim {

using hw::Cpl;
using hw::CplStatus;
using hw::ot;

namespace {

constexpr std::uint16_t ethertype_ipv4 = 0x0800, ethertype_vlan = 0x8100;
constexpr std::size_t mac_header = 14, vlan_tag = 4;

/// Send buffer of a connection in RDMA mode; for a streaming one TX_DATA specifies it.
constexpr std::size_t rdma_send_buffer = 256U << 10;

/// Time before a released TID is reused: all requests that the host has posted to an offload ring before the
/// release are consumed by then [guess G41].
constexpr Time tid_reuse_delay = tcp::millisecond;

hw::Endpoints endpoints(const tcp::FourTuple& t) {
    hw::Endpoints e{};
    e.local_port = t.local_port;
    e.peer_port = t.remote_port;
    e.local_ip = t.local_ip;
    e.peer_ip = t.remote_ip;
    return e;
}

CplStatus status_of(tcp::AbortReason reason) {
    switch (reason) {
    case tcp::AbortReason::reset:
        return CplStatus::conn_reset;
    case tcp::AbortReason::syn_timeout:
        return CplStatus::conn_timedout;
    case tcp::AbortReason::retransmit_timeout:
        return CplStatus::xmit_timedout;
    case tcp::AbortReason::persist_timeout:
        return CplStatus::persist_timedout;
    case tcp::AbortReason::fin_wait_2_timeout:
        return CplStatus::finwait2_timedout;
    case tcp::AbortReason::keepalive_timeout:
        return CplStatus::keepalive_timedout;
    }
    return CplStatus::general;
}

} // namespace

// ---- The class ----------------------------------------------------------------------------------------

Toe::Toe(EventQueue& events, SgeServices& sge, MacServices& mac, RnicServices& rnic, Faults& faults,
         Counters& counters)
    : discard_(events), impl_(std::make_unique<Impl>(events, sge, mac, rnic, faults, counters, discard_)) {}

Toe::~Toe() = default;

ToeParams& Toe::params() {
    return impl_->params;
}
ToeKnobs& Toe::knobs() {
    return impl_->knobs;
}

void Toe::reset() {
    Impl& old = *impl_;
    old.stop();
    auto fresh =
        std::make_unique<Impl>(old.events, old.sge, old.mac, old.rnic, old.faults, old.counters, discard_);
    fresh->params = old.params;
    fresh->knobs = old.knobs;
    fresh->probe = old.probe;
    std::swap(impl_, fresh);
    if (fresh->drop_one())
        discard_.add([held = std::shared_ptr(std::move(fresh))] { return held->drop_one(); });
}

void Toe::record(Probe probe) {
    impl_->probe = probe;
}

void Toe::abort_all() {
    for (const Tid tid : impl_->established_tids()) {
        impl_->engine.abort(tid, true);
        impl_->aborted(tid, tcp::AbortReason::retransmit_timeout);
    }
    impl_->rearm();
}

void Toe::advise_all() {
    for (const Tid tid : impl_->established_tids())
        impl_->post_advice(tid, CplStatus::rtx_neg_advice);
}

Tid Toe::tid_limit() const {
    return impl_->next_unused_tid;
}

std::optional<TcbBytes> Toe::tcb(Tid tid) const {
    if (!impl_->tcbs.contains(tid))
        return std::nullopt;
    return impl_->composed_tcb(tid);
}

std::optional<ConnectionState> Toe::state(Tid tid) const {
    const Flow* found = impl_->find(tid);
    if (!found)
        return std::nullopt;
    const Flow& flow = *found;
    ConnectionState s{.state = "closed",
                      .rdma = flow.rdma,
                      .port = flow.channel,
                      .local_ip = flow.tuple.local_ip,
                      .peer_ip = flow.tuple.remote_ip,
                      .local_port = flow.tuple.local_port,
                      .peer_port = flow.tuple.remote_port,
                      .waiting = static_cast<unsigned>(flow.pending.size())};
    if (const auto view = impl_->engine.view(tid)) {
        s.state = tcp::name(view->state);
        s.mss = view->mss;
        s.unacknowledged = impl_->engine.unacknowledged(tid);
        s.send_window = view->snd_wnd;
        s.receive_window = static_cast<std::uint32_t>(view->rcv_adv - view->rcv_nxt);
        s.congestion_window = view->cwnd;
        s.rto = view->rto;
        s.retries = view->retries;
    }
    return s;
}

std::uint32_t Toe::mib(unsigned word) const {
    const tcp::Stats& s = impl_->engine.stats();
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    constexpr unsigned ip_in_receive = 0, ip_in_delivers = 10, ip_out_requests = 12;
    constexpr unsigned active_opens = 30, in_segs = 36, out_segs = 38, retrans = 40, in_errs = 42;
    switch (word) {
    case ip_in_receive:
    case ip_in_delivers:
    case in_segs:
        return high(s.in_segs);
    case ip_in_receive + 1:
    case ip_in_delivers + 1:
    case in_segs + 1:
        return low(s.in_segs);
    case ip_out_requests:
    case out_segs:
        return high(s.out_segs);
    case ip_out_requests + 1:
    case out_segs + 1:
        return low(s.out_segs);
    case active_opens:
        return low(s.active_opens);
    case active_opens + 1:
        return low(s.passive_opens);
    case active_opens + 2:
        return low(s.attempt_fails);
    case active_opens + 3:
        return low(s.estab_resets);
    case active_opens + 4:
        return low(s.out_rsts);
    case active_opens + 5:
        return static_cast<std::uint32_t>(impl_->engine.established());
    case retrans:
        return high(s.retrans_segs);
    case retrans + 1:
        return low(s.retrans_segs);
    case in_errs:
        return high(s.in_errs);
    case in_errs + 1:
        return low(s.in_errs);
    case 44:
        return static_cast<std::uint32_t>(impl_->params.tcp.rto_min / tcp::millisecond);
    case 45:
        return static_cast<std::uint32_t>(impl_->params.tcp.rto_max / tcp::millisecond);
    default:
        return 0;
    }
}

void Toe::offload_wr(unsigned offload_queue, Bytes wr, unsigned descriptors) {
    impl_->offload_wr(offload_queue, wr, descriptors);
}
void Toe::control_wr(unsigned control_queue, Bytes wr) {
    impl_->control_wr(control_queue, wr);
}
bool Toe::congested() {
    if (impl_->pending_bytes < work_request_memory)
        return false; // a ring may still wait for offload_drained(): was_congested does not change
    impl_->was_congested = true;
    return true;
}
Toe::Memory Toe::memory() const {
    const tcp::Engine::Memory& tcp = impl_->engine.memory();
    return {.sending = tcp.sending, .work_requests = impl_->pending_bytes, .receiving = tcp.receiving};
}
bool Toe::frame_in(unsigned port, Bytes frame, const Packet* intact) {
    return impl_->frame_in(port, frame, intact);
}

/// Otherwise a recording, a subscriber and a fault of the n-th segment get each ACK.
bool Toe::takes_bursts() const {
    return !impl_->probe && !impl_->faults.sent.armed() && !impl_->faults.received.armed();
}

void Toe::burst(bool on) {
    impl_->engine.burst(on);
    if (!on)
        impl_->rearm();
}

void Toe::resume(unsigned port) {
    impl_->resume(port);
}

void Toe::send_record(Tid tid, Packet&& fpdu) {
    static_assert(record_headroom >= tcp::Engine::record_headroom);
    // Twice the segments that it makes: those of connections that have ended are not counted any more.
    impl_->free_old(2 + 2 * fpdu.size() / tcp::Engine::min_mss);
    impl_->engine.send(tid, std::move(fpdu));
    impl_->rearm();
}

std::size_t Toe::send_space_or_wait(Tid tid) {
    return impl_->record_space_or_wait(tid);
}

void Toe::send_fin(Tid tid) {
    impl_->engine.close(tid);
    impl_->rearm();
}

std::uint32_t Toe::emss(Tid tid) const {
    return impl_->engine.mss(tid);
}

// ---- Identifiers --------------------------------------------------------------------------------------

Toe::Impl::Impl(EventQueue& events_, SgeServices& sge_, MacServices& mac_, RnicServices& rnic_,
                Faults& faults_, Counters& counters_, Discard& discard_)
    : events(events_), sge(sge_), mac(mac_), rnic(rnic_), faults(faults_), counters(counters_),
      discard(discard_), engine(*this, params.tcp, [this] { return events.now(); }),
      timer(events,
            [this] {
                engine.advance();
                rearm();
            }),
      log(logger("toe")) {}

Flow& Toe::Impl::add(Tid tid) {
    flows.set(tid, std::make_unique<Flow>());
    return *find(tid);
}

void Toe::Impl::stop() {
    memory_timer.cancel();
    resume_more.cancel();
    timer.cancel();
    lifetime.reset();
}

bool Toe::Impl::drop_one() {
    if (!tcbs.empty())
        tcbs.erase(tcbs.begin());
    const bool flows_left = flows.drop_last(), engine_left = engine.drop_one();
    return flows_left || engine_left || !tcbs.empty();
}

/// Prefers TIDs that were never used, then the one that was released first [guess G41].
std::optional<Tid> Toe::Impl::allocate_tid() {
    if (faults.tid.fires()) [[unlikely]]
        return std::nullopt;
    if (faults.guesses.other(Guess::unused_tids_first) && !free_tids.empty()) {
        const Tid last = free_tids.back();
        free_tids.pop_back();
        return last;
    }
    if (next_unused_tid < params.tids)
        return next_unused_tid++;
    if (free_tids.empty()) {
        ++counters["toe.tids_exhausted"];
        return std::nullopt;
    }
    const Tid tid = free_tids.front();
    free_tids.pop_front();
    return tid;
}

void Toe::Impl::drop_pending(Flow& flow) {
    for (const Flow::PendingWr& wr : flow.pending)
        pending_bytes -= wr.cost;
    flow.pending.clear();
    flow.pending_descriptors = 0;
}

void Toe::Impl::clear_half_open(Flow& flow) {
    if (!std::exchange(flow.half_open, false))
        return;
    const auto it = half_open.find(flow.peer_id);
    if (--it->second == 0)
        half_open.erase(it);
}

/// All connections share the memory. A connection may have at most a quarter of the free memory, so that new
/// connections find some. Without data it may always queue a segment: a peer decides how long the data of its
/// connections stays.
std::size_t Toe::Impl::send_space_or_wait(Tid tid, std::size_t buffer, std::size_t record) {
    const std::size_t used = engine.unacknowledged(tid), taken = engine.memory().sending;
    const std::size_t free = taken < send_memory ? send_memory - taken : 0;
    // Of the memory segments count as what they cost: a peer chooses their size.
    const std::size_t cost = engine.sending_memory(tid);
    if (used < buffer && cost < free / 4)
        return std::min(buffer - used, free / 4 - cost);
    if (used == 0 && record <= engine.mss(tid))
        return record;
    Flow* flow = find(tid);
    if (used >= buffer || !flow)
        return 0; // an acknowledgement of the peer frees space
    memory_refused_at = std::max(memory_refused_at, taken);
    waiting_for_memory.wait(tid);
    return 0;
}

/// It may have memory, but this event has done its work.
void Toe::Impl::wait_for_another_event(Tid tid) {
    waiting_for_memory.wait(tid);
    memory_refused_at = no_limit;
}

/// For an FPDU, with which free_old() is called.
std::size_t Toe::Impl::record_space_or_wait(Tid tid) {
    if (discard.empty() || writes.left() != 0) [[likely]]
        return send_space_or_wait(tid, rdma_send_buffer, engine.mss(tid));
    if (find(tid)) {
        wait_for_another_event(tid);
        rearm();
    }
    return 0;
}

/// Resumes some of the connections that wait for memory, the oldest first. Each one that waits is asked
/// before refusals are believed: another one may need less.
void Toe::Impl::resume_memory_waiters() {
    constexpr std::size_t at_a_time = 16;
    if (not_asked == 0) {
        not_asked = waiting_for_memory.size();
        memory_refused_at = 0;
    }
    for (std::size_t left = std::min(at_a_time, not_asked); left != 0 && writes.left() != 0; --left) {
        --not_asked;
        acked(waiting_for_memory.take());
    }
    if (not_asked != 0)
        memory_timer.soon();
    rearm();
}

void Toe::Impl::release(Tid tid) {
    if (Flow* flow = find(tid)) {
        drop_pending(*flow);
        clear_half_open(*flow);
    }
    flows.take(tid);
    tcbs.erase(tid);
    faults.connection_ended(tid);
    events.after(tid_reuse_delay, [current = std::weak_ptr(lifetime), this, tid] {
        if (current.lock())
            free_tids.push_back(tid);
    });
}

void Toe::Impl::end_rdma(Tid tid, Flow& flow) {
    if (std::exchange(flow.rdma, false))
        rnic.connection_ended(tid);
}

void Toe::Impl::count_ignored(const char* what, Tid tid) {
    ++counters["toe.ignored"];
    log.debug("tid {}: {} ignored", tid, what);
}

unsigned Toe::Impl::queue_of(Tid tid) const { // [guess G7]
    return tid & 1 ? knobs.odd_tid_queue.value_or(0) : 0;
}

void Toe::Impl::rearm() {
    if (was_congested && pending_bytes < work_request_memory / 2) [[unlikely]] {
        was_congested = false;
        sge.offload_drained();
    }
    // Only if more memory is free than at the last refusal; otherwise this would loop forever.
    if (!waiting_for_memory.empty() && engine.memory().sending < memory_refused_at) [[unlikely]]
        memory_timer.soon();
    // An early timer rearms itself: cheaper than moving it with every segment, or stopping it.
    if (const auto deadline = engine.next_deadline())
        timer.at_latest(*deadline);
}

// ---- Frames -------------------------------------------------------------------------------------------

bool Toe::Impl::frame_in(unsigned port, Bytes frame, const Packet* intact) {
    if (frame.size() < mac_header || (frame[0] & 1))
        return false;
    arrival.port = port;
    std::copy_n(frame.data(), arrival.dst.size(), arrival.dst.begin());
    std::copy_n(frame.data() + 6, arrival.src.size(), arrival.src.begin());
    arrival.vlan = hw::vlan_untagged;
    std::size_t at = mac_header;
    std::uint16_t type = be16(&frame[12]);
    if (type == ethertype_vlan && frame.size() >= mac_header + vlan_tag) {
        arrival.vlan = be16(&frame[14]);
        type = be16(&frame[16]);
        at += vlan_tag;
    }
    if (type != ethertype_ipv4)
        return false;
    const Bytes packet = frame.subspan(at);
    const bool loses = faults.received.armed() && lost(faults.received, engine.find(packet), packet);
    if (probe && engine.claims(packet, params.offload_mode)) [[unlikely]] {
        if (intact)
            intact->fill_in();
        probe({.kind = EventKind::segment_in,
               .unit = static_cast<std::uint16_t>(port),
               .flags = loses ? RecordHead::flag_lost : std::uint16_t{0},
               .tid = engine.find(packet).value_or(RecordHead::none)},
              frame);
    }
    if (loses) [[unlikely]]
        return true;
    arrival.syn.reset();
    discard.free(2); // a peer that fills queues and resets their connections is not faster
    if (!engine.input(packet, params.offload_mode, intact))
        return false;
    if (arrival.syn) [[unlikely]] {
        const auto [tid, info] = *std::exchange(arrival.syn, std::nullopt);
        announce_syn(tid, info);
    }
    rearm();
    return true;
}

bool Toe::Impl::lost(NthFault& losses, std::optional<Tid> tid, Bytes packet) const {
    const Flow* flow = tid ? find(*tid) : nullptr;
    if (!flow)
        return false;
    // The engine has checked these headers, or made them.
    const std::size_t tcp_at = (packet[0] & 0xfU) * 4U;
    const std::size_t header = tcp_at + (packet[tcp_at + 12] >> 4U) * 4U;
    const bool data = be16(&packet[2]) > header;
    const bool ack = (packet[tcp_at + 13] &
                      (tcp::flag_syn | tcp::flag_fin | tcp::flag_rst | tcp::flag_ack)) == tcp::flag_ack;
    unsigned kinds = SegmentKind::any;
    if (data && flow->rdma)
        kinds |= SegmentKind::fpdu;
    if (!data && ack)
        kinds |= SegmentKind::ack;
    return losses.fires(*tid, kinds);
}

void Toe::Impl::transmit(tcp::ConnId tid, Packet&& packet) {
    const Flow* flow = find(tid);
    if (!flow)
        return;
    hw::MacAddress dst = flow->syn_src, src = flow->syn_dst;
    unsigned port = flow->channel, tci = flow->syn_vlan;
    if (flow->phase != Flow::Phase::syn_received) {
        const L2tEntry& hop = l2t[flow->l2t_index];
        if (!hop.valid()) { // [guess G15]
            ++counters["toe.no_l2t_entry"];
            return;
        }
        dst = hop.dst;
        src = smt[hop.interface];
        port = flow->channel;
        tci = hop.vlan == hw::vlan_untagged ? hop.vlan : hop.priority << 13 | hop.vlan;
    }
    const bool tagged = (tci & hw::vlan_untagged) != hw::vlan_untagged;
    const bool loses = faults.sent.armed() && lost(faults.sent, tid, packet.raw());
    std::uint8_t* at = packet.prepend(tagged ? mac_header + vlan_tag : mac_header);
    at = std::copy(dst.begin(), dst.end(), at);
    at = std::copy(src.begin(), src.end(), at);
    if (tagged) {
        put_be16(at, ethertype_vlan);
        put_be16(at + 2, static_cast<std::uint16_t>(tci));
        at += vlan_tag;
    }
    put_be16(at, ethertype_ipv4);
    if (probe) [[unlikely]]
        probe({.kind = EventKind::segment_out,
               .unit = static_cast<std::uint16_t>(port),
               .flags = loses ? RecordHead::flag_lost : std::uint16_t{0},
               .tid = tid},
              packet);
    if (loses) [[unlikely]]
        return;
    mac.transmit(port, std::move(packet));
}

/// Round robin at a full wire: a refused connection is queued behind all that wait.
bool Toe::Impl::wire_ready_or_wait(tcp::ConnId tid) {
    Flow* flow = find(tid);
    if (!flow)
        return true;
    const unsigned port = flow->channel % waiting_for_port.size();
    Waiters& waiting = waiting_for_port[port];
    if (!waiting.empty() && waiting.contains(tid))
        return false;
    if (mac.ready_or_wait(port, MacServices::User::toe))
        return true;
    waiting.wait(tid);
    return false;
}

/// Those that send nothing do not fill the wire: their windows are closed, or the MAC drops their frames.
void Toe::Impl::resume(unsigned port) {
    constexpr std::size_t at_a_time = 256;
    auto& waiting = waiting_for_port[port % waiting_for_port.size()];
    for (std::size_t turns = waiting.size(), left = at_a_time; turns != 0; --turns, --left) {
        if (left == 0) {
            resume_more.at_latest(events.now() + 1); // TCP sends a limited number of segments at a time
            break;
        }
        engine.resume(waiting.take());
        if (!mac.ready_or_wait(port, MacServices::User::toe))
            break;
    }
    rearm();
}

/// What an event has left of resume().
void Toe::Impl::resume_waiters() {
    for (unsigned port = 0; port < waiting_for_port.size(); ++port)
        if (!waiting_for_port[port].empty() && mac.ready_or_wait(port, MacServices::User::toe))
            resume(port);
}

// ---- Events of TCP (docs/hw/toe.md 7) --------------------------------------------------------------------

std::optional<tcp::ConnId> Toe::Impl::syn(tcp::ListenId stid, const tcp::SynInfo& info) {
    if (const auto it = half_open.find(stid); it != half_open.end() && it->second >= half_open_per_server) {
        ++counters["toe.syn_backlog_full"];
        return std::nullopt; // as Linux does without SYN cookies [guess G53]
    }
    const auto tid = allocate_tid();
    if (!tid)
        return std::nullopt; // the SYN is dropped without a reply [guess G15]
    discard.free(2);
    Flow& flow = add(*tid);
    flow.phase = Flow::Phase::syn_received;
    flow.peer_id = stid;
    flow.half_open = true;
    ++half_open[stid];
    flow.channel = arrival.port;
    flow.tuple = info.tuple;
    flow.syn_dst = arrival.dst;
    flow.syn_src = arrival.src;
    flow.syn_vlan = arrival.vlan;
    arrival.syn = std::pair(*tid, info);
    return tid;
}

void Toe::Impl::announce_syn(Tid tid, const tcp::SynInfo& info) {
    const Flow* flow = find(tid);
    if (!flow)
        return;
    hw::PassAcceptReq req{};
    req.ot = ot(Cpl::pass_accept_req, tid);
    req.ends = endpoints(info.tuple);
    req.tos_stid = std::uint32_t{info.tos} << 24 | flow->peer_id;
    req.mss = info.mss;
    req.window_scale = info.window_scale.value_or(0);
    req.flags = static_cast<std::uint8_t>((info.timestamps ? 0x80 : 0) | (info.sack_permitted ? 0x40 : 0));
    req.dst_mac = flow->syn_dst;
    req.vlan_tag = flow->syn_vlan;
    req.src_mac = flow->syn_src;
    req.match = static_cast<std::uint8_t>(0x80 | (flow->channel & 1) << 6);
    req.rcv_isn = info.irs.value();
    post_tp(tid, req);
}

/// Index of the largest MTU table entry whose segments are not larger than @p mss.
unsigned Toe::Impl::mtu_index(std::uint16_t mss) const {
    unsigned index = 0;
    while (index + 1 < params.mtus.size() && params.mtus[index + 1] <= mss + 40U)
        ++index;
    return index;
}

tcp::Options Toe::Impl::options(hw::Opt0h opt0h, hw::Opt0l opt0l) const {
    const unsigned mtu =
        std::min(params.mtus[opt0h.mss_index()], params.port_mtu[opt0h.channel() % params.port_mtu.size()]);
    return {.mss = static_cast<std::uint16_t>(std::max(mtu, 88U) - 40),
            .receive_buffer = opt0l.receive_buffer(),
            .window_scale = static_cast<std::uint8_t>(opt0h.window_scale()),
            .offer_window_scale = !faults.guesses.other(Guess::window_scale_offered), // [guess G50]
            .tos = opt0l.tos(),
            .nagle = opt0h.nagle(),
            .keepalive = opt0h.keepalive(),
            .delayed_ack = opt0h.delayed_ack(),
            .congestion_control = !opt0h.no_congestion_control()};
}

void Toe::Impl::established(tcp::ConnId tid, const tcp::Established& info) {
    Flow* flow = find(tid);
    if (!flow)
        return;
    const Cpl opcode = flow->phase == Flow::Phase::opening ? Cpl::act_establish : Cpl::pass_establish;
    flow->phase = Flow::Phase::established;
    clear_half_open(*flow);
    const unsigned index = mtu_index(info.mss);
    // Limits segments to the table entry, because the host computes the MSS from its index.
    engine.limit_mss(tid, static_cast<std::uint16_t>(std::max(params.mtus[index] - 40, 48)));
    hw::Establish cpl{};
    cpl.ot = ot(opcode, tid);
    cpl.ends = endpoints(flow->tuple);
    cpl.tos_id = std::uint32_t{flow->tos} << 24 | flow->peer_id;
    cpl.l2t_idx = static_cast<std::uint16_t>(flow->l2t_index << 5);
    cpl.tcp_opt = hw::tcp_opt(info.window_scaling, info.peer_window_scale, index);
    cpl.snd_isn = info.snd_isn.value();
    cpl.rcv_isn = info.rcv_isn.value();
    post_tp(tid, cpl);
}

void Toe::Impl::received(tcp::ConnId tid, tcp::Seq seq, Bytes data, bool push, const Packet* intact) {
    const Flow* flow = find(tid);
    if (!flow)
        return;
    if (flow->rdma) {
        rnic.stream_in(tid, data, intact);
        return;
    }
    if (intact)
        intact->fill_in();
    // One message per segment; data that was merged while it was held is split again.
    constexpr std::size_t most = 8192;
    for (std::size_t at = 0; at < data.size(); at += most) {
        const Bytes part = data.subspan(at, std::min(most, data.size() - at));
        hw::RxData cpl{};
        cpl.ot = ot(Cpl::rx_data, tid);
        cpl.len = static_cast<std::uint16_t>(part.size());
        cpl.seq = (seq + static_cast<std::uint32_t>(at)).value();
        cpl.flags = push ? hw::rx_data_psh : 0;
        const Bytes header = hw::bytes_of(cpl);
        Buffer message(header.begin(), header.end());
        message.insert(message.end(), part.begin(), part.end());
        sge.post_cpl(queue_of(tid), message);
    }
}

bool Toe::Impl::can_receive(tcp::ConnId tid) {
    const Flow* flow = find(tid);
    if (!flow || flow->rdma || !sge.full(queue_of(tid))) // RDMA data is placed in memory without messages
        return true;
    ++counters["toe.segments_refused"];
    return false;
}

void Toe::Impl::acked(tcp::ConnId tid) {
    const Flow* flow = find(tid);
    if (!flow)
        return;
    if (flow->rdma && !flow->switching)
        rnic.stream_writable(tid);
    run_pending(tid);
}

void Toe::Impl::peer_closed(tcp::ConnId tid, tcp::Seq rcv_nxt) {
    const Flow* flow = find(tid);
    if (!flow)
        return;
    const bool cut = flow->rdma && rnic.peer_closed(tid);
    hw::PeerClose cpl{};
    cpl.ot = ot(Cpl::peer_close, tid);
    cpl.rcv_nxt = rcv_nxt.value();
    post_tp(tid, cpl);
    if (cut && !faults.guesses.other(Guess::fin_inside_fpdu_gives_status)) { // [guess G10]
        hw::StatusRpl bad{};
        bad.ot = ot(Cpl::rdma_ec_status, tid);
        bad.status = 1;
        post_tp(tid, bad);
    }
}

void Toe::Impl::closed(tcp::ConnId tid, tcp::Seq snd_nxt, tcp::Seq rcv_nxt) {
    if (!find(tid))
        return;
    hw::CloseConRpl cpl{};
    cpl.ot = ot(Cpl::close_con_rpl, tid);
    cpl.snd_nxt = snd_nxt.value();
    cpl.rcv_nxt = rcv_nxt.value();
    post_tp(tid, cpl);
}

void Toe::Impl::finished(tcp::ConnId tid) {
    Flow* flow = find(tid);
    if (!flow)
        return;
    flow->phase = Flow::Phase::closed;
    drop_pending(*flow);
    clear_half_open(*flow);
    end_rdma(tid, *flow);
}

void Toe::Impl::aborted(tcp::ConnId tid, tcp::AbortReason reason) {
    Flow* flow = find(tid);
    if (!flow)
        return;
    const CplStatus status = status_of(reason);
    const bool opening = flow->phase == Flow::Phase::opening;
    drop_pending(*flow);
    clear_half_open(*flow);
    flow->phase = opening ? Flow::Phase::closed : Flow::Phase::aborting;
    end_rdma(tid, *flow);
    if (!opening) {
        post_abort(tid, Cpl::abort_req_rss, status);
        return;
    }
    engine.release(tid);
    hw::OpenRpl cpl{};
    cpl.ot = ot(Cpl::act_open_rpl, tid);
    cpl.ends = endpoints(flow->tuple);
    cpl.atid = flow->peer_id;
    cpl.status = static_cast<std::uint8_t>(status);
    post_tp(tid, cpl);
}

void Toe::Impl::advice(tcp::ConnId tid, tcp::Advice advice) {
    const bool sent = knobs.negative_advice || faults.guesses.other(Guess::no_negative_advice); // [guess G14]
    if (sent && find(tid))
        post_advice(tid, advice == tcp::Advice::persist ? CplStatus::persist_neg_advice
                                                        : CplStatus::rtx_neg_advice);
}

/// Negative advice uses the message of an abort, but is sent once and does not end the connection.
void Toe::Impl::post_advice(Tid tid, CplStatus status) {
    hw::AbortRss cpl{};
    cpl.ot = ot(Cpl::abort_req_rss, tid);
    cpl.status = static_cast<std::uint8_t>(status);
    post_tp(tid, cpl);
}

std::vector<Tid> Toe::Impl::established_tids() const {
    std::vector<Tid> tids;
    flows.for_each([&tids](std::size_t tid, const auto& flow) {
        if (flow->phase == Flow::Phase::established)
            tids.push_back(static_cast<Tid>(tid));
    });
    return tids;
}

void Toe::Impl::post_abort(Tid tid, Cpl opcode, CplStatus status) {
    hw::AbortRss cpl{};
    cpl.ot = ot(opcode, tid);
    cpl.status = static_cast<std::uint8_t>(status);
    post_tp(tid, cpl);
    if (!faults.guesses.other(Guess::aborts_come_twice)) // [guess G12]
        post_tp(tid, cpl);
}

} // namespace t3sim
