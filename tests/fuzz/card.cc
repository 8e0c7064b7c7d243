// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is the sequence of choices of the hostile guest: two bytes per choice.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sim/core/log.hh"
#include "tests/sim/hostile/guest.hh"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = t3sim::set_log_levels("off", nullptr);
    (void)quiet;
    t3sim::test::FuzzedChoices choices({data, size});
    t3sim::test::HostileGuest guest(choices);
    if (!choices.one_in(4))
        guest.bring_up();
    while (!choices.exhausted())
        guest.step();
    if (!guest.responds())
        std::abort();
    return 0;
}
