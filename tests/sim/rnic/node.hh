// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A host with only an Rnic: the SGE, the card memory and TCP are minimal fakes of the interfaces in
// engines.hh. Two nodes form a connection. Defaults are those of docs/hw/test-vectors.md 1: node A of the
// first, node B of the second column.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "sim/card/rnic/rnic.hh"
#include "sim/core/counters.hh"
#include "sim/hw/cqe.hh"
#include "tests/sim/fake_host.hh"

namespace t3sim::test {

/// TPT, RQT and PBL at the addresses of a card with 128 MB, but smaller.
class FakeMemory : public CardMemory {
public:
    /// As if no two accesses were to the same page.
    bool always_fills = false;
    [[nodiscard]] const std::uint8_t* pmrx(std::uint32_t addr, std::size_t size) const override {
        if (always_fills)
            ++filled_;
        for (const auto& [region, bytes] : {std::pair{tpt(), &tpt_}, {rqt(), &rqt_}, {pbl(), &pbl_}})
            if (addr >= region.base && addr - region.base + size <= bytes->size())
                return &(*bytes)[addr - region.base];
        return nullptr;
    }
    bool pmrx_write(std::uint32_t addr, Bytes from) override {
        auto* to = const_cast<std::uint8_t*>(pmrx(addr, from.size()));
        if (to)
            std::memcpy(to, from.data(), from.size());
        return to != nullptr;
    }
    [[nodiscard]] Region tpt() const override { return {0x05000000, 0x050fffff}; }
    [[nodiscard]] Region rqt() const override { return {0x06000000, 0x0601ffff}; }
    [[nodiscard]] Region pbl() const override { return {0x07000000, 0x0700ffff}; }

    void put(std::uint32_t addr, const std::vector<std::uint32_t>& words) {
        for (std::uint32_t word : words) {
            std::uint8_t raw[4];
            put_be32(raw, word);
            if (!pmrx_write(addr, raw))
                throw std::out_of_range("FakeMemory: no such address");
            addr += 4;
        }
    }
    [[nodiscard]] std::vector<std::uint32_t> get(std::uint32_t addr, std::size_t words) const {
        std::vector<std::uint32_t> out;
        for (; words; --words, addr += 4) {
            const std::uint8_t* raw = pmrx(addr, 4);
            out.push_back(raw ? be32(raw) : 0);
        }
        return out;
    }

private:
    Buffer tpt_ = Buffer(0x100000);
    Buffer rqt_ = Buffer(0x20000);
    Buffer pbl_ = Buffer(0x10000);
};

/// One call of an Rnic to its SGE.
struct SgeRecord {
    enum Kind { cqe, event, cpl } kind;
    CqId cq = 0;
    Cqe entry{};
    bool solicited = false;
    Buffer message{}; ///< cpl

    /// "cqe cq 1: 00021413 00000000 05000000 00000000"; the generation bit is set.
    [[nodiscard]] std::string text() const {
        if (kind == cpl)
            return "cpl " + hex(message);
        char out[100];
        std::snprintf(out, sizeof out, "%s cq %u: %08x %08x %08x %08x", kind == cqe ? "cqe" : "event", cq,
                      hw::cqe_header(entry.qp, true, entry.status, entry.send_side, entry.opcode),
                      entry.length, entry.word2, entry.word3);
        return out;
    }
    static std::string hex(Bytes bytes) {
        std::string out;
        char digits[3];
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
            out += (i && i % 4 == 0 ? " " : "") + std::string(digits);
        }
        return out;
    }
};

class FakeSge : public SgeServices {
public:
    explicit FakeSge(FakeHost& host) : host_(host) {}

