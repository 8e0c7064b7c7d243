// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Which answer to an open question (docs/hw/open-questions.md) holds for the card of the client. The server
// is the other end, and needs no RDMA device. One line of JSON for each point:
//
//   {"point": "G12", "result": "as modelled", "answer": "ABORT messages come twice"}
//
// The result is "as modelled", "other", or "not observed", then with the reason as the answer. Options:
// --points=G12,G21 for some, --list for their names.
#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <random>
#include <rdma/ib_user_verbs.h>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "card.hh"
#include "include/hw/t3_cpl.h"
#include "include/hw/t3_tpt.h"
#include "include/uapi/t3_abi.h"
#include "memory.hh"
#include "program.hh"

using namespace probe;

namespace {

// quiet_ms: after so long without a message none comes any more. reply_limit_ms: for a message that must
// come.
constexpr int quiet_ms = 500;
constexpr int reply_limit_ms = 5000;
constexpr int probe_limit_s = 30;
constexpr int everything_limit_s = 600;
constexpr int questions_limit_s = 400; // without --seconds; no probe begins later

struct Answer {
    bool as_modelled;
    std::string text;
};

struct Case {
    Peer& peer;
    std::string address; // of the peer
    uint16_t port;
    // Prints the answer at once. For a probe whose objects may never end with one of the answers.
    std::function<Answer(const Answer&)> report;

    using Options = Connection::Options;
};

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
    char out[256];
    va_list list;
    va_start(list, format);
    std::vsnprintf(out, sizeof(out), format, list);
    va_end(list);
    return out;
}

constexpr int local = IBV_ACCESS_LOCAL_WRITE;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

Bytes pattern(size_t size) {
    Bytes out(size);
    for (size_t i = 0; i < size; i++)
        out[i] = static_cast<uint8_t>(0x41 + i % 23);
    return out;
}

Segment message(uint32_t msn, const Bytes& payload = {}) {
    Segment out;
    out.msn = msn;
    out.payload = payload;
    return out;
}

// The response to a read request.
Segment response_to(const Segment& request, const Bytes& payload = {}) {
    Segment out;
    out.opcode = RDMAP_READ_RESPONSE;
    out.stag = be32(&request.payload.at(0));
    out.to = be64(&request.payload.at(4));
    out.payload = payload;
    return out;
}

// A read request of no bytes.
Segment empty_read(uint32_t msn) {
    Segment out;
    out.opcode = RDMAP_READ_REQUEST;
    out.msn = msn;
    out.payload.assign(sizeof(rdmap_read_request), 0);
    out.payload[3] = out.payload[19] = 2; // both STags
    return out;
}

Segment terminate(size_t body) {
    Segment out;
    out.opcode = RDMAP_TERMINATE;
    out.payload.assign(body, 0);
    out.payload[0] = RDMAP_TERM_LAYER_RDMAP << RDMAP_TERM_LAYER_SHIFT | RDMAP_ETYPE_OPERATION;
    out.payload[1] = RDMAP_OP_UNSPECIFIED;
    return out;
}

Segment need(const std::vector<Segment>& got, uint8_t opcode) {
    for (const auto& segment : got)
        if (segment.opcode == opcode)
            return segment;
    throw NotObserved{text("the card sent no message of opcode %u", opcode)};
}

Cqe need(std::optional<Cqe> cqe, const char* what) {
    if (!cqe)
        throw NotObserved{text("no completion of %s", what)};
    return *cqe;
}

std::string arrival(unsigned opcode) {
    return text(" 0x%02x flits", opcode);
}

// Messages of this opcode since the trace began; waits until no more come.
size_t arrivals(Trace& trace, unsigned opcode) {
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(opcode)};
    size_t seen = trace.with(words).size();
    while (trace.wait(words, quiet_ms, seen + 1))
        seen = trace.with(words).size();
    return seen;
}

unsigned number_after(const std::string& line, const char* word) {
    const auto at = line.find(word);
    if (at == line.npos)
        throw NotObserved{text("the trace has no '%s'", word)};
    return static_cast<unsigned>(std::strtoul(line.c_str() + at + std::strlen(word), nullptr, 0));
}

// The TID of the connection that the trace shows.
unsigned tid_in(Trace& trace) {
    const std::vector<std::string> words{"t3_ep_transition: ", "established"};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"the trace shows no TID"};
    return number_after(trace.with(words).front(), "tid=");
}

// Sends datagrams to the discard port of an address.
class Datagrams {
public:
    explicit Datagrams(const std::string& address) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(9);
        inet_pton(AF_INET, address.c_str(), &to.sin_addr);
        error_ = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) ? errno : 0;
    }
    ~Datagrams() { close(fd); }
    Datagrams(const Datagrams&) = delete;
    Datagrams& operator=(const Datagrams&) = delete;
    // Of connect(), or 0.
    int error() const { return error_; }
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

private:
    int error_;
};

// The interface that leads to this address; empty if there is none.
std::string interface_to(const std::string& address) {
    const Datagrams datagrams(address);
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    std::string name;
    if (!datagrams.error() && !getsockname(datagrams.fd, reinterpret_cast<sockaddr*>(&own), &size)) {
        ifaddrs* all = nullptr;
        if (!getifaddrs(&all))
            for (const ifaddrs* one = all; one; one = one->ifa_next)
                if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
                    reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr ==
                        own.sin_addr.s_addr)
                    name = one->ifa_name;
        freeifaddrs(all);
    }
    return name;
}

// ---- the points, by number

Answer acknowledgement_of_init(Case& c) {
    size_t acks[2];
    for (const bool receives : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        Region memory(card.pd(), 64, local);
        if (receives)
            card.post_receive(memory, 64);
        card.connect();
        acks[receives] = arrivals(trace, T3_CPL_TX_DMA_ACK);
        c.peer.reset();
    }
    return {acks[0] == 1 && acks[1] == 2,
            text("acknowledgements of the MPA request and of RDMA_INIT: %zu without receives, %zu with one",
                 acks[0], acks[1])};
}

