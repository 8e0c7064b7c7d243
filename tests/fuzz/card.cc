// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is the sequence of choices of the hostile guest: two bytes per choice.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sim/core/log.hh"
#include "tests/sim/hostile/guest.hh"

namespace {

t3sim::test::Effort run(t3sim::Bytes input) {
    t3sim::test::FuzzedChoices choices(input);
    t3sim::test::HostileGuest guest(choices);
    if (!choices.one_in(4))
        guest.bring_up();
    while (!choices.exhausted())
        guest.step();
    if (!guest.responds())
        std::abort();
    return guest.effort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = t3sim::set_log_levels("off", nullptr);
    (void)quiet;
    const std::string excess = t3sim::test::Effort::excess_each_time([&] { return run({data, size}); });
    if (excess.empty())
        return 0;
    std::fprintf(stderr, "%s\n", excess.c_str());
    std::abort();
}
