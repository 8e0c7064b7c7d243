// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/toe/impl.hh"

namespace t3sim {
namespace {

struct Field {
    unsigned word, shift, width;
};
// docs/hw/tcb.md 1, docs/hw/tcb.md 2. The numbering of T_STATE and the meaning of the RAW fields are not
// documented [guess G37].
constexpr Field t_state{0, 0, 4}, tos{0, 20, 6}, t_rxtshift{0, 30, 4}, t_dupacks{1, 2, 4}, t_maxseg{1, 6, 4},
    snd_scale{2, 17, 4}, rcv_scale{2, 21, 4}, snd_una_raw{2, 25, 27}, snd_nxt_raw{3, 20, 27},
    rcv_nxt{4, 15, 32}, rcv_adv{5, 15, 16}, snd_max_raw{5, 31, 27}, snd_cwnd{6, 26, 27},
    snd_ssthresh{7, 21, 27}, dip{12, 11, 32}, sip{13, 11, 32}, dp{14, 11, 16}, sp{14, 27, 16},
    tx_max{16, 15, 32}, rcv_wnd{18, 19, 27};

void put(Tcb& tcb, Field f, std::uint32_t value) {
    set_tcb_field(tcb, f.word, f.shift, f.width, value);
}

} // namespace

std::uint32_t tcb_field(const Tcb& tcb, unsigned word, unsigned shift, unsigned width) {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < width; ++i) {
        const unsigned bit = shift + i;
        value |= (tcb[word + bit / 32] >> bit % 32 & 1U) << i;
    }
    return value;
}

void set_tcb_field(Tcb& tcb, unsigned word, unsigned shift, unsigned width, std::uint32_t value) {
    for (unsigned i = 0; i < width; ++i) {
        const unsigned bit = shift + i;
        std::uint32_t& w = tcb[word + bit / 32];
        w = (w & ~(1U << bit % 32)) | (value >> i & 1U) << bit % 32;
    }
}

void show_in_tcb(Tcb& tcb, const tcp::View& v, unsigned mtu_index) {
    put(tcb, t_state, static_cast<std::uint32_t>(v.state));
    put(tcb, tos, v.tos >> 2);
    put(tcb, t_rxtshift, v.retries);
    put(tcb, t_dupacks, v.dupacks);
    put(tcb, t_maxseg, mtu_index);
    put(tcb, snd_scale, v.snd_scale);
    put(tcb, rcv_scale, v.rcv_scale);
    // RAW: backwards from TX_MAX
    put(tcb, tx_max, v.snd_max.value());
    put(tcb, snd_una_raw, static_cast<std::uint32_t>(v.snd_max - v.snd_una));
    put(tcb, snd_nxt_raw, static_cast<std::uint32_t>(v.snd_max - v.snd_nxt));
    put(tcb, snd_max_raw, 0);
    put(tcb, rcv_nxt, v.rcv_nxt.value());
    put(tcb, rcv_adv, static_cast<std::uint32_t>(v.rcv_adv - v.rcv_nxt) >> v.rcv_scale);
    put(tcb, rcv_wnd, static_cast<std::uint32_t>(v.rcv_adv - v.rcv_nxt));
    put(tcb, snd_cwnd, v.cwnd);
    put(tcb, snd_ssthresh, v.ssthresh);
    put(tcb, sip, v.tuple.local_ip);
    put(tcb, dip, v.tuple.remote_ip);
    put(tcb, sp, v.tuple.local_port);
    put(tcb, dp, v.tuple.remote_port);
}

TcbBytes Toe::Impl::composed_tcb(Tid tid) const {
    const auto stored = tcbs.find(tid);
    Tcb tcb = stored == tcbs.end() ? Tcb{} : stored->second;
    if (const auto view = engine.view(tid)) {
        show_in_tcb(tcb, *view, mtu_index(view->mss));
        if (faults.guesses.other(Guess::t_state_of_established_is_3)) // [guess G37]
            put(tcb, t_state, static_cast<std::uint32_t>(view->state) + 1);
    }
    TcbBytes bytes;
    for (unsigned w = 0; w < tcb.size(); ++w) // word 31 first
        put_be32(&bytes[4 * (tcb.size() - 1 - w)], tcb[w]);
    return bytes;
}

} // namespace t3sim
