// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "memory.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <endian.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/hw/t3_tpt.h"

namespace probe {

namespace {

// cxgb3's own ioctl, which has no installed header.
constexpr unsigned long chelsio_ioctl = SIOCDEVPRIVATE;
constexpr uint32_t chelsio_get_mem = 1038;
constexpr uint32_t largest_read = 4096;

struct MemoryRange {
    uint32_t command, memory, address, length, version;
    uint8_t words[largest_read]; // not aligned
};
static_assert(offsetof(MemoryRange, words) == 20);

constexpr uint32_t tcb_bytes = 128;

// The TPT of a card with 16 MB of PM-RX. With N times the memory it is at N times this address.
constexpr uint32_t first_tpt_base = 0x00a00000, last_tpt_base = 0x0a000000;

uint32_t number_of(const sockaddr* address) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
}

} // namespace

CardMemory::CardMemory(const std::string& interface) : interface_(interface) {
    if (interface_.empty() || interface_.size() >= IFNAMSIZ)
        throw NotObserved{"the card's interface was not found"};
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

CardMemory::~CardMemory() {
    close(fd_);
}

std::optional<Bytes> CardMemory::read(Which which, uint32_t address, uint32_t size) const {
    Bytes out;
    while (out.size() < size) {
        const auto at = address + static_cast<uint32_t>(out.size());
        MemoryRange range{chelsio_get_mem,
                          which,
                          at,
                          std::min(largest_read, size - static_cast<uint32_t>(out.size())),
                          0,
                          {}};
        ifreq request{};
        std::memcpy(request.ifr_name, interface_.c_str(), interface_.size());
        request.ifr_data = reinterpret_cast<char*>(&range);
        if (ioctl(fd_, chelsio_ioctl, &request)) {
            if (errno == EINVAL)
                return std::nullopt;
            throw NotObserved{"the card's memory cannot be read" +
                              std::string(errno == EPERM ? " without CAP_NET_ADMIN" : "") + ": " +
                              std::strerror(errno)};
        }
        for (uint32_t i = 0; i < range.length; i += sizeof(uint64_t)) {
            uint64_t word;
            std::memcpy(&word, range.words + i, sizeof(word));
            word = htobe64(word);
            const auto* first = reinterpret_cast<const uint8_t*>(&word);
            out.insert(out.end(), first, first + sizeof(word));
        }
    }
    return out;
}

Bytes swapped(Bytes words) {
    for (auto at = words.begin(); at != words.end(); at += sizeof(uint64_t))
        std::reverse(at, at + sizeof(uint64_t));
    return words;
}

TptEntry find_entry(const CardMemory& memory, const Region& region, uint32_t size) {
    const uint32_t offset = (region.stag() >> T3_STAG_INDEX_SHIFT) * T3_TPT_ENTRY_BYTES;
    for (uint32_t base = first_tpt_base; base <= last_tpt_base; base *= 2) {
        const auto words = memory.read(CardMemory::receive, base + offset, T3_TPT_ENTRY_BYTES);
        if (!words)
            break;
        for (const bool swap : {false, true}) {
            const auto bytes = swap ? swapped(*words) : *words;
            if (be64(&bytes[offsetof(t3_tpt_entry, va_hi)]) != region.address() ||
                be32(&bytes[offsetof(t3_tpt_entry, len)]) != size)
                continue;
            const uint32_t flags = be32(&bytes[offsetof(t3_tpt_entry, flags_pagesize_qpid)]);
            return {base, swap, T3_PAGE_CODE_SHIFT + ((flags & T3_TPT_PAGE_CODE) >> 20),
                    be32(&bytes[offsetof(t3_tpt_entry, pbl_addr)]) & T3_TPT_PBL_ADDR};
        }
    }
    throw NotObserved{"no TPT entry with the address of a region was found"};
}

// With R bytes for payload, the TPT is at R * 5/4 and the RQT at R * 6/4 (docs/hw/memory.md 3).
uint32_t rqt_base(const TptEntry& entry) {
    return entry.base / 5 * 6;
}

TcbEntry::TcbEntry(const CardMemory& memory, uint32_t tid, rdma_cm_id* connection) {
    const auto words = memory.read(CardMemory::context, tid * tcb_bytes, tcb_bytes);
    if (!words)
        throw NotObserved{"the TCB is beyond the card's memory"};
    const uint32_t local = number_of(rdma_get_local_addr(connection));
    const uint32_t peer = number_of(rdma_get_peer_addr(connection));
    const uint32_t local_port = ntohs(rdma_get_src_port(connection));
    const uint32_t peer_port = ntohs(rdma_get_dst_port(connection));
    for (const bool swap : {false, true}) {
        bytes_ = swap ? swapped(*words) : *words;
        for (const auto order : {Order::descending, Order::ascending, Order::pairs}) {
            order_ = order;
            const uint32_t to = field(12, 11, 32), from = field(13, 11, 32); // DIP, SIP
            const uint32_t to_port = field(14, 11, 16), from_port = field(14, 27, 16);
            if ((from == local && to == peer && from_port == local_port && to_port == peer_port) ||
                (from == peer && to == local && from_port == peer_port && to_port == local_port))
                return;
        }
    }
    throw NotObserved{"the card's memory has no TCB with the connection's addresses: " + hex(*words)};
}

uint32_t TcbEntry::word(unsigned number) const {
    const unsigned place = order_ == Order::descending  ? tcb_bytes / 4 - 1 - number
                           : order_ == Order::ascending ? number
                                                        : number ^ 1; // as halves of 64-bit numbers
    return be32(&bytes_[size_t{place} * 4]);
}

uint32_t TcbEntry::field(unsigned number, unsigned shift, unsigned width) const {
    const uint64_t both = uint64_t{shift + width > 32 ? word(number + 1) : 0} << 32 | word(number);
    return static_cast<uint32_t>(both >> shift & ((uint64_t{1} << width) - 1));
}

} // namespace probe
