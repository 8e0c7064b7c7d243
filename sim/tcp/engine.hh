// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The card's TCP (RFC 9293, 6298, 5681, 6582, 5961): IPv4 packets in and out, an injected clock, no sockets,
// no threads. It is independent of the card; the Toe maps its events to CPL messages.
//
// Differences from a host's TCP, which the card requires:
//   - a SYN for a listener is held until the owner accepts or rejects it;
//   - each send() is a record: it starts a segment, and segment boundaries are fixed once, so a
//     retransmission carries the same bytes (the RDMA engine sends one FPDU per record);
//   - the owner grants the receive window, byte by byte, unless it turns auto_credit() on.
// Timestamps and SACK are never negotiated [guess G50].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/id_table.hh"
#include "sim/core/packet.hh"
#include "sim/core/timer_heap.hh"
#include "sim/tcp/params.hh"
#include "sim/tcp/segment.hh"
#include "sim/tcp/seq.hh"
#include "sim/tcp/siphash.hh"

namespace t3sim::tcp {

/// Small numbers that the owner allocates: a ConnId indexes a table. It is free again after
/// Sink::finished() or release().
using ConnId = std::uint32_t;
using ListenId = std::uint32_t;

enum class AbortReason {
    reset,
    syn_timeout,
    retransmit_timeout,
    persist_timeout,
    fin_wait_2_timeout,
    keepalive_timeout
};
enum class Advice { retransmit, persist };

enum class State : std::uint8_t {
    syn_held, // a SYN for a listener, neither accepted nor rejected yet
    syn_sent,
    syn_received,
    established,
    fin_wait_1,
    fin_wait_2,
    close_wait,
    closing,
    last_ack,
    time_wait,
    aborted // still consumes the segments of its four-tuple, until release()
};

/// As in RFC 9293; "SYN-HELD" and "ABORTED" are of this TCP.
[[nodiscard]] const char* name(State state);

struct SynInfo {
    FourTuple tuple;
    Seq irs;
    std::uint16_t mss; // the default if the SYN has no option
    std::optional<std::uint8_t> window_scale;
    bool sack_permitted, timestamps;
    std::uint8_t tos;
};

struct Established {
    Seq snd_isn, rcv_isn; // sequence numbers of the first data byte in each direction
    bool window_scaling;
    std::uint8_t peer_window_scale;
    std::uint16_t mss; // largest segment that this end may send
};

/// Events that the engine reports to its owner. Every function may call the engine; output is deferred until
/// the outermost call into the engine returns, or a burst ends.
class Sink {
public:
    virtual ~Sink() = default;
    /// A new SYN for a listener. Returns the id of the new connection, or nothing to drop the SYN.
    virtual std::optional<ConnId> syn(ListenId listener, const SynInfo& info) = 0;
    virtual void established(ConnId id, const Established& info) = 0;
    /// The next bytes of the stream. @p intact: the packet of which they are the payload, if it is intact
    /// (packet.hh), or nullptr.
    virtual void received(ConnId id, Seq seq, Bytes data, bool push, const Packet* intact) = 0;
    /// Whether the owner can accept data. If false, the segment is dropped and the peer sends it again.
    virtual bool can_receive([[maybe_unused]] ConnId id) { return true; }
    /// The peer has acknowledged data: unacknowledged() has decreased.
    virtual void acked(ConnId id) = 0;
    /// The peer's FIN, after all data. @p rcv_nxt counts it.
    virtual void peer_closed(ConnId id, Seq rcv_nxt) = 0;
    /// Our FIN is acknowledged. @p snd_nxt counts it.
    virtual void closed(ConnId id, Seq snd_nxt, Seq rcv_nxt) = 0;
    /// Both FINs (and TIME_WAIT) are done; the engine has removed the connection.
    virtual void finished(ConnId id) = 0;
    /// The connection is aborted. It consumes segments of its four-tuple until release().
    virtual void aborted(ConnId id, AbortReason reason) = 0;
    /// Negative advice: several retransmissions got no reply; the next hop may be stale.
    virtual void advice(ConnId id, Advice advice) = 0;
    /// An IP packet for the wire. The sink may write link_headroom bytes in front of it.
    static constexpr std::size_t link_headroom = 18; // an Ethernet header with a VLAN tag
    virtual void transmit(ConnId id, Packet&& packet) = 0;
    /// A long queue of a connection that has ended. @p drop_one frees an element; false: nothing is left.
    virtual void discard_table(std::function<bool()> drop_one) {
        while (drop_one()) {
        }
    }
    /// Whether the wire accepts a segment of the connection. If false, Engine::resume() follows. Not called
    /// for the RST of an abort, for probes without data, nor for the ACK of a FIN with which a connection
    /// ends.
    virtual bool wire_ready_or_wait([[maybe_unused]] ConnId id) { return true; }
};

/// Counters of RFC 2012, as in the TP MIB.
struct Stats {
    std::uint64_t in_segs = 0, out_segs = 0, retrans_segs = 0, out_rsts = 0;
    std::uint64_t in_errs = 0; // of offloaded flows: bad checksum, length or options
    std::uint64_t active_opens = 0, passive_opens = 0, attempt_fails = 0, estab_resets = 0;
    std::uint64_t challenge_acks = 0;     // sent (RFC 5961)
    std::uint64_t reassembly_dropped = 0; // segments dropped for lack of receive memory
};

/// A snapshot of a connection, for GET_TCB and for tests.
struct View {
    State state;
    FourTuple tuple;
    Seq snd_una, snd_nxt, snd_max, rcv_nxt, rcv_adv;
    Seq snd_end;   // end of the queued data
    Seq delivered; // rcv_nxt without the data that is held
    std::uint32_t snd_wnd, cwnd, ssthresh;
    std::uint16_t mss;
    std::uint8_t snd_scale, rcv_scale, tos;
    unsigned retries, dupacks;
    Time srtt, rttvar, rto;
    bool in_recovery;
};

/// A peer that does not know the key cannot choose four-tuples with the same hash: it sees no hash, and each
/// bit of the product depends on the key. SipHash would cost 95 instructions more for each segment.
struct TupleHash {
    const SipKey& key;
    std::size_t operator()(const FourTuple& t) const {
        const std::uint64_t addresses = std::uint64_t{t.local_ip} << 32 | t.remote_ip;
        const std::uint64_t ports = std::uint64_t{t.local_port} << 16 | t.remote_port;
        const auto product = static_cast<unsigned __int128>(key[0] ^ addresses) * (key[1] ^ ports);
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
};

class Connection;

class Engine {
public:
    using Clock = std::function<Time()>;

