// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Toe without a card: fake SGE, fake RDMA engine, a host memory, and a wire to another Toe or to a script.
// Messages are written and compared in the notation of docs/hw: 32-bit words in hex, first
// byte leftmost.
#pragma once

#include <algorithm>
#include <cctype>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/card/toe/toe.hh"
#include "sim/hw/cpl.hh"
#include "sim/tcp/segment.hh"

namespace t3sim::test {

/// "01c00000 81000003 48" to bytes; blanks do not count.
inline Buffer words(const std::string& text) {
    Buffer out;
    std::string digits;
    std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
                 [](char c) { return std::isxdigit(c); });
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        out.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return out;
}

/// Bytes to words, for comparison and for reading.
inline std::string text(Bytes bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i > 0 && i % 4 == 0)
            out += ' ';
        constexpr char hex[] = "0123456789abcdef";
        out += hex[bytes[i] >> 4];
        out += hex[bytes[i] & 15];
    }
    return out;
}

inline std::string word(std::uint32_t v) {
    std::uint8_t raw[4];
    put_be32(raw, v);
    return text(raw);
}

class FakeSge : public SgeServices {
public:
    struct Message {
        unsigned queue;
        Buffer bytes;
    };
    std::deque<Message> messages;
    void post_cpl(unsigned queue, Bytes cpl) override {
        messages.push_back({queue, Buffer(cpl.begin(), cpl.end())});
    }
    bool is_full = false;
    [[nodiscard]] bool full(unsigned) const override { return is_full; }
    void complete(CqId, const Cqe&, bool) override {}
    void async_event(CqId, const Cqe&) override {}
    void open_qp_context(QpId, Tid, std::uint64_t, std::uint32_t) override {}
    void invalidate_qp_context(QpId) override {}
    Fetch fetch_slot(QpId, Slot&) override { return Fetch::empty; }
    void unfetch_slot(QpId) override {}
    void offload_drained() override { ++drained; }
    unsigned drained = 0;
    void fatal(std::uint32_t) override {}
};

/// Accepts RDMA_INIT and records all calls.
class FakeRnic : public RnicServices {
public:
    std::vector<std::string> log;
    std::map<Tid, bool> in_rdma;
    Buffer stream;
    bool init_acknowledged = false, cut_short = false;
    std::function<void(Tid)> on_close;

    bool offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) override {
        log.push_back("wr " + word(be32(wr.data())) + " at " + word(receive_seq));
        in_rdma[tid] = true;
        return init_acknowledged;
    }
    void control_wr(Bytes) override { log.emplace_back("modify_qp"); }
    void doorbell(QpId) override {}
    [[nodiscard]] bool rdma_mode(Tid tid) const override { return in_rdma.contains(tid); }
    void stream_switched(Tid) override { log.emplace_back("switched"); }
    void stream_in(Tid tid, Bytes data, const Packet*) override {
        log.emplace_back("in");
        EXPECT_TRUE(in_rdma.contains(tid)) << "the Rnic would drop this";
        stream.insert(stream.end(), data.begin(), data.end());
    }
    void stream_writable(Tid) override {}
    void close_requested(Tid tid) override {
        log.emplace_back("close");
        if (on_close)
            on_close(tid);
    }
    bool peer_closed(Tid) override {
        log.emplace_back("peer_closed");
        return cut_short;
    }
    void connection_ended(Tid tid) override {
        log.emplace_back("gone");
        in_rdma.erase(tid);
    }
};

class FakeMac : public MacServices {
public:
    std::vector<Buffer> frames;
    std::function<void(unsigned, Buffer)> wire;
    bool ready = true;
    unsigned asked = 0;
    bool ready_or_wait(unsigned, User) override {
        ++asked;
        return ready;
    }
    void transmit(unsigned port, Packet&& frame) override {
        frames.emplace_back(frame.data(), frame.data() + frame.size());
        if (wire)
            wire(port, frames.back());
    }
};

/// The parts of one card.
struct Machine {
    explicit Machine(EventQueue& queue) : events(queue), toe(events, sge, mac, rnic, faults, counters) {}

    EventQueue& events;
    FakeSge sge;
    FakeMac mac;
    FakeRnic rnic;
    Counters counters;
    Faults faults{counters};
    Toe toe;

    void control(const std::string& wr) { toe.control_wr(0, words(wr)); }
    void offload(const std::string& wr) { toe.offload_wr(0, words(wr), 1); }
    void offload(Bytes wr, unsigned queue = 0, unsigned descriptors = 1) {
        toe.offload_wr(queue, wr, descriptors);
    }

    /// Removes and returns the oldest message from the card; "" if there is none.
    std::string next() {
        if (sge.messages.empty())
            return "";
        const std::string t = text(sge.messages.front().bytes);
        sge.messages.pop_front();
        return t;
    }
    /// Removes all messages and returns their opcodes: "39 26".
    std::string opcodes() {
        std::string out;
        for (const auto& m : sge.messages)
            out += (out.empty() ? "" : " ") + text({m.bytes.data(), 1});
        sge.messages.clear();
        return out;
    }
};

