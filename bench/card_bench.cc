// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Cost of the card model itself per frame and per register write, with memory instead of guest and
// wire.
#include <benchmark/benchmark.h>

#include "bench/card_rig.hh"

namespace {

using namespace t3sim;
using namespace t3sim::bench;

void receive(benchmark::State& state) {
    Rig rig;
    const Buffer frame = tcp_frame(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        if (!rig.receive(frame)) {
            state.SkipWithError("a frame was lost");
            break;
        }
    }
}
BENCHMARK(receive)->Arg(60)->Arg(1514);

void transmit(benchmark::State& state) {
    Rig rig;
    const Buffer frame = tcp_frame(static_cast<std::size_t>(state.range(0)));
    const std::uint64_t at = rig.host.alloc(2048);
    rig.host.put(at, frame);
    const auto size = static_cast<std::uint32_t>(frame.size());
    for (auto _ : state)
        rig.transmit(at, size);
}
BENCHMARK(transmit)->Arg(60)->Arg(1514);

/// This is most of a bring-up.
void tcam_write(benchmark::State& state) {
    Rig rig;
    for (auto _ : state)
        rig.write(reg::MC5_DB_DBGI_REQ_CMD, 1);
}
BENCHMARK(tcam_write);

} // namespace

BENCHMARK_MAIN();