    /// The engine keeps references: @p params may change at any time, and both must outlive the engine.
    Engine(Sink& sink, const Params& params, Clock clock);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Processes a packet from the wire. False: not for this engine (no TCP, a fragment, no such connection
    /// and no listener). @p listening: whether a SYN may start a connection. @p intact: see packet.hh; sums
    /// may be missing even after false.
    bool input(Bytes packet, bool listening = true, const Packet* intact = nullptr);
    /// Between true and false output is deferred: an ACK covers all segments of the burst, as of one large
    /// segment. Data that is lost or out of order ends the burst.
    void burst(bool on);
    /// Whether input() would consume @p packet.
    [[nodiscard]] bool claims(Bytes packet, bool listening = true) const;
    /// The connection of a packet, if it has one.
    [[nodiscard]] std::optional<ConnId> find(Bytes packet) const;
    /// Runs timers that are due, at most timers_at_a_time and until drained_at_a_time bytes are delivered:
    /// next_deadline() may be due again.
    void advance();
    static constexpr unsigned timers_at_a_time = 256;
    /// Waiting data of all connections that one event delivers: it may have an FPDU in every 32 bytes, and
    /// each FPDU may be the first access to eight pages of the host.
    static constexpr std::size_t drained_at_a_time = 8 << 10;
    /// Data of one segment that is delivered at once: that of a jumbo frame. The rest waits.
    static constexpr std::size_t delivered_at_once = 9 << 10;
    /// Segments with data of all connections that one event sends.
    static constexpr std::size_t sent_at_a_time = 256;
    /// Segments of the send queues of all connections that the ACKs of one event free.
    static constexpr std::size_t acked_at_a_time = 1024;
    [[nodiscard]] std::optional<Time> next_deadline() const;

    /// @p ip 0: any local address. A specific address takes precedence over "any", and an older listener over
    /// a newer one.
    void listen(ListenId id, std::uint32_t ip, std::uint16_t port);
    /// Removes a listener. Held SYNs remain.
    void unlisten(ListenId id);

    /// Whether a four-tuple is in use.
    [[nodiscard]] bool in_use(const FourTuple& tuple) const { return by_tuple_.contains(tuple); }

    // Operations on one connection. All but open() do nothing and return false if the connection does not
    // exist or its state does not allow the operation.

    /// Sends a SYN. False: the four-tuple or the id is in use.
    bool open(ConnId id, const FourTuple& tuple, const Options& options);
    /// Accepts a held SYN: sends SYN|ACK.
    bool accept(ConnId id, const Options& options);
    /// Queues one record. Fails after close(). A record with record_headroom that is one segment is sent
    /// without a copy, unless its last transmission still exists.
    static constexpr std::size_t record_headroom = data_headers + Sink::link_headroom;
    bool send(ConnId id, Packet&& record, bool push = true);
    bool send(ConnId id, const Buffer& record, bool push = true) {
        return send(id, Packet::copy(record, record_headroom), push);
    }
    /// Opens the receive window by the bytes that the owner has consumed, at most those delivered so far.
    bool credit(ConnId id, std::uint32_t bytes, bool force_ack);
    /// From now on delivered data is credited at once.
    bool auto_credit(ConnId id);
    /// While set, received data (within the window) and the FIN are buffered and not delivered.
    bool hold(ConnId id, bool on);
    /// The least MSS of a connection, whatever the peer's option has: bounds the overhead.
    static constexpr std::uint16_t min_mss = 48;
    /// Lowers the maximum segment size of later records.
    bool limit_mss(ConnId id, std::uint16_t mss);
    /// The wire accepts segments of the connection again, after Sink::wire_ready_or_wait() returned false.
    bool resume(ConnId id);
    /// Queues a FIN after the queued data.
    bool close(ConnId id);
    /// Drops all data, with or without a RST, and removes the connection. Also rejects a held SYN.
    bool abort(ConnId id, bool send_rst);
    /// Removes the connection without sending a segment.
    bool release(ConnId id);

    /// Cost of a segment in a send queue beyond its bytes: its place in the queue, and its block.
    static constexpr std::size_t segment_place = 224,
                                 segment_cost = segment_place + record_headroom + Packet::overhead;
    /// Bytes in all send queues, with segment_cost and the acknowledged part of records that are not
    /// acknowledged as a whole, and bytes of received data that cannot be delivered yet.
    struct Memory {
        std::size_t sending = 0, receiving = 0;
    };
    [[nodiscard]] const Memory& memory() const { return memory_; }
    /// Bytes queued or in flight.
    [[nodiscard]] std::size_t unacknowledged(ConnId id) const;
    /// The same with segment_cost.
    [[nodiscard]] std::size_t sending_memory(ConnId id) const;
    [[nodiscard]] std::optional<View> view(ConnId id) const;
    [[nodiscard]] std::size_t connections() const { return by_tuple_.size(); }
    /// Largest segment that a connection may send; 0: no such connection.
    [[nodiscard]] std::uint16_t mss(ConnId id) const;
    /// Connections in ESTABLISHED or CLOSE_WAIT.
    [[nodiscard]] std::size_t established() const { return established_; }
    [[nodiscard]] const Stats& stats() const { return stats_; }
    /// Frees a part of an engine that is not used any more; false: nothing is left.
    bool drop_one();

private:
    friend class Connection;
    class Scope;

    Connection* find(ConnId id) const;
    [[nodiscard]] bool starts_connection(const Addressed& to, bool listening) const;
    std::optional<ListenId> listener(const FourTuple& tuple) const;
    Connection& add(ConnId id, const FourTuple& tuple);
    void remove(Connection& c);
    void flush();
    struct Left {
        std::size_t bytes = drained_at_a_time, units = sent_at_a_time, acked = acked_at_a_time;
    };
    Left& left();
    [[nodiscard]] std::uint32_t choose_iss(const FourTuple& tuple) const;

    Sink& sink_;
    const Params& params_;
    Clock clock_;
    Stats stats_;
    Memory memory_;
    TimerHeap timers_;
    Left left_;
    Time left_at_ = 0;
    IdTable<std::unique_ptr<Connection>> by_id_;
    SipKey tuple_key_{};
    std::unordered_map<FourTuple, Connection*, TupleHash> by_tuple_{0, TupleHash{tuple_key_}};
    struct Listener { // ordered by age among those of one address
        std::uint32_t ip;
        std::uint16_t port;
        std::uint64_t age;
        auto operator<=>(const Listener&) const = default;
    };
    std::map<Listener, ListenId> listeners_;
    std::unordered_map<ListenId, Listener> listener_of_;
    std::uint64_t listens_ = 0;
    std::vector<Connection*> dirty_;                   // output() runs when a Scope ends
    std::vector<std::unique_ptr<Connection>> removed_; // freed then
    unsigned depth_ = 0;
    bool burst_ = false;
    std::size_t established_ = 0; // connections in ESTABLISHED or CLOSE_WAIT
};

} // namespace t3sim::tcp
