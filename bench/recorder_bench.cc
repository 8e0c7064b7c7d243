// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the flight recorder's hooks cost the card model: bench/run counts the instructions of
//
//   recorder_bench CASE COUNT [FILE]    does one case COUNT times, and records it in FILE
//   recorder_bench_bare CASE COUNT      the same with a model that was built without hooks
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/card_rig.hh"
#include "sim/core/counters.hh"
#include "sim/core/log.hh"
#include "sim/core/recorder.hh"
#include "tests/sim/hostile/guest.hh"

namespace {

using namespace t3sim;
using bench::Rig;

struct Run {
    long count;
    const char* file; ///< nullptr: nothing is recorded
};

/// One card.
template <typename Round> void with_card(const Run& run, Round round) {
    Rig rig;
    std::optional<Recorder> recorder;
    if (run.file)
        rig.card.record(&recorder.emplace(rig.events, run.file));
    for (long i = 0; i < run.count; i++)
        round(rig);
    rig.card.record(nullptr);
}

void register_write(const Run& run) {
    with_card(run, [](Rig& rig) { rig.write(reg::SG_OCO_BASE, 1); });
}

void frame_in(const Run& run) {
    const Buffer frame = bench::tcp_frame(1514);
    with_card(run, [&](Rig& rig) {
        if (!rig.receive(frame))
            std::abort();
    });
}

void frame_out(const Run& run) {
    with_card(run, [](Rig& rig) { rig.transmit(rig.host.base(), 1514); });
}

/// Doorbell, work request, FPDU, segment, placement, two completions; two whole cards and the wire between.
void send(const Run& run) {
    test::SeededChoices choices(1, ~std::uint64_t{0});
    test::HostileGuest guest(choices);
    guest.bring_up();
    std::optional<Recorder> recorder;
    if (run.file)
        guest.record(&recorder.emplace(guest.queue(), run.file));
    for (long i = 0; i < run.count; i++)
        guest.valid_send();
    guest.record(nullptr);
    const auto done = static_cast<std::uint64_t>(run.count) + 2 * test::HostileGuest::first_sends;
    if (guest.counters(1).value("sge.cqes") != done)
        std::abort();
}

constexpr struct {
    std::string_view name;
    void (*run)(const Run&);
} cases[] = {
    {"register-write", register_write}, {"frame-in", frame_in}, {"frame-out", frame_out}, {"send", send}};

} // namespace

int main(int argc, char** argv) {
    set_log_levels("off", nullptr);
    if (argc == 2 && std::string_view(argv[1]) == "--list") {
        for (const auto& c : cases)
            std::puts(c.name.data());
        return 0;
    }
    for (const auto& c : cases)
        if (argc >= 3 && c.name == argv[1]) {
            c.run({std::atol(argv[2]), argc > 3 ? argv[3] : nullptr});
            return 0;
        }
    std::fprintf(stderr, "usage: %s --list | CASE COUNT [FILE]\n", argv[0]);
    return 2;
}
