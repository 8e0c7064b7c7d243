// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The card's TCP (RFC 9293, 6298, 5681, 6582, 5961): IPv4 packets in and out, the clock injected, no
// sockets, no threads. It knows nothing of the card; the Toe maps its events to CPL messages.
//
// What differs from a host's TCP, because the card needs it:
//   - a SYN for a listener is held until the owner accepts or rejects it;
//   - each send() is a record: it starts a segment, and where a segment ends is decided once, so a
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
#include "sim/tcp/params.hh"
#include "sim/tcp/seq.hh"
#include "sim/tcp/timer_heap.hh"
#include "sim/tcp/wire.hh"

namespace t3sim::tcp {

/// Numbers that the owner chooses; a ConnId is free again after Sink::finished() or forget().
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
    syn_held, // a SYN for a listener, not answered yet
    syn_sent,
    syn_received,
    established,
    fin_wait_1,
    fin_wait_2,
    close_wait,
    closing,
    last_ack,
    time_wait,
    dead // aborted; still swallows the segments of its four-tuple, until forget()
};

struct SynInfo {
    FourTuple tuple;
    Seq irs;
    std::uint16_t mss; // the default if the SYN has no option
    std::optional<std::uint8_t> window_scale;
    bool sack_permitted, timestamps;
    std::uint8_t tos;
};

struct Established {
    Seq snd_isn, rcv_isn; // of the first data byte in each direction
    bool window_scaling;
    std::uint8_t peer_window_scale;
    std::uint16_t mss; // largest segment that we may send
};

/// What the engine tells its owner. Every function may call the engine; output waits until the outermost
/// call into the engine ends.
class Sink {
public:
    virtual ~Sink() = default;
    /// A new SYN for a listener. Answers with the id of the connection to be, or nothing to drop the SYN.
    virtual std::optional<ConnId> syn(ListenId listener, const SynInfo& info) = 0;
    virtual void established(ConnId id, const Established& info) = 0;
    /// The next bytes of the stream.
    virtual void received(ConnId id, Seq seq, Bytes data, bool push) = 0;
    /// Whether the owner has room for data; if not, the segment is dropped and the peer sends it again.
    virtual bool takes_data([[maybe_unused]] ConnId id) { return true; }
    /// Something that was sent has been acknowledged: unacknowledged() is smaller.
    virtual void acked(ConnId id) = 0;
    /// The peer's FIN, after all data. @p rcv_nxt counts it.
    virtual void peer_closed(ConnId id, Seq rcv_nxt) = 0;
    /// Our FIN is acknowledged. @p snd_nxt counts it.
    virtual void closed(ConnId id, Seq snd_nxt, Seq rcv_nxt) = 0;
    /// Both FINs (and TIME_WAIT) are done; the engine has forgotten the connection.
    virtual void finished(ConnId id) = 0;
    /// The connection is dead. It goes on to swallow segments until forget().
    virtual void aborted(ConnId id, AbortReason reason) = 0;
    /// Retransmissions are failing; the next hop may be stale.
    virtual void advice(ConnId id, Advice advice) = 0;
    /// A packet for the wire: headers, then payload.
    virtual void transmit(ConnId id, Bytes headers, Bytes payload) = 0;
    /// Whether the wire takes more data of the connection. False: Engine::resume() follows. Not asked
    /// for segments without data, nor for the single one that a duplicate ACK or a probe sends again.
    virtual bool room([[maybe_unused]] ConnId id) { return true; }
};

/// RFC 2012 names, as the TP MIB has them.
struct Stats {
    std::uint64_t in_segs = 0, out_segs = 0, retrans_segs = 0, out_rsts = 0;
    std::uint64_t in_errs = 0; // of offloaded flows: bad checksum, length or options
    std::uint64_t active_opens = 0, passive_opens = 0, attempt_fails = 0, estab_resets = 0;
    std::uint64_t challenge_acks = 0;     // sent (RFC 5961)
    std::uint64_t reassembly_dropped = 0; // segments for which reassembly had no room
};

/// Where a connection stands, for GET_TCB and for tests.
struct View {
    State state;
    FourTuple tuple;
    Seq snd_una, snd_nxt, snd_max, rcv_nxt, rcv_adv;
    Seq snd_end; // of all that is queued
    std::uint32_t snd_wnd, cwnd, ssthresh;
    std::uint16_t mss;
    std::uint8_t snd_scale, rcv_scale, tos;
    unsigned retries, dupacks;
    Time srtt, rttvar, rto;
    bool in_recovery;
};