Answer acknowledgement_of_others(Case& c) {
    Trace trace;
    Case::Options options;
    options.ready_message = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    c.peer.send(response_to(need(c.peer.fpdus(1, reply_limit_ms), RDMAP_READ_REQUEST)));
    const size_t after_read = arrivals(trace, T3_CPL_TX_DMA_ACK);
    c.peer.send(message(7)); // the driver sends a TERMINATE
    need(c.peer.fpdus(1, reply_limit_ms), RDMAP_TERMINATE);
    const size_t after_terminate = arrivals(trace, T3_CPL_TX_DMA_ACK);
    return {after_read == 1 && after_terminate == 1,
            text("acknowledgements for the ready-to-receive read: %zu, for TERMINATE: %zu", after_read - 1,
                 after_terminate - after_read)};
}

Answer hold_of_the_responder(Case& c) {
    Case::Options options;
    options.passive = true;
    Connection card(c.peer, c.address, c.port, options);
    card.accept();
    card.post_send(nullptr, 0);
    const bool early = !c.peer.fpdus(1, quiet_ms).empty();
    c.peer.send(empty_read(1));
    const auto later = c.peer.fpdus(early ? 1 : 2, reply_limit_ms);
    need(later, RDMAP_READ_RESPONSE);
    if (!early)
        need(later, RDMAP_SEND);
    return {!early, early ? "a responder sends before the ready-to-receive message"
                          : "a responder's sends wait for the ready-to-receive message"};
}

Answer length_of_terminate(Case& c) {
    constexpr unsigned body = 20;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.send(terminate(body));
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(T3_CPL_RDMA_TERMINATE)};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"no RDMA_TERMINATE came"};
    const unsigned flits = number_after(trace.with(words)[0], "flits ");
    return {flits == (8 + body + 7) / 8, text("RDMA_TERMINATE with %u bytes counts %u flits", body, flits)};
}

Answer end_in_an_fpdu(Case& c) {
    size_t reports[2];
    for (const bool cut : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        card.connect();
        if (cut) {
            auto part = fpdu(message(1, pattern(40)));
            part.resize(20);
            c.peer.send(part);
        }
        c.peer.shut();
        if (!trace.wait({"t3_cpl_arrival: ", arrival(T3_CPL_PEER_CLOSE)}, reply_limit_ms))
            throw NotObserved{"no PEER_CLOSE came"};
        reports[cut] = arrivals(trace, T3_CPL_RDMA_EC_STATUS);
    }
    return {reports[0] == 0 && reports[1] == 1,
            text("RDMA_EC_STATUS after a clean close: %zu, after a FIN inside an FPDU: %zu", reports[0],
                 reports[1])};
}

Answer ring_at_the_close(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    for (int i = 0; i < 3; i++)
        card.put_send(nullptr, 0); // without a doorbell, so that only the close makes the card look
    card.disconnect();
    size_t sent = 0;
    for (const auto& segment : c.peer.fpdus(3, reply_limit_ms))
        sent += segment.opcode == RDMAP_SEND;
    return {sent == 3, text("%zu of 3 requests that were in the ring at the close were executed", sent)};
}

Answer copies_of_an_abort(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.reset();
    if (!trace.wait({"t3_cpl_arrival: ", arrival(T3_CPL_ABORT_REQ_RSS)}, reply_limit_ms))
        throw NotObserved{"no ABORT_REQ_RSS came"};
    const size_t copies = arrivals(trace, T3_CPL_ABORT_REQ_RSS);
    return c.report({copies == 2, text("ABORT_REQ_RSS comes %zu times", copies)});
}

Answer negative_advice(Case& c) {
    // cxgb3 programs four retransmissions before an advice; two more, to be sure.
    constexpr unsigned enough = 1 + 4 + 2;
    constexpr int unanswered_ms = 22000; // below probe_limit_s, with the rest
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.post_receive(memory, 64);
    c.peer.ignore_segments(true);
    const unsigned before = c.peer.info().dropped;
    card.post_send(nullptr, 0);
    const std::vector<std::string> words{"t3_cpl_arrival: ", arrival(T3_CPL_ABORT_REQ_RSS)};
    const auto until = prog::in_ms(unanswered_ms);
    unsigned copies = 0;
    bool came = false;
    do {
        came = trace.wait(words, quiet_ms);
        copies = c.peer.info().dropped - before;
    } while (!came && copies < enough && prog::Clock::now() < until);
    c.peer.ignore_segments(false);
    if (!came && copies < enough)
        throw NotObserved{
            text("the card sent a message only %u times in %d s", copies, unanswered_ms / 1000)};
    if (!came)
        return {true, text("no negative advice comes although a message was sent %u times", copies)};
    // An abort is the same message, but ends the connection.
    c.peer.send(message(1, pattern(8)));
    if (!card.receives().next(3000))
        throw NotObserved{text("the connection was aborted after a message was sent %u times", copies)};
    return {false, text("a negative advice comes after a message was sent %u times", copies)};
}

