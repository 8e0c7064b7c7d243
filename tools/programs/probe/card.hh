// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The end under test. Its objects are made through libibverbs and librdmacm, but the program reads completion
// queues and writes work requests in the shared memory itself, where it finds what verbs hide. A connection
// whose ring it has written is not used through libibverbs afterwards.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"
#include "peer.hh"

namespace probe {

// A point cannot be decided here; the text is the reason.
struct NotObserved {
    std::string why;
};

__be32 to_be32(uint32_t value);
__be64 to_be64(uint64_t value);

// An entry of a completion queue as the card wrote it.
struct Cqe {
    uint32_t header = 0, length = 0, word2 = 0, word3 = 0;
    unsigned status() const { return (header & T3_CQE_STATUS) >> 5; }
    unsigned opcode() const { return header & T3_CQE_OPCODE; }
    bool send_side() const { return header & T3_CQE_TYPE_SQ; }
};

class CqMemory {
public:
    CqMemory(ibv_context* context, int entries, ibv_comp_channel* channel = nullptr);
    ~CqMemory();
    CqMemory(const CqMemory&) = delete;
    CqMemory& operator=(const CqMemory&) = delete;

    // The next entry; nothing if none comes within the time.
    std::optional<Cqe> next(int ms);
    // The entry at this place of the ring, whatever its generation.
    Cqe at(unsigned index) const;
    bool generation(unsigned index) const;
    unsigned size() const { return size_; }
    ibv_cq* cq() const { return cq_; }

private:
    ibv_cq* cq_;
    const volatile uint32_t* ring_ = nullptr;
    unsigned size_ = 0, consumed_ = 0;
};

// Registered memory.
class Region {
public:
    Region(ibv_pd* pd, size_t size, int access);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    uint8_t* bytes() const { return bytes_; }
    uint64_t address() const { return reinterpret_cast<uintptr_t>(bytes_); }
    uint32_t stag() const { return mr_->rkey; }
    bool holds(const Bytes& expected, size_t at = 0) const;

private:
    uint8_t* bytes_;
    size_t size_;
    ibv_mr* mr_;
};

// Events of iw_cxgb3, by its tracepoints. Throws NotObserved if the kernel has none.
class Trace {
public:
    Trace();
    ~Trace();
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

    // Reads new lines of the trace. True as soon as `count` lines contain all words; false after the time.
    bool wait(const std::vector<std::string>& words, int ms, size_t count = 1);
    std::vector<std::string> with(const std::vector<std::string>& words) const;

private:
    void read();

    int pipe_ = -1;
    std::string rest_;
    std::vector<std::string> lines_;
};

// A connection of the card under test with the peer's socket.
class Connection {
public:
    struct Options {
        int cqe = 64;
        bool events = false;                // a completion channel
        unsigned receive_buffer = 0;        // of the peer
        uint8_t reply_flags = MPA_FLAG_CRC; // and MPA_FLAG_MARKERS
        bool ready_message = false;         // the reply requests the RTR read
        bool passive = false;               // the peer connects
        uint8_t reads = 4;                  // our ORD
        ibv_pd* pd = nullptr;               // of another connection, which outlives this one
        Options() {}
    };

    // Makes the objects; does not connect. Passive: the peer has sent an MPA request of revision 2 that
    // requests the RTR read.
    Connection(Peer& peer, const std::string& address, uint16_t port, const Options& options = Options());
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // The card connects, the peer replies.
    void connect();
    // Of a passive one. What comes after the MPA reply is not read yet.
    void accept();
    void disconnect();
    bool wait_event(rdma_cm_event_type type, int ms);

    // Writes a work request into the next slot. Flits: all of it. Without a doorbell.
    void put(const void* request, unsigned flits, uint8_t opcode, uint8_t flags,
             uint32_t extra_or_cleared = T3_WR_SOP | T3_WR_EOP);
    void ring_doorbell(uint32_t add = 0, size_t offset = 0);
    void post(const void* request, unsigned flits, uint8_t opcode, uint8_t flags) {
        put(request, flits, opcode, flags);
        ring_doorbell();
    }
    // Usual requests, with a doorbell.
    void post_send(const Region* region, uint32_t length, uint8_t flags = T3_WR_F_COMPLETION,
                   uint8_t rdma_op = T3_RDMA_SEND);
    void put_send(const Region* region, uint32_t length, uint8_t flags = T3_WR_F_COMPLETION,
                  uint8_t rdma_op = T3_RDMA_SEND);
    void put_receive(const Region& region, uint32_t length);
    void post_receive(const Region& region, uint32_t length) {
        put_receive(region, length);
        ring_doorbell();
    }
    void put_read(const Region& sink, uint32_t length, uint8_t flags = 0);

    // Async events of this queue pair with an error; needs the trace of before it was connected.
    std::vector<unsigned> error_statuses(const Trace& trace) const;
    // Waits for the first of them; its status.
    unsigned expect_error(Trace& trace, int ms = 5000);
    bool wait_error(Trace& trace, int ms);

    uint32_t qp() const { return id_->qp->qp_num; }
    ibv_pd* pd() const { return pd_; }
    CqMemory& sends() { return *send_cq_; }
    CqMemory& receives() { return *receive_cq_; }
    ibv_comp_channel* channel() const { return channel_; }
    rdma_cm_id* id() const { return id_; }

private:
    void resolve();
    void await_request();
    void set_up();
    void release();

    Peer& peer_;
    Options options_;
    uint16_t port_;
    sockaddr_in address_{};
    rdma_event_channel* events_;
    rdma_cm_id *id_ = nullptr, *listener_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_comp_channel* channel_ = nullptr;
    std::unique_ptr<CqMemory> send_cq_, receive_cq_;
    volatile uint8_t* ring_ = nullptr;
    volatile uint8_t* doorbell_ = nullptr;
    unsigned slots_ = 0, next_ = 0;
};

} // namespace probe
