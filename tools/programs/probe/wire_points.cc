// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of what the card sends: TCP options and segments, FPDUs, frames.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/socket.h>
#include <unistd.h>

#include "helpers.hh"
#include "interface.hh"
#include "points.hh"
#include "program.hh"

namespace probe {

Answer origin_of_markers(Case& c) {
    constexpr size_t spacing = 512;
    Case::Options options;
    options.reply_flags = MPA_FLAG_CRC | MPA_FLAG_MARKERS;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), 1200, local);
    std::fill_n(memory.bytes(), 1200, uint8_t{0xaa});
    card.connect();
    card.post_send(&memory, 1200);
    const auto stream = c.peer.receive(3 * spacing - 300, reply_limit_ms);
    for (size_t at = 0; at < spacing; at += 4) {
        // The second one's distance counts from the FPDU's length field, after a marker at the front.
        const size_t next = at + spacing, length_at = at ? 0 : sizeof(mpa_marker);
        if (next + 4 <= stream.size() && be16(&stream[at]) == 0 && be16(&stream[next]) == 0 &&
            be16(&stream[next + 2]) == next - length_at)
            return {at == 0, text("the first marker is at byte %zu of the stream of FPDUs", at)};
    }
    throw NotObserved{"the stream has no markers, although the peer requested them"};
}

Answer octets_of_a_frame(Case& c) {
    constexpr int frames = 2000;
    constexpr unsigned payload = 1000, frame = payload + 8 + 20 + 14;
    const auto name = interface_to(c.address);
    const Datagrams datagrams(c.address);
    if (datagrams.error())
        throw NotObserved{std::string("connect: ") + std::strerror(datagrams.error())};
    // cxgb3 takes these from the MAC.
    const auto counter = [&](const char* what) {
        unsigned long long value = 0;
        std::ifstream("/sys/class/net/" + name + "/statistics/" + what) >> value;
        return value;
    };
    const auto octets = counter("tx_bytes"), packets = counter("tx_packets");
    const Bytes data(payload);
    for (int i = 0; i < frames; i++)
        while (send(datagrams.fd, data.data(), data.size(), 0) < 0 && errno != ECONNREFUSED)
            usleep(1000);
    const auto until = prog::in_ms(reply_limit_ms);
    while (counter("tx_packets") < packets + frames && prog::Clock::now() < until)
        usleep(10000);
    const auto sent = counter("tx_packets") - packets;
    if (sent < frames * 9 / 10 || sent > frames * 51 / 50)
        throw NotObserved{text("%llu frames were counted instead of %d", sent, frames)};
    // Other frames are few, and shorter than ours.
    const double each = static_cast<double>(counter("tx_bytes") - octets) / static_cast<double>(sent);
    const bool with_fcs = each > frame + 1;
    return {with_fcs, text("a frame of %u bytes counts %.1f octets: %s its FCS", frame, each,
                           with_fcs ? "with" : "without")};
}

Answer segment_of_an_fpdu(Case& c) {
    constexpr unsigned requests = 10;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    const unsigned before = c.peer.info().data_segments_in;
    for (unsigned i = 0; i < requests; i++)
        card.put_send(&memory, 64);
    card.ring_doorbell(); // all at once
    if (c.peer.fpdus(requests, reply_limit_ms).size() < requests)
        throw NotObserved{"not all messages came"};
    const unsigned segments = c.peer.info().data_segments_in - before;
    return {segments == requests, text("%u FPDUs came in %u TCP segments", requests, segments)};
}

Answer options_of_tcp(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const auto info = c.peer.info();
    return {!info.timestamps && !info.sack && info.window_scale,
            text("options of TCP: window scale %s, timestamps %s, SACK %s", info.window_scale ? "yes" : "no",
                 info.timestamps ? "yes" : "no", info.sack ? "yes" : "no")};
}

} // namespace probe
