// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The SGE's way to the host: eight response queues, the sixteen free lists that their buffers come from, the
// descriptor credits that ride on responses, and the arming of interrupts.
//
// Life of a message: post_*() writes it if the queue has a credit and the free list enough buffers, and
// nothing is waiting before it; else it waits, in order. Credits, buffers and GTS writes wake the queue up.
// Ethernet packets never wait: without room they are dropped. Past `waiting_high` messages the queue counts
// as congested, and the SGE stops taking work that could produce more; past `waiting_limit` or
// `waiting_bytes_limit` a message is lost and counted. The TOE takes no data from the wire from half of that
// on, so that only messages without data get there.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "sim/card/irq.hh"
#include "sim/card/nic.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/host.hh"
#include "sim/core/recorder.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

class Responses {
public:
    /// The TX queues of a queue set, as response descriptors number them.
    enum TxQueue : unsigned { ethernet = 0, offload = 1, control = 2 };
    static constexpr std::size_t waiting_high = 256, waiting_limit = 65536;
    /// The same of their bytes, each message counted with what it costs beyond its body.
    static constexpr std::size_t waiting_bytes_high = 4 << 20, waiting_bytes_limit = 8 << 20;

    /// @p drained is told that a queue is no longer congested.
    Responses(Host& host, EventQueue& events, RegisterBank& regs, Irq& irq, Counters& counters,
              std::function<void(unsigned queue)> drained);
    ~Responses();
    Responses(const Responses&) = delete;
    Responses& operator=(const Responses&) = delete;

    void add_hooks(RegisterHooks& hooks);
    void reset();
    /// From now on: what is recorded, and the machine as it is reached then.
    void record(Probe probe, Host& host) {
        probe_ = probe;
        host_ = &host;
    }

    // Contexts. Null: no such queue.
    [[nodiscard]] hw::Context* response_context(unsigned id) {
        return id < queues_.size() ? &queues_[id].context : nullptr;
    }
    [[nodiscard]] hw::Context* free_list_context(unsigned id) {
        return id < lists_.size() ? &lists_[id] : nullptr;
    }
    /// The size of a response queue was written: it starts anew, without credits.
    void restart(unsigned queue);

    bool post_packet(const RxPacket& packet);
    void post_cpl(unsigned queue, Bytes cpl);
    /// @p head: the first two words of the descriptor.
    void post_async(unsigned queue, std::array<std::uint32_t, 2> head,
                    std::span<const std::uint8_t, hw::cqe_size> cqe);

    /// Descriptors of a TX queue are free again. They are told at once if @p now, else when SG_CMDQ_CREDIT_TH
    /// says so, or with the next response.
    void return_credits(unsigned queue, TxQueue which, std::uint32_t count, bool now);
    [[nodiscard]] bool congested(unsigned queue) const {
        return queues_[queue].waiting.size() >= waiting_high;
    }
    /// So much waits that what comes from the wire should not be taken.
    [[nodiscard]] bool full(unsigned queue) const {
        return queue < queues_.size() && queues_[queue].waiting_bytes >= waiting_bytes_high;
    }
    /// Bytes that wait for the host, of all queues.
    [[nodiscard]] std::size_t waiting_bytes() const;
    /// New buffers may be in a free list.
    void free_list_doorbell(unsigned list);

    /// A DMA of the card hit no memory: counted, and latched in the PCIe error registers.
    void bus_error();

private:
    using Descriptor = std::array<std::uint8_t, hw::response_size>;
    struct Message {
        Descriptor descriptor{};
        Buffer body; ///< empty: all is in the descriptor
        [[nodiscard]] std::size_t cost() const { return sizeof *this + body.size(); }
    };
    struct Queue {
        hw::Context context{};
        std::uint32_t credits = 0;
        std::array<std::uint32_t, 3> tx_credits{};
        std::deque<Message> waiting;
        std::size_t waiting_bytes = 0;
        EventQueue::Id credit_timer, retry_timer;
    };
    enum class Room { yes, no_response, no_buffer, never };

    [[nodiscard]] bool ready(unsigned queue);
    void post(unsigned queue, Message&& message);
    Room try_post(unsigned queue, Message& message);
    void write_descriptor(unsigned queue, Descriptor& descriptor);
    Room write_buffers(unsigned queue, Descriptor& descriptor, std::span<const Bytes> pieces);
    Room find_buffers(unsigned list, std::size_t length);
    void interrupt(unsigned queue);
    void flush_credits(unsigned queue);
    void wake(unsigned queue);
    void wait_for_buffers(unsigned queue);
    void gts(std::uint32_t value);
    void credit_return(std::uint32_t value);

    Host* host_;
    EventQueue& events_;
    Probe probe_;
    RegisterBank& regs_;
    Irq& irq_;
    std::function<void(unsigned)> drained_;
    std::array<Queue, hw::queue_sets> queues_;
    std::array<hw::Context, hw::free_lists> lists_{};
    std::vector<std::uint64_t> buffers_; ///< what find_buffers() found
    Counter &responses_, &interrupts_, &bus_errors_, &lost_, &not_enabled_, &no_queue_, &starved_,
        &no_buffer_;
};

} // namespace t3sim
