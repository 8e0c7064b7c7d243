// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "card.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace probe {

namespace {

constexpr int page = 4096;
constexpr int connect_limit_ms = 10000;
constexpr unsigned queue_depth = 32;
constexpr const char* instance = "/sys/kernel/tracing/instances/t3accept";

using Clock = std::chrono::steady_clock;

Clock::time_point in_ms(int ms) {
    return Clock::now() + std::chrono::milliseconds(ms);
}
int ms_left(Clock::time_point until) {
    return static_cast<int>(std::max<long long>(
        0, std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count()));
}

[[noreturn]] void fail(const char* what, int error = errno) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

// A mapping of the verbs device in this process.
struct Mapping {
    uintptr_t at = 0;
    size_t size = 0;
    bool readable = false;
};

std::vector<Mapping> mappings() {
    std::vector<Mapping> out;
    FILE* const file = std::fopen("/proc/self/maps", "re");
    if (!file)
        fail("/proc/self/maps");
    char line[512];
    while (std::fgets(line, sizeof(line), file)) {
        unsigned long from = 0, to = 0;
        char mode[8] = {};
        if (std::strstr(line, "/dev/infiniband/uverbs") &&
            std::sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3)
            out.push_back({from, to - from, mode[0] == 'r'});
    }
    std::fclose(file);
    return out;
}

// Those that were not there before.
std::vector<Mapping> added(const std::vector<Mapping>& before) {
    std::vector<Mapping> out;
    for (const auto& now : mappings())
        if (std::ranges::none_of(before, [&](const Mapping& old) { return old.at == now.at; }))
            out.push_back(now);
    return out;
}

template <class T> void store(volatile uint8_t* at, T value) {
    *reinterpret_cast<volatile T*>(at) = value;
}

bool contains_all(const std::string& line, const std::vector<std::string>& words) {
    return std::ranges::all_of(words, [&](const std::string& word) { return line.find(word) != line.npos; });
}

void write_file(const std::string& path, const char* text) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        throw NotObserved{"the kernel has no " + path};
    const bool written = write(fd, text, std::strlen(text)) > 0;
    close(fd);
    if (!written)
        throw NotObserved{path + " cannot be written"};
}

} // namespace

__be32 to_be32(uint32_t value) {
    return htobe32(value);
}
__be64 to_be64(uint64_t value) {
    return htobe64(value);
}

// ---- completion queues

CqMemory::CqMemory(ibv_context* context, int entries, ibv_comp_channel* channel) {
    const auto before = mappings();
    cq_ = ibv_create_cq(context, entries, nullptr, channel, 0);
    if (!cq_)
        fail("ibv_create_cq");
    const auto now = added(before);
    if (now.size() != 1)
        throw NotObserved{"the memory of a completion queue was not found"};
    ring_ = reinterpret_cast<const volatile uint32_t*>(now[0].at);
    size_ = std::bit_ceil(static_cast<unsigned>(cq_->cqe));
}

CqMemory::~CqMemory() {
    ibv_destroy_cq(cq_);
}

Cqe CqMemory::at(unsigned index) const {
    const volatile uint32_t* const entry = ring_ + size_t{index} * (T3_CQE_BYTES / sizeof(uint32_t));
    Cqe out;
    out.header = be32toh(entry[0]);
    std::atomic_thread_fence(std::memory_order_acquire);
    out.length = be32toh(entry[1]);
    out.word2 = be32toh(entry[2]);
    out.word3 = be32toh(entry[3]);
    return out;
}

bool CqMemory::generation(unsigned index) const {
    return at(index).header & T3_CQE_GEN;
}

std::optional<Cqe> CqMemory::next(int ms) {
    const auto until = in_ms(ms);
    const bool wanted = !(consumed_ / size_ & 1);
    while (generation(consumed_ % size_) != wanted) {
        if (Clock::now() > until)
            return std::nullopt;
        usleep(1000);
    }
    return at(consumed_++ % size_);
}

// ---- memory

