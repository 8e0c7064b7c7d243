// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A capture file of one wire in pcapng, as Wireshark and tshark read it: one interface per port, so a
// display filter can select a direction (frame.interface_name == "a.0"), and nanosecond timestamps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/core/event_queue.hh"
#include "sim/core/fd.hh"
#include "sim/net/wire.hh"

namespace t3sim {

class PcapngWriter : public WireObserver {
public:
    /// Creates @p path or replaces it and starts to capture @p wire; queue and wire must outlive the writer.
    /// @p limit: bytes on disk, 0 for no limit. With a limit, a file that has reached half of it is renamed
    /// to NAME.old.pcapng and a new one is started. Each frame is written without buffering, so a capture can
    /// be read while it grows and after a crash. Throws std::runtime_error with a complete sentence.
    /// @p epoch: wall clock, in nanoseconds since 1970, when the queue's time was 0; nothing: as it is now.
    PcapngWriter(const EventQueue& queue, Wire& wire, std::string path, std::uint64_t limit = 0,
                 std::optional<std::uint64_t> epoch = {});
    PcapngWriter(const PcapngWriter&) = delete;
    PcapngWriter& operator=(const PcapngWriter&) = delete;
    ~PcapngWriter() override;

    void frame(unsigned port, Bytes frame, std::string_view fate) override;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    void begin();
    void put(const Buffer& block);

    const EventQueue& queue_;
    Wire& wire_;
    std::string path_;
    std::uint64_t limit_;
    std::uint64_t written_ = 0;
    std::uint64_t epoch_;
    Fd file_;
    std::size_t interfaces_ = 0; ///< that have been described
    bool failed_ = false;
};

} // namespace t3sim