    void post_cpl(unsigned, Bytes cpl) override {
        records.push_back({.kind = SgeRecord::cpl, .message = Buffer(cpl.begin(), cpl.end())});
    }
    void complete(CqId cq, const Cqe& cqe, bool solicited) override {
        records.push_back({.kind = SgeRecord::cqe, .cq = cq, .entry = cqe, .solicited = solicited});
    }
    void async_event(CqId cq, const Cqe& cqe) override {
        records.push_back({.kind = SgeRecord::event, .cq = cq, .entry = cqe});
    }
    void open_qp_context(QpId qp, Tid tid, std::uint64_t base, std::uint32_t slots) override {
        contexts[qp] = {tid, base, slots};
    }
    void invalidate_qp_context(QpId qp) override { contexts.erase(qp); }
    Fetch fetch_slot(QpId id, Slot& slot) override {
        const auto it = contexts.find(id);
        if (it == contexts.end())
            return Fetch::invalid_context;
        if (busy)
            return Fetch::busy;
        Context& c = it->second;
        if (!host_.dma_read(c.base + slot_size * c.index, slot))
            return Fetch::bus_error;
        if ((slot[4] >> 7 == 1) != c.generation || (slot[127] == 1) != c.generation)
            return Fetch::empty;
        ++fetched;
        if (++c.index == c.slots) {
            c.index = 0;
            c.generation = !c.generation;
        }
        return Fetch::slot;
    }
    void unfetch_slot(QpId id) override {
        Context& c = contexts.at(id);
        --fetched;
        if (c.index == 0) {
            c.index = c.slots;
            c.generation = !c.generation;
        }
        --c.index;
    }
    void fatal(std::uint32_t) override { ++fatals; }

    struct Context {
        Tid tid;
        std::uint64_t base;
        std::uint32_t slots;
        std::uint32_t index = 0;
        bool generation = true;
    };
    std::map<QpId, Context> contexts;
    std::vector<SgeRecord> records;
    unsigned fetched = 0;
    unsigned fatals = 0;
    bool busy = false; ///< fetch_slot() returns busy

private:
    FakeHost& host_;
};

class FakeStream : public RdmaStream {
public:
    void send_record(Tid, Packet&& fpdu) override {
        if (fin)
            throw std::logic_error("data after FIN");
        space = space > fpdu.size() ? space - fpdu.size() : 0;
        largest = std::max(largest, fpdu.size());
        records.emplace_back(fpdu.data(), fpdu.data() + fpdu.size());
    }
    [[nodiscard]] std::size_t send_space_or_wait(Tid) override { return space; }
    void send_fin(Tid) override { fin = true; }
    [[nodiscard]] std::uint32_t emss(Tid) const override { return segment; }

    std::deque<Buffer> records; ///< not yet delivered
    std::size_t space = 64 << 10;
    std::size_t largest = 0;
    std::uint32_t segment = 1460;
    bool fin = false;
};

using Words = std::vector<std::uint32_t>;

/// Parameters of RDMA_INIT that tests vary.
struct InitOptions {
    Tid tid = 0x12;
    QpId qp = 0x21;
    std::uint32_t pd = 1;
    CqId send_cq = 1, receive_cq = 2;
    std::uint32_t rq_addr = 0x400, rq_size = 16;
    std::uint8_t mpa_attrs = 0x0c; // IETF, CRC
    std::uint8_t caps = 0x1f;
    std::uint16_t emss = 1460;
    bool initiator = true;
    unsigned rtr = 0;
    std::uint16_t rqe_count = 0;
    std::uint32_t ord = 4, ird = 4;
    std::uint32_t slots = 32;
    std::uint32_t irs = 0x20000015;
};

struct Region {
    std::uint32_t stag = 0;
    std::uint64_t va = 0;
    std::vector<std::uint64_t> pages;
    std::uint32_t length = 0;
};

class Node {
public:
    explicit Node(InitOptions init)
        : options(init), sge(host), rnic(Rnic::Parts{host, events, sge, memory, stream, faults, counters}),
          ring(host.alloc(init.slots * slot_size)) {}

    /// RDMA_INIT as in cxgb3's ring; the result is whether it is acknowledged.
    bool connect() { return connect(options.irs); }
    bool connect(std::uint32_t receive_seq) {
        const InitOptions& o = options;
        const Words words{0x10c00000,
                          0x80000009 | o.tid << 8,
                          0,
                          0,
                          o.qp,
                          o.pd,
                          o.send_cq,
                          o.receive_cq,
                          o.rq_addr,
                          o.rq_size,
                          std::uint32_t{o.mpa_attrs} << 24 | std::uint32_t{o.caps} << 16 | o.emss,
                          (std::uint32_t{o.initiator} | o.rtr << 2) << 16 | o.rqe_count,
                          o.ord,
                          o.ird,
                          static_cast<std::uint32_t>(ring >> 32),
                          static_cast<std::uint32_t>(ring),
                          o.slots,
                          o.irs};
        return rnic.offload_wr(o.tid, pack(words), receive_seq);
    }

