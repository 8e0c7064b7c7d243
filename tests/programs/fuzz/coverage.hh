// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What a sequence reaches: with KCOV, the branches of our modules that this thread's calls take; without it,
// the result of each command. Both are features, which are marked in memory that all workers share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fuzz {

constexpr size_t feature_count = 1 << 18;

struct Features {
    std::atomic<uint32_t> known;
    std::atomic<uint8_t> seen[feature_count];

    // True if the feature is new.
    bool mark(uint64_t what);
};

class Coverage {
public:
    Coverage(); // of the calling thread
    ~Coverage();
    Coverage(const Coverage&) = delete;

    bool works() const { return words_; }
    void begin();
    // How many features are new since begin().
    unsigned end(Features& features);

private:
    static constexpr size_t capacity = 1 << 16; // addresses
    int fd_;
    uint64_t* words_ = nullptr; // the number of addresses, and the addresses
};

} // namespace fuzz
