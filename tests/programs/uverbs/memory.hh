// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// User memory as a hostile caller arranges it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uv {

// Where something that the kernel is to read or write lies.
enum class Where {
    normal,    // its last byte is the last one of the page: one byte further is a fault
    half,      // its second half cannot be touched
    no_access, // nothing of it can
    read_only,
    nowhere, // address 0
    kernel,  // an address of the kernel
    odd,     // normal, but not aligned
};

const char* name_of(Where where);

// A page, a page that cannot be touched, a page that can only be read, and one more that cannot be touched.
class Slot {
public:
    Slot();
    Slot(const Slot&) = delete;
    ~Slot();

    static constexpr size_t room = 4096;

    // Where the kernel is told that `bytes` bytes are. What of it can be written gets `content`, and the
    // filler behind that.
    uint64_t place(Where where, size_t bytes, std::span<const uint8_t> content = {});
    // What is there now of what place() could write.
    std::vector<uint8_t> content() const { return {start_, start_ + length_}; }

    static constexpr uint8_t filler = 0xa5;

    // If it is set, what place() says of memory that can be touched goes through it: a thread's memory can
    // lie elsewhere than where it is prepared.
    static thread_local uint64_t (*moved)(uint64_t at, size_t bytes);

private:
    uint8_t* page_;
    uint8_t* start_ = nullptr;
    size_t length_ = 0;
};

} // namespace uv
