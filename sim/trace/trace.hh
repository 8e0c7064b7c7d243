// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A recording: events in order, each with its connection as far as it can be determined. The views read them
// from disk one at a time (File), so a recording may be much larger than the memory. A Trace is one in
// memory.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/recorder.hh"

namespace t3sim::trace {

/// Not a recording; what() is one sentence for the user.
struct BadTrace : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Event {
    Time time = 0;
    std::uint8_t card = 0;
    RecordHead head;
    Bytes data; ///< the first bytes of head.length
};

struct Trace {
    std::vector<std::string> cards;
    std::vector<Event> events;
    std::string remark;      ///< describes a damaged or truncated end of the file; else empty
    std::deque<Buffer> data; ///< storage of Event::data
};

/// Addresses of a TCP segment, from the view of its sender.
struct Ends {
    std::uint32_t ip = 0, peer_ip = 0;
    std::uint16_t port = 0, peer_port = 0;
    auto operator<=>(const Ends&) const = default;
    [[nodiscard]] Ends reversed() const { return {peer_ip, ip, peer_port, port}; }
};

/// A source of events in order. An event and its data are valid only during the call.
class Source {
public:
    using Take = std::function<void(const Event&)>;
    virtual ~Source() = default;
    [[nodiscard]] virtual const std::vector<std::string>& cards() const = 0;
    [[nodiscard]] virtual const std::string& remark() const = 0;
    virtual void each(const Take& take) const = 0;
};

/// One file of a recording with its older part, read from the start: the cards of one component, in order.
/// The memory grows with its connections, not with its events. Throws BadTrace.
class Component {
public:
    explicit Component(const std::string& path);

    [[nodiscard]] const std::vector<std::string>& cards() const { return cards_; }
    [[nodiscard]] const std::string& remark() const { return remark_; }
    [[nodiscard]] std::uint64_t id() const { return id_; }
    [[nodiscard]] std::uint32_t number() const { return number_; }
    [[nodiscard]] std::uint32_t count() const { return count_; }

    /// Position of a reader, which begins at the start.
    struct Reader {
        std::size_t part = 0;
        std::uint64_t at = 0;     ///< in the file of the part; 0: before its first record
        std::uint64_t number = 0; ///< of the next event
        std::ifstream in{};
        Buffer record{}; ///< storage of the last event's data
    };
    /// The next event, with its connection. False at the end.
    bool next(Reader& reader, Event& event) const;

private:
    struct Part {
        std::string path;
        std::uint64_t begin = 0, end = 0; ///< of the complete records
    };
    /// A sequence of segments with the same TID, by the numbers of their events.
    struct Run {
        std::uint64_t first, last;
        std::uint32_t tid;
    };
    enum class Found { event, name, end, incomplete, damaged };
    Found next_record(Reader& reader, std::size_t known_cards, Event& event) const;
    void survey();
    [[nodiscard]] std::uint32_t tid_of_segment(std::uint64_t number, const Event& event) const;

    std::vector<Part> parts_;
    std::vector<std::string> cards_;
    std::string remark_;
    std::uint64_t id_ = 0;
    std::uint32_t number_ = 0, count_ = 1;
    std::map<std::pair<std::uint8_t, Ends>, std::vector<Run>> sent_;
};

/// A recording on disk: the events of all its files, by time. Throws BadTrace.
class File final : public Source {
public:
    explicit File(const std::string& path);
    [[nodiscard]] const std::vector<std::string>& cards() const override { return cards_; }
    [[nodiscard]] const std::string& remark() const override { return remark_; }
    void each(const Take& take) const override;

private:
    std::vector<Component> components_;
    std::vector<std::string> cards_; ///< those of all components, one after the other
    std::string remark_;
};

/// Reads the events from @p from to @p to into memory, including the older part of a limited recording and
/// the files of other components. Throws BadTrace.
Trace read(const std::string& path, Time from = 0, Time to = ~Time{0});

struct Segment {
    Ends ends;
    std::uint32_t seq = 0, ack = 0;
    std::uint8_t flags = 0;
    std::uint32_t payload_length = 0;
    Bytes payload; ///< the recorded part

    static constexpr std::uint8_t fin = 1, syn = 2, rst = 4, psh = 8, ack_flag = 16;
};

/// Parses a frame of @p length bytes, of which @p frame may be a part. Nothing if it is not a TCP segment.
std::optional<Segment> parse_frame(Bytes frame, std::uint32_t length);

/// The user's selection.
struct Filter {
    std::optional<std::string> card{};
    std::optional<std::uint32_t> tid{}, qp{};
    Time from = 0, to = ~Time{0};
};

/// The selected events. Throws BadTrace if there is no such card.
std::vector<const Event*> select(const Trace& trace, const Filter& filter);

/// Receives the output piece by piece.
using Output = std::function<void(std::string_view)>;
void to_text(const Source& source, const Filter& filter, const Output& output);
void to_perfetto(const Source& source, const Filter& filter, const Output& output);
std::string to_text(const Trace& trace, const Filter& filter);
std::string to_perfetto(const Trace& trace, const Filter& filter);
/// Throws BadTrace if the filter selects a card that does not exist.
void check(const Source& source, const Filter& filter);
/// Calls @p take for the selected events, in order. Throws BadTrace if there is no such card.
void select(const Source& source, const Filter& filter, const Source::Take& take);
/// A recording in memory as a source.
class Memory final : public Source {
public:
    explicit Memory(const Trace& trace) : trace_(trace) {}
    [[nodiscard]] const std::vector<std::string>& cards() const override { return trace_.cards; }
    [[nodiscard]] const std::string& remark() const override { return trace_.remark; }
    void each(const Take& take) const override {
        for (const Event& event : trace_.events)
            take(event);
    }

private:
    const Trace& trace_;
};
/// Throws BadTrace if the recording has no such connection.
std::string to_ladder(const Source& source, const Filter& filter);
std::string to_ladder(const Trace& trace, const Filter& filter);

/// t3sim trace ...; the exit status.
int command(int argc, const char* const* argv);

} // namespace t3sim::trace
