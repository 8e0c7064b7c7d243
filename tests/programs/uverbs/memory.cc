// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "memory.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace uv {

const char* name_of(Where where) {
    switch (where) {
    case Where::normal:
        return "whole";
    case Where::half:
        return "half of it beyond the end";
    case Where::no_access:
        return "no access";
    case Where::read_only:
        return "read only";
    case Where::nowhere:
        return "address 0";
    case Where::kernel:
        return "address of the kernel";
    case Where::odd:
        return "not aligned";
    }
    return "?";
}

thread_local uint64_t (*Slot::moved)(uint64_t at, size_t bytes) = nullptr;

Slot::Slot() {
    void* pages = mmap(nullptr, 4 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        std::abort();
    page_ = static_cast<uint8_t*>(pages);
    mprotect(page_, page_size, PROT_READ | PROT_WRITE);
    mprotect(page_ + 2 * page_size, page_size, PROT_READ);
}

Slot::~Slot() {
    munmap(page_, 4 * page_size);
}

uint64_t Slot::place(Where where, size_t bytes, std::span<const uint8_t> content) {
    uint8_t* end = page_ + page_size;
    length_ = bytes;
    switch (where) {
    case Where::normal:
        break;
    case Where::half:
        length_ = bytes / 2;
        break;
    case Where::odd:
        end -= 1;
        break;
    case Where::no_access:
        length_ = 0;
        return reinterpret_cast<uint64_t>(page_ + page_size);
    case Where::read_only:
        length_ = 0;
        return reinterpret_cast<uint64_t>(page_ + 2 * page_size);
    case Where::nowhere:
        length_ = 0;
        return 0;
    case Where::kernel:
        length_ = 0;
        return 0xffff888000100000;
    }
    length_ = std::min(length_, page_size - 1);
    start_ = end - length_;
    std::memset(start_, filler, length_);
    if (!content.empty())
        std::memcpy(start_, content.data(), std::min(content.size(), length_));
    const auto at = reinterpret_cast<uint64_t>(start_);
    return moved ? moved(at, length_) : at;
}

} // namespace uv