// REG_MR by write(), since libibverbs hides the page list's index.
class RawRegion {
public:
    RawRegion(ibv_pd* pd, void* memory, size_t size, int access = local) : context_(pd->context) {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_reg_mr command;
        } request{};
        alignas(8) uint8_t response[sizeof(ib_uverbs_reg_mr_resp) + sizeof(t3_reg_mr_resp)]{};
        request.header.command = IB_USER_VERBS_CMD_REG_MR;
        request.header.in_words = sizeof(request) / 4;
        request.header.out_words = sizeof(response) / 4;
        request.command.response = reinterpret_cast<uintptr_t>(response);
        request.command.start = request.command.hca_va = reinterpret_cast<uintptr_t>(memory);
        request.command.length = size;
        request.command.pd_handle = pd->handle;
        request.command.access_flags = static_cast<uint32_t>(access);
        if (write(context_->cmd_fd, &request, sizeof(request)) != static_cast<ssize_t>(sizeof(request)))
            throw NotObserved{std::string("REG_MR by write(): ") + std::strerror(errno)};
        ib_uverbs_reg_mr_resp core;
        t3_reg_mr_resp driver;
        std::memcpy(&core, response, sizeof(core));
        std::memcpy(&driver, response + sizeof(core), sizeof(driver));
        handle_ = core.mr_handle;
        stag = core.lkey;
        page_list = driver.pbl_addr;
    }
    ~RawRegion() {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_dereg_mr command;
        } request{};
        request.header.command = IB_USER_VERBS_CMD_DEREG_MR;
        request.header.in_words = sizeof(request) / 4;
        request.command.mr_handle = handle_;
        if (write(context_->cmd_fd, &request, sizeof(request)) < 0) {
        }
    }
    RawRegion(const RawRegion&) = delete;
    RawRegion& operator=(const RawRegion&) = delete;

    uint32_t stag, page_list;

private:
    ibv_context* context_;
    uint32_t handle_;
};

Answer form_of_a_receive(Case& c) {
    constexpr size_t size = 3 * 4096, at = 64;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), size, local); // only for its memory
    RawRegion region(card.pd(), memory.bytes(), size);
    trace.wait({"t3_mr: register", text("stag %#x ", region.stag)}, reply_limit_ms);
    const auto made = trace.with({"t3_mr: register", text("stag %#x ", region.stag)});
    if (made.empty())
        throw NotObserved{"the trace does not show the region"};
    const unsigned shift = number_after(made[0], "pages of 2^");
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.pagesz[0] = static_cast<uint8_t>(shift - 12);
    wr.pbl_addr[0] = to_be32(region.page_list);
    // An offset in the page of the list's index: not an address of the region.
    wr.sge[0] = {to_be32(region.stag), to_be32(at),
                 to_be64((memory.address() & ((uint64_t{1} << shift) - 1)) + at)};
    card.put(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    card.connect();
    const auto data = pattern(at);
    c.peer.send(message(1, data));
    const auto received = card.receives().next(reply_limit_ms);
    if (received && received->status() == 0 && memory.holds(data, at))
        return {true, "a receive with a page list index takes an offset in its page (form B)"};
    const auto errors = card.error_statuses(trace);
    return {false, text("a receive with a page list index is refused, status %#x",
                        errors.empty() ? 0 : errors.front())};
}

// Two regions of a page each: the receive names the first one and the page list of the second one.
Answer region_of_a_receive(Case& c) {
    constexpr size_t size = 4096, at = 64;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region named(card.pd(), size, local), listed(card.pd(), size, local); // only for their memory
    RawRegion first(card.pd(), named.bytes(), size), second(card.pd(), listed.bytes(), size);
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.pbl_addr[0] = to_be32(second.page_list);
    wr.sge[0] = {to_be32(first.stag), to_be32(at), to_be64(at)};
    card.put(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    card.connect();
    c.peer.send(message(1, pattern(at)));
    if (card.receives().next(2 * quiet_ms))
        return {false, listed.holds(pattern(at), at)
                           ? "a receive reaches a page list that is not its region's"
                           : "a receive with another region's page list is accepted"};
    return {true, text("a receive with another region's page list is refused, status %#x",
                       card.expect_error(trace))};
}

// A window of type 1. Throws NotObserved if the driver refuses it.
class Window {
public:
    explicit Window(ibv_pd* pd) : mw_(ibv_alloc_mw(pd, IBV_MW_TYPE_1)) {
        if (!mw_)
            throw NotObserved{std::string("no memory window (parameter memory_windows of iw_cxgb3): ") +
                              std::strerror(errno)};
    }
    ~Window() { ibv_dealloc_mw(mw_); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    uint32_t stag() const { return mw_->rkey; }

private:
    ibv_mw* mw_;
};

// Binds 64 bytes at the start of the region, with the page list entry this far behind the right one. Returns
// whether it succeeded.
bool bind_window(Connection& card, const Window& window, const RawRegion& region, uint64_t address,
                 uint32_t skip) {
    t3_wr_bind_mw wr{};
    wr.type = 1;
    wr.perms = T3_PERM_REMOTE_WRITE;
    wr.mr_stag = to_be32(region.stag);
    wr.mw_stag = to_be32(window.stag());
    wr.mw_len = to_be32(64);
    wr.mw_va = to_be64(address);
    wr.mr_pbl_addr = to_be32(region.page_list + skip);
    wr.mr_pagesz =
        static_cast<uint8_t>(std::countr_zero(static_cast<unsigned long>(sysconf(_SC_PAGESIZE))) - 12);
    card.post(&wr, 6, T3_WR_OP_BIND_MW, T3_WR_F_COMPLETION);
    return card.sends().next(2 * quiet_ms).has_value();
}

constexpr int bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

Answer page_list_of_a_bind(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 2 * 4096, local); // only for its memory
    RawRegion region(card.pd(), memory.bytes(), 2 * 4096, bindable);
    Window window(card.pd());
    card.connect();
    if (bind_window(card, window, region, memory.address(), 1))
        return {false, "a bind with a page list entry that is not the address's is accepted"};
    return {true, text("a bind with a page list entry that is not the address's is refused, status %#x",
                       card.expect_error(trace))};
}

Answer region_of_a_window(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 4096, local), inbox(card.pd(), 64, local);
    std::optional<RawRegion> region;
    region.emplace(card.pd(), memory.bytes(), 4096, bindable);
    Window window(card.pd());
    card.put_receive(inbox, 64);
    card.connect();
    if (!bind_window(card, window, *region, memory.address(), 0))
        throw NotObserved{text("the window cannot be bound, status %#x", card.expect_error(trace))};
    region.reset();
    Segment write;
    write.opcode = RDMAP_WRITE;
    write.stag = window.stag();
    write.to = memory.address();
    write.payload = pattern(8);
    c.peer.send(write);
    c.peer.send(message(1));
    if (card.receives().next(2 * quiet_ms))
        return {false, "a window is used after the end of its region"};
    return {true, text("a window ends with its region, status %#x", card.expect_error(trace))};
}

