// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memories of the card under test, which cxgb3 reads through the back door of their controllers
// (docs/hw/memory.md 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "card.hh"

namespace probe {

class CardMemory {
public:
    enum Which : uint32_t { context, receive }; // CM, PM-RX

    // By the name of one of the card's interfaces.
    explicit CardMemory(const std::string& interface);
    ~CardMemory();
    CardMemory(const CardMemory&) = delete;
    CardMemory& operator=(const CardMemory&) = delete;

    // The 64-bit words of a range, each as eight bytes in big-endian order. Address and size are multiples
    // of 8. Nothing: the range is not in the memory. Throws NotObserved if the memory cannot be read.
    std::optional<Bytes> read(Which which, uint32_t address, uint32_t size) const;

private:
    std::string interface_;
    int fd_ = -1;
};

// The bytes of each 64-bit word in the opposite order.
Bytes swapped(Bytes words);

// The TPT entry of a region.
struct TptEntry {
    uint32_t base = 0;    // of the TPT
    bool swapped = false; // the back door reads words in little-endian order
    unsigned page_shift = 0;
    uint32_t page_list = 0; // index in the PBL
};
// Throws NotObserved if no entry has the region's address and size in one of the orders.
TptEntry find_entry(const CardMemory& memory, const Region& region, uint32_t size);
// The RQT is behind the TPT; both have the same size.
uint32_t rqt_base(const TptEntry& entry);

// The TCB of a connection. Throws NotObserved if the card's memory has no TCB with its addresses and ports.
class TcbEntry {
public:
    TcbEntry(const CardMemory& memory, uint32_t tid, rdma_cm_id* connection);
    // A field as docs/hw/tcb.md 1 numbers it, of at most 32 bits.
    uint32_t field(unsigned word, unsigned shift, unsigned width) const;

private:
    uint32_t word(unsigned number) const;

    // Which word is at which place is not known either.
    enum class Order { descending, ascending, pairs };
    Bytes bytes_;
    Order order_ = Order::descending;
};

} // namespace probe
