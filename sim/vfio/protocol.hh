// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Message layouts of vfio-user 0.0: host byte order, packed. Only the messages that QEMU sends to a server;
// the server replies ENOTSUP to all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace t3sim::vfio {

enum class Command : std::uint16_t {
    version = 1,
    dma_map = 2,
    dma_unmap = 3,
    device_get_info = 4,
    device_get_region_info = 5,
    device_get_region_io_fds = 6,
    device_get_irq_info = 7,
    device_set_irqs = 8,
    region_read = 9,
    region_write = 10,
    dma_read = 11,
    dma_write = 12,
    device_reset = 13,
    region_write_multi = 15,
    device_feature = 16,
};

struct Header {
    std::uint16_t id;
    std::uint16_t command;
    std::uint32_t size; ///< of the complete message
    std::uint32_t flags;
    std::uint32_t error;
    static constexpr bool no_sockets = true;
};
static_assert(sizeof(Header) == 16);

namespace flag {
constexpr std::uint32_t type_mask = 0xf;
constexpr std::uint32_t command = 0;
constexpr std::uint32_t reply = 1;
constexpr std::uint32_t no_reply = 0x10;
constexpr std::uint32_t error = 0x20;
} // namespace flag

struct Version {
    std::uint16_t major;
    std::uint16_t minor; ///< followed by JSON text and NUL
};
static_assert(sizeof(Version) == 4);

struct DmaMapRequest {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint64_t offset;
    std::uint64_t address;
    std::uint64_t size;
};
static_assert(sizeof(DmaMapRequest) == 32);
constexpr std::uint32_t dma_readable = 1;
constexpr std::uint32_t dma_writable = 2;

struct DmaUnmapRequest {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint64_t address;
    std::uint64_t size;
};
static_assert(sizeof(DmaUnmapRequest) == 24);
constexpr std::uint32_t unmap_all = 2;

struct DeviceInfo {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint32_t num_regions;
    std::uint32_t num_irqs;
};
static_assert(sizeof(DeviceInfo) == 16);
constexpr std::uint32_t device_can_reset = 1;
constexpr std::uint32_t device_is_pci = 2;

struct RegionInfo {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t cap_offset;
    std::uint64_t size;
    std::uint64_t offset;
};
static_assert(sizeof(RegionInfo) == 32);
constexpr std::uint32_t region_readable = 1;
constexpr std::uint32_t region_writable = 2;
constexpr std::uint32_t region_config = 7;
constexpr std::uint32_t num_regions = 9;

struct IrqInfo {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t count;
};
static_assert(sizeof(IrqInfo) == 16);
constexpr std::uint32_t irq_eventfd = 1;
constexpr std::uint32_t irq_maskable = 2;
constexpr std::uint32_t irq_automasked = 4;
enum IrqIndex : std::uint32_t { irq_intx, irq_msi, irq_msix, irq_error, irq_request, num_irqs };

struct SetIrqs {
    std::uint32_t argsz;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t start;
    std::uint32_t count;
};
static_assert(sizeof(SetIrqs) == 20);
namespace set_irqs {
constexpr std::uint32_t data_none = 1, data_bool = 2, data_eventfd = 4, data_mask = 7;
constexpr std::uint32_t mask = 8, unmask = 0x10, trigger = 0x20, action_mask = 0x38;
} // namespace set_irqs

struct RegionAccess {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t count; ///< followed by the data
};
static_assert(sizeof(RegionAccess) == 16);

struct WriteMultiElement {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t count;
    std::uint8_t data[8];
};
static_assert(sizeof(WriteMultiElement) == 24);

// Limits that this server announces or enforces.
constexpr std::size_t max_data_xfer = 4096; ///< 512 accesses of a register, which nothing interrupts
constexpr std::size_t max_message = 65536;

/// What follows a header; nothing: no message has this header. For MessageSocket.
inline std::optional<std::size_t> body_size(const Header& header) {
    if (header.size < sizeof(Header) || header.size > max_message)
        return std::nullopt;
    return header.size - sizeof(Header);
}

} // namespace t3sim::vfio