    static Buffer pack(const Words& words) {
        Buffer out(4 * words.size());
        for (std::size_t i = 0; i < words.size(); ++i)
            put_be32(&out[4 * i], words[i]);
        return out;
    }

    /// Writes a slot: the words of a work request, to which the generations of this lap are added.
    void post(Words words) {
        const std::uint64_t slot = ring + slot_size * (wptr % options.slots);
        const bool generation = wptr / options.slots % 2 == 0;
        words[1] = (words[1] & 0x7fffffff) | (generation ? 0x80000000 : 0);
        host.put(slot, pack(words));
        put_be64(host.at(slot + 120, 8), generation);
        ++wptr;
    }
    void ring_doorbell() { rnic.doorbell(options.qp); }
    void run(const Words& words) {
        post(words);
        ring_doorbell();
    }

    /// A region of complete pages; @p va determines its offset in the first page. Pages are scattered.
    Region add_region(std::uint32_t stag, std::uint64_t va, std::uint32_t length, unsigned rights = 0xf,
                      unsigned page_code = 0) {
        const std::uint64_t page = 4096ULL << page_code;
        Region region{stag, va, {}, length};
        const std::uint32_t pbl = next_pbl;
        const std::uint64_t count = ((va & (page - 1)) + length + page - 1) / page;
        for (std::uint64_t i = 0; i < count; ++i) {
            host.alloc(4096); // a gap: adjacent pages of the region are not adjacent in memory
            region.pages.push_back(host.alloc(page, page));
            put_pbl(next_pbl++, region.pages.back());
        }
        put_tpt(stag, {0x80400000U | (stag & 0xff) << 23 | options.pd,
                       rights << 28 | 1U << 26 | 1U << 25 | page_code << 20, pbl, length,
                       static_cast<std::uint32_t>(va >> 32), static_cast<std::uint32_t>(va), 0, 0});
        next_pbl += 1;
        return region;
    }
    void put_tpt(std::uint32_t stag, const Words& words) { memory.put(tpt_address(stag), words); }
    [[nodiscard]] Words tpt(std::uint32_t stag) const { return memory.get(tpt_address(stag), 8); }
    static std::uint32_t tpt_address(std::uint32_t stag) { return 0x05000000 + 32 * (stag >> 8); }
    void put_pbl(std::uint32_t index, std::uint64_t page) {
        memory.put(0x07000000 + 8 * index,
                   {static_cast<std::uint32_t>(page >> 32), static_cast<std::uint32_t>(page)});
    }

    /// The host's view of bytes [va, va + size) of a region.
    std::uint8_t* byte(const Region& region, std::uint64_t va) {
        const std::uint64_t at = va - region.va + (region.va & 0xfff);
        return host.at(region.pages.at(at >> 12) + (at & 0xfff));
    }
    void fill(const Region& region, std::uint64_t va, Bytes data) {
        for (std::size_t i = 0; i < data.size(); ++i)
            *byte(region, va + i) = data[i];
    }
    Buffer contents(const Region& region, std::uint64_t va, std::size_t size) {
        Buffer out(size);
        for (std::size_t i = 0; i < size; ++i)
            out[i] = *byte(region, va + i);
        return out;
    }

    /// The calls to the SGE since the last call.
    std::vector<std::string> take_records() {
        std::vector<std::string> out;
        for (const SgeRecord& s : std::exchange(sge.records, {}))
            out.push_back(s.text());
        return out;
    }
    /// All records that have been sent and not delivered.
    std::vector<std::string> sent() {
        std::vector<std::string> out;
        for (const Buffer& record : std::exchange(stream.records, {})) {
            stream.space += record.size();
            out.push_back(SgeRecord::hex(record));
        }
        return out;
    }
    void offload(const Words& words) { rnic.offload_wr(options.tid, pack(words), 0); }
    void receive(Bytes data) { rnic.stream_in(options.tid, data); }