Region::Region(ibv_pd* pd, size_t size, int access)
    : bytes_(static_cast<uint8_t*>(std::aligned_alloc(page, (size + page - 1) / page * page))), size_(size) {
    std::memset(bytes_, 0, size);
    mr_ = ibv_reg_mr(pd, bytes_, size, access);
    if (!mr_)
        fail("ibv_reg_mr");
}

Region::~Region() {
    ibv_dereg_mr(mr_);
    std::free(bytes_);
}

bool Region::holds(const Bytes& expected, size_t at) const {
    return at + expected.size() <= size_ && std::equal(expected.begin(), expected.end(), bytes_ + at);
}

// ---- tracepoints

Trace::Trace() {
    if (mkdir(instance, 0700) && errno != EEXIST)
        throw NotObserved{"tracefs is not there, or has no instances: " + std::string(std::strerror(errno))};
    const std::string folder = instance;
    write_file(folder + "/trace", "\n");
    write_file(folder + "/events/iw_cxgb3_cm/enable", "1");
    write_file(folder + "/events/iw_cxgb3/t3_async_event/enable", "1");
    write_file(folder + "/events/iw_cxgb3/t3_mr/enable", "1");
    pipe_ = open((folder + "/trace_pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (pipe_ < 0)
        throw NotObserved{"the trace cannot be read"};
}

Trace::~Trace() {
    if (pipe_ >= 0)
        close(pipe_);
    rmdir(instance); // switches the events off
}

void Trace::read() {
    char part[8192];
    for (ssize_t n; (n = ::read(pipe_, part, sizeof(part))) > 0;)
        rest_.append(part, static_cast<size_t>(n));
    for (size_t end; (end = rest_.find('\n')) != rest_.npos; rest_.erase(0, end + 1))
        lines_.push_back(rest_.substr(0, end));
}

bool Trace::wait(const std::vector<std::string>& words, int ms, size_t count) {
    const auto until = in_ms(ms);
    for (;;) {
        read();
        if (with(words).size() >= count)
            return true;
        if (Clock::now() > until)
            return false;
        usleep(5000);
    }
}

std::vector<std::string> Trace::with(const std::vector<std::string>& words) const {
    std::vector<std::string> out;
    std::ranges::copy_if(lines_, std::back_inserter(out),
                         [&](const std::string& line) { return contains_all(line, words); });
    return out;
}

// ---- connections

Connection::Connection(Peer& peer, const std::string& address, uint16_t port, const Options& options)
    : peer_(peer), options_(options), port_(port), events_(rdma_create_event_channel()) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &address_.sin_addr);
    if (!events_ || rdma_create_id(events_, options.passive ? &listener_ : &id_, nullptr, RDMA_PS_TCP))
        fail("rdma_create_id");
    try {
        options.passive ? await_request() : resolve();
        set_up();
    } catch (...) {
        release();
        throw;
    }
}

void Connection::resolve() {
    if (rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&address_), 5000) ||
        !wait_event(RDMA_CM_EVENT_ADDR_RESOLVED, connect_limit_ms))
        throw std::runtime_error("the address was not resolved");
    if (rdma_resolve_route(id_, 5000) || !wait_event(RDMA_CM_EVENT_ROUTE_RESOLVED, connect_limit_ms))
        throw std::runtime_error("the route was not resolved");
}

void Connection::await_request() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = address_.sin_port;
    if (rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&own)) || rdma_listen(listener_, 4))
        fail("rdma_listen");
    peer_.connect(port_);
    Startup request;
    request.flags = MPA_FLAG_CRC | MPA_FLAG_ENHANCED;
    request.revision = MPA_REVISION_2;
    request.ird = 4 | MPA_V2_IRD_PEER2PEER;
    request.ord = 4 | MPA_V2_ORD_RTR_READ;
    peer_.send(startup_frame(MPA_KEY_REQUEST, request));
    if (!wait_event(RDMA_CM_EVENT_CONNECT_REQUEST, connect_limit_ms))
        throw std::runtime_error("no connect request came");
}

