// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/bus_guard.hh"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

#include <sys/mman.h>

namespace t3sim {
namespace {

// Keyed by first byte; disjoint. The signal is synchronous and is raised only by memory copies, never by code
// that holds the lock. So its handler may wait for the lock, which only another thread can hold.
std::mutex& mappings_lock() {
    static auto* lock = new std::mutex;
    return *lock;
}
struct Mapping {
    std::size_t size;
    std::atomic<bool>* lost;
};
std::map<std::uintptr_t, Mapping>& mappings() {
    static auto* m = new std::map<std::uintptr_t, Mapping>;
    return *m;
}
// At most so much is replaced at a time, because Linux removes all pages that are there, and a client may
// have millions. Linux replaces complete pages only, and this is the largest one (dma_table.cc).
constexpr std::uintptr_t piece = 2 << 20;

bool put_zeroes(std::uintptr_t from, std::uintptr_t to) {
    void* const at = reinterpret_cast<void*>(from); // NOLINT(performance-no-int-to-ptr)
    return mmap(at, to - from, PROT_READ | PROT_WRITE,
                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == at;
}

void on_sigbus(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const std::lock_guard lock(mappings_lock());
    if (auto it = mappings().upper_bound(at); it != mappings().begin()) {
        const std::uintptr_t start = std::prev(it)->first;
        const auto [size, lost] = std::prev(it)->second;
        const std::uintptr_t from = at & ~(piece - 1);
        // A piece adds up to two mappings to the process, and no transfer starts after the first loss. If the
        // process has no mapping left, replaces the complete range, which adds none.
        if (at - start < size && (put_zeroes(std::max(start, from), std::min(start + size, from + piece)) ||
                                  put_zeroes(start, start + size))) {
            *lost = true;
            return;
        }
    }
    // Not a guarded mapping: restore the default action, which ends the process.
    signal(SIGBUS, SIG_DFL);
}

} // namespace

void guard_mapping(void* start, std::size_t size, std::atomic<bool>& lost) {
    const std::lock_guard lock(mappings_lock());
    if (mappings().empty()) {
        struct sigaction action {};
        action.sa_sigaction = on_sigbus;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGBUS, &action, nullptr);
    }
    mappings().emplace(reinterpret_cast<std::uintptr_t>(start), Mapping{size, &lost});
}

void unguard_mapping(void* start) {
    const std::lock_guard lock(mappings_lock());
    mappings().erase(reinterpret_cast<std::uintptr_t>(start));
}

} // namespace t3sim
