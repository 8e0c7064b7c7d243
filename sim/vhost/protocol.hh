// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Layouts of vhost-user messages, of a split virtqueue and of the virtio PCI device's requests
// (<linux/virtio_pcidev.h>): host byte order, packed. Only the messages that User Mode Linux sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace t3sim::vhost {

enum class Request : std::uint32_t {
    get_features = 1,
    set_features = 2,
    set_owner = 3,
    reset_owner = 4,
    set_mem_table = 5,
    set_vring_num = 8,
    set_vring_addr = 9,
    set_vring_base = 10,
    get_vring_base = 11,
    set_vring_kick = 12,
    set_vring_call = 13,
    set_vring_err = 14,
    get_protocol_features = 15,
    set_protocol_features = 16,
    set_vring_enable = 18,
    set_backend_request_fd = 21,
};

struct [[gnu::packed]] Header {
    std::uint32_t request;
    std::uint32_t flags;
    std::uint32_t size; ///< of what follows
    static constexpr bool no_sockets = false;
};
static_assert(sizeof(Header) == 12);

constexpr std::uint32_t version_mask = 3, version = 1, flag_reply = 4, flag_need_reply = 8;
constexpr std::size_t max_body = 4096;

/// For MessageSocket.
inline std::optional<std::size_t> body_size(const Header& header) {
    if (header.size > max_body)
        return std::nullopt;
    return header.size;
}

// Feature bits.
constexpr std::uint64_t feature_protocol_features = std::uint64_t{1} << 30;
constexpr std::uint64_t feature_version_1 = std::uint64_t{1} << 32;
constexpr std::uint64_t protocol_feature_reply_ack = 1 << 3;
/// A channel for requests of the server. None is sent, but User Mode Linux has no interrupt without it.
constexpr std::uint64_t protocol_feature_backend_request = 1 << 5;

struct VringState {
    std::uint32_t index;
    std::uint32_t num;
};

struct VringAddress {
    std::uint32_t index;
    std::uint32_t flags;
    std::uint64_t descriptors, used, available, log;
};
static_assert(sizeof(VringAddress) == 40);

/// A 64-bit number is the message of SET_VRING_KICK, _CALL and _ERR.
constexpr std::uint64_t vring_index_mask = 0xff, vring_no_descriptor = 0x100;

struct MemoryTable {
    std::uint32_t regions; ///< number of the regions that follow
    std::uint32_t padding;
};
struct MemoryRegion {
    std::uint64_t guest_address;
    std::uint64_t size;
    std::uint64_t user_address;
    std::uint64_t offset; ///< in the region's file
};
static_assert(sizeof(MemoryRegion) == 32);
constexpr std::uint32_t max_regions = 8;

// A split virtqueue.
struct Descriptor {
    std::uint64_t address;
    std::uint32_t length;
    std::uint16_t flags;
    std::uint16_t next;
};
static_assert(sizeof(Descriptor) == 16);
constexpr std::uint16_t descriptor_next = 1, descriptor_write = 2;
constexpr std::uint16_t available_no_interrupt = 1;
struct Used {
    std::uint32_t id;
    std::uint32_t length;
};
constexpr unsigned max_queue_size = 1024;
/// Of one request: User Mode Linux sends at most 3. Each may be the first access to four pages of the guest.
constexpr unsigned max_chain = 8;

// The virtio PCI device: the guest's requests on queue 0, interrupts on queue 1.
constexpr unsigned command_queue = 0, interrupt_queue = 1, num_queues = 2;

enum class Operation : std::uint8_t {
    config_read = 1,
    config_write = 2,
    mmio_read = 3,
    mmio_write = 4,
    mmio_memset = 5,
    intx = 6,
    msi = 7,
};
struct PcidevMessage {
    Operation operation;
    std::uint8_t bar;
    std::uint16_t reserved;
    std::uint32_t size;
    std::uint64_t address; ///< data follow, in little endian
};
static_assert(sizeof(PcidevMessage) == 16);
constexpr std::uint32_t max_transfer = 4096; ///< 512 accesses of a register, which nothing interrupts

} // namespace t3sim::vhost
