// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is what the network and the host do to the TCP engine: two bytes per choice. The first byte
// chooses between that and packets that are the input as it is.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/tcp/any_segments.hh"

namespace {

using namespace t3sim;
using namespace t3sim::tcp;

/// As it came from the wire, with any lengths and checksums; then with a length and checksums that
/// are right, so that what is behind them is looked at.
void raw_packet(Bytes data) {
    EventQueue events;
    tcp::test::End end(events);
    end.engine.listen(9, 0, tcp::test::a_to_b.local_port);
    end.engine.input(data);
    if (!peek(data))
        return;
    Buffer p(data.begin(), data.end());
    const std::size_t ip = (p[0] & 0xfU) * std::size_t{4};
    const auto fill_in = [&p](std::size_t at, std::uint64_t total) { put_be16(&p[at], fold(total)); };
    put_be16(&p[2], static_cast<std::uint16_t>(p.size()));
    put_be16(&p[10], 0);
    fill_in(10, sum(Bytes(p).first(ip)));
    put_be16(&p[ip + 16], 0);
    constexpr std::uint64_t protocol = 6;
    const std::uint64_t pseudo =
        be16(&p[12]) + be16(&p[14]) + be16(&p[16]) + be16(&p[18]) + protocol + (p.size() - ip);
    fill_in(ip + 16, sum(Bytes(p).subspan(ip), pseudo));
    end.engine.input(p);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0)
        return 0;
    if (data[0] % 8 == 0) {
        raw_packet({data + 1, size - 1});
        return 0;
    }
    t3sim::test::FuzzedChoices choices({data + 1, size - 1});
    tcp::test::AnySegments any(choices);
    while (!choices.exhausted()) {
        any.step();
        if (const auto what = any.broken(); !what.empty()) {
            std::fprintf(stderr, "%s\n", what.c_str());
            std::abort();
        }
    }
    return 0;
}
