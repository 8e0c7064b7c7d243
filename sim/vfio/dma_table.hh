// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Guest memory as the client has shared it: ranges of bus addresses, each a piece of a file that is mapped
// here. Ranges without a descriptor are remembered (so that overlaps are seen) but are not accessible.
#pragma once

#include <cstdint>
#include <map>

#include "sim/core/bytes.hh"

namespace t3sim::vfio {

class DmaTable {
public:
    DmaTable() = default;
    DmaTable(const DmaTable&) = delete;
    DmaTable& operator=(const DmaTable&) = delete;
    ~DmaTable() { clear(); }

    /// Adds a range. @p fd (-1: none) is not kept. Returns 0 or an errno.
    int map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool readable,
            bool writable);
    /// Removes exactly one earlier range. Returns 0 or an errno.
    int unmap(std::uint64_t address, std::uint64_t size);
    void clear();
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }

    /// Copies, across adjacent ranges if need be. False: not all of it is accessible; then read() zeroes @p
    /// to and write() has written nothing.
    bool read(std::uint64_t address, MutableBytes to) const;
    bool write(std::uint64_t address, Bytes from) const;
    /// An aligned word that lies in one range; nullptr: not accessible that way.
    [[nodiscard]] std::uint32_t* word(std::uint64_t address, bool for_writing) const;

private:
    struct Range {
        std::uint64_t size = 0;
        std::uint8_t* data = nullptr; ///< nullptr: not accessible
        void* mapping = nullptr;      ///< page aligned, at or below data
        std::size_t mapping_size = 0;
        bool readable = false;
        bool writable = false;
    };

    static void release(const Range& range);
    /// Calls @p f(pointer, length) for each piece; false and no call at all if some byte is not accessible.
    template <typename F>
    bool for_pieces(std::uint64_t address, std::uint64_t size, bool for_writing, F&& f) const;

    std::map<std::uint64_t, Range> ranges_; ///< by first address; disjoint
};

} // namespace t3sim::vfio
