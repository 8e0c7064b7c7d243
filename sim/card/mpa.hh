// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// MPA framing (RFC 5044; rdma 11.3): ULPDUs into FPDUs and back. Knows neither TCP nor what a ULPDU holds.
//
//     FPDU = [marker] length(2) ULPDU padding(0..3) CRC(4), with a marker at every 512th byte of the stream
#pragma once

#include <functional>

#include "sim/core/bytes.hh"

namespace t3sim {

struct MpaOptions {
    bool markers = false;
    bool crc = true; // without it the field is there, sent as 0 and ignored
};

/// Largest ULPDU whose FPDU fits into a TCP segment of @p emss bytes.
[[nodiscard]] std::uint32_t mulpdu(std::uint32_t emss, bool markers);

/// One direction of a stream, sending.
class Framer {
public:
    explicit Framer(MpaOptions options) : options_(options) {}

    /// An FPDU with room for a ULPDU of @p size (at most 65535) bytes at ulpdu().
    [[nodiscard]] static Buffer start(std::size_t size);
    [[nodiscard]] static MutableBytes ulpdu(Buffer& fpdu);
    /// Markers and CRC. FPDUs must go to the stream in the order in which they are finished.
    [[nodiscard]] Buffer finish(Buffer&& fpdu);

private:
    [[nodiscard]] Buffer with_markers(const Buffer& fpdu);

    MpaOptions options_;
    std::uint32_t position_ = 0; // in the stream, modulo the marker spacing
};

enum class MpaError { none, marker, crc };

/// One direction of a stream, receiving; the stream may be cut anywhere.
class Deframer {
public:
    /// @p position: of the first byte that will be fed, counted from the marker origin.
    explicit Deframer(MpaOptions options, std::uint32_t position = 0)
        : options_(options), position_(position) {}

    /// Takes a complete ULPDU, which is only valid during the call; false: nothing more is wanted.
    using Sink = std::function<bool(Bytes ulpdu, MpaError error)>;
    void feed(Bytes in, const Sink& sink);

    /// An FPDU has begun and is not complete.
    [[nodiscard]] bool inside_fpdu() const { return !pending_.empty(); }

private:
    [[nodiscard]] std::size_t raw_size(std::size_t bytes) const;
    [[nodiscard]] std::size_t wanted(Bytes raw) const;
    bool deliver(Bytes raw, const Sink& sink);
    MpaError strip_markers(Bytes raw);

    MpaOptions options_;
    std::uint32_t position_; // of the current FPDU's first byte
    bool stopped_ = false;
    Buffer pending_;  // the beginning of an FPDU
    Buffer stripped_; // scratch: an FPDU without its markers
};

} // namespace t3sim