/// The scenario of docs/hw/test-vectors.md 4: A 10.0.0.1, B 10.0.0.2, one wire, ISS 0x10000000 and
/// 0x20000000.
struct TwoCards {
    EventQueue events;
    Machine a{events}, b{events};
    std::function<bool(const tcp::Segment&)>
        drop; // whether to drop a frame; the segment is from the view of its receiver

    TwoCards() {
        a.toe.params().tcp.iss = [](const tcp::FourTuple&) { return 0x10000000U; };
        b.toe.params().tcp.iss = [](const tcp::FourTuple&) { return 0x20000000U; };
        join(a, b);
        join(b, a);
        a.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43112200");
        a.control("01c00000 81000003 12000001 007ff801 00000007 43334400");
        b.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43334400");
        b.control("01c00000 81000003 12000001 007ff801 00000007 43112200");
    }
    void join(Machine& from, Machine& to) {
        from.mac.wire = [this, &to](unsigned port, Buffer frame) {
            const auto segment = tcp::decode(Bytes(frame).subspan(14));
            if (drop && segment && drop(*segment))
                return;
            events.after(10 * tcp::microsecond,
                         [&to, port, frame = std::move(frame)] { to.toe.frame_in(port, frame); });
        };
    }
    void run(Time time = tcp::millisecond) { events.advance(events.now() + time); }

    // Steps that most tests need; they leave no message behind.
    static constexpr auto act_open =
        "01c00000 81000005 03010000 c3501d2f 0a000001 0a000002 804d0010 10100000 "
        "00000000 00008c00";
    static constexpr auto pass_open =
        "01c00000 81000005 01003d7c 1d2f0000 00000000 00000000 00010001 00100000 "
        "00000000 00080000";
    static std::string pass_accept(Tid tid) {
        return "01c00000 81000004 " + word(0x02000000 | tid) +
               " 00008c00 00008c00 0a000001 804d0010 10100000";
    }
    void listen() {
        b.control(pass_open);
        a.opcodes();
        b.opcodes();
    }
    /// Both ends get TID 0.
    void connect() {
        listen();
        a.control(act_open);
        run();
        b.control(pass_accept(0));
        run();
        a.opcodes();
        b.opcodes();
    }
};

/// One card, and a script that acts as the host at the other end of the wire: 10.0.0.2, ISS 0x20000000.
struct CardAndScript {
    EventQueue events;
    Machine a{events};
    static constexpr std::uint32_t card_isn = 0x10000001, script_isn = 0x20000001; // of the first data bytes

    CardAndScript() {
        a.toe.params().tcp.iss = [](const tcp::FourTuple&) { return 0x10000000U; };
        a.control("01c00000 81000004 14000000 000f0000 00000000 00000000 00000007 43112200");
        a.control("01c00000 81000003 12000001 007ff801 00000007 43334400");
        a.opcodes();
    }
    void run(Time time = tcp::millisecond) { events.advance(events.now() + time); }

