// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Parameters of the TCP engine: the card-wide timers, which the driver writes to TP_* registers, and the
// options of one connection. The defaults are the values that cxgb3 programs (docs/hw/toe.md 11).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/core/time.hh"
#include "sim/tcp/siphash.hh"

namespace t3sim::tcp {

constexpr Time microsecond = 1'000;
constexpr Time millisecond = 1'000'000;
constexpr Time second = 1'000'000'000;

struct FourTuple {
    std::uint32_t local_ip = 0, remote_ip = 0; // host byte order
    std::uint16_t local_port = 0, remote_port = 0;
    bool operator==(const FourTuple&) const = default;
};

/// Card-wide; a change takes effect the next time the timer is started.
struct Params {
    Time rto_initial = 3 * second;         // TP_INIT_SRTT
    Time rto_min = 250 * millisecond;      // TP_RXT_MIN
    Time rto_max = 64 * second;            // TP_RXT_MAX
    Time persist_min = 5 * second;         // TP_PERS_MIN
    Time persist_max = 64 * second;        // TP_PERS_MAX
    Time keepalive_idle = 7200 * second;   // TP_KEEP_IDLE
    Time keepalive_interval = 75 * second; // TP_KEEP_INTVL
    Time msl = 0;                          // TP_MSL; TIME_WAIT lasts twice as long, 0: there is none
    Time fin_wait_2 = 600 * second;        // TP_FINWAIT2_TIMER
    Time delayed_ack = 50 * millisecond;   // TP_DACK_TIMER
    Time sws_override = 200 * millisecond; // RFC 1122 4.2.3.4: 0.1 to 1 s; no documented register
    unsigned syn_retries = 6;              // TP_SHIFT_CNT SYNSHIFTMAX
    unsigned r1 = 4;                       // TP_SHIFT_CNT RXTSHIFTMAXR1: more retries send a negative advice
    unsigned r2 = 15;                      // TP_SHIFT_CNT RXTSHIFTMAXR2: more retries abort
    unsigned persist_probes = 8;           // TP_SHIFT_CNT PERSHIFTMAX, counts probes without a reply
    unsigned keepalive_probes = 9;         // TP_SHIFT_CNT KEEPALIVEMAX
    std::uint16_t default_mss = 536;       // for a peer that sends no MSS option (MTU 576)
    /// Limit, over all connections, of received data that cannot be delivered yet, in bytes. Further data is
    /// dropped, and the peer sends it again.
    std::size_t receive_memory = 64U << 20;
    std::uint8_t ttl = 64;
    /// RFC 6528: initial sequence numbers are a keyed hash plus the clock. The key of the table of
    /// connections is derived from the secret too. t3sim sets a random one; this constant makes test runs
    /// repeatable.
    SipKey iss_secret{0x7433736d7433736d, 0x6d7333746d733374};
    /// If set, chooses initial sequence numbers instead of RFC 6528; for reproducible captures.
    std::function<std::uint32_t(const FourTuple&)> iss;
};

/// Of one connection (opt0h, opt0l, opt2; docs/hw/cpl.md 4).
struct Options {
    std::uint16_t mss = 1460;                // offered to the peer; also bounds sent segments
    std::uint32_t receive_buffer = 64 << 10; // RCV_BUFSIZ in bytes
    std::uint8_t window_scale = 0; // offered in our SYN, or in our SYN|ACK if the peer's SYN had one
    bool offer_window_scale = true;
    std::uint8_t tos = 0;
    bool nagle = false;
    bool keepalive = false;
    bool delayed_ack = false;
    bool congestion_control = true; // false: NO_CONG
};

} // namespace t3sim::tcp
