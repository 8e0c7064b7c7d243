// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Output of the SGE to the host: eight response queues, the sixteen free lists of their buffers, the
// descriptor credits that responses return, and the arming of interrupts.
//
// post_*() writes a message if the queue has a credit, the free list has enough buffers and no other message
// waits; else the message waits, in order. Credits, buffers and GTS writes wake the queue. Ethernet packets
// never wait: they are dropped. Above `waiting_high` messages the queue is congested, and the SGE fetches no
// work that could produce more. Above `waiting_limit` or `waiting_bytes_limit` a message is lost and counted.
// Above half of that limit the TOE accepts no data from the wire, so only messages without data can reach it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sim/card/base/faults.hh"
#include "sim/card/base/irq.hh"
#include "sim/card/nic/nic.hh"
#include "sim/card/state.hh"
#include "sim/core/budget.hh"
#include "sim/core/counters.hh"
#include "sim/core/discard.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/host.hh"
#include "sim/core/recorder.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

class Responses {
public:
    /// The TX queues of a queue set, with the numbers of response descriptors.
    enum TxQueue : unsigned { ethernet = 0, offload = 1, control = 2 };
    static constexpr std::size_t waiting_high = 256, waiting_limit = 65536;
    /// The same limits in bytes, with Message::cost().
    static constexpr std::size_t waiting_bytes_high = 4 << 20, waiting_bytes_limit = 8 << 20;

    /// @p drained is called when a queue is no longer congested.
    Responses(Host& host, EventQueue& events, RegisterBank& regs, Irq& irq, Faults& faults,
              Counters& counters, std::function<void(unsigned queue)> drained);
    ~Responses();
    Responses(const Responses&) = delete;
    Responses& operator=(const Responses&) = delete;

    void add_hooks(RegisterHooks& hooks);
    void reset();
    /// Replaces the probe and the host.
    void set_bus(Probe probe, Host& host) {
        probe_ = probe;
        host_ = &host;
    }

    // Contexts. nullptr: no such queue.
    [[nodiscard]] hw::Context* response_context(unsigned id) {
        return id < queues_.size() ? &queues_[id].context : nullptr;
    }
    [[nodiscard]] hw::Context* free_list_context(unsigned id) {
        return id < lists_.size() ? &lists_[id] : nullptr;
    }
    /// Restarts a response queue without credits, after its size was written.
    void restart(unsigned queue);

    bool post_packet(const RxPacket& packet);
    void post_cpl(unsigned queue, Bytes cpl);
    /// @p head: the first two words of the descriptor.
    void post_async(unsigned queue, std::array<std::uint32_t, 2> head, const hw::CqeLayout& cqe);

    /// Returns descriptors of a TX queue to the host: at once if @p now, else as SG_CMDQ_CREDIT_TH specifies
    /// or with the next response.
    void return_credits(unsigned queue, TxQueue which, std::uint32_t count, bool now);
    [[nodiscard]] bool congested(unsigned queue) const {
        return queues_[queue].waiting.size() >= waiting_high;
    }
    /// Whether so much data waits that no more should be accepted from the wire.
    [[nodiscard]] bool full(unsigned queue) const {
        return queue < queues_.size() && queues_[queue].waiting_bytes >= waiting_bytes_high;
    }
    /// Bytes that wait for the host, in all queues.
    [[nodiscard]] std::size_t waiting_bytes() const;
    /// Free lists by number, then the response queues; nothing: has no size.
    [[nodiscard]] std::optional<RingState> ring_state(unsigned number) const;
    /// New buffers may be in a free list.
    void free_list_doorbell(unsigned list);

    /// Counts a failed DMA access and latches it in the PCIe error registers.
    void bus_error();

private:
    using Descriptor = std::array<std::uint8_t, hw::response_size>;
    struct Message {
        Descriptor descriptor{};
        Buffer body; ///< empty: the message is in the descriptor
        [[nodiscard]] std::size_t cost() const {
            constexpr std::size_t of_a_place = 24, of_a_block = 24; // beyond their bytes
            return sizeof *this + of_a_place + (body.empty() ? 0 : body.size() + of_a_block);
        }
    };
    struct Queue {
        hw::Context context{};
        std::uint32_t credits = 0;
        std::array<std::uint32_t, 3> tx_credits{};
        std::deque<Message> waiting; ///< usually empty, but may be long: then a Fifo is larger
        std::size_t waiting_bytes = 0;
        EventQueue::Id credit_timer, retry_timer, more_timer;
    };
    enum class Posted { done, no_response, no_buffer, impossible, later };

    void discard(Queue& queue);
    [[nodiscard]] bool ready(unsigned queue);
    void post(unsigned queue, Message&& message);
    Posted try_post(unsigned queue, Message& message);
    Posted post_now(unsigned queue, Message& message);
    void write_descriptor(unsigned queue, Descriptor& descriptor);
    Posted write_buffers(unsigned queue, Descriptor& descriptor, std::span<const Bytes> pieces);
    Posted find_buffers(unsigned list, std::size_t length);
    void interrupt(unsigned queue);
    void flush_credits(unsigned queue);
    void wake(unsigned queue);
    void wait_for_buffers(unsigned queue);
    void continue_later(unsigned queue);
    void gts(std::uint32_t value);
    void credit_return(std::uint32_t value);

    Host* host_;
    EventQueue& events_;
    Probe probe_;
    RegisterBank& regs_;
    Irq& irq_;
    const Guesses& guesses_;
    Lies& lies_;
    std::function<void(unsigned)> drained_;
    std::array<Queue, hw::queue_sets> queues_;
    std::array<hw::Context, hw::free_lists> lists_{};
    std::vector<std::uint64_t> buffers_; ///< result of find_buffers()
    Budget work_;                        ///< of an event, in bytes
    Counter &responses_, &interrupts_, &bus_errors_, &lost_, &not_enabled_, &no_queue_, &starved_,
        &no_buffer_;
    std::size_t discarded_bytes_ = 0; ///< that discard_ holds
    Discard discard_;
};

} // namespace t3sim
