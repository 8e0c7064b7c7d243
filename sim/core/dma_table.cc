// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/dma_table.hh"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/core/bus_guard.hh"

namespace t3sim {

int DmaTable::map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool readable,
                  bool writable) {
    if (size == 0 || size - 1 > ~std::uint64_t{0} - address)
        return EINVAL;
    if (ranges_.size() >= max_ranges)
        return ENOSPC;
    const std::uint64_t last = address + (size - 1);
    // The only candidate for an overlap is the last range that starts at or before the new last byte.
    if (auto next = ranges_.upper_bound(last); next != ranges_.begin()) {
        const auto& [first, range] = *std::prev(next);
        if (first + (range.size - 1) >= address)
            return EEXIST;
    }
    Range range{.size = size, .file = files_.end(), .readable = readable, .writable = writable};
    if (fd >= 0 && (readable || writable)) {
        if (offset > ~std::uint64_t{0} - size)
            return EINVAL;
        const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
        if (const int error = use_file(fd, offset + size, protection, range.file))
            return error;
        range.data = static_cast<std::uint8_t*>(range.file->mapping) + offset;
    }
    ranges_.emplace(address, range);
    return 0;
}

/// Finds or makes a mapping of a file that includes all bytes before @p end, for one more range.
int DmaTable::use_file(int fd, std::uint64_t end, int protection, Files::iterator& found) {
    struct stat file {};
    if (fstat(fd, &file) != 0)
        return errno;
    // The file must contain the range now. If the client shrinks it later, the bus guard handles that.
    if (!S_ISREG(file.st_mode) || end > static_cast<std::uint64_t>(file.st_size))
        return EINVAL;
    found = std::find_if(files_.begin(), files_.end(), [&](const File& other) {
        return other.device == file.st_dev && other.inode == file.st_ino && other.protection == protection &&
               other.size >= end;
    });
    if (found == files_.end()) {
        if (files_.size() >= max_files)
            return ENOSPC;
        const auto size = static_cast<std::size_t>(file.st_size);
        void* const mapping = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
        if (mapping == MAP_FAILED)
            return errno;
        guard_mapping(mapping, size);
        found = files_.insert(files_.end(), {.device = file.st_dev,
                                             .inode = file.st_ino,
                                             .protection = protection,
                                             .mapping = mapping,
                                             .size = size});
    }
    ++found->ranges;
    return 0;
}

int DmaTable::unmap(std::uint64_t address, std::uint64_t size) {
    if (size == 0 || size - 1 > ~std::uint64_t{0} - address)
        return EINVAL;
    const std::uint64_t last = address + (size - 1);
    const auto begin = ranges_.lower_bound(address);
    const auto end = ranges_.upper_bound(last);
    const auto last_of = [](const auto& entry) { return entry.first + (entry.second.size - 1); };
    if (begin == end || last_of(*std::prev(end)) > last ||
        (begin != ranges_.begin() && last_of(*std::prev(begin)) >= address))
        return ENOENT;
    std::for_each(begin, end, [this](const auto& entry) { release(entry.second); });
    ranges_.erase(begin, end);
    return 0;
}

void DmaTable::clear() {
    for (const auto& [address, range] : ranges_)
        release(range);
    ranges_.clear();
}

void DmaTable::release(const Range& range) {
    if (!range.data || --range.file->ranges != 0)
        return;
    unguard_mapping(range.file->mapping);
    munmap(range.file->mapping, range.file->size);
    files_.erase(range.file);
}

template <typename F>
bool DmaTable::for_pieces(std::uint64_t address, std::uint64_t size, bool for_writing, F&& f) const {
    if (size == 0)
        return true;
    if (size - 1 > ~std::uint64_t{0} - address)
        return false;
    auto containing = ranges_.upper_bound(address);
    if (containing != ranges_.begin())
        --containing;
    // Checks all pieces before it accesses any: a transfer that fails has no effect.
    for (const bool access : {false, true}) {
        auto it = containing;
        std::uint64_t at = address, left = size;
        while (left != 0) {
            if (it == ranges_.end() || at < it->first || at - it->first >= it->second.size)
                return false;
            const Range& range = it->second;
            if (!range.data || !(for_writing ? range.writable : range.readable))
                return false;
            const std::uint64_t inside = at - it->first;
            const std::uint64_t piece = std::min(left, range.size - inside);
            if (access)
                f(range.data + inside, static_cast<std::size_t>(piece));
            at += piece;
            left -= piece;
            ++it;
        }
    }
    return true;
}

bool DmaTable::read(std::uint64_t address, MutableBytes to) const {
    std::uint8_t* out = to.data();
    const bool ok = for_pieces(address, to.size(), false, [&](const std::uint8_t* piece, std::size_t size) {
        std::memcpy(out, piece, size);
        out += size;
    });
    if (!ok)
        std::fill(to.begin(), to.end(), std::uint8_t{0});
    return ok;
}

bool DmaTable::write(std::uint64_t address, Bytes from) const {
    const std::uint8_t* in = from.data();
    return for_pieces(address, from.size(), true, [&](std::uint8_t* piece, std::size_t size) {
        std::memcpy(piece, in, size);
        in += size;
    });
}

std::uint32_t* DmaTable::word(std::uint64_t address, bool for_writing) const {
    if (address % 4 != 0)
        return nullptr;
    std::uint8_t* found = nullptr;
    std::size_t length = 0;
    const bool ok = for_pieces(address, 4, for_writing, [&](std::uint8_t* piece, std::size_t size) {
        found = piece;
        length = size;
    });
    // A client may map a file at an unaligned offset; then an atomic access is impossible.
    if (!ok || length != 4 || reinterpret_cast<std::uintptr_t>(found) % 4 != 0)
        return nullptr;
    return reinterpret_cast<std::uint32_t*>(found);
}

} // namespace t3sim