Connection::~Connection() {
    // The destruction of a queue pair in error waits until its peer has closed.
    try {
        peer_.reset();
    } catch (const std::exception&) {
    }
    release();
}

void Connection::release() {
    if (id_ && id_->qp)
        rdma_destroy_qp(id_);
    send_cq_.reset();
    receive_cq_.reset();
    if (channel_)
        ibv_destroy_comp_channel(channel_);
    if (pd_ && pd_ != options_.pd)
        ibv_dealloc_pd(pd_);
    if (id_)
        rdma_destroy_id(id_);
    if (listener_)
        rdma_destroy_id(listener_);
    rdma_destroy_event_channel(events_);
}

void Connection::set_up() {
    pd_ = options_.pd ? options_.pd : ibv_alloc_pd(id_->verbs);
    if (!pd_)
        fail("ibv_alloc_pd");
    if (options_.events && !(channel_ = ibv_create_comp_channel(id_->verbs)))
        fail("ibv_create_comp_channel");
    send_cq_ = std::make_unique<CqMemory>(id_->verbs, options_.cqe, channel_);
    receive_cq_ = std::make_unique<CqMemory>(id_->verbs, options_.cqe, channel_);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = send_cq_->cq();
    attr.recv_cq = receive_cq_->cq();
    attr.cap.max_send_wr = attr.cap.max_recv_wr = queue_depth;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    const auto before = mappings();
    if (rdma_create_qp(id_, pd_, &attr))
        fail("rdma_create_qp");
    for (const auto& mapping : added(before)) {
        if (mapping.readable) {
            ring_ = reinterpret_cast<volatile uint8_t*>(mapping.at);
            slots_ = static_cast<unsigned>(mapping.size >> T3_WR_SLOT_SHIFT);
        } else {
            doorbell_ = reinterpret_cast<volatile uint8_t*>(mapping.at);
        }
    }
    if (!ring_ || !doorbell_)
        throw NotObserved{"the memory of a queue pair was not found"};
}

bool Connection::wait_event(rdma_cm_event_type type, int ms) {
    const auto until = in_ms(ms);
    for (;;) {
        pollfd p{events_->fd, POLLIN, 0};
        if (poll(&p, 1, ms_left(until)) <= 0)
            return false;
        rdma_cm_event* event;
        if (rdma_get_cm_event(events_, &event))
            fail("rdma_get_cm_event");
        const auto got = event->event;
        if (got == RDMA_CM_EVENT_CONNECT_REQUEST)
            id_ = event->id;
        rdma_ack_cm_event(event);
        if (got == type)
            return true;
    }
}

void Connection::connect() {
    peer_.listen(options_.receive_buffer);
    rdma_conn_param param{};
    param.initiator_depth = options_.reads;
    param.responder_resources = 4;
    if (rdma_connect(id_, &param))
        fail("rdma_connect");
    peer_.accept();
    Bytes& stream = peer_.receive(sizeof(mpa_frame) + sizeof(mpa_v2_params), connect_limit_ms);
    const auto request = take_startup(stream);
    if (!request)
        throw std::runtime_error("no MPA request came");
    Startup reply;
    reply.flags = options_.reply_flags;
    reply.revision = request->revision;
    if (request->flags & MPA_FLAG_ENHANCED) {
        reply.flags |= MPA_FLAG_ENHANCED;
        reply.ird = reply.ord = 4;
        if (options_.ready_message) {
            reply.ird |= MPA_V2_IRD_PEER2PEER;
            reply.ord |= MPA_V2_ORD_RTR_READ;
        }
    } else if (options_.ready_message) {
        throw NotObserved{"the driver's MPA request has revision 1"};
    }
    peer_.send(startup_frame(MPA_KEY_REPLY, reply));
    if (!wait_event(RDMA_CM_EVENT_ESTABLISHED, connect_limit_ms))
        throw std::runtime_error("the connection was not established");
}

