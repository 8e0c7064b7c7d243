// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/rnic/tpt.hh"

#include <algorithm>

#include "sim/core/host.hh"

namespace t3sim {

using hw::Status;
using hw::TptEntry;

namespace {

constexpr std::uint64_t least_page = 4096;

/// Calls @p move(address, part of buffer) for every page of the range.
template <typename Buf, typename Move>
Status walk(const CardMemory& memory, const Extent& extent, std::uint32_t skip, Buf buffer, Move move) {
    std::uint64_t at = extent.offset + skip;
    if (extent.direct)
        return move(at, buffer) ? Status::success : Status::internal;
    const std::uint64_t page = std::uint64_t{1} << extent.page_shift;
    const CardMemory::Region pbl = memory.pbl();
    while (!buffer.empty()) {
        const std::uint64_t entry = pbl.base + 8 * (extent.pbl + (at >> extent.page_shift));
        const std::uint8_t* raw =
            entry + 7 > pbl.limit ? nullptr : memory.pmrx(static_cast<std::uint32_t>(entry), 8);
        if (!raw)
            return Status::pbl_bounds; // ULPTX_INT_CAUSE does not change [guess G38]
        // The low bits are 0 (docs/hw/mr.md 3). If not, each part of a segment could touch one page more.
        const std::uint64_t address = be64(raw) & ~(least_page - 1);
        const std::uint64_t within = at & (page - 1);
        const std::size_t chunk = std::min<std::uint64_t>(buffer.size(), page - within);
        // On a real card a bus error is not an RDMA error; here it stops only this QP.
        if (!move(address + within, buffer.first(chunk)))
            return Status::internal;
        buffer = buffer.subspan(chunk);
        at += chunk;
    }
    return Status::success;
}

/// Number of pages of a range of @p length bytes that starts at @p offset in the first page.
std::uint64_t pages(std::uint64_t offset, std::uint64_t length, unsigned shift) {
    return (offset + length + (std::uint64_t{1} << shift) - 1) >> shift;
}

} // namespace

Status read_extent(Host& host, const CardMemory& memory, const Extent& extent, std::uint32_t skip,
                   MutableBytes to) {
    return walk(memory, extent, skip, to,
                [&](std::uint64_t addr, MutableBytes part) { return host.dma_read(addr, part); });
}

Status write_extent(Host& host, const CardMemory& memory, const Extent& extent, std::uint32_t skip,
                    Bytes from) {
    return walk(memory, extent, skip, from,
                [&](std::uint64_t addr, Bytes part) { return host.dma_write(addr, part); });
}

std::uint64_t first_offset(const TptEntry& entry) {
    return entry.va & ((std::uint64_t{1} << entry.page_shift()) - 1);
}

std::uint32_t Tpt::entries(const CardMemory& memory) {
    const CardMemory::Region tpt = memory.tpt();
    return tpt.limit < tpt.base
               ? 0
               : static_cast<std::uint32_t>((std::uint64_t{tpt.limit} + 1 - tpt.base) / sizeof(TptEntry));
}

std::optional<RegionState> Tpt::state(const CardMemory& memory, std::uint32_t index) {
    const TptEntry* found = index ? entry(memory, index) : nullptr;
    if (!found || !found->in_use())
        return std::nullopt;
    constexpr const char* types[] = {"region", "shared region", "window", "relaxed window"};
    RegionState s{.stag = index << 8 | found->key(),
                  .type = types[found->type()],
                  .valid = found->valid(),
                  .pd = found->pd(),
                  .qp = found->qp(),
                  .va_based = found->va_based(),
                  .va = found->va,
                  .length = found->length,
                  .page_size = std::uint64_t{1} << found->page_shift(),
                  .pbl_index = found->pbl_index(),
                  .windows = found->is_window() ? 0 : found->bound_windows()};
    constexpr struct {
        unsigned right;
        char letter;
    } letters[] = {{local_read, 'r'}, {local_write, 'w'}, {remote_read, 'R'}, {remote_write, 'W'}};
    for (std::size_t i = 0; i < std::size(letters); ++i)
        if ((found->rights() & letters[i].right) != 0)
            s.rights[i] = letters[i].letter;
    return s;
}

const TptEntry* Tpt::entry(const CardMemory& memory, std::uint32_t index) {
    const CardMemory::Region tpt = memory.tpt();
    const std::uint64_t addr = tpt.base + std::uint64_t{index} * sizeof(TptEntry);
    if (addr + sizeof(TptEntry) - 1 > tpt.limit)
        return nullptr;
    return reinterpret_cast<const TptEntry*>(memory.pmrx(static_cast<std::uint32_t>(addr), sizeof(TptEntry)));
}

void Tpt::store(std::uint32_t index, const TptEntry& entry) {
    memory_.pmrx_write(memory_.tpt().base + index * static_cast<std::uint32_t>(sizeof entry),
                       hw::bytes_of(entry));
}

const TptEntry* Tpt::find(std::uint32_t stag) const {
    if (hw::stag_index(stag) == 0)
        return nullptr;
    const TptEntry* found = entry(memory_, hw::stag_index(stag));
    return found && found->in_use() && found->key() == hw::stag_key(stag) ? found : nullptr;
}

bool Tpt::in_pbl(std::uint64_t first, std::uint64_t count) const {
    const CardMemory::Region pbl = memory_.pbl();
    return pbl.base + 8 * (first + count) <= std::uint64_t{pbl.limit} + 1;
}

bool Tpt::write_pbl(std::uint32_t index, std::uint64_t page) {
    std::uint8_t raw[8];
    put_be64(raw, page);
    return in_pbl(index, 1) && memory_.pmrx_write(memory_.pbl().base + 8 * index, raw);
}

Status Tpt::check(const Protection& prot, const TptEntry* found, std::uint64_t to, std::uint32_t length,
                  Rights rights, Extent* extent) const {
    if (!found || !found->valid())
        return Status::invalid_stag;
    if (ecc_error_.fires()) [[unlikely]]
        return Status::ecc;
    const TptEntry& entry = *found;
    if (entry.pd() != prot.pd)
        return Status::pd_mismatch;
    if (entry.is_window() && entry.qp() != 0 && entry.qp() != prot.qp)
        return Status::qp_mismatch;
    if (!(entry.rights() & rights))
        return Status::access;
    if (to + length < to)
        return Status::wrap;

    const std::uint64_t start = entry.va_based() ? std::uint64_t{entry.va} : 0;
    if (to < start || to - start > entry.length || entry.length - (to - start) < length)
        return Status::bounds;

    const unsigned shift = entry.page_shift();
    const std::uint64_t offset = to - start + first_offset(entry);
    const std::uint64_t first = entry.pbl_index() + (offset >> shift);
    const std::uint64_t within = offset & ((std::uint64_t{1} << shift) - 1);
    if (!in_pbl(first, pages(within, length, shift)))
        return Status::pbl_bounds;
    if (entry.is_window() && !guesses_.other(Guess::window_needs_region)) { // [guess G57]
        const TptEntry* region = Tpt::entry(memory_, entry.parent());
        if (!region || !region->in_use() || !region->valid())
            return Status::invalid_stag;
    }
    *extent = {false, static_cast<std::uint32_t>(first), shift, within, length};
    return Status::success;
}

Status Tpt::check_local(const Protection& prot, const hw::Sge& sge, Rights rights, Extent* extent) const {
    *extent = {};
    if (sge.length == 0)
        return Status::success;
    if (sge.stag != 0)
        return check(prot, sge.stag, sge.to, sge.length, rights, extent);
    if (!(prot.caps & hw::RdmaInitWr::stag0_enable))
        return Status::invalid_stag;
    if (sge.to + sge.length < sge.to)
        return Status::wrap;
    *extent = {true, 0, 0, sge.to, sge.length};
    return Status::success;
}

void Tpt::count_binding(std::uint32_t region, int change) {
    const TptEntry* found = entry(memory_, region);
    if (!found)
        return;
    TptEntry parent = *found;
    if (change < 0 && parent.bound_windows() == 0)
        return; // the driver has rewritten the region's entry
    parent.bindings = parent.bound_windows() + static_cast<std::uint32_t>(change);
    store(region, parent);
}

Status Tpt::invalidate(const Protection& prot, std::uint32_t stag, Invalidator by) {
    const TptEntry* found = find(stag);
    if (!found || (by == Invalidator::remote && !found->valid()))
        return Status::invalid_stag;
    TptEntry entry = *found;
    if (entry.pd() != prot.pd)
        return Status::pd_mismatch;
    if (entry.is_window() && entry.qp() != 0 && entry.qp() != prot.qp)
        return Status::qp_mismatch;
    if (by == Invalidator::remote && entry.remote_inv_disabled() &&
        !guesses_.other(Guess::remote_invalidation_can_be_refused)) // [guess G60]
        return Status::access;
    if (entry.type() == TptEntry::shared_region)
        return Status::inv_shared;
    if (entry.type() == TptEntry::region && entry.bound_windows() != 0)
        return Status::inv_bound;

    if (entry.is_window() && entry.valid())
        count_binding(entry.parent(), -1);
    entry.set_state(entry.key(), false);
    store(hw::stag_index(stag), entry);
    return Status::success;
}

Status Tpt::fast_register(const Protection& prot, const hw::FastRegisterWr& wr) {
    const std::uint32_t index = hw::stag_index(wr.stag);
    const TptEntry* found = index ? Tpt::entry(memory_, index) : nullptr; // no key check: it is in the WR
    if (!found || !found->in_use() || found->type() != TptEntry::region)
        return Status::invalid_stag;
    TptEntry entry = *found;
    if (entry.pd() != prot.pd)
        return Status::pd_mismatch;
    if (!(prot.caps & hw::RdmaInitWr::fast_register_enable))
        return Status::access;

    entry.set_state(hw::stag_key(wr.stag), true); // also if it was valid [guess G30]
    entry.set_rights(wr.perms(), wr.va_based(), wr.bind_enable(), wr.page_code());
    entry.length = wr.len;
    entry.va = wr.va;
    // A region longer than its page list would access the pages of the next region in the PBL.
    if (pages(first_offset(entry), wr.len, entry.page_shift()) > wr.pages())
        return Status::bounds;
    if (!in_pbl(entry.pbl_index(), wr.pages()))
        return Status::pbl_bounds;
    for (unsigned i = 0; i < wr.pages(); ++i)
        (void)write_pbl(entry.pbl_index() + i, wr.page[i]);
    store(index, entry);
    return Status::success;
}

Status Tpt::bind(const Protection& prot, const hw::BindWr& wr) {
    const TptEntry* region = find(wr.mr_stag);
    if (!region || !region->valid() || region->type() != TptEntry::region)
        return Status::invalid_stag;
    const std::uint32_t index = hw::stag_index(wr.mw_stag);
    const TptEntry* found = index ? entry(memory_, index) : nullptr;
    if (!found || !found->in_use() || !found->is_window())
        return Status::invalid_stag;
    TptEntry window = *found;
    if (region->pd() != prot.pd || window.pd() != prot.pd)
        return Status::pd_mismatch;
    const unsigned perms = wr.perms & (remote_read | remote_write);
    if (!(prot.caps & hw::RdmaInitWr::bind_enable) || !region->bind_enabled() ||
        (perms & remote_write && !(region->rights() & local_write)))
        return Status::access;

    const std::uint64_t va = wr.mw_va;
    const std::uint64_t start = region->va_based() ? std::uint64_t{region->va} : 0;
    if (va + wr.mw_len < va)
        return Status::wrap;
    if (va < start || va - start > region->length || region->length - (va - start) < wr.mw_len)
        return Status::bounds;
    // The WR contains the window's first page, which must match the region, and so must the place in it: the
    // first offset of a window with addresses is that of its address [guess G56].
    const std::uint64_t offset = va - start + first_offset(*region);
    const std::uint64_t in_page = (std::uint64_t{1} << region->page_shift()) - 1;
    if (!guesses_.other(Guess::page_list_of_bind_is_of_region) &&
        (wr.mr_page_code != region->page_code() ||
         wr.mr_pbl_addr != region->pbl_index() + (offset >> region->page_shift()) ||
         (wr.type == 1 && ((va ^ offset) & in_page) != 0)))
        return Status::pbl_bounds;

    if (window.valid())
        count_binding(window.parent(), -1);
    window.set_state(hw::stag_key(wr.mw_stag), wr.mw_len != 0); // length 0 unbinds the window
    window.set_rights(perms, wr.type == 1, false, wr.mr_page_code);
    window.pbl_addr = wr.mr_pbl_addr;
    window.length = wr.mw_len;
    window.va = wr.type == 1 ? va : offset & in_page;
    window.bindings = hw::stag_index(wr.mr_stag);
    store(index, window);
    if (wr.mw_len != 0)
        count_binding(hw::stag_index(wr.mr_stag), +1);
    return Status::success;
}

} // namespace t3sim
