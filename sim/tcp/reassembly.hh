// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Received out-of-order data. Ranges never overlap; the first copy of a byte is kept. Only small ranges are
// joined, and a large one takes no more data, so a segment costs little however much data waits.
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
    static constexpr std::size_t max_ranges = 512;   ///< 256 large ones are a window of 16 MiB
    static constexpr std::size_t small = 4096;       ///< bytes of a range that may be moved
    static constexpr std::size_t large = 64U << 10U; ///< data that follows is a range of its own

    /// Adds the new bytes of @p data. False: too many ranges, a part was not added.
    bool insert(Seq seq, Bytes data) {
        // The first range that does not end before the new data.
        const auto first = std::partition_point(ranges_.begin(), ranges_.end(),
                                                [seq](const Range& range) { return range.end() < seq; });
        auto i = static_cast<std::size_t>(first - ranges_.begin());
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
                if (ranges_[i].data.size() >= large) {
                    ++i;
                    continue;
                }
                const Bytes part = data.first(until(i + 1));
                add(ranges_[i].data, ranges_[i].data.end(), part);
                consume(part.size());
                if (!join(i))
                    ++i;
                continue;
            }
            const Bytes part = data.first(until(i));
            const bool adjacent =
                i < ranges_.size() && seq + static_cast<std::uint32_t>(part.size()) == ranges_[i].seq;
            if (adjacent && ranges_[i].data.size() <= small) {
                add(ranges_[i].data, ranges_[i].data.begin(), part);
                ranges_[i].seq = seq;
            } else if (ranges_.size() == max_ranges) {
                return false;
            } else {
                const auto added = ranges_.insert(at(i), Range{seq, Buffer(part.begin(), part.end())});
                blocks_ += cost_of(added->data);
            }
            consume(part.size());
        }
        return true;
    }

    /// Bytes of memory: a range of one byte costs much more than its data.
    [[nodiscard]] std::size_t cost() const { return blocks_ + ranges_.capacity() * sizeof(Range); }

    /// Removes and returns the data that starts at @p next; drops data before it. Empty: the hole remains.
    Buffer take(Seq next) {
        while (!ranges_.empty() && ranges_.front().seq <= next) {
            Range range = std::move(ranges_.front());
            ranges_.erase(ranges_.begin());
            blocks_ -= cost_of(range.data);
            if (ranges_.empty())
                clear(); // keeps no memory
            if (range.end() > next) {
                range.data.erase(range.data.begin(), range.data.begin() + (next - range.seq));
                return std::move(range.data);
            }
        }
        return {};
    }

    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    /// Of ranges.
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }
    /// Frees one range, not empty().
    void drop_last() {
        blocks_ -= cost_of(ranges_.back().data);
        ranges_.pop_back();
    }
    void clear() {
        ranges_ = std::vector<Range>(); // {} would keep the memory
        blocks_ = 0;
    }

private:
    struct Range {
        Seq seq;
        Buffer data;
        [[nodiscard]] Seq end() const { return seq + static_cast<std::uint32_t>(data.size()); }
    };

    /// Of a block of the heap, with what the allocator adds to a small one.
    static std::size_t cost_of(const Buffer& data) { return data.capacity() + 32; }
    void add(Buffer& data, Buffer::const_iterator where, Bytes part) {
        blocks_ -= cost_of(data);
        data.insert(where, part.begin(), part.end());
        blocks_ += cost_of(data);
    }
    /// Joins the next range to range @p i if they are adjacent and it is small.
    bool join(std::size_t i) {
        if (i + 1 == ranges_.size() || ranges_[i].end() != ranges_[i + 1].seq ||
            ranges_[i + 1].data.size() > small)
            return false;
        const Buffer& next = ranges_[i + 1].data;
        add(ranges_[i].data, ranges_[i].data.end(), next);
        blocks_ -= cost_of(next);
        ranges_.erase(at(i + 1));
        return true;
    }
    std::vector<Range>::iterator at(std::size_t i) {
        return ranges_.begin() + static_cast<std::ptrdiff_t>(i);
    }

    std::vector<Range> ranges_; // in sequence order
    std::size_t blocks_ = 0;    // cost of their data
};

} // namespace t3sim::tcp
