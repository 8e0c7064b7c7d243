// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A hostile guest for complete cards: two cards on two wires, driven by a stream of choices (a seeded
// generator, or a fuzzer's bytes). Random bytes never get past the first check, so the guest builds valid
// rings, contexts, work requests, table entries and TCP segments, and then mutates single fields.
//
// The cards must not crash, throw, loop forever, or need much time or memory for one action, and a chip reset
// must restore them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/card/card.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/recorder.hh"
#include "sim/net/wire.hh"
#include "tests/sim/choices.hh"
#include "tests/sim/fake_host.hh"
#include "tests/sim/hostile/effort.hh"

namespace t3sim::test {

class HostileGuest {
public:
    explicit HostileGuest(Choices& choices);
    ~HostileGuest();

    /// Brings both cards up as a driver would: queues, MACs, tables, a listener, regions for RDMA, a
    /// connection, and `first_sends` sends each way. All of it is valid, so fresh or reset cards execute all
    /// of it.
    void bring_up();
    static constexpr int first_sends = 6;
    /// After bring_up(): one more valid send from the first card to the second.
    void valid_send();
    /// Performs one random, often malformed, action.
    void step();
    /// Resets both cards and checks that they still respond.
    [[nodiscard]] bool responds();

    [[nodiscard]] std::string counters() const;
    [[nodiscard]] const Counters& counters(unsigned side) const { return sides_[side]->card.counters(); }

    /// What it all cost, without responds().
    [[nodiscard]] const Effort& effort() const { return effort_; }
    [[nodiscard]] const EventQueue& queue() const { return queue_; }
    /// Starts to record both cards; nullptr stops it.
    void record(Recorder* recorder);

private:
    struct Ring {
        std::uint32_t context; ///< egress context
        unsigned type;         ///< hw::EgressType
        std::uint64_t base;
        std::uint32_t size;
        std::uint32_t index = 0;
        std::uint32_t gen = 1;
    };
    struct Side {
        explicit Side(EventQueue& queue, unsigned number);
        FakeHost host;
        Card card;
        std::array<Ring, 8> rings{};
        std::uint64_t data = 0; ///< memory for buffers and all other referenced data
    };

    void write(Side& side, std::uint32_t reg, std::uint32_t value) {
        effort_.action_ends(); // the guest's own
        side.card.mmio_write(0, reg, 4, value);
        effort_.action_ends();
    }
    void take_step();
    void context(Side& side, std::uint32_t command, std::array<std::uint32_t, 4> words);
    void open_ring(Side& side, Ring& ring, bool clear);
    void post(Side& side, Ring& ring, Buffer wr, bool doorbell = true);
    void fill_free_lists(Side& side);
    void connect();
    void advance_random_time();
    void advance_time(Time time);

    Buffer cpl_wr();
    Buffer rdma_wr();
    Buffer send_wr();
    Buffer receive_wr();
    template <typename Wr> void fill_sges(Wr& wr, std::uint32_t valid_length = 0);
    Buffer control_wr();
    Buffer large_lso_wr(Side& side);
    Buffer nic_wr(Side& side);
    Buffer memory_write_wr(Side& side);
    Buffer wr_for(Side& side, const Ring& ring);
    void mutate(Buffer& bytes);
    void append_sgl(Side& side, Buffer& wr);
    Buffer frame();
    std::uint64_t address(Side& side);
    /// Whether to mutate a field this time.
    bool mutate_one_in(std::uint32_t n) { return !valid_only_ && choices_.one_in(n); }
    std::uint32_t tid() { return choices_.one_in(10) ? choices_.edge_value() & 0xfffff : choices_.below(4); }
    std::uint32_t stag() {
        return (valid_only_ ? 1 + choices_.below(7) : choices_.below(8)) << 8 |
               (mutate_one_in(8) ? choices_.below(256) : 0);
    }

    Choices& choices_;
    Effort effort_;
    bool valid_only_ = false;
    unsigned valid_writes_ = 0;
    EventQueue queue_;
    Wire wires_[Card::ports]{{queue_, "w0"}, {queue_, "w1"}};
    std::array<std::unique_ptr<Side>, 2> sides_;
    /// A third end of the first wire, which injects frames.
    struct RawPeer : Endpoint {
        void frame_in(Bytes) override {}
        void carrier(bool) override {}
    } raw_peer_;
};

} // namespace t3sim::test