    InitOptions options;
    FakeHost host{16 << 20};
    FakeMemory memory;
    EventQueue events;
    FakeSge sge;
    FakeStream stream;
    Counters counters;
    Faults faults{counters};
    Rnic rnic;
    std::uint64_t ring;
    std::uint32_t wptr = 0;
    std::uint32_t next_pbl = 0x20;
};

inline InitOptions options_a() {
    return {};
}
inline InitOptions options_b() {
    InitOptions b;
    b.tid = 0x15;
    b.qp = 0x40;
    b.pd = 3;
    b.send_cq = 4;
    b.receive_cq = 5;
    b.rq_addr = 0x800;
    b.initiator = false;
    b.irs = 0x1000001a;
    return b;
}

/// Two connected nodes; settle() delivers their bytes.
class Connection {
public:
    explicit Connection(InitOptions init_a = options_a(), InitOptions init_b = options_b())
        : a(init_a), b(init_b) {}

    void connect() {
        a.connect();
        b.connect();
        b.rnic.stream_switched(b.options.tid);
    }
    /// Delivers all sent bytes, in pieces of at most @p cut bytes, until none remain.
    void settle(std::size_t cut = SIZE_MAX) {
        for (bool moved = true; moved;) {
            moved = deliver(a, b, cut);
            moved = deliver(b, a, cut) || moved;
            for (Node* node : {&a, &b})
                if (const auto next = node->events.next()) {
                    node->events.advance(*next);
                    moved = true;
                }
        }
    }
    Node a, b;

private:
    static bool deliver(Node& from, Node& to, std::size_t cut) {
        if (from.stream.records.empty())
            return false;
        Buffer record = std::move(from.stream.records.front());
        from.stream.records.pop_front();
        for (Bytes left = record; !left.empty();) {
            const std::size_t size = std::min(cut, left.size());
            to.receive(left.first(size));
            left = left.subspan(size);
        }
        from.stream.space += record.size();
        from.rnic.stream_writable(from.options.tid);
        return true;
    }
};

