// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A device for the fuzz targets of the servers.
#pragma once

#include "sim/core/host.hh"
#include "sim/core/pci_config.hh"

namespace t3sim {

/// Registers backed by memory; each write to BAR 2 starts a DMA that the value selects.
class Toy : public Device {
public:
    explicit Toy(Host& host) : host_(host) {
        config_.add_bar(0, 4096);
        config_.add_bar(2, 1 << 20);
        config_.add_msi(0x48, 1);
        config_.add_msix(0x9c, 9, 0, 0x800, 0xc00);
    }
    std::uint64_t bar_size(unsigned bar) const override { return config_.bar_size(bar); }
    unsigned msix_vectors() const override { return 9; }
    std::uint64_t mmio_read(unsigned, std::uint64_t offset, unsigned) override { return offset; }
    void mmio_write(unsigned bar, std::uint64_t offset, unsigned, std::uint64_t value) override {
        if (bar != 2)
            return;
        Buffer bytes(offset % 8192);
        host_.dma_read(value, bytes);
        host_.dma_write(value + 4096, bytes);
        host_.dma_store(value, 1);
        host_.raise_irq(offset % 16);
        host_.set_intx(offset % 2 != 0);
    }
    void config_read(std::uint32_t offset, MutableBytes to) override { config_.read(offset, to); }
    void config_write(std::uint32_t offset, Bytes from) override { config_.write(offset, from); }
    void reset() override { config_.reset(); }

private:
    Host& host_;
    PciConfig config_{{.vendor = 0x1425, .device = 0x36}, 1};
};

} // namespace t3sim
