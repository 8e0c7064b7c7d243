// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One engine, and a script that sends raw segments to it. The engine is 10.0.0.1:50000 with ISS 1000, the
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/sim/tcp/pair.hh"

namespace t3sim::tcp::test {

class Script : public testing::Test {
public:
    static constexpr ConnId conn = 1;
    EventQueue events;
    End end{events};
    std::vector<Segment> sent; // by the engine; payloads in `payloads`
    std::vector<std::string> payloads;
    Options options{.mss = 1000, .receive_buffer = 64 << 10};

    Script() {
        end.params.iss = [](const FourTuple&) { return 1000U; };
        end.on_transmit = [this](const Segment& s) {
            sent.push_back(s);
            payloads.emplace_back(s.payload.begin(), s.payload.end());
        };
    }
    void run(Time time) { test::run(events, {&end}, events.now() + time); }

    struct SegmentSpec {
        std::uint8_t flags = flag_ack;
        std::uint32_t seq = 0, ack = 0;
        std::string data = {};
        std::uint16_t window = 0xffff;
        std::optional<std::uint16_t> mss = {};
        std::optional<std::uint8_t> scale = {};
        std::uint16_t to = 50000;
    };
    bool send_segment(const SegmentSpec& spec) {
        Segment s{.tuple = {ip_b, ip_a, 7471, spec.to},
                  .seq = Seq(spec.seq),
                  .ack = Seq(spec.ack),
                  .flags = spec.flags,
                  .window = spec.window,
                  .mss = spec.mss,
                  .window_scale = spec.scale,
                  .payload =
                      Bytes(reinterpret_cast<const std::uint8_t*>(spec.data.data()), spec.data.size())};
        const Headers h = encode(s, 1, 64);
        Buffer packet(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        packet.insert(packet.end(), s.payload.begin(), s.payload.end());
        return end.engine.input(packet);
    }
    /// What was sent since the last call: "S 1000 0", "PA 1001 5001 +5", ...
    std::string take_sent() {
        std::string out;
        for (std::size_t i = 0; i < sent.size(); ++i) {
            const Segment& s = sent[i];
            out += out.empty() ? "" : ", ";
            for (const auto& [flag, letter] : {std::pair{flag_syn, 'S'},
                                               {flag_fin, 'F'},
                                               {flag_rst, 'R'},
                                               {flag_psh, 'P'},
                                               {flag_ack, 'A'}})
                if (s.has(flag))
                    out += letter;
            out += ' ' + std::to_string(s.seq.value());
            if (s.has(flag_ack))
                out += ' ' + std::to_string(s.ack.value());
            if (!payloads[i].empty())
                out += " +" + std::to_string(payloads[i].size());
        }
        sent.clear();
        payloads.clear();
        return out;
    }
    State state() { return end.engine.view(conn)->state; }
    bool send(std::size_t size, bool push = false) { return end.engine.send(conn, Buffer(size, 'x'), push); }

    /// Into SYN_SENT.
    void open() {
        ASSERT_TRUE(end.engine.open(conn, a_to_b, options));
        ASSERT_EQ(take_sent(), "S 1000");
    }
    /// Into ESTABLISHED, by an active open; clears take_sent().
    void connect(std::uint16_t window = 0xffff) {
        open();
        send_segment({.flags = flag_syn | flag_ack, .seq = 5000, .ack = 1001, .window = window, .mss = 1000});
        ASSERT_EQ(take_sent(), "A 1001 5001");
        ASSERT_EQ(state(), State::established);
    }
    void send_ack(std::uint32_t ack, std::uint16_t window = 0xffff, std::uint32_t seq = 5001) {
        send_segment({.seq = seq, .ack = ack, .window = window});
    }
};

} // namespace t3sim::tcp::test
