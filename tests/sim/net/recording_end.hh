// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <vector>

#include "sim/core/event_queue.hh"
#include "sim/net/link.hh"

namespace t3sim {

using Frames = std::vector<Buffer>;

/// An end of a wire that records received frames and their times.
struct RecordingEnd : Endpoint {
    explicit RecordingEnd(const EventQueue& queue) : queue(queue) {}
    void frame_in(Bytes frame) override {
        frames.emplace_back(frame.begin(), frame.end());
        times.push_back(queue.now());
    }
    void carrier(bool up) override { carriers.push_back(up); }

    const EventQueue& queue;
    Frames frames;
    std::vector<Time> times;
    std::vector<bool> carriers;
};

/// A frame of @p size bytes that contains its number.
inline Buffer numbered(std::uint32_t number, std::size_t size = 60) {
    Buffer frame(size, 0);
    put_be32(frame.data(), number);
    return frame;
}

} // namespace t3sim