class Connection;

class Engine {
public:
    using Clock = std::function<Time()>;

    /// @p params is read whenever a value is needed; it and @p sink must outlive the engine.
    Engine(Sink& sink, const Params& params, Clock clock);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// A packet from the wire. False: not for this engine (no TCP, a fragment, no such connection and no
    /// listener). @p listening: whether a SYN may start a connection.
    bool input(Bytes packet, bool listening = true);
    /// Whether input() would take @p packet.
    [[nodiscard]] bool claims(Bytes packet, bool listening = true) const;
    /// Runs the timers that are due.
    void advance();
    [[nodiscard]] std::optional<Time> next_deadline() const;

    /// @p ip 0: any local address. An address of its own wins over "any", the older listener over the
    /// younger.
    void listen(ListenId id, std::uint32_t ip, std::uint16_t port);
    /// SYNs that are held stay.
    void unlisten(ListenId id);

    /// Whether a four-tuple is in use.
    [[nodiscard]] bool knows(const FourTuple& tuple) const { return by_tuple_.contains(tuple); }

    // On one connection. All but open() do nothing and answer false if it is not there or its state does
    // not allow that.

    /// Sends a SYN. False: the four-tuple or the id is in use.
    bool open(ConnId id, const FourTuple& tuple, const Options& options);
    /// Answers a held SYN.
    bool accept(ConnId id, const Options& options);
    /// Queues one record. Not after close().
    bool send(ConnId id, Buffer&& record, bool push = true);
    /// Opens the receive window by what the owner has consumed; more than was delivered does not count.
    bool credit(ConnId id, std::uint32_t bytes, bool force_ack);
    /// From now on delivery is consumption.
    bool auto_credit(ConnId id);
    /// While set, received data is kept, within the window, but not delivered; nor is a FIN.
    bool hold(ConnId id, bool on);
    /// Lowers the largest segment that is sent, for records to come.
    bool limit_mss(ConnId id, std::uint16_t mss);
    /// The wire has room for the connection again.
    bool resume(ConnId id);
    /// FIN after all that is queued.
    bool close(ConnId id);
    /// Drops everything, with or without a RST, and forgets the connection. A held SYN is refused this way.
    bool abort(ConnId id, bool send_rst);
    /// Forgets the connection without a word.
    bool forget(ConnId id);

    /// What a segment in a send queue costs beyond its bytes.
    static constexpr std::size_t segment_cost = 160;
    /// Bytes in all send queues, with segment_cost; in all that is received and cannot be delivered.
    struct Memory {
        std::size_t sending = 0, receiving = 0;
    };
    [[nodiscard]] const Memory& memory() const { return memory_; }
    /// Bytes queued or in flight.
    [[nodiscard]] std::size_t unacknowledged(ConnId id) const;
    [[nodiscard]] std::optional<View> view(ConnId id) const;
    [[nodiscard]] std::size_t connections() const { return by_id_.size(); }
    /// Connections in ESTABLISHED or CLOSE_WAIT.
    [[nodiscard]] std::size_t established() const;
    [[nodiscard]] const Stats& stats() const { return stats_; }

private:
    friend class Connection;
    class Scope;

    struct TupleHash {
        std::size_t operator()(const FourTuple& t) const;
    };

    Connection* find(ConnId id) const;
    std::optional<ListenId> listener(const FourTuple& tuple) const;
    Connection& add(ConnId id, const FourTuple& tuple);
    void remove(Connection& c);
    void flush();
    [[nodiscard]] std::uint32_t choose_iss(const FourTuple& tuple) const;
    [[nodiscard]] bool may_challenge();

    Sink& sink_;
    const Params& params_;
    Clock clock_;
    Stats stats_;
    Memory memory_;
    TimerHeap timers_;
    std::unordered_map<ConnId, std::unique_ptr<Connection>> by_id_;
    std::unordered_map<FourTuple, Connection*, TupleHash> by_tuple_;
    std::map<std::pair<std::uint32_t, std::uint16_t>, std::vector<ListenId>> listeners_;
    std::vector<Connection*> dirty_;                  // have output to do when the outermost call ends
    std::vector<std::unique_ptr<Connection>> buried_; // freed when the outermost call ends
    unsigned depth_ = 0;
    std::uint16_t ip_id_ = 0;
    Time challenge_second_ = 0; // RFC 5961 section 7
    unsigned challenges_ = 0;
};

} // namespace t3sim::tcp
