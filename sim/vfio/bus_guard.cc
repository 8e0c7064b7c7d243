// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/bus_guard.hh"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace t3sim::vfio {
namespace {

struct Mapping {
    std::uintptr_t start;
    std::size_t size;
};

// The signal is synchronous and comes from copies only, never from code that changes this vector.
std::vector<Mapping>& mappings() {
    static auto* m = new std::vector<Mapping>;
    return *m;
}
std::uintptr_t page_size = 4096;

void on_sigbus(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (const Mapping& mapping : mappings()) {
        if (at - mapping.start >= mapping.size)
            continue;
        void* const page =
            reinterpret_cast<void*>(at & ~(page_size - 1)); // NOLINT(performance-no-int-to-ptr)
        if (mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            page)
            return;
        break;
    }
    // Not ours: die of it as if we had not been here.
    signal(SIGBUS, SIG_DFL);
}

} // namespace

void guard_mapping(void* start, std::size_t size) {
    if (mappings().empty()) {
        page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        struct sigaction action {};
        action.sa_sigaction = on_sigbus;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGBUS, &action, nullptr);
    }
    mappings().push_back({reinterpret_cast<std::uintptr_t>(start), size});
}

void unguard_mapping(void* start) {
    std::erase_if(mappings(),
                  [start](const Mapping& m) { return m.start == reinterpret_cast<std::uintptr_t>(start); });
}

} // namespace t3sim::vfio
