// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/net/pcapng.hh"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>

#include "sim/core/log.hh"
#include "sim/core/time.hh"

namespace t3sim {
namespace {

spdlog::logger& pcap_log = logger("pcap");

// Block types and options of the pcapng specification.
constexpr std::uint32_t section_header = 0x0a0d0d0a;
constexpr std::uint32_t interface_description = 1;
constexpr std::uint32_t enhanced_packet = 6;
constexpr std::uint16_t opt_end = 0, opt_comment = 1;
constexpr std::uint16_t shb_userappl = 4;
constexpr std::uint16_t if_name = 2, if_tsresol = 9;
constexpr std::uint16_t linktype_ethernet = 1;

/// A block in host byte order, which the section header states, padded to 32 bits.
class Block {
public:
    explicit Block(std::uint32_t type) { u32(type).u32(0); }

    Block& u8(std::uint8_t v) { return add(&v, sizeof v); }
    Block& u16(std::uint16_t v) { return add(&v, sizeof v); }
    Block& u32(std::uint32_t v) { return add(&v, sizeof v); }
    Block& u64(std::uint64_t v) { return add(&v, sizeof v); }
    Block& padded(const void* data, std::size_t size) {
        add(data, size);
        bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
        return *this;
    }
    Block& option(std::uint16_t code, std::string_view value) {
        return u16(code).u16(static_cast<std::uint16_t>(value.size())).padded(value.data(), value.size());
    }
    /// Writes the total length at both ends.
    const Buffer& finish() {
        const auto length = static_cast<std::uint32_t>(bytes_.size() + 4);
        u32(length);
        std::memcpy(bytes_.data() + 4, &length, sizeof length);
        return bytes_;
    }

private:
    Block& add(const void* data, std::size_t size) {
        const auto* p = static_cast<const std::uint8_t*>(data);
        bytes_.insert(bytes_.end(), p, p + size);
        return *this;
    }
    Buffer bytes_;
};

} // namespace

PcapngWriter::PcapngWriter(const EventQueue& queue, Wire& wire, std::string path, std::uint64_t limit,
                           std::optional<std::uint64_t> epoch)
    : queue_(queue), wire_(wire), path_(std::move(path)), limit_(limit),
      epoch_(epoch.value_or(wall_clock() - queue.now())) {
    begin();
    if (!file_)
        throw std::runtime_error(fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
    wire_.add_observer(*this);
}

PcapngWriter::~PcapngWriter() {
    wire_.remove_observer(*this);
}

void PcapngWriter::begin() {
    file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600));
    written_ = 0;
    interfaces_ = 0;
    if (file_)
        put(Block(section_header)
                .u32(0x1a2b3c4d) // byte order
                .u16(1)
                .u16(0)
                .u64(~std::uint64_t{0}) // length of the section: unknown
                .option(shb_userappl, "t3sim")
                .option(opt_end, {})
                .finish());
}

void PcapngWriter::put(const Buffer& block) {
    if (::write(file_.get(), block.data(), block.size()) == static_cast<ssize_t>(block.size())) {
        written_ += block.size();
        return;
    }
    // A full disk stops the capture, not the program.
    failed_ = true;
    pcap_log.error("{}: {}; capture stopped", path_, std::strerror(errno));
}

void PcapngWriter::frame(unsigned port, Bytes frame, std::string_view fate) {
    if (failed_)
        return;
    if (limit_ != 0 && written_ + frame.size() + 64 > limit_ / 2 && interfaces_ != 0) {
        const auto dot = path_.rfind(".pcapng");
        std::rename(path_.c_str(), (path_.substr(0, dot) + ".old.pcapng").c_str());
        begin();
        if (!file_) {
            failed_ = true;
            pcap_log.error("{}: {}; capture stopped", path_, std::strerror(errno));
            return;
        }
    }
    // Ports may be attached while a capture runs.
    for (; interfaces_ < wire_.labels().size(); interfaces_++)
        put(Block(interface_description)
                .u16(linktype_ethernet)
                .u16(0)
                .u32(0) // no limit to the length of a frame
                .option(if_name, wire_.labels()[interfaces_])
                .option(if_tsresol, "\x09")
                .option(opt_end, {})
                .finish());
    const std::uint64_t when = epoch_ + queue_.now();
    Block block(enhanced_packet);
    block.u32(port)
        .u32(static_cast<std::uint32_t>(when >> 32))
        .u32(static_cast<std::uint32_t>(when))
        .u32(static_cast<std::uint32_t>(frame.size()))
        .u32(static_cast<std::uint32_t>(frame.size()))
        .padded(frame.data(), frame.size());
    if (!fate.empty())
        block.option(opt_comment, fate).option(opt_end, {});
    put(block.finish());
}

} // namespace t3sim