Answer invalidation_by_the_peer(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), 64, local);
    card.put_receive(region, 64);
    card.connect();
    Segment send = message(1);
    send.opcode = RDMAP_SEND_INV;
    send.stag = region.stag();
    c.peer.send(send);
    if (card.receives().next(2 * quiet_ms))
        return {false, "the peer invalidates a region that refuses it"};
    return {true, text("the peer cannot invalidate a region that refuses it, status %#x",
                       card.expect_error(trace))};
}

Answer check_of_a_receive(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.sge[0] = {to_be32(0x00ff0055), to_be32(64), to_be64(0x1000)};
    card.post(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    if (card.wait_error(trace, 2 * quiet_ms))
        return {true, text("a receive with a wrong STag fails when it is executed, status %#x",
                           card.error_statuses(trace)[0])};
    c.peer.send(message(1, pattern(8)));
    return {false, text("a receive with a wrong STag fails when its message comes, status %#x",
                        card.expect_error(trace))};
}

Answer right_of_a_read_sink(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region sink(card.pd(), 64, local);
    card.connect();
    card.put_read(sink, 64);
    card.ring_doorbell();
    c.peer.send(response_to(need(c.peer.fpdus(1, reply_limit_ms), RDMAP_READ_REQUEST), pattern(64)));
    if (card.sends().next(reply_limit_ms))
        return {sink.holds(pattern(64)), "local write suffices for the sink of a read"};
    return {false, text("local write does not suffice for the sink of a read, status %#x",
                        card.expect_error(trace))};
}

Answer stag_zero(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.put_receive(memory, 64);
    card.put_receive(memory, 64);
    card.connect();
    Segment write;
    write.opcode = RDMAP_WRITE;
    write.stag = 0x00ff0055;
    c.peer.send(write);
    c.peer.send(message(1));
    const bool unchecked = card.receives().next(2000).has_value();
    unsigned zero = 0;
    if (unchecked) {
        write.stag = 0;
        c.peer.send(write);
        c.peer.send(message(2));
        if (!card.receives().next(2000))
            zero = card.expect_error(trace);
    }
    if (!unchecked)
        return {false, text("a write of no bytes to an unknown STag is refused, status %#x",
                            card.expect_error(trace))};
    return {
        zero == T3_STATUS_STAG,
        zero ? text("writes of no bytes: an unknown STag is not checked, STag 0 is refused with status %#x",
                    zero)
             : "writes of no bytes: neither an unknown STag nor STag 0 is checked"};
}

Answer layout_of_an_rqe(Case& c) {
    constexpr uint32_t entry_bytes = 64, searched = 64 << 10, piece = 4096;
    constexpr uint32_t distance = 0x6000, size = T3_MAX_SGE * distance;
    const CardMemory memory(interface_to(c.address));
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), size, local);
    const auto tpt = find_entry(memory, region, size);
    // Lengths of two bytes, none of them 0. Different in each run, since old entries may still be there.
    std::random_device random;
    t3_wr_recv wr{};
    wr.num_sge = to_be32(T3_MAX_SGE);
    Bytes expected;
    uint32_t lengths[T3_MAX_SGE];
    for (uint32_t i = 0; i < T3_MAX_SGE; i++) {
        lengths[i] = (0x1000 * (i + 1) + random() % 0x1000) | 1;
        const uint64_t at = region.address() + i * distance + 0x123;
        wr.sge[i] = {to_be32(region.stag()), to_be32(lengths[i]), to_be64(at)};
        const uint64_t page = uint64_t{1} << tpt.page_shift;
        const uint64_t offset = (region.address() & (page - 1)) + (at - region.address());
        const uint64_t first = uint64_t{tpt.page_shift - T3_PAGE_CODE_SHIFT} << 59 | (offset & (page - 1));
        const uint64_t second = (tpt.page_list + (offset >> tpt.page_shift)) << 32 | lengths[i];
        for (const uint64_t value : {first, second})
            for (int shift = 56; shift >= 0; shift -= 8)
                expected.push_back(static_cast<uint8_t>(value >> shift));
    }
    card.connect();
    card.post(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    const auto has = [](const Bytes& entry, uint32_t length) {
        for (size_t i = 0; i + 1 < entry.size(); i++)
            if (be16(&entry[i]) == length || (entry[i + 1] << 8 | entry[i]) == static_cast<int>(length))
                return true;
        return false;
    };
    const auto until = prog::in_ms(reply_limit_ms); // the card may not have executed it yet
    do {
        for (uint32_t at = 0; at < searched; at += piece) {
            const auto words = memory.read(CardMemory::receive, rqt_base(tpt) + at, piece);
            if (!words)
                throw NotObserved{"the RQT is beyond the card's memory"};
            const auto bytes = tpt.swapped ? swapped(*words) : *words;
            for (auto from = bytes.begin(); from != bytes.end(); from += entry_bytes) {
                const Bytes entry(from, from + entry_bytes);
                if (std::ranges::all_of(lengths, [&](uint32_t length) { return has(entry, length); }))
                    return entry == expected
                               ? Answer{true, "an RQE has page code, offset, PBL index and length four times"}
                               : Answer{false, text("the RQE of lengths %#x, %#x, %#x, %#x is ", lengths[0],
                                                    lengths[1], lengths[2], lengths[3]) +
                                                   hex(entry)};
            }
        }
    } while (prog::Clock::now() < until);
    throw NotObserved{
        text("the RQT's first %u KiB have no entry with the lengths of a receive", searched >> 10)};
}

