// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/dma_table.hh"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "sim/core/bus_guard.hh"

namespace t3sim {
namespace {

// The first access to a page fills it with zeroes. That of a page of 1 GiB takes longer than all other cards
// may wait.
constexpr long max_page = 2 << 20;
// Bytes of a mapping that are removed at a time: meanwhile no thread can map anything. A client can empty its
// file, but not the page tables, of which a file of 1 TiB needs 2 GiB: one munmap() of 256 GiB without a page
// took 19 ms.
constexpr std::size_t removed_at_a_time = 16 << 20;

/// The size of the pages of a file in memory; 0: another file. Only files that can be sealed are in memory.
/// This asks the kernel alone; the file system of another file, for which a client's FUSE server may reply,
/// is not called.
std::uint64_t page_size(int fd) {
    struct statfs system {};
    const bool in_memory =
        fcntl(fd, F_GET_SEALS) >= 0 && fstatfs(fd, &system) == 0 && system.f_bsize <= max_page;
    return in_memory ? static_cast<std::uint64_t>(system.f_bsize) : 0;
}

void remove_mapping(std::uint8_t* mapping, std::size_t size) {
    for (std::size_t at = 0; at < size; at += removed_at_a_time)
        munmap(mapping + at, std::min(removed_at_a_time, size - at));
}

} // namespace

int DmaTable::map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool readable,
                  bool writable) {
    if (size == 0 || size - 1 > ~std::uint64_t{0} - address || address % page != 0 || size % page != 0 ||
        (fd >= 0 && offset % page != 0))
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
    const std::uint64_t file_page = page_size(fd);
    if (file_page == 0 || fstat(fd, &file) != 0)
        return EINVAL;
    // Complete pages only: fallocate() can end a file inside a huge page, and Linux neither removes nor
    // replaces a part of such a page.
    const std::uint64_t size = static_cast<std::uint64_t>(file.st_size) / file_page * file_page;
    // The file must contain the range now. If the client shrinks it later, the bus guard handles that.
    if (!S_ISREG(file.st_mode) || end > size)
        return EINVAL;
    found = std::find_if(files_.begin(), files_.end(), [&](const File& other) {
        return other.device == file.st_dev && other.inode == file.st_ino && other.protection == protection &&
               other.size >= end;
    });
    if (found == files_.end()) {
        if (usage_->files >= max_files || size > max_bytes - usage_->bytes)
            return ENOSPC;
        void* const mapping = mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (mapping == MAP_FAILED)
            return errno;
        ++usage_->files;
        usage_->bytes += size;
        guard_mapping(mapping, size, lost_);
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
    auto next = begin;
    Files unused;
    for (std::size_t left = unmapped_at_a_time; left != 0 && next != end; --left) {
        release(next->second, unused);
        next = ranges_.erase(next);
    }
    remove(std::move(unused));
    return next == end ? 0 : EAGAIN;
}

void DmaTable::clear() {
    // The ranges are freed by the worker: 65,535 took 19 ms.
    if (!ranges_.empty())
        worker_.run([ranges = std::make_shared<Ranges>(std::exchange(ranges_, {}))] { ranges->clear(); });
    remove(std::exchange(files_, {}));
    lost_ = false;
}

/// @p unused: gets the file of the range, if no other range has it.
void DmaTable::release(const Range& range, Files& unused) {
    if (range.data && --range.file->ranges == 0)
        unused.splice(unused.end(), files_, range.file);
}

void DmaTable::remove(Files files) {
    if (files.empty())
        return;
    for (const File& file : files)
        unguard_mapping(file.mapping);
    worker_.run([usage = usage_, owned = std::make_shared<Files>(std::move(files))] {
        for (const File& file : *owned) {
            remove_mapping(static_cast<std::uint8_t*>(file.mapping), file.size);
            usage->bytes -= file.size;
            --usage->files;
        }
    });
}

template <typename F>
bool DmaTable::for_pieces(std::uint64_t address, std::uint64_t size, bool for_writing, F&& f) const {
    if (size == 0)
        return true;
    if (lost_ || size - 1 > ~std::uint64_t{0} - address)
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
    return !lost_;
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
    return ok && length == 4 ? reinterpret_cast<std::uint32_t*>(found) : nullptr;
}

} // namespace t3sim
