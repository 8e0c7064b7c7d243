// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Host whose bus loses interrupts and delays writes, or is gone. It is in use from the injection of a bus
// fault until the next reset, while the card lies, and while it takes time (Timing). It keeps the ordering
// rules of PCI: writes and message-signaled interrupts stay in order; a read of the card that overlaps a
// delayed write, and a register read of the host (flush()), flush them.
#pragma once

#include <algorithm>
#include <deque>

#include "sim/card/base/faults.hh"
#include "sim/core/host.hh"

namespace t3sim {

class FaultyHost final : public Host {
public:
    FaultyHost(Host& host, EventQueue& events, Faults& faults, Counter& lost)
        : host_(host), events_(events), faults_(faults), lost_(lost) {}
    ~FaultyHost() override { events_.cancel(timer_); }
    FaultyHost(const FaultyHost&) = delete;
    FaultyHost& operator=(const FaultyHost&) = delete;

    bool dma_read(std::uint64_t addr, MutableBytes to) override {
        if (faults_.unplugged) [[unlikely]] {
            std::fill(to.begin(), to.end(), std::uint8_t{0});
            return false;
        }
        flush_overlapping(addr, to.size());
        return host_.dma_read(addr, to);
    }
    bool dma_load(std::uint64_t addr, std::uint32_t& raw) override {
        if (faults_.unplugged) [[unlikely]] {
            raw = 0;
            return false;
        }
        flush_overlapping(addr, sizeof raw);
        return host_.dma_load(addr, raw);
    }
    bool dma_write(std::uint64_t addr, Bytes from) override {
        if (faults_.unplugged) [[unlikely]]
            return true; // a write gets no reply
        if (late()) [[unlikely]] {
            post({.kind = Posted::Kind::write, .where = addr, .data = Buffer(from.begin(), from.end())});
            return true;
        }
        return host_.dma_write(addr, from);
    }
    bool dma_store(std::uint64_t addr, std::uint32_t raw) override {
        if (faults_.unplugged) [[unlikely]]
            return true;
        if (late()) [[unlikely]] {
            post({.kind = Posted::Kind::store, .where = addr, .word = raw});
            return true;
        }
        return host_.dma_store(addr, raw);
    }
    void raise_irq(unsigned vector) override {
        if (faults_.unplugged || faults_.interrupt.fires()) [[unlikely]]
            return;
        if (faults_.lies.any()) [[unlikely]] {
            for (const unsigned one : faults_.lies.interrupts(vector))
                raise(one);
        } else {
            raise(vector);
        }
    }
    /// INTx messages may be late but are never lost.
    void set_intx(bool asserted) override {
        if (faults_.unplugged) [[unlikely]]
            return;
        if (late()) [[unlikely]]
            post({.kind = Posted::Kind::pin, .where = asserted});
        else
            host_.set_intx(asserted);
    }

    /// Limits of the delayed operations: one read searches all of them, and one event executes them. In bytes
    /// each counts its data and operation_cost. Beyond a limit they are executed early.
    static constexpr std::size_t waiting_limit = 16U << 20, waiting_operations = 512;
    static constexpr std::size_t operation_cost = 128;
    [[nodiscard]] std::size_t waiting_bytes() const { return bytes_; }

    /// Executes all delayed operations.
    void flush();
    /// Discards all delayed operations, for a reset of the card.
    void drop() {
        posted_.clear();
        bytes_ = 0;
        events_.cancel(timer_);
    }

private:
    struct Posted {
        enum class Kind : std::uint8_t { write, store, interrupt, pin } kind;
        Time due = 0;
        std::uint64_t where = 0;
        std::uint32_t word = 0;
        Buffer data{};
    };

    [[nodiscard]] bool late() {
        if (faults_.dma.delays(events_) || faults_.timing.any()) [[unlikely]]
            return true;
        if (!posted_.empty()) [[unlikely]] // the delay is over, its timer has not run yet
            flush();
        return false;
    }
    void post(Posted&& what);
    void flush_due();
    void execute_first();
    void raise(unsigned vector) {
        if (late()) [[unlikely]]
            post({.kind = Posted::Kind::interrupt, .where = vector});
        else
            host_.raise_irq(vector);
    }
    /// Before a read of the card: flushes writes to the same range.
    void flush_overlapping(std::uint64_t addr, std::size_t size) {
        if (!posted_.empty()) [[unlikely]]
            flush_if_overlapping(addr, size);
    }
    void flush_if_overlapping(std::uint64_t addr, std::size_t size);

    Host& host_;
    EventQueue& events_;
    Faults& faults_;
    Counter& lost_;
    std::deque<Posted> posted_;
    std::size_t bytes_ = 0;
    EventQueue::Id timer_;
};

} // namespace t3sim
