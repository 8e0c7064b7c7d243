// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "coverage.hh"

#include <algorithm>

#include <fcntl.h>
#include <linux/kcov.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fuzz {

bool Features::mark(uint64_t what) {
    what *= 0x9e3779b97f4a7c15;
    auto& place = seen[what >> 40 & (feature_count - 1)];
    if (place.load(std::memory_order_relaxed) || place.exchange(1))
        return false;
    known++;
    return true;
}

Coverage::Coverage() : fd_(open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0 || ioctl(fd_, KCOV_INIT_TRACE, capacity))
        return;
    void* at = mmap(nullptr, capacity * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED)
        return;
    if (ioctl(fd_, KCOV_ENABLE, KCOV_TRACE_PC)) {
        munmap(at, capacity * sizeof(uint64_t));
        return;
    }
    words_ = static_cast<uint64_t*>(at);
}

Coverage::~Coverage() {
    if (words_) {
        ioctl(fd_, KCOV_DISABLE, 0);
        munmap(words_, capacity * sizeof(uint64_t));
    }
    if (fd_ >= 0)
        close(fd_);
}

void Coverage::begin() {
    if (words_)
        __atomic_store_n(words_, 0, __ATOMIC_RELAXED);
}

unsigned Coverage::end(Features& features) {
    if (!words_)
        return 0;
    const uint64_t count = std::min<uint64_t>(__atomic_load_n(words_, __ATOMIC_RELAXED), capacity - 1);
    unsigned fresh = 0;
    uint64_t before = 0;
    for (uint64_t i = 1; i <= count; i++) {
        fresh += features.mark(words_[i] ^ before << 20);
        before = words_[i];
    }
    return fresh;
}

} // namespace fuzz