Answer length_in_entries(Case& c) {
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, all_access);
    card.connect();
    card.post_send(&memory, 48);
    const auto sent = need(card.sends().next(reply_limit_ms), "a send");
    card.put_read(memory, 32);
    card.ring_doorbell();
    c.peer.send(response_to(need(c.peer.fpdus(2, reply_limit_ms), RDMAP_READ_REQUEST), pattern(32)));
    const auto read = need(card.sends().next(reply_limit_ms), "a read");
    return {sent.length == 0 && read.length == 0 && read.word3 == 0,
            text("length of the entry of a send of 48 bytes: %u, of a read of 32: %u, its MSN: %u",
                 sent.length, read.length, read.word3)};
}

// A completion with an armed queue: the line of its async event.
std::string event_line(Trace& trace, Connection& card) {
    if (ibv_req_notify_cq(card.sends().cq(), 0))
        throw NotObserved{"ibv_req_notify_cq failed"};
    card.post_send(nullptr, 0);
    need(card.sends().next(reply_limit_ms), "a send");
    const std::vector<std::string> words{"t3_async_event: ", text(" qp %u ", card.qp())};
    if (!trace.wait(words, reply_limit_ms))
        throw NotObserved{"an armed completion queue gave no event"};
    return trace.with(words).front();
}

Answer words_of_an_event(Case& c) {
    Trace trace;
    Case::Options options;
    options.events = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    const auto line = event_line(trace, card);
    const unsigned flags = number_after(line, "flags "), index = number_after(line, "index ");
    const bool expected = (flags & T3_AE_ASYNC) && (flags & T3_AE_GEN) &&
                          !(flags & (T3_AE_NOTIFY | T3_AE_SOLICITED | T3_AE_OVERFLOW));
    return {expected && index == 1,
            text("the event of a queue's first entry has the flags %#x and the index %u", flags, index)};
}

Answer full_completion_queue(Case& c) {
    constexpr unsigned requests = 48; // fit the ring of the queue pair
    Case::Options options;
    options.cqe = 8;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    for (unsigned i = 0; i < requests; i++)
        card.put_send(nullptr, 0);
    card.ring_doorbell();
    if (c.peer.fpdus(requests, reply_limit_ms).size() < requests)
        throw NotObserved{"the card did not execute all requests"};
    const auto& cq = card.sends();
    const auto until = prog::in_ms(quiet_ms);
    while (cq.generation(0) && prog::Clock::now() < until)
        usleep(1000);
    unsigned size = 0; // after the ring there are zeros
    while (size < requests && cq.at(size).header)
        size++;
    if (size == requests)
        throw NotObserved{text("a completion queue has %u entries at least", size)};
    const bool overwritten = !cq.generation(0);
    return {overwritten,
            text("of a completion queue of %u entries %s", size,
                 overwritten ? "the first ones are overwritten" : "the last ones are not written")};
}

Answer arming_with_an_entry(Case& c) {
    Trace trace;
    Case::Options options;
    options.events = true;
    Connection card(c.peer, c.address, c.port, options);
    card.connect();
    const unsigned cq = number_after(event_line(trace, card), "cq ");
    const std::vector<std::string> words{"t3_async_event: ", text("cq %u ", cq)};
    card.post_send(nullptr, 0); // without arming: an entry, and no event
    need(card.sends().next(reply_limit_ms), "a send");
    const size_t before = trace.with(words).size();
    // The provider passes no second arming to the kernel before the program has read the event.
    pollfd readable{card.channel()->fd, POLLIN, 0};
    ibv_cq* cq_of_event = nullptr;
    void* context = nullptr;
    if (poll(&readable, 1, reply_limit_ms) != 1 || ibv_get_cq_event(card.channel(), &cq_of_event, &context))
        throw NotObserved{"the completion channel has no event"};
    ibv_ack_cq_events(cq_of_event, 1);
    if (ibv_req_notify_cq(card.sends().cq(), 0))
        throw NotObserved{"ibv_req_notify_cq failed"};
    const bool at_once = trace.wait(words, quiet_ms, before + 1);
    card.post_send(nullptr, 0);
    if (!trace.wait(words, reply_limit_ms, before + 1))
        throw NotObserved{"the second arming had no effect"};
    return {before == 1 && !at_once,
            before != 1 ? "an event disarms nothing: the next entry gave one too"
            : at_once   ? "arming with entries in the queue gives an event at once"
                        : "an event disarms the queue; arming with entries in it gives no event"};
}

Answer doorbell_page(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const auto rings = [&](uint32_t add, size_t offset) {
        card.put_send(nullptr, 0);
        card.ring_doorbell(add, offset);
        const bool seen = !c.peer.fpdus(1, 2 * quiet_ms).empty();
        if (!seen) { // execute it, for the next one
            card.ring_doorbell();
            c.peer.fpdus(1, reply_limit_ms);
        }
        return seen;
    };
    if (!rings(0, 0))
        throw NotObserved{"the usual doorbell has no effect"};
    const bool offset = rings(0, 64);
    const bool value = rings(1 << 16, 0); // the same id in the page, in no page that exists
    std::ifstream resources(std::string(card.id()->verbs->device->ibdev_path) + "/device/resource");
    std::string line;
    unsigned long long from = 0, to = 0;
    for (int bar = 0; bar <= 2 && std::getline(resources, line); bar++)
        std::sscanf(line.c_str(), "%llx %llx", &from, &to);
    const unsigned long long size = to ? to - from + 1 : 0;
    return {offset && value && size == 8 << 20,
            text("BAR2 has %llu KiB; a doorbell at offset 64 of its page %s; a value of another page %s",
                 size >> 10, offset ? "works" : "is ignored",
                 value ? "counts modulo the page's ids" : "is ignored")};
}

