// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/packet.hh"

#include <cstring>

#include "sim/core/crc32c.hh"
#include "sim/core/ones_complement.hh"

namespace t3sim {

void Packet::compute_sums_at(std::size_t payload_at) const {
    std::uint8_t* const payload = block_->bytes() + payload_at;
    const MutableBytes covered(payload, static_cast<std::size_t>(data_ + size_ - payload));
    if ((block_->sums & crc_missing) != 0) {
        const std::uint32_t crc = crc32c(covered.first(covered.size() - sizeof crc));
        put_be32(&covered[covered.size() - sizeof crc], __builtin_bswap32(crc));
    }
    if ((block_->sums & checksum_missing) != 0) {
        std::uint8_t* const field = payload - 4; // in front of the urgent pointer
        std::uint16_t sum;                       // in memory order
        std::memcpy(&sum, field, sizeof sum);
        sum = static_cast<std::uint16_t>(~ones_complement_fold(ones_complement_add(sum, covered)));
        std::memcpy(field, &sum, sizeof sum);
    }
    block_->sums = 0;
}

} // namespace t3sim
