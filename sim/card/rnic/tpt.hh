// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The STag table (TPT) and the page lists (PBL) in card memory: access checks, address resolution, and the
// work requests that change an entry (docs/hw/mr.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "sim/card/base/faults.hh"
#include "sim/card/base/guesses.hh"
#include "sim/card/engines.hh"
#include "sim/card/state.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"

namespace t3sim {

class Host;

/// A checked range of host memory: bytes [offset, offset + length) of the page list that starts at PBL entry
/// @c pbl, or, for STag 0, of bus addresses.
struct Extent {
    bool direct = false;
    std::uint32_t pbl = 0;
    unsigned page_shift = 12;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
};

/// Moves bytes [skip, skip + size) of an extent. Fails with pbl_bounds, or internal for a bus error.
[[nodiscard]] hw::Status read_extent(Host& host, const CardMemory& memory, const Extent& extent,
                                     std::uint32_t skip, MutableBytes to);
[[nodiscard]] hw::Status write_extent(Host& host, const CardMemory& memory, const Extent& extent,
                                      std::uint32_t skip, Bytes from);

/// Calls @p move(extent, skip, size) for the parts of bytes [offset, offset + size) of a list of extents, in
/// order, until it fails. Bytes beyond the last extent are left out.
template <typename Extents, typename Move>
[[nodiscard]] hw::Status for_each_part(const Extents& extents, std::uint32_t offset, std::size_t size,
                                       const Move& move) {
    for (const Extent& extent : extents) {
        if (size == 0)
            break;
        if (offset >= extent.length) {
            offset -= extent.length;
            continue;
        }
        const std::size_t part = std::min<std::size_t>(extent.length - offset, size);
        if (const hw::Status status = move(extent, offset, part); status != hw::Status::success)
            return status;
        size -= part;
        offset = 0;
    }
    return hw::Status::success;
}

/// The properties of a QP that access checks use.
struct Protection {
    QpId qp = 0;
    std::uint32_t pd = 0;
    std::uint8_t caps = 0; // hw::RdmaInitWr::*_enable
};

/// Permissions of an access; the entry must grant at least one of them.
enum Rights : unsigned {
    local_read = hw::TptEntry::local_read,
    local_write = hw::TptEntry::local_write,
    remote_read = hw::TptEntry::remote_read,
    remote_write = hw::TptEntry::remote_write,
    read_sink = local_write | remote_write, // [guess G18]
};

class Tpt {
public:
    /// @p ecc_error: fault of an access, applied after its entry has been found.
    Tpt(CardMemory& memory, CountedFault& ecc_error, const Guesses& guesses)
        : memory_(memory), ecc_error_(ecc_error), guesses_(guesses) {}

    /// Checks an access to [to, to + length) of a registered STag, in the order of docs/hw/mr.md 9.
    [[nodiscard]] hw::Status check(const Protection& prot, std::uint32_t stag, std::uint64_t to,
                                   std::uint32_t length, Rights rights, Extent* extent) const {
        return check(prot, find(stag), to, length, rights, extent);
    }
    /// The same, of the entry that find() returned.
    [[nodiscard]] hw::Status check(const Protection& prot, const hw::TptEntry* found, std::uint64_t to,
                                   std::uint32_t length, Rights rights, Extent* extent) const;
    /// The same for a local SGE: no check for length 0, and STag 0 may select bus addresses.
    [[nodiscard]] hw::Status check_local(const Protection& prot, const hw::Sge& sge, Rights rights,
                                         Extent* extent) const;

    enum class Invalidator { local, remote };
    [[nodiscard]] hw::Status invalidate(const Protection& prot, std::uint32_t stag, Invalidator by);
    [[nodiscard]] hw::Status fast_register(const Protection& prot, const hw::FastRegisterWr& wr);
    [[nodiscard]] hw::Status bind(const Protection& prot, const hw::BindWr& wr);

    /// The entry of an STag in card memory, if it is in use and the key matches; null for index 0.
    [[nodiscard]] const hw::TptEntry* find(std::uint32_t stag) const;
    /// Number of entries of the table, and the entry with an index; nothing: not in use.
    [[nodiscard]] static std::uint32_t entries(const CardMemory& memory);
    [[nodiscard]] static std::optional<RegionState> state(const CardMemory& memory, std::uint32_t index);
    /// Whether PBL entries [first, first + count) are in the PBL region.
    [[nodiscard]] bool in_pbl(std::uint64_t first, std::uint64_t count) const;
    [[nodiscard]] bool write_pbl(std::uint32_t index, std::uint64_t page);

private:
    [[nodiscard]] static const hw::TptEntry* entry(const CardMemory& memory, std::uint32_t index);
    void store(std::uint32_t index, const hw::TptEntry& entry);
    void count_binding(std::uint32_t region, int change);

    CardMemory& memory_;
    CountedFault& ecc_error_;
    const Guesses& guesses_;
};

/// Offset of the region or window in its first page.
[[nodiscard]] std::uint64_t first_offset(const hw::TptEntry& entry);

} // namespace t3sim
