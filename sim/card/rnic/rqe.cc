// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/rnic/rqe.hh"

namespace t3sim {

using hw::Status;

namespace {

constexpr unsigned scratch_code = 15;   // 128 MiB pages
constexpr unsigned scratch_entries = 2; // per SGE
constexpr unsigned scratch_shift = 12 + scratch_code;

/// One SGE in an RQE: offset and page size code share the first word.
struct RqePart {
    hw::Be64 code_offset; // 63:59 code, 58:0 offset in the first page
    hw::Be32 pbl;
    hw::Be32 length;
};
static_assert(sizeof(RqePart) * hw::max_sge == rqe_size);

/// The other layout has the four words in the opposite order.
RqePart arranged(const RqePart& part, RqeLayout layout) {
    if (layout == RqeLayout::modelled)
        return part;
    const std::uint64_t code_offset = part.code_offset;
    RqePart out;
    out.code_offset = std::uint64_t{part.length} << 32 | part.pbl;
    out.pbl = static_cast<std::uint32_t>(code_offset);
    out.length = static_cast<std::uint32_t>(code_offset >> 32);
    return out;
}

/// Form C: a bus address. The firmware writes a page list into the scratch PBL entries of the driver.
Status resolve_bus_address(Tpt& tpt, const Protection& prot, const hw::Sge& sge, std::uint32_t scratch,
                           Extent* extent) {
    if (!(prot.caps & hw::RdmaInitWr::stag0_enable))
        return Status::invalid_stag;
    if (sge.to + sge.length < sge.to)
        return Status::wrap;
    constexpr std::uint64_t page = std::uint64_t{1} << scratch_shift;
    const std::uint64_t first = sge.to & ~(page - 1);
    const std::uint64_t offset = sge.to & (page - 1);
    if (offset + sge.length > scratch_entries * page)
        return Status::bounds;
    for (unsigned i = 0; i < scratch_entries; ++i)
        if (!tpt.write_pbl(scratch + i, first + i * page))
            return Status::pbl_bounds;
    *extent = {false, scratch, scratch_shift, offset, sge.length};
    return Status::success;
}

/// Form B: TO is an offset in the page of the PBL index, which is one of the region [guess G58]. Returns
/// the TO of form A [guess G16].
std::uint64_t virtual_address(const hw::TptEntry& region, std::uint64_t to, std::uint32_t pbl) {
    const std::uint64_t page = std::uint64_t{1} << region.page_shift();
    const std::uint64_t pages = (first_offset(region) + region.length + page - 1) >> region.page_shift();
    if (to >= page || pbl < region.pbl_index() || pbl - region.pbl_index() >= pages)
        return to;
    const std::uint64_t start = region.va_based() ? std::uint64_t{region.va} : 0;
    return start - first_offset(region) + (std::uint64_t{pbl - region.pbl_index()} << region.page_shift()) +
           to;
}

/// The other answer to G58: an index and an offset in a page make it form B.
bool is_anywhere(const hw::Sge& sge, std::uint32_t pbl, std::uint8_t page_code) {
    return pbl != 0 && page_code <= scratch_code && sge.to >> (12 + page_code) == 0;
}

} // namespace

std::uint64_t Rqe::length() const {
    std::uint64_t sum = 0;
    for (const Extent& p : part)
        sum += p.length;
    return sum;
}

Status resolve_receive(Tpt& tpt, const Protection& prot, const hw::ReceiveWr& wr, Rqe* rqe, FormB form_b) {
    *rqe = {};
    for (unsigned i = 0; i < wr.num_sge; ++i) {
        const hw::Sge& sge = wr.sge[i];
        if (sge.length == 0)
            continue;
        Status status;
        if (sge.stag == 0) {
            status = resolve_bus_address(tpt, prot, sge, wr.pbl_addr[i], &rqe->part[i]);
        } else {
            const hw::TptEntry* region = tpt.find(sge.stag);
            if (region && form_b == FormB::anywhere && is_anywhere(sge, wr.pbl_addr[i], wr.page_code[i])) {
                status = tpt.check(prot, region, region->va, 0, local_write, &rqe->part[i]);
                rqe->part[i] = {false, wr.pbl_addr[i], 12U + wr.page_code[i], sge.to, sge.length};
            } else {
                const std::uint64_t to = region && form_b != FormB::none
                                             ? virtual_address(*region, sge.to, wr.pbl_addr[i])
                                             : sge.to;
                status = tpt.check(prot, region, to, sge.length, local_write, &rqe->part[i]);
            }
        }
        if (status != Status::success)
            return status;
    }
    return Status::success;
}

bool store_rqe(CardMemory& memory, std::uint32_t addr, const Rqe& rqe, RqeLayout layout) {
    std::array<RqePart, hw::max_sge> raw;
    for (unsigned i = 0; i < hw::max_sge; ++i) {
        const Extent& e = rqe.part[i];
        raw[i].code_offset = std::uint64_t{e.page_shift - 12} << 59 | e.offset;
        raw[i].pbl = e.pbl;
        raw[i].length = e.length;
        raw[i] = arranged(raw[i], layout);
    }
    return memory.pmrx_write(addr, hw::bytes_of(raw));
}

bool load_rqe(const CardMemory& memory, std::uint32_t addr, Rqe* rqe, RqeLayout layout) {
    const std::uint8_t* bytes = memory.pmrx(addr, rqe_size);
    if (!bytes)
        return false;
    for (unsigned i = 0; i < hw::max_sge; ++i) {
        const auto raw = arranged(hw::load<RqePart>({bytes + i * sizeof(RqePart), sizeof(RqePart)}), layout);
        rqe->part[i] = {false, raw.pbl, static_cast<unsigned>(raw.code_offset >> 59) + 12,
                        raw.code_offset & ((std::uint64_t{1} << 59) - 1), raw.length};
    }
    return true;
}

} // namespace t3sim