Answer order_of_the_back_door(Case& c) {
    constexpr uint32_t size = 0x12a48; // not the same in both orders
    const CardMemory memory(interface_to(c.address));
    Connection card(c.peer, c.address, c.port); // only for its protection domain
    Region region(card.pd(), size, local);
    const bool swapped = find_entry(memory, region, size).swapped;
    return {!swapped, text("the back door reads words as %s-endian numbers", swapped ? "little" : "big")};
}

Answer error_statuses(Case& c) {
    unsigned status[2];
    for (const bool too_long : {false, true}) {
        Trace trace;
        Connection card(c.peer, c.address, c.port);
        Region memory(card.pd(), 64, local);
        card.put_receive(memory, 16);
        card.connect();
        c.peer.send(too_long ? message(1, pattern(64)) : message(3, pattern(8)));
        status[too_long] = card.expect_error(trace);
    }
    return {status[0] == T3_STATUS_MSN && status[1] == T3_STATUS_PDU_LEN,
            text("a wrong MSN has status %#x, a message longer than its receive %#x", status[0], status[1])};
}

Answer events_of_an_error(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    auto both = fpdu(message(5));
    const auto second = fpdu(message(6));
    both.insert(both.end(), second.begin(), second.end());
    c.peer.send(both);
    card.expect_error(trace);
    trace.wait({"t3_async_event: ", text(" qp %u ", card.qp()), "never"}, quiet_ms);
    const size_t events = card.error_statuses(trace).size();
    return {events == 1, text("two errors of a queue pair give %zu error events", events)};
}

Answer receive_behind_a_send(Case& c) {
    Trace trace;
    Case::Options options;
    options.reads = 1;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.put_read(memory, 16);
    card.put_read(memory, 16); // waits: ORD is 1
    card.put_receive(memory, 64);
    card.ring_doorbell();
    const auto sent = c.peer.fpdus(2, quiet_ms);
    need(sent, RDMAP_READ_REQUEST);
    if (sent.size() > 1)
        throw NotObserved{"the card sends more reads than ORD"};
    c.peer.send(message(1, pattern(8)));
    if (card.receives().next(2000))
        return {false, "a receive is executed although a read in front of it waits"};
    return {card.expect_error(trace) == T3_STATUS_NO_RECV, "receives wait after a read that waits"};
}

Answer completion_and_fence_of_reads(Case& c) {
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    card.put_read(memory, 16, T3_WR_F_COMPLETION);
    card.put_read(memory, 16, T3_WR_F_READ_FENCE);
    card.ring_doorbell();
    auto sent = c.peer.fpdus(2, quiet_ms);
    const bool fenced = sent.size() == 1;
    c.peer.send(response_to(need(sent, RDMAP_READ_REQUEST), pattern(16)));
    need(card.sends().next(reply_limit_ms), "a read");
    if (fenced)
        sent = c.peer.fpdus(1, reply_limit_ms);
    c.peer.send(response_to(sent.back(), pattern(16)));
    need(card.sends().next(reply_limit_ms), "a read");
    const bool more = card.sends().next(quiet_ms).has_value();
    return {fenced && !more,
            text("a read fence %s; the completion flag of a read %s", fenced ? "is honoured" : "is ignored",
                 more ? "gives a second entry" : "is ignored")};
}

Answer requests_before_init(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.post_send(nullptr, 0);
    card.connect();
    const bool sent = !c.peer.fpdus(1, 2 * quiet_ms).empty();
    return {sent, sent ? "requests from before RDMA_INIT are executed after it"
                       : "requests from before RDMA_INIT need another doorbell"};
}

Answer time_of_a_completion(Case& c) {
    constexpr uint32_t size = 48 << 10;
    Case::Options options;
    options.receive_buffer = 2048;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), size, local);
    card.connect();
    card.post_send(&memory, size); // far more than the peer's window
    const bool early = card.sends().next(2 * quiet_ms).has_value();
    const auto all = c.peer.fpdus(size, 1); // reads a part, so that the rest comes
    if (!early) {
        for (int i = 0; i < 200 && !card.sends().next(1); i++)
            c.peer.fpdus(8, 100);
    }
    return {early, early ? "a send completes before the peer has acknowledged it"
                         : "a send completes when the peer has acknowledged it"};
}

Answer number_of_a_state(Case& c) {
    constexpr unsigned modelled = 3; // of ESTABLISHED
    const CardMemory memory(interface_to(c.address));
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const unsigned state = TcbEntry(memory, tid_in(trace), card.id()).field(0, 0, 4); // T_STATE
    return {state == modelled, text("T_STATE of an established connection is %u", state)};
}

Answer origin_of_markers(Case& c) {
    constexpr size_t spacing = 512;
    Case::Options options;
    options.reply_flags = MPA_FLAG_CRC | MPA_FLAG_MARKERS;
    Connection card(c.peer, c.address, c.port, options);
    Region memory(card.pd(), 1200, local);
    std::fill_n(memory.bytes(), 1200, uint8_t{0xaa});
    card.connect();
    card.post_send(&memory, 1200);
    const auto stream = c.peer.receive(3 * spacing - 300, reply_limit_ms);
    for (size_t at = 0; at < spacing; at += 4) {
        // The second one's distance counts from the FPDU's length field, after a marker at the front.
        const size_t next = at + spacing, length_at = at ? 0 : sizeof(mpa_marker);
        if (next + 4 <= stream.size() && be16(&stream[at]) == 0 && be16(&stream[next]) == 0 &&
            be16(&stream[next + 2]) == next - length_at)
            return {at == 0, text("the first marker is at byte %zu of the stream of FPDUs", at)};
    }
    throw NotObserved{"the stream has no markers, although the peer requested them"};
}

