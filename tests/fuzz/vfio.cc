// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is what a client sends to the vfio-user server after a valid VERSION.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>

#include "sim/core/log.hh"
#include "sim/core/pci_config.hh"
#include "sim/vfio/server.hh"

namespace {

using namespace t3sim;

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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = set_log_levels("off", nullptr);
    (void)quiet;
    EventLoop loop;
    vfio::Server server(loop);
    Toy toy(server);
    server.attach(toy);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        std::abort();
    const Fd client(pair[0]);
    server.adopt(Fd(pair[1]));
    const struct {
        vfio::Header header;
        vfio::Version version;
    } hello{{.id = 1, .command = 1, .size = 20, .flags = 0, .error = 0}, {}};
    if (send(client.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        std::abort();
    std::uint8_t drain[4096];
    for (int idle = 0; idle < 3 && server.connected();) {
        const ssize_t sent = size != 0 ? send(client.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (sent > 0) {
            data += sent;
            size -= static_cast<std::size_t>(sent);
        }
        loop.run_once(0);
        bool got = false;
        while (recv(client.get(), drain, sizeof drain, MSG_DONTWAIT) > 0)
            got = true;
        idle = sent > 0 || got ? 0 : idle + 1;
    }
    return 0;
}
