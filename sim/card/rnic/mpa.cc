// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/rnic/mpa.hh"

#include <algorithm>
#include <utility>

#include "include/wire/mpa.h"
#include "sim/core/crc32c.hh"

namespace t3sim {
namespace {

constexpr std::size_t spacing = MPA_MARKER_SPACING;

constexpr std::size_t padded(std::size_t ulpdu) {
    return (MPA_LENGTH_SIZE + ulpdu + MPA_ALIGNMENT - 1) / MPA_ALIGNMENT * MPA_ALIGNMENT;
}

// The only little-endian field on the wire.
std::uint32_t get_crc(const std::uint8_t* at) {
    return __builtin_bswap32(be32(at));
}

} // namespace

std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
    const std::uint32_t marker_bytes =
        markers ? MPA_MARKER_SIZE * ((emss + MPA_MARKER_SPACING - 1) / MPA_MARKER_SPACING) : 0;
    return emss - (MPA_LENGTH_SIZE + MPA_CRC_SIZE + marker_bytes + emss % MPA_ALIGNMENT);
}

Packet Framer::start(std::size_t size, std::size_t headroom) {
    Packet fpdu(padded(size) + MPA_CRC_SIZE, headroom);
    put_be16(fpdu.data(), static_cast<std::uint16_t>(size));
    const std::size_t end = MPA_LENGTH_SIZE + size; // padding and CRC follow
    std::fill(fpdu.data() + end, fpdu.data() + fpdu.size(), std::uint8_t{0});
    return fpdu;
}

MutableBytes Framer::ulpdu(Packet& fpdu) {
    return MutableBytes(fpdu.data(), fpdu.size()).subspan(MPA_LENGTH_SIZE, be16(fpdu.data()));
}

Packet Framer::finish(Packet&& fpdu) {
    Packet out = options_.markers ? with_markers(fpdu) : std::move(fpdu);
    position_ = (position_ + out.size()) % spacing;
    if (options_.crc)
        out.omit_crc();
    return out;
}

Packet Framer::with_markers(const Packet& fpdu) {
    Buffer out;
    out.reserve(fpdu.size() + MPA_MARKER_SIZE * (fpdu.size() / spacing + 2));
    const std::size_t length_at = position_ == 0 ? MPA_MARKER_SIZE : 0;
    for (std::size_t done = 0; done < fpdu.size();) {
        if ((position_ + out.size()) % spacing == 0) {
            const std::size_t back = out.size() < length_at ? 0 : out.size() - length_at;
            out.resize(out.size() + MPA_MARKER_SIZE);
            put_be16(&out[out.size() - 2], static_cast<std::uint16_t>(back));
        }
        const std::size_t chunk = std::min(fpdu.size() - done, spacing - (position_ + out.size()) % spacing);
        out.insert(out.end(), fpdu.data() + done, fpdu.data() + done + chunk);
        done += chunk;
    }
    return Packet::copy(out, fpdu.headroom());
}

/// Stream bytes that contain the first @p bytes of the current FPDU, including the markers before and between
/// them.
std::size_t Deframer::raw_size(std::size_t bytes) const {
    if (!options_.markers)
        return bytes;
    std::size_t raw = 0;
    while (bytes) {
        if ((position_ + raw) % spacing == 0)
            raw += MPA_MARKER_SIZE;
        const std::size_t chunk = std::min(bytes, spacing - (position_ + raw) % spacing);
        raw += chunk;
        bytes -= chunk;
    }
    return raw;
}

/// Size of the FPDU that starts with @p raw, or the size that is needed to compute it.
std::size_t Deframer::required_size(Bytes raw) const {
    const std::size_t first = raw_size(1);
    const std::size_t both = raw_size(MPA_LENGTH_SIZE);
    if (raw.size() < both)
        return both;
    const auto length = static_cast<std::size_t>(raw[first - 1] << 8 | raw[both - 1]);
    return raw_size(padded(length) + MPA_CRC_SIZE);
}

/// Copies an FPDU to stripped_ without its markers and checks them.
MpaError Deframer::strip_markers(Bytes raw) {
    MpaError error = MpaError::none;
    const std::size_t length_at = raw_size(1) - 1;
    stripped_.clear();
    for (std::size_t at = 0; at < raw.size();) {
        if ((position_ + at) % spacing == 0) {
            const std::size_t back = at < length_at ? 0 : at - length_at;
            if (be16(&raw[at + 2]) != back)
                error = MpaError::marker;
            at += MPA_MARKER_SIZE;
        }
        const std::size_t chunk = std::min(raw.size() - at, spacing - (position_ + at) % spacing);
        stripped_.insert(stripped_.end(), raw.begin() + static_cast<std::ptrdiff_t>(at),
                         raw.begin() + static_cast<std::ptrdiff_t>(at + chunk));
        at += chunk;
    }
    return error;
}

/// Checks an FPDU; *@p error is the result. Returns its ULPDU.
Bytes Deframer::open(Bytes raw, MpaError* error, bool check_crc) {
    *error = options_.markers ? strip_markers(raw) : MpaError::none;
    const Bytes fpdu = options_.markers ? Bytes(stripped_) : raw;
    if (*error == MpaError::none && options_.crc && check_crc &&
        get_crc(raw.data() + raw.size() - MPA_CRC_SIZE) != crc32c(raw.first(raw.size() - MPA_CRC_SIZE)))
        *error = MpaError::crc;
    position_ = (position_ + static_cast<std::uint32_t>(raw.size())) % spacing;
    return fpdu.subspan(MPA_LENGTH_SIZE, be16(fpdu.data()));
}

} // namespace t3sim