Answer reuse_of_tids(Case& c) {
    constexpr size_t connections = 6;
    std::vector<unsigned> tids;
    for (size_t i = 0; i < connections; i++) {
        Trace trace;
        {
            Connection card(c.peer, c.address, c.port);
            card.connect();
            tids.push_back(tid_in(trace));
            c.peer.reset();
            arrivals(trace, T3_CPL_ABORT_REQ_RSS);
        }
    }
    const size_t distinct = std::set(tids.begin(), tids.end()).size();
    return {distinct == connections,
            text("%zu connections, one after the other, have %zu TIDs", connections, distinct)};
}

Answer octets_of_a_frame(Case& c) {
    constexpr int frames = 2000;
    constexpr unsigned payload = 1000, frame = payload + 8 + 20 + 14;
    const auto name = interface_to(c.address);
    const Datagrams datagrams(c.address);
    if (datagrams.error())
        throw NotObserved{std::string("connect: ") + std::strerror(datagrams.error())};
    // cxgb3 takes these from the MAC.
    const auto counter = [&](const char* what) {
        unsigned long long value = 0;
        std::ifstream("/sys/class/net/" + name + "/statistics/" + what) >> value;
        return value;
    };
    const auto octets = counter("tx_bytes"), packets = counter("tx_packets");
    const Bytes data(payload);
    for (int i = 0; i < frames; i++)
        while (send(datagrams.fd, data.data(), data.size(), 0) < 0 && errno != ECONNREFUSED)
            usleep(1000);
    const auto until = prog::in_ms(reply_limit_ms);
    while (counter("tx_packets") < packets + frames && prog::Clock::now() < until)
        usleep(10000);
    const auto sent = counter("tx_packets") - packets;
    if (sent < frames * 9 / 10 || sent > frames * 51 / 50)
        throw NotObserved{text("%llu frames were counted instead of %d", sent, frames)};
    // Other frames are few, and shorter than ours.
    const double each = static_cast<double>(counter("tx_bytes") - octets) / static_cast<double>(sent);
    const bool with_fcs = each > frame + 1;
    return {with_fcs, text("a frame of %u bytes counts %.1f octets: %s its FCS", frame, each,
                           with_fcs ? "with" : "without")};
}

Answer opcode_of_a_send(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    card.post_send(nullptr, 0, T3_WR_F_COMPLETION, T3_RDMA_SEND_SE);
    const auto cqe = need(card.sends().next(reply_limit_ms), "a send");
    return {cqe.opcode() == T3_RDMA_SEND_SE,
            text("a send with solicited event completes with opcode %u", cqe.opcode())};
}

Answer order_of_terminate(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    c.peer.send(terminate(4));
    const std::vector<std::string> event{"t3_async_event: ", text(" qp %u RQ opcode 7 ", card.qp())};
    const std::vector<std::string> message{"t3_cpl_arrival: ", arrival(T3_CPL_RDMA_TERMINATE)};
    if (!trace.wait(event, reply_limit_ms) || !trace.wait(message, reply_limit_ms))
        throw NotObserved{"not both of RDMA_TERMINATE and its event came"};
    const auto lines = trace.with({""});
    const auto place = [&](const std::vector<std::string>& words) {
        return std::ranges::find(lines, trace.with(words).front()) - lines.begin();
    };
    const bool first = place(message) < place(event);
    return {first, first ? "RDMA_TERMINATE comes before its async event"
                         : "RDMA_TERMINATE comes after its async event"};
}

Answer segment_of_an_fpdu(Case& c) {
    constexpr unsigned requests = 10;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 64, local);
    card.connect();
    const unsigned before = c.peer.info().data_segments_in;
    for (unsigned i = 0; i < requests; i++)
        card.put_send(&memory, 64);
    card.ring_doorbell(); // all at once
    if (c.peer.fpdus(requests, reply_limit_ms).size() < requests)
        throw NotObserved{"not all messages came"};
    const unsigned segments = c.peer.info().data_segments_in - before;
    return {segments == requests, text("%u FPDUs came in %u TCP segments", requests, segments)};
}

Answer options_of_tcp(Case& c) {
    Connection card(c.peer, c.address, c.port);
    card.connect();
    const auto info = c.peer.info();
    return {!info.timestamps && !info.sack && info.window_scale,
            text("options of TCP: window scale %s, timestamps %s, SACK %s", info.window_scale ? "yes" : "no",
                 info.timestamps ? "yes" : "no", info.sack ? "yes" : "no")};
}

// These are requests that no driver makes, so they come last.

Answer two_slots(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    t3_wr_send wr{};
    wr.rdma_op = T3_RDMA_SEND;
    card.put(&wr, 4, T3_WR_OP_SEND, T3_WR_F_COMPLETION, T3_WR_SOP);
    card.ring_doorbell();
    if (const auto sent = c.peer.fpdus(1, quiet_ms); !sent.empty() && sent[0].opcode == RDMAP_SEND)
        return {false, "a request without the end mark is executed"};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL, text("a request without the end mark has status %#x", status)};
}

