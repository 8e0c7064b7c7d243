// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The RDMA engine: what the firmware (work requests, RDMA_INIT, fences), ULP-TX (payload out of host memory
// into FPDUs) and ULP-RX (FPDUs into host memory) of a T3 do together. Section numbers in the sources are
// those of the card's RDMA facts; "[guess Gn]" marks a rule that no public source settles
// (docs/card-model.md lists them all).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "sim/card/engines.hh"
#include "sim/core/event_queue.hh"

namespace t3sim {

class Host;
class Counters;
struct Qp;

class Rnic final : public RnicServices {
public:
    /// All must outlive the Rnic.
    struct Parts {
        Host& host;
        EventQueue& events;
        SgeServices& sge;
        CardMemory& memory;
        RdmaStream& stream;
        Counters& counters; ///< "rnic.*"
    };
    struct Knobs {
        /// Acknowledge every RDMA_INIT, not only those with receives posted [guess G1].
        bool always_acknowledge_init = false;
    };

    explicit Rnic(const Parts& parts);
    Rnic(const Parts& parts, Knobs knobs);
    ~Rnic() override;
    Rnic(const Rnic&) = delete;
    Rnic& operator=(const Rnic&) = delete;

    /// Chip reset: forgets every connection and QP without a word to anybody.
    void reset();

    bool offload_wr(Tid tid, Bytes wr, std::uint32_t receive_seq) override;
    void control_wr(Bytes wr) override;
    void doorbell(QpId context) override;
    [[nodiscard]] bool rdma_mode(Tid tid) const override;
    void stream_switched(Tid tid) override;
    void stream_in(Tid tid, Bytes data) override;
    void stream_room(Tid tid) override;
    void close_requested(Tid tid) override;
    bool peer_closed(Tid tid) override;
    void connection_gone(Tid tid) override;

private:
    Parts parts_;
    Knobs knobs_;
    std::unordered_map<Tid, std::unique_ptr<Qp>> qps_;
    std::unordered_map<QpId, Tid> tid_of_;
};

} // namespace t3sim