    static Buffer frame(const tcp::Segment& s) {
        Buffer f = words("000743112200 000743334400 0800");
        const tcp::Headers h = tcp::encode(s, 1, 64);
        f.insert(f.end(), h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        f.insert(f.end(), s.payload.begin(), s.payload.end());
        return f;
    }
    std::uint16_t script_port = 7471, card_port = 50000;
    [[nodiscard]] tcp::Segment segment(std::uint8_t flags, std::uint32_t seq, std::uint32_t ack) const {
        return {.tuple = {0x0a000002, 0x0a000001, script_port, card_port},
                .seq = tcp::Seq(seq),
                .ack = tcp::Seq(ack),
                .flags = flags,
                .window = 0x8000};
    }
    /// False: the card left the frame to the NIC path.
    bool send_segment(std::uint8_t flags, std::uint32_t seq, std::uint32_t ack,
                      const std::string& data = "") {
        tcp::Segment s = segment(flags, seq, ack);
        s.payload = Bytes(reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
        return a.toe.frame_in(0, frame(s));
    }
    /// What the card has sent since the last call, as "SA 10000000 20000001 5": flags, seq, ack, length.
    std::string take_sent() {
        std::string out;
        for (const Buffer& f : a.mac.frames) {
            const auto s = tcp::decode(Bytes(f).subspan(14));
            if (!s)
                return "undecodable";
            out += out.empty() ? "" : ", ";
            for (const auto& [flag, letter] : {std::pair{tcp::flag_syn, 'S'},
                                               {tcp::flag_fin, 'F'},
                                               {tcp::flag_rst, 'R'},
                                               {tcp::flag_ack, 'A'}})
                if (s->has(flag))
                    out += letter;
            out += ' ' + word(s->seq.value()) + ' ' + word(s->has(tcp::flag_ack) ? s->ack.value() : 0) + ' ' +
                   std::to_string(s->payload.size());
        }
        a.mac.frames.clear();
        return out;
    }
    void open() {
        a.control(TwoCards::act_open);
        a.mac.frames.clear();
    }
    /// TID 0, by an active open of the card; consumes all messages and frames.
    void connect(std::uint16_t mss = 1460) {
        open();
        tcp::Segment s = segment(tcp::flag_syn | tcp::flag_ack, script_isn - 1, card_isn);
        s.mss = mss;
        a.toe.frame_in(0, frame(s));
        a.opcodes();
        a.mac.frames.clear();
    }
    /// By an active open of the card, from port 50000 + @p n; a segment has up to @p mss bytes.
    void connect_from(std::uint32_t n, std::uint16_t mss = 1460) {
        card_port = static_cast<std::uint16_t>(50000 + n);
        a.control("01c00000 81000005 03010000 " + word(std::uint32_t{card_port} << 16 | 7471) +
                  " 0a000001 0a000002 804d0010 10100000 00000000 00008c00");
        tcp::Segment s = segment(tcp::flag_syn | tcp::flag_ack, script_isn - 1, card_isn);
        s.mss = mss;
        a.toe.frame_in(0, frame(s));
    }
    /// Connections 0 to @p n - 1.
    void connect_all(Tid n) {
        for (Tid tid = 0; tid < n; ++tid)
            connect_from(tid);
    }
    /// What one event may execute is limited.
    void offload_in_an_event(Bytes wr) {
        a.offload(wr);
        run(0);
    }
    /// A listener on port 50000, and a SYN for it: TID 0, PASS_ACCEPT_REQ sent.
    void listen_and_syn() {
        a.control(
            "01c00000 81000005 01003d7c c3500000 00000000 00000000 00010001 00100000 00000000 00080000");
        a.opcodes();
        syn();
    }
    bool syn() {
        tcp::Segment s = segment(tcp::flag_syn, script_isn - 1, 0);
        s.mss = 1460;
        return a.toe.frame_in(0, frame(s));
    }
    void accept() { a.control("01c00000 81000004 02000000 00008c00 00008c00 0a000002 804d0010 10100000"); }
};

// Work requests for a TID.
inline std::string offload_header(const std::string& hi, Tid tid, unsigned flits) {
    return hi + " " + word(0x80000000 | tid << 8 | flits) + " ";
}
inline std::string close_con(Tid tid) {
    return offload_header("09c00000", tid, 2) + word(0x08000000 | tid) + " 00000000";
}
inline std::string abort_req(Tid tid, unsigned cmd = 0) {
    return offload_header("0bc00000", tid, 3) + word(0x0a000000 | tid) + " 00000000 " + word(cmd << 16) +
           " 00000000";
}
inline std::string abort_rpl(Tid tid, unsigned cmd = 1) {
    return offload_header("0fc00000", tid, 3) + word(0x0b000000 | tid) + " 00000000 " + word(cmd << 16) +
           " 00000000";
}
inline std::string tid_release(Tid tid) {
    return "01c00000 81000002 " + word(0x1a000000 | tid) + " 00000000";
}
inline std::string rx_data_ack(Tid tid, std::uint32_t credits, bool force = true) {
    return "01c00000 81000002 " + word(0x0d000000 | tid) + " " + word(credits | (force ? 1U << 28 : 0));
}
constexpr std::uint32_t tx_init = 1U << 18, tx_shove = 1U << 14, tx_close = 1U << 17;
/// TX_DATA with COMPL; the payload is text.
inline Buffer tx_data(Tid tid, const std::string& payload, std::uint32_t flags = tx_init) {
    Buffer wr = words(offload_header("0de00000", tid, 15) + word(static_cast<std::uint32_t>(payload.size())) +
                      " " + word(flags) + " 00000000 00010000");
    wr.insert(wr.end(), payload.begin(), payload.end());
    wr.resize((wr.size() + 7) / 8 * 8);
    return wr;
}
/// TX_DATA of @p size bytes that requests the largest send buffer: 65535 times 32 KiB.
inline Buffer greedy_data(Tid tid, std::uint32_t size) {
    Buffer wr =
        words(offload_header("0de00000", tid, 15) + word(size) + " " + word(tx_init) + " 00000000 ffff0000");
    wr.resize(wr.size() + size);
    return wr;
}
inline std::string rdma_init(Tid tid, bool initiator, unsigned receives = 0) {
    return offload_header("10c00000", tid, 9) +
           "00000000 00000000 00000021 00000001 00000001 00000002 00000400 00000010 0c0705b4 " +
           word((initiator ? 0x10000U : 0) | receives) +
           " 00000004 00000004 00000001 23456000 00000020 00000000";
}

} // namespace t3sim::test
