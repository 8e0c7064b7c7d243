// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Cost of the card model itself per frame, per register write and per RDMA operation, with memory instead of
// guests.
#include <benchmark/benchmark.h>

#include "bench/card_rig.hh"
#include "tests/sim/scale/test_driver.hh"

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

/// RDMA writes of 64 KiB from one card to another, in segments of MTU 1500 with CRCs, @c range(0) at a time.
void write_64k(benchmark::State& state) {
    test::CardPairs pairs(1, 1, nullptr, 128);
    pairs.connect_all();
    pairs.card(0).register_memory();
    pairs.card(1).register_memory();
    pairs.settle();
    for (auto _ : state) {
        for (std::int64_t n = 0; n < state.range(0); ++n)
            pairs.card(0).post_full_write(0);
        pairs.card(0).ring_doorbell(0);
        pairs.settle();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * test::TestDriver::write_size);
}
BENCHMARK(write_64k)->Arg(1)->Arg(128);

/// A send without payload, from the doorbell to the completions of both sides.
void send_0(benchmark::State& state) {
    test::CardPairs pairs(1, 1);
    pairs.connect_all();
    for (auto _ : state) {
        pairs.card(1).receive(0);
        pairs.card(0).send(0);
        pairs.settle();
    }
}
BENCHMARK(send_0);

/// What write_64k is compared with: one copy between buffers that are not in a cache.
void memcpy_64k(benchmark::State& state) {
    constexpr std::size_t size = test::TestDriver::write_size, all = 64 << 20;
    Buffer from(all, 1), to(all, 2);
    std::size_t at = 0;
    for (auto _ : state) {
        std::memcpy(&to[at], &from[at], size);
        at = (at + size) % all;
        benchmark::ClobberMemory();
    }
}
BENCHMARK(memcpy_64k);

} // namespace

BENCHMARK_MAIN();
