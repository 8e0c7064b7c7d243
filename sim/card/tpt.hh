// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The STag table (TPT) and the page lists (PBL) in card memory: the checks of an access, what it resolves to,
// and the work requests that change an entry (rdma 6).
#pragma once

#include <cstdint>
#include <optional>

#include "sim/card/engines.hh"
#include "sim/card/faults.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/tpt.hh"
#include "sim/hw/wr.hh"

namespace t3sim {

class Host;

/// A checked range of host memory: bytes [offset, offset + length) of the pages listed from PBL entry
/// @c pbl on, or, for STag 0, of bus addresses.
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

/// What the checks compare of a QP.
struct Protection {
    QpId qp = 0;
    std::uint32_t pd = 0;
    std::uint8_t caps = 0; // hw::RdmaInitWr::*_enable
};

/// Rights of an access, one of which the entry must grant.
enum Rights : unsigned {
    local_read = hw::TptEntry::local_read,
    local_write = hw::TptEntry::local_write,
    remote_read = hw::TptEntry::remote_read,
    remote_write = hw::TptEntry::remote_write,
    read_sink = local_write | remote_write, // [guess G18]
};

class Tpt {
public:
    /// @p ecc_error: strikes an access, once its entry has been found.
    Tpt(CardMemory& memory, Strikes& ecc_error) : memory_(memory), ecc_error_(ecc_error) {}

    /// An access to [to, to + length) of a registered STag, with the checks of rdma 6.9 in their order.
    [[nodiscard]] hw::Status check(const Protection& who, std::uint32_t stag, std::uint64_t to,
                                   std::uint32_t length, Rights rights, Extent* extent) const;
    /// The same for an SGE of our own: nothing is checked at length 0, and STag 0 may name bus addresses.
    [[nodiscard]] hw::Status check_local(const Protection& who, const hw::Sge& sge, Rights rights,
                                         Extent* extent) const;

    enum class Invalidator { local, remote };
    [[nodiscard]] hw::Status invalidate(const Protection& who, std::uint32_t stag, Invalidator by);
    [[nodiscard]] hw::Status fast_register(const Protection& who, const hw::FastRegisterWr& wr);
    [[nodiscard]] hw::Status bind(const Protection& who, const hw::BindWr& wr);

    /// Entry of an STag that is in use and has its key; nothing for index 0.
    [[nodiscard]] std::optional<hw::TptEntry> find(std::uint32_t stag) const;
    /// Whether PBL entries [first, first + count) lie in the PBL region.
    [[nodiscard]] bool in_pbl(std::uint64_t first, std::uint64_t count) const;
    [[nodiscard]] bool write_pbl(std::uint32_t index, std::uint64_t page);

private:
    [[nodiscard]] std::optional<hw::TptEntry> entry(std::uint32_t index) const;
    void store(std::uint32_t index, const hw::TptEntry& entry);
    void count_binding(std::uint32_t region, int change);

    CardMemory& memory_;
    Strikes& ecc_error_;
};

/// Byte of the first page at which the region or window begins.
[[nodiscard]] std::uint64_t first_offset(const hw::TptEntry& entry);

} // namespace t3sim
