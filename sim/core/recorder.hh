// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The flight recorder writes the events of cards, in order, to a file. It stores the kind of each event and
// the first bytes of its data; sim/trace decodes them. docs/trace-format.md describes the file. Cards that no
// wires join may have different threads; so each component of joined cards has a recorder, and a file.
//
// A block that reports events holds a Probe. Without a recorder it costs a load and a branch:
//
//     if (probe_) [[unlikely]]
//         probe_({.kind = EventKind::dma_read, .where = addr, .length = n}, bytes);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/fd.hh"
#include "sim/core/time.hh"

namespace t3sim {

/// The file contains these numbers: add new kinds at the end, never renumber.
enum class EventKind : std::uint8_t {
    card = 0,     ///< not an event: the name of a card
    mmio_read,    ///< unit: BAR, where: offset, data: the value
    mmio_write,   ///< the same
    doorbell,     ///< where: egress context
    dma_read,     ///< where: bus address; flag_failed
    dma_write,    ///< the same
    interrupt,    ///< where: vector; unit 1: INTx, where: its level
    work_request, ///< unit: type of its ring, where: egress context, data: from the header on
    cpl,          ///< card to host; unit: response queue
    segment_out,  ///< a TCP segment of an offloaded connection; unit: port, data: from the Ethernet header on
    segment_in,   ///< the same
    frame_out,    ///< any other frame; unit: port
    frame_in,     ///< the same
    fpdu_out,     ///< data: the ULPDU, without length, markers and CRC
    fpdu_in,      ///< the same; unit: the framing error, 0 is none
    cqe,          ///< where: completion queue, data: the entry
    async_event,  ///< the same
    reset,        ///< of the chip
    count
};

/// The fixed part of a record.
struct RecordHead {
    static constexpr std::uint32_t none = 0xffffffff;
    static constexpr std::uint16_t flag_failed = 1; ///< bus error
    static constexpr std::uint16_t flag_lost = 2;   ///< of a segment: by a fault of the card

    EventKind kind = EventKind::card;
    std::uint16_t unit = 0;
    std::uint16_t flags = 0;
    std::uint64_t where = 0;
    std::uint32_t length = 0; ///< of the complete data; the record holds its first bytes
    std::uint32_t tid = none;
    std::uint32_t qp = none;
};

namespace trace_file {
constexpr std::array<std::uint8_t, 8> magic{'T', '3', 'T', 'R', 'A', 'C', 'E', 0};
constexpr std::uint16_t version = 1;
constexpr std::size_t header_size = 32;
constexpr std::size_t head_size = 36;     ///< of a record, without its data
constexpr std::size_t max_data = 128;     ///< of a record
constexpr std::uint64_t min_limit = 8192; ///< leaves space for records in both parts
constexpr std::uint32_t max_components = 256;
/// Path of the older part of a limited recording.
inline std::string older_part(const std::string& file) {
    return file + ".old";
}
/// Path of the file of a component; @p file is that of component 0.
inline std::string file_of(const std::string& file, std::uint32_t component) {
    return component == 0 ? file : file + "." + std::to_string(component);
}
} // namespace trace_file

/// Receives the events of cards.
class EventSink {
public:
    virtual ~EventSink() = default;
    virtual void record(std::uint8_t card, const RecordHead& head, Bytes data) = 0;
};

class Recorder final : public EventSink {
public:
    /// Which part of a recording the file has. All files of a recording have the same id.
    struct Component {
        std::uint32_t number = 0, count = 1;
        std::uint64_t id = wall_clock();
    };
    /// Creates @p path or replaces it. @p limit: bytes on disk, 0 for none. With a limit, a file that has
    /// reached half of it is renamed to FILE.old and a new one is started, so the oldest events are lost.
    /// Throws std::runtime_error with a complete sentence.
    Recorder(const EventQueue& queue, std::string path, std::uint64_t limit, Component component);
    Recorder(const EventQueue& queue, std::string path, std::uint64_t limit = 0)
        : Recorder(queue, std::move(path), limit, Component{}) {}
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
    ~Recorder() override;

    /// Returns the number of the card and writes its name to the file.
    std::uint8_t add_card(const std::string& name);
    void record(std::uint8_t card, const RecordHead& head, Bytes data) override;
    /// Writes buffered records to disk. record() does so when the buffer or its age has reached a limit.
    void flush();

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    void begin();
    void put_name(std::uint8_t card);
    void append(std::uint8_t card, const RecordHead& head, Bytes data);

    const EventQueue& queue_;
    std::string path_;
    std::uint64_t limit_;
    Component component_;
    std::uint32_t part_ = 0; ///< of the file that is being written
    std::uint64_t written_ = 0;
    Time flushed_ = 0;
    Buffer waiting_;
    std::vector<std::string> cards_;
    Fd file_;
    bool failed_ = false;
};

/// The hook through which a block reports events to the recorder and to observers, if one is attached.
class Probe {
public:
    Probe() = default;
    Probe(EventSink* sink, std::uint8_t card) : sink_(sink), card_(card) {}

    explicit operator bool() const {
#ifdef T3_WITHOUT_RECORDER // baseline of bench/, which measures the cost of hooks without a recorder
        return false;
#else
        return sink_ != nullptr;
#endif
    }
    /// Requires a sink. A length of 0 in @p head means the size of @p data.
    [[gnu::cold, gnu::noinline]] void operator()(RecordHead head, Bytes data = {}) const {
        if (head.length == 0)
            head.length = static_cast<std::uint32_t>(data.size());
        sink_->record(card_, head, data);
    }

private:
    EventSink* sink_ = nullptr;
    std::uint8_t card_ = 0;
};

} // namespace t3sim