Answer long_inline(Case& c) {
    constexpr uint32_t length = 72;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    card.connect();
    uint8_t slot[T3_WR_SLOT_BYTES] = {};
    t3_wr_send wr{};
    wr.rdma_op = T3_RDMA_SEND;
    wr.plen = to_be32(length);
    std::memcpy(slot, &wr, sizeof(wr));
    std::memset(slot + 32, 0x55, length);
    card.put(slot, 4 + length / 8, T3_WR_OP_SEND, T3_WR_F_COMPLETION);
    card.ring_doorbell();
    if (const auto sent = c.peer.fpdus(1, 2 * quiet_ms); !sent.empty() && sent[0].opcode == RDMAP_SEND)
        return {false, text("%u bytes of inline data are sent as %zu", length, sent[0].payload.size())};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL, text("%u bytes of inline data have status %#x", length, status)};
}

// Zeroes for entry 0 of the TPT, which is always zero.
Answer memory_write_in_a_ring(Case& c) {
    constexpr uint32_t size = 0x12a48;
    const CardMemory memory(interface_to(c.address));
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region region(card.pd(), size, local);
    const auto tpt = find_entry(memory, region, size);
    card.connect();
    t3_wr_bypass wr{};
    wr.cmd_addr = to_be32(T3_MEM_CMD_WRITE << 28 | tpt.base / T3_MEM_UNIT);
    wr.cmd_len = to_be32(1U << 28 | 5);
    card.post(&wr, 7, T3_WR_OP_BYPASS, T3_WR_F_COMPLETION);
    if (card.sends().next(2 * quiet_ms))
        return {false, "a memory write in the ring of a queue pair is executed"};
    const unsigned status = card.expect_error(trace, 2000);
    return {status == T3_STATUS_INTERNAL,
            text("a memory write in the ring of a queue pair has status %#x", status)};
}

struct Point {
    unsigned number;
    Answer (*ask)(Case&);
};
constexpr Point points[] = {
    {1, acknowledgement_of_init},
    {2, acknowledgement_of_others},
    {5, hold_of_the_responder},
    {9, length_of_terminate},
    {10, end_in_an_fpdu},
    {11, ring_at_the_close},
    {14, negative_advice},
    {16, form_of_a_receive},
    {17, check_of_a_receive},
    {18, right_of_a_read_sink},
    {19, stag_zero},
    {20, layout_of_an_rqe},
    {21, length_in_entries},
    {22, words_of_an_event},
    {23, full_completion_queue},
    {24, arming_with_an_entry},
    {25, doorbell_page},
    {27, order_of_the_back_door},
    {28, error_statuses},
    {29, events_of_an_error},
    {32, receive_behind_a_send},
    {34, completion_and_fence_of_reads},
    {35, requests_before_init},
    {36, time_of_a_completion},
    {37, number_of_a_state},
    {39, origin_of_markers},
    {41, reuse_of_tids},
    {43, octets_of_a_frame},
    {45, opcode_of_a_send},
    {46, order_of_terminate},
    {49, segment_of_an_fpdu},
    {50, options_of_tcp},
    {56, page_list_of_a_bind},
    {57, region_of_a_window},
    {58, region_of_a_receive},
    {60, invalidation_by_the_peer},
    {30, two_slots},
    {33, long_inline},
    {59, memory_write_in_a_ring},
    {12, copies_of_an_abort}, // our driver needs the second copy; without it RDMA is down afterwards
};

std::string name(const Point& point) {
    return "G" + std::to_string(point.number);
}

void print(const Point& point, const char* result, const std::string& answer) {
    std::string escaped;
    for (const char letter : answer) {
        if (letter == '"' || letter == '\\')
            escaped += '\\';
        escaped += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    std::printf("{\"point\": \"%s\", \"result\": \"%s\", \"answer\": \"%s\"}\n", name(point).c_str(), result,
                escaped.c_str());
    std::fflush(stdout);
}

// In a process of its own, which may hang or crash.
void ask(const Point& point, const std::string& address, uint16_t port) {
    void* const shared =
        mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        prog::fail("mmap: %s", std::strerror(errno));
    bool& answered = *static_cast<bool*>(shared);
    const auto answer = [&](const char* result, const std::string& what) {
        if (!std::exchange(answered, true))
            print(point, result, what);
    };
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(probe_limit_s);
        try {
            Peer peer(address, port);
            const auto report = [&](const Answer& got) {
                answer(got.as_modelled ? "as modelled" : "other", got.text);
                return got;
            };
            Case c{peer, address, port, report};
            report(point.ask(c));
        } catch (const NotObserved& reason) {
            answer("not observed", reason.why);
        } catch (const std::exception& error) {
            answer("not observed", error.what());
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    answer("not observed", WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "the probe did not end"
                                                                              : "the probe crashed");
    munmap(shared, sizeof(bool));
}

std::set<std::string> split(const std::string& list) {
    std::set<std::string> out;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');)
        out.insert(part);
    return out;
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string(argv[1]) == "--list") {
        for (const auto& point : points)
            std::printf("%s\n", name(point).c_str());
        return 0;
    }
    const prog::Args args(argc, argv, "[--points=G12,G21] [--seconds=N] | --list");
    prog::start_watchdog(everything_limit_s);
    if (args.server) {
        if (!serve(args.port))
            prog::fail("the port %u is in use", args.port + 1);
        prog::Json().finish(true);
    }
    const auto wanted = split(args.value("points", ""));
    const int seconds = args.number("seconds", questions_limit_s);
    const auto until = prog::in_ms(1000 * seconds);
    for (const auto& point : points) {
        if (!wanted.empty() && !wanted.contains(name(point)))
            continue;
        if (prog::Clock::now() < until)
            ask(point, args.address, args.port);
        else
            print(point, "not observed", text("the %d s for all questions were over", seconds));
    }
    try {
        Peer(args.address, args.port).quit();
    } catch (const std::exception& error) {
        prog::fail("%s", error.what());
    }
    prog::Json().finish(true);
}
