// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// MPA framing (RFC 5044; docs/hw/mpa.md 6): converts ULPDUs to FPDUs and back. Independent of TCP and of the
// contents of a ULPDU.
//
//     FPDU = [marker] length(2) ULPDU padding(0..3) CRC(4), with a marker at every 512th byte of the stream
#pragma once

#include <algorithm>
#include <utility>

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
    /// Adds markers, and a CRC, which the packet computes when it is needed. FPDUs must be sent in the order
    /// in which they are finished.
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

    /// Calls @p sink(Bytes ulpdu, MpaError error) for each complete ULPDU, which is valid only during the
    /// call, until it returns false. @p intact: the packet of which @p in is the payload, if it is intact
    /// (core/packet.hh); or nullptr. The CRC of one whole FPDU may be missing, and then it is not checked.
    template <typename Sink> void feed(Bytes in, const Sink& sink, const Packet* intact = nullptr);

    /// Whether an FPDU has been received in part.
    [[nodiscard]] bool inside_fpdu() const { return !pending_.empty(); }

private:
    [[nodiscard]] std::size_t raw_size(std::size_t bytes) const;
    [[nodiscard]] std::size_t required_size(Bytes raw) const;
    [[nodiscard]] Bytes open(Bytes raw, MpaError* error, bool check_crc);
    MpaError strip_markers(Bytes raw);

    static constexpr std::size_t kept_bytes = 4096; // each QP has a Deframer

    MpaOptions options_;
    std::uint32_t position_; // stream position of the current FPDU, modulo the marker spacing
    bool stopped_ = false;
    Buffer pending_;  // the received part of an FPDU
    Buffer stripped_; // scratch: an FPDU without its markers
};

template <typename Sink> void Deframer::feed(Bytes in, const Sink& sink, const Packet* intact) {
    const bool no_crc =
        intact && intact->crc_is_missing(in) && pending_.empty() && required_size(in) == in.size();
    if (intact && !no_crc)
        intact->fill_in();
    const auto deliver = [&](Bytes fpdu) {
        MpaError error;
        const Bytes ulpdu = open(fpdu, &error, !no_crc);
        stopped_ = !sink(ulpdu, error);
        if (stripped_.capacity() > kept_bytes)
            stripped_ = Buffer();
    };
    while (!stopped_ && !in.empty()) {
        // For incomplete data required_size() returns more than in.size(). A complete FPDU is delivered
        // without a copy.
        if (const std::size_t size = required_size(in); pending_.empty() && in.size() >= size) {
            const Bytes fpdu = in.first(size);
            in = in.subspan(size);
            deliver(fpdu);
            continue;
        }
        const std::size_t count = std::min(required_size(pending_) - pending_.size(), in.size());
        const std::size_t size = pending_.size() + count;
        if (size > pending_.capacity()) // at most what is required: the peer chooses the pieces
            pending_.reserve(std::min(required_size(pending_), std::max(2 * pending_.size(), size)));
        pending_.insert(pending_.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count));
        in = in.subspan(count);
        if (pending_.size() == required_size(pending_)) {
            const Buffer fpdu = std::exchange(pending_, {}); // inside_fpdu() is false in the sink
            deliver(fpdu);
        }
    }
    if (stopped_)
        pending_ = Buffer();
}

} // namespace t3sim
