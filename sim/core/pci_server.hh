// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A socket at which one guest at a time finds one PCI device: the part that does not depend on the protocol.
// It implements the transfers of Host on the memory that the guest shares, and divides accesses to the
// device.
#pragma once

#include <cstdint>
#include <string>

#include "sim/core/client_fd.hh"
#include "sim/core/counters.hh"
#include "sim/core/dma_table.hh"
#include "sim/core/host.hh"
#include "sim/core/worker.hh"

namespace t3sim {

/// Offset of a capability in config space; 0: none.
std::uint32_t find_capability(Device& device, std::uint8_t id);
std::uint16_t config_word(Device& device, std::uint32_t offset);

class PciServer : public Host {
public:
    PciServer(const PciServer&) = delete;
    PciServer& operator=(const PciServer&) = delete;

    /// Sets the device for all clients. The device must outlive the server's last event; the server, as the
    /// device's Host, must outlive the device. So create the server, then the device with it, then attach.
    virtual void attach(Device& device) = 0;
    [[nodiscard]] virtual bool connected() const = 0;
    /// Resets the device, as a function level reset does.
    virtual void reset_device();
    [[nodiscard]] const Counters& counters() const { return counters_; }

    // Host. With bus mastering disabled all transfers fail and no vector is raised, as on a real bus.
    bool dma_read(std::uint64_t addr, MutableBytes to) override;
    bool dma_write(std::uint64_t addr, Bytes from) override;
    bool dma_load(std::uint64_t addr, std::uint32_t& raw) override;
    bool dma_store(std::uint64_t addr, std::uint32_t raw) override;

protected:
    /// @p protocol: prefix of the counters.
    explicit PciServer(const std::string& protocol);

    static constexpr std::uint32_t num_bars = 6;
    static constexpr std::uint64_t config_size = 4096;

    [[nodiscard]] bool in_bar(unsigned bar, std::uint64_t offset, std::uint64_t count) const;
    /// Any part of a BAR, as accesses of 8, 4, 2 or 1 aligned bytes.
    void read_bar(unsigned bar, std::uint64_t offset, MutableBytes to);
    void write_bar(unsigned bar, std::uint64_t offset, Bytes data);
    void write_config(std::uint32_t offset, Bytes data);
    /// Reads the command register, which enables DMA.
    virtual void refresh_command();
    /// Ends the connection of a client that breaks the rules: later, because the device may be at work now.
    virtual void fail(const char* why) = 0;

    Device* device_ = nullptr;
    Worker worker_;
    DmaTable dma_{worker_};
    Signals signals_{worker_};
    bool bus_master_ = false;
    std::uint16_t command_ = 0;
    Counters counters_;
    Counter& messages_;
    Counter& interrupts_raised_;
    Counter& refused_;

private:
    bool bus_error(const char* what, std::uint64_t addr, std::size_t size);

    Counter& mmio_reads_;
    Counter& mmio_writes_;
    Counter& dma_reads_;
    Counter& dma_writes_;
    Counter& bus_errors_;
};

} // namespace t3sim
