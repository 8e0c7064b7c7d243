// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Guest memory that the client shares: ranges of bus addresses, each a piece of a file. Ranges without
// a descriptor are stored to detect overlaps but are not accessible.
//
// A file is mapped once, as a whole: behind an IOMMU a guest has thousands of ranges, and they change all the
// time.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include <sys/types.h>

#include "sim/core/bytes.hh"
#include "sim/core/worker.hh"

namespace t3sim {

class DmaTable {
public:
    /// Per client, as many as the kernel's VFIO allows.
    static constexpr std::size_t max_ranges = 65535;
    /// Per client. Each needs up to two mappings of the process, of which Linux allows 65,530
    /// (vm.max_map_count); eight clients use at most half of them. QEMU needs a few.
    static constexpr std::size_t max_files = 2048;
    /// Per client, of all mappings: a file is mapped once for each kind of access. Eight clients use at most
    /// a sixteenth of the address space.
    static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 40;
    static constexpr std::size_t unmapped_at_a_time = 2048;
    /// Ranges consist of complete pages, as the clients' own tables do. So the cost of a transfer depends on
    /// its length only.
    static constexpr std::uint64_t page = 4096;

    /// @p worker removes the mappings. The last one may free all of a client's memory.
    explicit DmaTable(Worker& worker) : worker_(worker) {}
    DmaTable(const DmaTable&) = delete;
    DmaTable& operator=(const DmaTable&) = delete;
    ~DmaTable() { clear(); }

    /// Adds a range. Does not keep @p fd (-1: none), which must be a memory file: of tmpfs, hugetlbfs or
    /// memfd_create(). Other files may wait for a disk or for a server of the client. Returns 0 or an errno.
    int map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool readable,
            bool writable);
    /// Removes the ranges inside this one, at least one; none may be cut. Returns 0 or an errno; EAGAIN: more
    /// than unmapped_at_a_time are inside, so the caller repeats it in another event. The protocol
    /// has a message for each range. But QEMU sends one for a whole table of pages that a guest's IOMMU
    /// drops, as Linux 7.2 does; a range that stayed would let the card access memory that was unmapped.
    int unmap(std::uint64_t address, std::uint64_t size);
    void clear();
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }
    /// The client has shrunk a file, or no memory is left for it. All transfers fail until clear().
    [[nodiscard]] bool lost() const { return lost_; }

    /// Copies data, also across adjacent ranges. False: part of it is not accessible; then read() has zeroed
    /// @p to and write() has written nothing.
    bool read(std::uint64_t address, MutableBytes to) const;
    bool write(std::uint64_t address, Bytes from) const;
    /// An aligned word within one range; nullptr: not accessible as a word.
    [[nodiscard]] std::uint32_t* word(std::uint64_t address, bool for_writing) const;

private:
    /// A mapping of a file from its start on. A file that has grown since has another one.
    struct File {
        dev_t device = 0;
        ino_t inode = 0;
        int protection = 0;
        void* mapping = nullptr;
        std::size_t size = 0;
        std::size_t ranges = 0; ///< that use it
    };
    using Files = std::list<File>;
    struct Range {
        std::uint64_t size = 0;
        std::uint8_t* data = nullptr; ///< nullptr: not accessible
        Files::iterator file;         ///< valid if data is
        bool readable = false;
        bool writable = false;
    };

    using Ranges = std::map<std::uint64_t, Range>; ///< by first address; disjoint

    int use_file(int fd, std::uint64_t end, int protection, Files::iterator& found);
    void release(const Range& range, Files& unused);
    void remove(Files files);
    /// Calls @p f(pointer, length) for each piece. False, without any call, if a byte is not accessible.
    template <typename F>
    bool for_pieces(std::uint64_t address, std::uint64_t size, bool for_writing, F&& f) const;

    /// Of the mappings, also of those that the worker has not removed yet.
    struct Usage {
        std::atomic<std::size_t> files = 0;
        std::atomic<std::uint64_t> bytes = 0;
    };

    Worker& worker_;
    Ranges ranges_;
    Files files_;
    std::shared_ptr<Usage> usage_ = std::make_shared<Usage>();
    std::atomic<bool> lost_ = false;
};

} // namespace t3sim
