// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The device's side of a split virtqueue (virtio 1.2, 2.7) in memory that the guest shares.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/dma_table.hh"
#include "sim/vhost/protocol.hh"

namespace t3sim::vhost {

/// Each function that returns false has found a queue that breaks the rules; the guest is to be dropped.
class Virtqueue {
public:
    /// A chain of descriptors: the guest's data, and the buffer for the response.
    struct Chain {
        std::uint16_t head = 0;
        Buffer request;
        std::size_t response_size = 0;
        std::vector<Descriptor> response;
    };

    explicit Virtqueue(const DmaTable& memory) : memory_(&memory) {}

    [[nodiscard]] bool set_size(std::uint32_t size);
    void set_base(std::uint16_t base) { next_ = used_ = base; }
    [[nodiscard]] std::uint16_t base() const { return next_; }
    [[nodiscard]] bool set_addresses(const VringAddress& addresses);

    [[nodiscard]] bool usable() const { return size_ != 0 && addresses_.descriptors != 0; }
    /// The next chain that the guest has made available, with at most @p max_request bytes of the guest's
    /// data; nothing: there is none.
    [[nodiscard]] bool pop(std::optional<Chain>& chain, std::size_t max_request);
    /// Writes the response and returns the chain to the guest.
    [[nodiscard]] bool push(const Chain& chain, Bytes response);
    /// After some of these: whether the guest wants to be interrupted.
    [[nodiscard]] bool wants_interrupt() const;

private:
    [[nodiscard]] bool read_word(std::uint64_t address, std::uint16_t& low, std::uint16_t& high) const;

    const DmaTable* memory_;
    std::uint32_t size_ = 0;
    VringAddress addresses_{};
    std::uint16_t next_ = 0; ///< index of the next available entry
    std::uint16_t used_ = 0;
};

} // namespace t3sim::vhost
