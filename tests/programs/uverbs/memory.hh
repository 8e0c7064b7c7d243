// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory arguments of a hostile caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uv {

// Where an argument that the kernel reads or writes is located.
enum class Where {
    normal,    // its last byte is the last one of the page: an access beyond it faults
    half,      // its second half is not mapped
    no_access, // it is not mapped
    read_only,
    nowhere, // address 0
    kernel,  // an address of the kernel
    odd,     // normal, but not aligned
};

const char* name_of(Where where);

// A writable page, an inaccessible page, a read-only page, and another inaccessible one.
class Slot {
public:
    Slot();
    Slot(const Slot&) = delete;
    ~Slot();

    static constexpr size_t page_size = 4096;

    // The address to give to the kernel for `bytes` bytes. Fills the writable part with `content`, then with
    // the filler.
    uint64_t place(Where where, size_t bytes, std::span<const uint8_t> content = {});
    // The current content of the writable part.
    std::vector<uint8_t> content() const { return {start_, start_ + length_}; }

    static constexpr uint8_t filler = 0xa5;

    // If it is set, place() returns addresses of writable memory through it: a thread's arguments can be at
    // another address than the one where they are prepared.
    static thread_local uint64_t (*moved)(uint64_t at, size_t bytes);

private:
    uint8_t* page_;
    uint8_t* start_ = nullptr;
    size_t length_ = 0;
};

} // namespace uv
