// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Received out-of-order data. Ranges never overlap and are never adjacent; the first copy of a byte is kept.
#pragma once

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

    /// Adds the new bytes of @p data. False: too many holes, nothing was added.
    bool insert(Seq seq, Bytes data) {
        if (data.empty())
            return true;
        const Seq end = seq + static_cast<std::uint32_t>(data.size());
        std::size_t first = 0; // [first, last): ranges that overlap the new one or are adjacent to it
        while (first < ranges_.size() && ranges_[first].end() < seq)
            ++first;
        std::size_t last = first;
        while (last < ranges_.size() && ranges_[last].seq <= end)
            ++last;
        if (first == last) {
            if (ranges_.size() == max_ranges)
                return false;
            ranges_.insert(at(first), Range{seq, Buffer(data.begin(), data.end())});
            return true;
        }
        Range& merged = ranges_[first];
        if (seq < merged.seq) {
            const auto head = data.first(static_cast<std::size_t>(merged.seq - seq));
            merged.data.insert(merged.data.begin(), head.begin(), head.end());
            merged.seq = seq;
        }
        for (std::size_t i = first + 1; i < last; ++i) {
            append(merged, seq, data, ranges_[i].seq);
            merged.data.insert(merged.data.end(), ranges_[i].data.begin(), ranges_[i].data.end());
        }
        if (end > merged.end())
            append(merged, seq, data, end);
        ranges_.erase(at(first + 1), at(last));
        return true;
    }

    [[nodiscard]] std::size_t bytes() const {
        std::size_t sum = 0;
        for (const Range& range : ranges_)
            sum += range.data.size();
        return sum;
    }

    /// Removes and returns the data that starts at @p next; drops data before it. Empty: the hole remains.
    Buffer take(Seq next) {
        while (!ranges_.empty() && ranges_.front().seq <= next) {
            Range range = std::move(ranges_.front());
            ranges_.erase(ranges_.begin());
            if (range.end() > next) {
                range.data.erase(range.data.begin(), range.data.begin() + (next - range.seq));
                return std::move(range.data);
            }
        }
        return {};
    }

    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    void clear() { ranges_.clear(); }

private:
    struct Range {
        Seq seq;
        Buffer data;
        [[nodiscard]] Seq end() const { return seq + static_cast<std::uint32_t>(data.size()); }
    };

    /// The part of @p data between the end of @p range and @p until.
    static void append(Range& range, Seq seq, Bytes data, Seq until) {
        const auto from = data.begin() + (range.end() - seq), to = data.begin() + (until - seq);
        range.data.insert(range.data.end(), from, to);
    }
    std::vector<Range>::iterator at(std::size_t i) {
        return ranges_.begin() + static_cast<std::ptrdiff_t>(i);
    }

    std::vector<Range> ranges_; // in sequence order
};

} // namespace t3sim::tcp
