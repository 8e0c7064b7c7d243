// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vhost/msix.hh"

namespace t3sim::vhost {

std::uint32_t Msix::read(std::uint64_t offset) const {
    return entries_[offset / 16].word[offset / 4 % 4];
}

void Msix::write(std::uint64_t offset, std::uint32_t value) {
    // Only the mask bit of the control word can be written.
    entries_[offset / 16].word[offset / 4 % 4] = offset / 4 % 4 == 3 ? value & 1 : value;
}

std::uint32_t Msix::read_pending(std::uint64_t offset) const {
    std::uint32_t bits = 0;
    for (std::uint64_t i = 0; i < 32 && offset * 8 + i < entries_.size(); i++)
        bits |= std::uint32_t{entries_[offset * 8 + i].pending} << i;
    return bits;
}

void Msix::raise(unsigned vector) {
    if (enabled_ && vector < entries_.size())
        entries_[vector].pending = true;
}

std::optional<unsigned> Msix::deliverable() const {
    for (unsigned i = 0; enabled_ && !all_masked_ && i < entries_.size(); i++)
        if (entries_[i].pending && (entries_[i].word[3] & 1) == 0)
            return i;
    return std::nullopt;
}

Msix::Message Msix::take(unsigned vector) {
    Entry& entry = entries_[vector];
    entry.pending = false;
    return {.address = std::uint64_t{entry.word[1]} << 32 | entry.word[0], .data = entry.word[2]};
}

} // namespace t3sim::vhost
