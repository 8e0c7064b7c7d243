// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Host that reports accesses to the flight recorder and forwards them. In use only while recording.
#pragma once

#include <algorithm>

#include "sim/core/host.hh"
#include "sim/core/recorder.hh"

namespace t3sim {

class RecordedHost final : public Host {
public:
    explicit RecordedHost(Host& host) : host_(&host) {}
    /// Sets the probe and the host that accesses are forwarded to.
    void set_bus(Probe probe, Host& host) {
        probe_ = probe;
        host_ = &host;
    }

    bool dma_read(std::uint64_t addr, MutableBytes to) override {
        const bool done = host_->dma_read(addr, to);
        record(EventKind::dma_read, done, addr, to);
        return done;
    }
    bool dma_write(std::uint64_t addr, Bytes from) override {
        const bool done = host_->dma_write(addr, from);
        record(EventKind::dma_write, done, addr, from);
        return done;
    }
    bool dma_load(std::uint64_t addr, std::uint32_t& raw) override {
        const bool done = host_->dma_load(addr, raw);
        record(EventKind::dma_read, done, addr, word(raw));
        return done;
    }
    bool dma_store(std::uint64_t addr, std::uint32_t raw) override {
        const bool done = host_->dma_store(addr, raw);
        record(EventKind::dma_write, done, addr, word(raw));
        return done;
    }
    void raise_irq(unsigned vector) override {
        probe_({.kind = EventKind::interrupt, .where = vector});
        host_->raise_irq(vector);
    }
    void set_intx(bool asserted) override {
        probe_({.kind = EventKind::interrupt, .unit = 1, .where = asserted});
        host_->set_intx(asserted);
    }

private:
    /// Enough to recognise a descriptor or a pattern.
    static constexpr std::size_t shown = 32;

    static Bytes word(const std::uint32_t& raw) {
        return {reinterpret_cast<const std::uint8_t*>(&raw), sizeof raw};
    }
    void record(EventKind kind, bool done, std::uint64_t addr, Bytes data) const {
        probe_({.kind = kind,
                .flags = done ? std::uint16_t{0} : RecordHead::flag_failed,
                .where = addr,
                .length = static_cast<std::uint32_t>(data.size())},
               data.first(std::min(data.size(), shown)));
    }

    Host* host_;
    Probe probe_;
};

} // namespace t3sim