void Connection::accept() {
    rdma_conn_param param{};
    param.initiator_depth = param.responder_resources = 4;
    if (rdma_accept(id_, &param))
        fail("rdma_accept");
    if (!wait_event(RDMA_CM_EVENT_ESTABLISHED, connect_limit_ms))
        throw std::runtime_error("the connection was not established");
    if (!take_startup(peer_.receive(sizeof(mpa_frame) + sizeof(mpa_v2_params), connect_limit_ms)))
        throw std::runtime_error("no MPA reply came");
}

void Connection::disconnect() {
    rdma_disconnect(id_);
}

void Connection::put(const void* request, unsigned flits, uint8_t opcode, uint8_t flags, uint32_t frame) {
    volatile uint8_t* const slot = ring_ + (size_t{next_ % slots_} << T3_WR_SLOT_SHIFT);
    const uint64_t generation = !(next_ / slots_ & 1);
    const size_t body =
        std::min<size_t>(flits, 13) * 8; // above are the status word and the second generation
    for (size_t i = 8; i < body; i++)
        slot[i] = static_cast<const uint8_t*>(request)[i];
    if (flits > 14) // only requests that no driver makes
        for (size_t i = body; i < T3_WR_GEN2_FLIT * 8; i++)
            slot[i] = static_cast<const uint8_t*>(request)[i];
    store<uint32_t>(slot, htobe32(uint32_t{opcode} << 24 | frame | uint32_t{flags} << 8));
    store<uint64_t>(slot + T3_WR_GEN2_FLIT * 8, htobe64(generation));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    store<uint32_t>(slot + 4, htobe32((generation ? T3_WR_GEN : 0) | flits));
    next_++;
}

void Connection::ring_doorbell(uint32_t add, size_t offset) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    store<uint32_t>(doorbell_ + offset, htole32(qp() + add));
}

void Connection::put_send(const Region* region, uint32_t length, uint8_t flags, uint8_t rdma_op) {
    t3_wr_send wr{};
    wr.rdma_op = rdma_op;
    wr.plen = to_be32(length);
    wr.id.hi = next_;
    unsigned flits = 4;
    if (length) {
        wr.num_sge = to_be32(1);
        wr.sge[0] = {to_be32(region->stag()), to_be32(length), to_be64(region->address())};
        flits += 2;
    }
    put(&wr, flits, T3_WR_OP_SEND, flags);
}

void Connection::post_send(const Region* region, uint32_t length, uint8_t flags, uint8_t rdma_op) {
    put_send(region, length, flags, rdma_op);
    ring_doorbell();
}

void Connection::put_receive(const Region& region, uint32_t length) {
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.sge[0] = {to_be32(region.stag()), to_be32(length), to_be64(region.address())};
    put(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
}

void Connection::put_read(const Region& sink, uint32_t length, uint8_t flags) {
    t3_wr_read wr{};
    wr.rdma_op = T3_RDMA_READ_REQ;
    wr.rem_stag = to_be32(0x1234);
    wr.rem_to = to_be64(0x5678);
    wr.local_stag = to_be32(sink.stag());
    wr.local_len = to_be32(length);
    wr.local_to = to_be64(sink.address());
    put(&wr, 6, T3_WR_OP_READ, flags);
}

std::vector<unsigned> Connection::error_statuses(const Trace& trace) const {
    std::vector<unsigned> out;
    for (const auto& line : trace.with({"t3_async_event: ", " qp " + std::to_string(qp()) + " "})) {
        const auto at = line.find("status ");
        const auto status = at == line.npos ? 0 : std::strtoul(line.c_str() + at + 7, nullptr, 0);
        if (status)
            out.push_back(static_cast<unsigned>(status));
    }
    return out;
}

bool Connection::wait_error(Trace& trace, int ms) {
    const auto until = in_ms(ms);
    do {
        trace.wait({"t3_async_event: ", " qp " + std::to_string(qp()) + " "}, 10);
        if (!error_statuses(trace).empty())
            return true;
    } while (Clock::now() < until);
    return false;
}

unsigned Connection::expect_error(Trace& trace, int ms) {
    if (!wait_error(trace, ms))
        throw NotObserved{"the card reported no error"};
    return error_statuses(trace).front();
}

} // namespace probe
