// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// MPA framing (RFC 5044; docs/hw/mpa.md 6): converts ULPDUs to FPDUs and back. Independent of TCP and of the
// contents of a ULPDU.
//
//     FPDU = [marker] length(2) ULPDU padding(0..3) CRC(4), with a marker at every 512th byte of the stream
#pragma once

#include <functional>

#include "sim/core/packet.hh"

namespace t3sim {

struct MpaOptions {
    bool markers = false;
    bool crc = true; // if false, the field is sent as 0 and ignored on receipt
};

/// The MULPDU: largest ULPDU whose FPDU fits into a TCP segment of @p emss bytes.
[[nodiscard]] std::uint32_t mulpdu(std::uint32_t emss, bool markers);

/// One direction of a stream, sending.
class Framer {
public:
    explicit Framer(MpaOptions options) : options_(options) {}

    /// Allocates an FPDU for a ULPDU of @p size (at most 65535) bytes, to be written at ulpdu(), behind @p
    /// headroom bytes.
    [[nodiscard]] static Packet start(std::size_t size, std::size_t headroom = 0);
    [[nodiscard]] static MutableBytes ulpdu(Packet& fpdu);
    /// Adds markers and CRC. FPDUs must be sent in the order in which they are finished.
    [[nodiscard]] Packet finish(Packet&& fpdu);
    /// Moves the origin of the markers before the first FPDU.
    void start_at(std::uint32_t position) { position_ = position; }

private:
    [[nodiscard]] Packet with_markers(const Packet& fpdu);

    MpaOptions options_;
    std::uint32_t position_ = 0; // in the stream, modulo the marker spacing
};

enum class MpaError { none, marker, crc };

/// One direction of a stream, receiving. feed() accepts pieces of any size.
class Deframer {
public:
    /// @p position: stream position of the first byte, counted from the marker origin.
    explicit Deframer(MpaOptions options, std::uint32_t position = 0)
        : options_(options), position_(position) {}

    /// Receives a complete ULPDU, which is valid only during the call. Returns false to stop.
    using Sink = std::function<bool(Bytes ulpdu, MpaError error)>;
    void feed(Bytes in, const Sink& sink);

    /// Whether an FPDU has been received in part.
    [[nodiscard]] bool inside_fpdu() const { return !pending_.empty(); }

private:
    [[nodiscard]] std::size_t raw_size(std::size_t bytes) const;
    [[nodiscard]] std::size_t required_size(Bytes raw) const;
    bool deliver(Bytes raw, const Sink& sink);
    MpaError strip_markers(Bytes raw);

    MpaOptions options_;
    std::uint32_t position_; // stream position of the current FPDU, modulo the marker spacing
    bool stopped_ = false;
    Buffer pending_;  // the received part of an FPDU
    Buffer stripped_; // scratch: an FPDU without its markers
};

} // namespace t3sim