/// Work requests. post() sets the generation.
namespace wr {

struct Sge {
    std::uint32_t stag;
    std::uint64_t to;
    std::uint32_t length;
};

enum Flags : std::uint32_t {
    none = 0,
    signaled = 1 << 8,
    notify = 1 << 9,
    read_fence = 1 << 11,
    local_fence = 1 << 12
};

inline std::uint32_t head(unsigned opcode, std::uint32_t flags) {
    return opcode << 24 | 0xc00000 | flags;
}
inline std::uint32_t hi(std::uint64_t v) {
    return static_cast<std::uint32_t>(v >> 32);
}
inline std::uint32_t lo(std::uint64_t v) {
    return static_cast<std::uint32_t>(v);
}

inline void add_sges(Words& words, const std::vector<Sge>& sges) {
    for (const Sge& s : sges)
        words.insert(words.end(), {s.stag, s.length, hi(s.to), lo(s.to)});
}
inline std::uint32_t total(const std::vector<Sge>& sges) {
    std::uint32_t sum = 0;
    for (const Sge& s : sges)
        sum += s.length;
    return sum;
}
inline void add_inline(Words& words, Bytes data) {
    Buffer padded(data.begin(), data.end());
    padded.resize((data.size() + 7) / 8 * 8);
    for (std::size_t i = 0; i < padded.size(); i += 4)
        words.push_back(be32(&padded[i]));
}

inline Words send(std::uint32_t id, const std::vector<Sge>& sges, std::uint32_t flags = signaled,
                  unsigned op = 3, std::uint32_t inv = 0) {
    const auto n = static_cast<std::uint32_t>(sges.size());
    Words words{head(0x14, flags), 4 + 2 * n, id, 0, op << 24, inv, total(sges), n};
    add_sges(words, sges);
    return words;
}
inline Words send_inline(std::uint32_t id, Bytes data, std::uint32_t flags = signaled) {
    const auto size = static_cast<std::uint32_t>(data.size());
    Words words{head(0x14, flags), 4 + (size + 7) / 8, id, 0, 3 << 24, 0, size, 0};
    add_inline(words, data);
    return words;
}
inline Words write(std::uint32_t id, const std::vector<Sge>& sges, std::uint32_t stag, std::uint64_t to,
                   std::uint32_t flags = signaled) {
    const auto n = static_cast<std::uint32_t>(sges.size());
    Words words{head(0x11, flags), 5 + 2 * n, id, 0, 0, stag, hi(to), lo(to), total(sges), n};
    add_sges(words, sges);
    return words;
}
inline Words write_inline(std::uint32_t id, Bytes data, std::uint32_t stag, std::uint64_t to,
                          std::uint32_t flags = signaled) {
    const auto size = static_cast<std::uint32_t>(data.size());
    Words words{head(0x11, flags), 5 + (size + 7) / 8, id, 0, 0, stag, hi(to), lo(to), size, 0};
    add_inline(words, data);
    return words;
}
inline Words read(std::uint32_t id, const Sge& sink, std::uint32_t stag, std::uint64_t to,
                  std::uint32_t flags = 0, bool invalidate = false) {
    return {head(0x16, flags),
            6,
            id,
            0,
            1 << 24 | std::uint32_t{invalidate} << 16,
            stag,
            hi(to),
            lo(to),
            sink.stag,
            sink.length,
            hi(sink.to),
            lo(sink.to)};
}
inline Words receive(const std::vector<Sge>& sges, const std::vector<std::uint32_t>& pbl = {}) {
    Words words{head(0x17, signaled), 13, 0, 0, 0, static_cast<std::uint32_t>(sges.size())};
    add_sges(words, sges);
    words.resize(22);
    words.insert(words.end(), pbl.begin(), pbl.end());
    words.resize(26);
    return words;
}
/// The two of the offload queue: the initiator's zero-byte read, and the driver's TERMINATE.
inline Words ready_read(std::uint32_t tid) {
    return {0x16c00000, 0x80000006 | tid << 8, 0, 0, 1U << 24, 1, 0, 1, 1, 0, 0, 1};
}
inline Words terminate(std::uint32_t tid, std::uint32_t flags = signaled | notify) {
    return {0x14c00000 | flags, 0x80000005 | tid << 8, 0, 0, 7U << 24, 0, 4, 0, 0x01020000, 0};
}
inline Words local_inv(std::uint32_t id, std::uint32_t stag, std::uint32_t flags = signaled) {
    return {head(0x1a, flags), 3, id, 0, stag, 0};
}
inline Words fast_register(std::uint32_t id, std::uint32_t stag, std::uint64_t va, std::uint32_t length,
                           const std::vector<std::uint64_t>& pages, unsigned perms = 0xf, unsigned code = 0) {
    const auto n = static_cast<std::uint32_t>(pages.size());
    Words words{head(0x19, signaled),
                5 + n,
                id,
                0,
                stag,
                length,
                hi(va),
                lo(va),
                n << 24 | code << 16 | 1 << 8 | perms,
                0};
    for (std::uint64_t page : pages)
        words.insert(words.end(), {hi(page), lo(page)});
    return words;
}
inline Words bind(std::uint32_t id, std::uint32_t mr, std::uint32_t mw, std::uint64_t va,
                  std::uint32_t length, std::uint32_t pbl, unsigned perms = 3, unsigned type = 1) {
    return {head(0x18, signaled), 6, id, 0, type << 8 | perms, mr, mw, length, hi(va), lo(va), pbl, 0};
}

} // namespace wr

/// Bytes that differ from their neighbours and from those of another seed.
inline Buffer pattern(std::size_t size, unsigned seed = 1) {
    Buffer out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = static_cast<std::uint8_t>((i * 7 + i / 251 + seed * 37) & 0xff);
    return out;
}

inline Buffer from_hex(const std::string& text) {
    Buffer out;
    std::string digits;
    for (char c : text)
        if (c != ' ' && c != '\n') {
            digits += c;
            if (digits.size() == 2) {
                out.push_back(static_cast<std::uint8_t>(std::stoul(digits, nullptr, 16)));
                digits.clear();
            }
        }
    return out;
}

} // namespace t3sim::test
