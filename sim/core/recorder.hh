// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The flight recorder: what cards did, in order, in one file. It knows kinds of events and the first bytes of
// what they moved, not what these mean: sim/trace decodes. docs/trace-format.md describes the file.
//
// A part that has something to tell holds a Probe. Without a recorder that costs a load and a branch:
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

namespace t3sim {

/// Numbers are those of the file: add at the end, never renumber.
enum class EventKind : std::uint8_t {
    card = 0,     ///< not an event: a card's name
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
    count
};

/// The fixed part of a record.
struct RecordHead {
    static constexpr std::uint32_t none = 0xffffffff;
    static constexpr std::uint16_t flag_failed = 1; ///< bus error

    EventKind kind = EventKind::card;
    std::uint16_t unit = 0;
    std::uint16_t flags = 0;
    std::uint64_t where = 0;
    std::uint32_t length = 0; ///< of all the data; the record holds its beginning
    std::uint32_t tid = none;
    std::uint32_t qp = none;
};

namespace trace_file {
constexpr std::array<std::uint8_t, 8> magic{'T', '3', 'T', 'R', 'A', 'C', 'E', 0};
constexpr std::uint16_t version = 1;
constexpr std::size_t header_size = 32;
constexpr std::size_t head_size = 36;     ///< of a record, without its data
constexpr std::size_t max_data = 128;     ///< of a record
constexpr std::uint64_t min_limit = 8192; ///< two parts with something in them
/// Where the part of a limited recording goes that is older than FILE.
inline std::string older_part(const std::string& file) {
    return file + ".old";
}
} // namespace trace_file

class Recorder {
public:
    /// Creates @p path (which is replaced). @p limit: bytes on disk, 0 for none; with one the oldest events
    /// go: when the file has reached half of it, it becomes FILE.old and a new one begins. Throws
    /// std::runtime_error with a complete sentence.
    Recorder(const EventQueue& queue, std::string path, std::uint64_t limit = 0);
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
    ~Recorder();

    /// A number for a card, and its name in the file.
    std::uint8_t add_card(const std::string& name);
    void record(std::uint8_t card, const RecordHead& head, Bytes data);
    /// To disk with what waits. Happens by itself when enough waits or some time has passed.
    void flush();

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    void begin();
    void put_name(std::uint8_t card);
    void append(std::uint8_t card, const RecordHead& head, Bytes data);

    const EventQueue& queue_;
    std::string path_;
    std::uint64_t limit_;
    std::uint64_t id_;       ///< of the recording: its parts know each other by it
    std::uint32_t part_ = 0; ///< of the file that is being written
    std::uint64_t written_ = 0;
    Time flushed_ = 0;
    Buffer waiting_;
    std::vector<std::string> cards_;
    Fd file_;
    bool failed_ = false;
};

/// A part's way to the recorder, if there is one.
class Probe {
public:
    Probe() = default;
    Probe(Recorder* recorder, std::uint8_t card) : recorder_(recorder), card_(card) {}

    explicit operator bool() const {
#ifdef T3_WITHOUT_RECORDER // bench/ measures against this what the hooks cost when nothing is recorded
        return false;
#else
        return recorder_ != nullptr;
#endif
    }
    /// Only if there is a recorder. Without a length in @p head it is that of @p data.
    [[gnu::cold, gnu::noinline]] void operator()(RecordHead head, Bytes data = {}) const {
        if (head.length == 0)
            head.length = static_cast<std::uint32_t>(data.size());
        recorder_->record(card_, head, data);
    }

private:
    Recorder* recorder_ = nullptr;
    std::uint8_t card_ = 0;
};

} // namespace t3sim
