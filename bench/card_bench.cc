// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Cost of the card model itself per frame, per register write and per RDMA operation, with memory instead of
// guests.
#include <algorithm>
#include <barrier>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/card_pair.hh"
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

/// RDMA writes of 64 KiB from one card to another, @c range(0) at a time.
void write_64k(benchmark::State& state) {
    CardPair pair;
    for (auto _ : state)
        pair.write(static_cast<unsigned>(state.range(0)));
    state.SetBytesProcessed(state.iterations() * state.range(0) * test::TestDriver::write_size);
}
BENCHMARK(write_64k)->Arg(1)->Arg(128);

void send(benchmark::State& state) {
    CardPair pair;
    for (auto _ : state)
        pair.send(static_cast<std::uint32_t>(state.range(0)));
}
BENCHMARK(send)->Arg(0)->Arg(16)->Arg(test::TestDriver::write_size);

/// RDMA writes of 64 KiB in @c range(0) pairs of cards, 128 in each, in @c range(1) threads. "cpu_ns":
/// processor time of the busiest thread per iteration, which does not depend on other programs as much as the
/// time does.
void pairs(benchmark::State& state) {
    constexpr unsigned writes = 128;
    const auto count = static_cast<unsigned>(state.range(0)), threads = static_cast<unsigned>(state.range(1));
    std::barrier together(threads + 1);
    std::vector<std::uint64_t> cpu(threads);
    bool end = false;
    std::vector<std::thread> running;
    for (unsigned number = 0; number < threads; ++number)
        running.emplace_back([&, number] {
            const auto processor_time = [] {
                timespec now{};
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
                return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                       static_cast<std::uint64_t>(now.tv_nsec);
            };
            std::vector<std::unique_ptr<CardPair>> mine;
            for (unsigned pair = number; pair < count; pair += threads)
                mine.push_back(std::make_unique<CardPair>());
            together.arrive_and_wait();
            for (;;) {
                together.arrive_and_wait();
                if (end)
                    return;
                const std::uint64_t begin = processor_time();
                for (const auto& pair : mine)
                    pair->write(writes);
                cpu[number] += processor_time() - begin;
                together.arrive_and_wait();
            }
        });
    together.arrive_and_wait();
    for (auto _ : state) {
        together.arrive_and_wait();
        together.arrive_and_wait();
    }
    end = true;
    together.arrive_and_wait();
    for (std::thread& thread : running)
        thread.join();
    state.SetBytesProcessed(state.iterations() * count * writes * test::TestDriver::write_size);
    state.counters["cpu_ns"] =
        static_cast<double>(*std::ranges::max_element(cpu)) / static_cast<double>(state.iterations());
}
BENCHMARK(pairs)->Args({1, 1})->Args({4, 2})->UseRealTime();

/// What 64 KiB are compared with: one copy between buffers that are not in a cache.
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
