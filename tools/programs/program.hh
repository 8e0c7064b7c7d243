// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The common part of the test programs: one connection over librdmacm, waits with a timeout, and one line of
// JSON as the result.
//
// A program is run twice, as "PROGRAM server [...]" and "PROGRAM client ADDRESS [...]". Each side prints one
// JSON object and exits 0 if its checks passed, 1 if not, 2 after wrong arguments. A watchdog ends a program
// that runs too long.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace prog {

// ---- result

class Json {
public:
    Json& add(const char* key, const std::string& text);
    Json& add(const char* key, const char* text) { return add(key, std::string(text)); }
    Json& add(const char* key, long long number);
    Json& add(const char* key, unsigned long long number) { return add(key, static_cast<long long>(number)); }
    Json& add(const char* key, int number) { return add(key, static_cast<long long>(number)); }
    Json& add(const char* key, unsigned number) { return add(key, static_cast<long long>(number)); }
    Json& add(const char* key, size_t number) { return add(key, static_cast<long long>(number)); }
    Json& add(const char* key, bool value);
    Json& add(const char* key, const std::vector<std::string>& list);

    // Prints the object with "ok" and exits.
    [[noreturn]] void finish(bool ok) const;

private:
    void key(const char* k);
    std::string text_;
};

[[noreturn]] void fail(const char* fmt, ...) __attribute__((format(printf, 1, 2)));

// Ends the program with a result when `seconds` have passed.
void start_watchdog(unsigned seconds);

// ---- arguments: ROLE [ADDRESS] and options of the form --name or --name=value

struct Args {
    Args(int argc, char** argv, const char* usage);
    bool server = false;
    std::string address;
    uint16_t port = 7472;
    bool has(const std::string& name) const;
    std::string value(const std::string& name, const std::string& fallback) const;
    int number(const std::string& name, int fallback) const;

private:
    std::vector<std::string> options_;
};

// ---- waiting

using Clock = std::chrono::steady_clock;
inline Clock::time_point in_ms(int ms) {
    return Clock::now() + std::chrono::milliseconds(ms);
}

bool wait_readable(int fd, Clock::time_point until);

// ---- one end of a connection

struct Caps {
    unsigned send_wr = 16, recv_wr = 16, sge = 4, inline_data = 64;
    int cqe = 128;
    bool events = false; // sleep on a completion channel instead of polling
    bool one_cq = false;
    bool extended = false; // by ibv_wr_*() and ibv_start_poll(), in a thread domain
};

class Memory;

// Memory of the peer for writes and reads; sent as private data of the accept, in network byte order.
struct Target {
    uint64_t addr;
    uint32_t rkey;
    uint32_t length;
} __attribute__((packed));

class Endpoint {
public:
    explicit Endpoint(const Caps& caps) : caps(caps) {}
    ~Endpoint();

    // Client: resolves and creates the QP. Post receives before connect().
    void resolve(const Args& args);
    // False if the peer rejected; peer_data has the private data of the reply in either case.
    bool connect(const void* data = nullptr, size_t length = 0);

    // Server: waits for a request and creates the QP; then accept() or reject().
    void await_request(const Args& args);
    void accept(const void* data = nullptr, size_t length = 0);
    void reject(const void* data, size_t length);

    // The next event of the connection manager, or none until then.
    struct Event {
        rdma_cm_event_type type;
        int status;
        std::vector<uint8_t> data;
    };
    std::optional<Event> next_event(Clock::time_point until);
    bool wait_disconnected(int ms);

    // The next completion of either CQ, or none until then.
    std::optional<ibv_wc> next_completion(Clock::time_point until);
    // The next completion, which must be successful and of this opcode.
    ibv_wc expect(ibv_wc_opcode opcode, int ms = 10000);

    // The next asynchronous event of the device, acknowledged, or none until then.
    std::optional<ibv_event_type> next_async_event(int ms);

    int post_recv(uint64_t wr_id, const std::vector<ibv_sge>& sg = {});
    int post_send(ibv_send_wr wr, const std::vector<ibv_sge>& sg = {});
    ibv_qp_state query_state();

    Caps caps;
    rdma_event_channel* events = nullptr;
    rdma_cm_id* listener = nullptr;
    rdma_cm_id* id = nullptr;
    ibv_pd* pd = nullptr; // a parent domain, if extended
    ibv_comp_channel* channel = nullptr;
    ibv_cq *send_cq = nullptr, *recv_cq = nullptr;
    std::vector<uint8_t> peer_data;
    int connect_error = 0; // errno of rdma_connect or rdma_accept

private:
    void set_up();
    void alloc_domains();
    ibv_cq* create_cq();
    int create_qp(ibv_qp_init_attr& attr);
    Event wait_for(rdma_cm_event_type wanted, int ms);

    ibv_td* td_ = nullptr;
    ibv_pd* real_pd_ = nullptr;
};

// ibv_post_send() and ibv_poll_cq() by the extended calls (extended_calls.cc).
int post_send_ex(ibv_qp* qp, const ibv_send_wr& wr);
int poll_cq_ex(ibv_cq* cq, ibv_wc& wc);

// Allocates whole pages, so that ibv_fork_init() does not remove other heap memory from children.
template <class T> struct WholePages {
    using value_type = T;
    static constexpr size_t page = 4096;
    T* allocate(size_t n) {
        if (void* memory = std::aligned_alloc(page, (n * sizeof(T) + page - 1) / page * page))
            return static_cast<T*>(memory);
        throw std::bad_alloc();
    }
    void deallocate(T* memory, size_t) { std::free(memory); }
    friend bool operator==(const WholePages&, const WholePages&) { return true; }
};

// Registered memory with a pattern to compare.
class Memory {
public:
    Memory(Endpoint& end, size_t bytes, int access);
    ~Memory();
    ibv_sge sge(size_t offset, size_t length) const;
    Target target() const;
    void fill(uint8_t seed);
    static uint8_t pattern(uint8_t seed, size_t i) { return static_cast<uint8_t>(seed + i * 7 + (i >> 8)); }

    bool matches(uint8_t seed, size_t offset, size_t length, size_t pattern_from = 0) const;

    std::vector<uint8_t, WholePages<uint8_t>> bytes;
    ibv_mr* mr = nullptr;
};

Target read_target(const std::vector<uint8_t>& data);

} // namespace prog
