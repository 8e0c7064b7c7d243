// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Received out-of-order data. Ranges never overlap; the first copy of a byte is kept. Only small ranges are
// joined, so a segment costs little however much data waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/tcp/seq.hh"

namespace t3sim::tcp {

class Reassembly {
public:
    /// The caller's window bounds the bytes; this bounds the number of ranges.
    static constexpr std::size_t max_ranges = 128;
    static constexpr std::size_t small = 4096; ///< bytes of a range that may be moved

    /// Adds the new bytes of @p data. False: too many ranges, a part was not added.
    bool insert(Seq seq, Bytes data) {
        std::size_t i = 0; // the first range that does not end before the new data
        while (i < ranges_.size() && ranges_[i].end() < seq)
            ++i;
        const auto consume = [&](std::size_t count) {
            data = data.subspan(count);
            seq += static_cast<std::uint32_t>(count);
        };
        const auto until = [&](std::size_t range) { // the part of the data in front of a range
            return range < ranges_.size()
                       ? std::min(data.size(),
                                  static_cast<std::size_t>(std::max(0, ranges_[range].seq - seq)))
                       : data.size();
        };
        while (!data.empty()) {
            if (i < ranges_.size() && ranges_[i].seq <= seq) {
                consume(std::min(data.size(), static_cast<std::size_t>(ranges_[i].end() - seq)));
                const Bytes part = data.first(until(i + 1));
                ranges_[i].data.insert(ranges_[i].data.end(), part.begin(), part.end());
                bytes_ += part.size();
                consume(part.size());
                if (!join(i))
                    ++i;
                continue;
            }
            const Bytes part = data.first(until(i));
            const bool adjacent =
                i < ranges_.size() && seq + static_cast<std::uint32_t>(part.size()) == ranges_[i].seq;
            if (adjacent && ranges_[i].data.size() <= small) {
                ranges_[i].data.insert(ranges_[i].data.begin(), part.begin(), part.end());
                ranges_[i].seq = seq;
            } else if (ranges_.size() == max_ranges) {
                return false;
            } else {
                ranges_.insert(at(i), Range{seq, Buffer(part.begin(), part.end())});
            }
            bytes_ += part.size();
            consume(part.size());
        }
        return true;
    }

    [[nodiscard]] std::size_t bytes() const { return bytes_; }

    /// Removes and returns the data that starts at @p next; drops data before it. Empty: the hole remains.
    Buffer take(Seq next) {
        while (!ranges_.empty() && ranges_.front().seq <= next) {
            Range range = std::move(ranges_.front());
            ranges_.erase(ranges_.begin());
            bytes_ -= range.data.size();
            if (range.end() > next) {
                range.data.erase(range.data.begin(), range.data.begin() + (next - range.seq));
                return std::move(range.data);
            }
        }
        return {};
    }

    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    void clear() {
        ranges_.clear();
        bytes_ = 0;
    }

private:
    struct Range {
        Seq seq;
        Buffer data;
        [[nodiscard]] Seq end() const { return seq + static_cast<std::uint32_t>(data.size()); }
    };

    /// Joins the next range to range @p i if they are adjacent and it is small.
    bool join(std::size_t i) {
        if (i + 1 == ranges_.size() || ranges_[i].end() != ranges_[i + 1].seq ||
            ranges_[i + 1].data.size() > small)
            return false;
        const Buffer& next = ranges_[i + 1].data;
        ranges_[i].data.insert(ranges_[i].data.end(), next.begin(), next.end());
        ranges_.erase(at(i + 1));
        return true;
    }
    std::vector<Range>::iterator at(std::size_t i) {
        return ranges_.begin() + static_cast<std::ptrdiff_t>(i);
    }

    std::vector<Range> ranges_; // in sequence order
    std::size_t bytes_ = 0;     // of all
};

} // namespace t3sim::tcp
