// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The MSI-X table and pending bits of a function (PCI 3.0, 6.8.2), which QEMU has for its guests itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace t3sim::vhost {

class Msix {
public:
    struct Message {
        std::uint64_t address = 0;
        std::uint32_t data = 0;
        bool operator==(const Message&) const = default;
    };

    /// As after a reset: all vectors are masked.
    explicit Msix(unsigned vectors = 0) : entries_(vectors) {}

    /// Bits 15 and 14 of the capability's control register.
    void set_control(bool enabled, bool all_masked) { enabled_ = enabled, all_masked_ = all_masked; }
    [[nodiscard]] bool enabled() const { return enabled_; }

    [[nodiscard]] std::uint64_t table_size() const { return 16 * entries_.size(); }
    [[nodiscard]] std::uint64_t pending_size() const { return (entries_.size() + 63) / 64 * 8; }
    /// Aligned words of the table and of the pending bits.
    [[nodiscard]] std::uint32_t read(std::uint64_t offset) const;
    void write(std::uint64_t offset, std::uint32_t value);
    [[nodiscard]] std::uint32_t read_pending(std::uint64_t offset) const;

    /// Raises a vector. An edge of a masked vector stays pending.
    void raise(unsigned vector);
    /// A pending vector that is not masked.
    [[nodiscard]] std::optional<unsigned> deliverable() const;
    /// The message of a vector, which is not pending any more.
    [[nodiscard]] Message take(unsigned vector);

private:
    struct Entry {
        std::uint32_t word[4] = {0, 0, 0, 1}; ///< address, address high, data, control: bit 0 is the mask
        bool pending = false;
    };
    std::vector<Entry> entries_;
    bool enabled_ = false;
    bool all_masked_ = false;
};

} // namespace t3sim::vhost
