// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Times of the data path on this machine, by Google Benchmark. To count instructions, it runs a single
// case (bench/run):
//
//   fastpath --count CASE BATCH ROUNDS [--single]
//   fastpath --list            "case batch ref kind" a line
//   fastpath --traffic         bytes and cache lines that a request writes into the ring
//   fastpath_counted --barriers   barriers and doorbells of a call
#include "bench/fastpath.hh"

#include "userspace/common/barrier.hh"
#include "userspace/common/mmio.hh"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <thread>

namespace {

using bench::Case;
using bench::Rig;

const Case* find(const std::string& name) {
    for (const Case& c : bench::cases) {
        if (name == c.name)
            return &c;
    }
    return nullptr;
}

int count(int argc, char** argv) {
    const std::string name = argv[2];
    const auto batch = static_cast<unsigned>(std::atoi(argv[3]));
    const bool single = argc > 5 && std::string(argv[5]) == "--single";
    const Case* c = find(name);
    if (batch == 0 || batch > bench::most || (!c && name != "poll_empty")) {
        std::fprintf(stderr, "fastpath: no such case, or a batch of more than %u\n", bench::most);
        return 2;
    }
    Rig rig(!single);
    for (long i = std::atol(argv[4]); i > 0; i--) {
        if (c)
            c->round(rig, batch);
        else
            bench::empty(rig, 1);
    }
    return 0;
}

void list() {
    for (const Case& c : bench::cases) {
        for (const unsigned batch : bench::batches)
            std::printf("%s %u %u %s\n", c.name, batch, c.ref, c.kind);
    }
}

bool posts(const Case& c) {
    return c.kind == std::string("post") || c.kind == std::string("wr");
}

// The ring is filled with a pattern; bytes that differ afterwards were written. A second pattern finds bytes
// that are equal to the first one.
void traffic() {
    std::printf("| request | bytes of the ring | cache lines |\n|---|---|---|\n");
    for (const Case& c : bench::cases) {
        if (!posts(c))
            continue;
        std::vector<bool> written;
        for (const int pattern : {0x5a, 0xa5}) {
            Rig rig;
            std::memset(rig.ring() + T3_WR_SLOT_BYTES, pattern, rig.ring_bytes() - T3_WR_SLOT_BYTES);
            written.resize(T3_WR_SLOT_BYTES);
            c.round(rig, 1); // slot 0, which has the mailbox
            c.round(rig, 1);
            const uint8_t* slot = rig.ring() + T3_WR_SLOT_BYTES;
            for (size_t i = 0; i < T3_WR_SLOT_BYTES; i++)
                written[i] = written[i] || slot[i] != pattern;
        }
        unsigned bytes = 0, lines = 0;
        for (size_t line = 0; line < T3_WR_SLOT_BYTES; line += 64) {
            unsigned here = 0;
            for (size_t i = line; i < line + 64; i++)
                here += written[i];
            bytes += here;
            lines += here != 0;
        }
        std::printf("| %s | %u | %u |\n", c.name, bytes, lines);
    }
}

#ifdef T3_COUNT_BARRIERS
// Barriers and doorbells of every call, counted in the code: "case batch barriers doorbells" a line, of 64
// calls.
void barriers() {
    for (const Case& c : bench::cases) {
        if (!posts(c))
            continue;
        for (const unsigned batch : bench::batches) {
            Rig rig;
            common::barriers_passed = common::registers_written = 0;
            for (int i = 0; i < 64; i++)
                c.round(rig, batch);
            std::printf("%s %u %g %g\n", c.name, batch, static_cast<double>(common::barriers_passed) / 64,
                        static_cast<double>(common::registers_written) / 64);
        }
    }
}
#endif

void time_rounds(benchmark::State& state, const Case* c, bool threads) {
    Rig rig(threads);
    const auto batch = static_cast<unsigned>(state.range(0));
    for (auto _ : state)
        c->round(rig, batch);
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * batch);
}

void time_empty(benchmark::State& state) {
    Rig rig;
    for (auto _ : state)
        bench::empty(rig, 1);
}

// Two threads poll one CQ while one of them, the first, also posts and completes.
void time_two_threads(benchmark::State& state) {
    static std::unique_ptr<Rig> rig;
    if (state.thread_index() == 0)
        rig = std::make_unique<Rig>();
    int64_t got = 0;
    for (auto _ : state) {
        if (state.thread_index() == 0) {
            rig->prepare(16, IBV_WR_RDMA_WRITE, 0, 16);
            rig->post_send(16);
            rig->complete_sends(16, T3_RDMA_WRITE);
            while (rig->poll_some(16) != 0)
                continue;
        } else {
            got += rig->poll_some(16);
        }
    }
    benchmark::DoNotOptimize(got);
}

} // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "--count" && argc >= 5)
        return count(argc, argv);
    if (what == "--list")
        return list(), 0;
    if (what == "--traffic")
        return traffic(), 0;
#ifdef T3_COUNT_BARRIERS
    if (what == "--barriers")
        return barriers(), 0;
#endif
    for (const Case& c : bench::cases) {
        if (!posts(c)) // a round posts, completes and polls: one of each kind is enough
            continue;
        for (const bool threads : {true, false}) {
            auto* b = benchmark::RegisterBenchmark(
                (std::string(c.name) + (threads ? "" : "/single_threaded")).c_str(), time_rounds, &c,
                threads);
            for (const unsigned batch : bench::batches)
                b->Arg(batch);
        }
    }
    benchmark::RegisterBenchmark("poll_empty", time_empty);
    benchmark::RegisterBenchmark("two_threads_one_cq", time_two_threads)->Threads(2)->UseRealTime();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
