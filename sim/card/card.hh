// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Chelsio S320E-CR (T3C, two 10 Gb/s ports), or its predecessor with a T3B, as one object: the PCI function
// on one side, two Ethernet ports on the other, the engines of engines.hh between them. This class only
// connects them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/card/state.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/host.hh"
#include "sim/net/link.hh"

namespace t3sim {

class Counters;
class EventSink;
class Recorder;

/// Modelled chip revisions (docs/card-model.md).
enum class Chip : std::uint8_t { t3b, t3c };

struct CardConfig {
    std::string name;                  ///< in log lines and counters
    std::array<std::uint8_t, 6> mac{}; ///< of port 0; port 1 has the last octet + 1. Fourth octet < 0x80
    std::string serial = "SIM0000001"; ///< at most 16 characters
    Chip chip = Chip::t3c;
    unsigned lanes = 8; ///< of the slot
    /// Secret of initial sequence numbers (RFC 6528); nothing: the constant of tcp::Params, for repeatable
    /// runs.
    std::optional<std::array<std::uint64_t, 2>> secret = std::nullopt;
};

class Card : public Device {
public:
    static constexpr unsigned ports = 2;

    /// @p host and @p queue must outlive the card. Throws std::invalid_argument if @p config is invalid.
    Card(const CardConfig& config, Host& host, EventQueue& queue);
    ~Card() override;
    Card(const Card&) = delete;
    Card& operator=(const Card&) = delete;

    /// The endpoint of a port, for Wire::attach(). Throws std::out_of_range.
    Endpoint& port(unsigned index);
    /// Connects the cable of a port; @p link must outlive the card. A port without a link has no signal.
    void connect(unsigned port, Link& link);
    [[nodiscard]] const Counters& counters() const;
    /// Starts to record all events of the card to @p recorder, which must outlive the recording; nullptr
    /// stops it.
    void record(Recorder* recorder);
    /// Reports all events of the card to @p observer too, which must outlive this; nullptr stops it. In an
    /// event it may do the same, and inject faults that are at_once. Events come before they have an effect
    /// outside of the card; DMA, register reads and interrupts after it.
    void observe(EventSink* observer);

    // Snapshots of the card's objects (state.hh), by number. All numbers are below the limit of their kind;
    // nothing: no object has this number.
    [[nodiscard]] std::uint32_t connection_limit() const;
    [[nodiscard]] std::optional<ConnectionState> connection(std::uint32_t tid) const;
    [[nodiscard]] static std::uint32_t qp_limit();
    [[nodiscard]] std::optional<QpState> qp(std::uint32_t id) const;
    [[nodiscard]] static std::uint32_t cq_limit();
    [[nodiscard]] std::optional<CqState> cq(std::uint32_t id) const;
    [[nodiscard]] std::uint32_t region_limit() const;
    [[nodiscard]] std::optional<RegionState> region(std::uint32_t index) const;
    [[nodiscard]] static std::uint32_t ring_limit();
    /// Egress rings by context, then the free lists, then the response queues.
    [[nodiscard]] std::optional<RingState> ring(std::uint32_t number) const;

    /// A fault that can be injected (docs/faults.md).
    struct Fault {
        /// nth: that operation, counted from now.
        enum class Amount : std::uint8_t { none, times, time, nth };
        /// What a Target may select.
        enum class Object : std::uint8_t { none, connection, qp };
        const char* name;
        Amount amount;                ///< kind of the second argument of inject()
        std::uint64_t default_amount; ///< its default: times, or nanoseconds
        const char* what;
        Object object = Object::none;
        /// May be injected from within an event of the card.
        bool at_once = false;
    };
    /// A connection by its TID or its QP; neither: all.
    struct Target {
        std::optional<std::uint32_t> tid{}, qp{};
    };
    [[nodiscard]] static std::vector<Fault> faults();
    /// Injects the fault now, or arms it. Throws std::invalid_argument, with a complete sentence, if there is
    /// no such fault, or no such amount or target.
    void inject(std::string_view name, std::optional<std::uint64_t> amount, const Target& target);
    void inject(std::string_view name, std::optional<std::uint64_t> amount = std::nullopt) {
        inject(name, amount, Target{});
    }

    /// What a card that lies to its driver lies about (docs/faults.md).
    struct LieKind {
        const char* name;
        const char* what;
    };
    [[nodiscard]] static std::vector<LieKind> lie_kinds();
    /// Lies from now on, also after a reset. @p rate: the probability at each opportunity. @p kinds: names;
    /// none: all. Throws std::invalid_argument, with a complete sentence.
    void lie(std::uint64_t seed, double rate, std::span<const std::string> kinds);
    void stop_lies();

    /// An open question about the hardware to which the model has another answer than usual.
    struct Question {
        unsigned number; ///< of docs/hw/open-questions.md
        const char* modelled;
        const char* other;
    };
    [[nodiscard]] static std::vector<Question> questions();
    /// Selects an answer: "G12=other" or "G12=modelled". Throws std::invalid_argument, with a complete
    /// sentence.
    void guess(std::string_view text);
    /// Throws what guess() would.
    static void check_guess(std::string_view text);
    /// The selected answers that are not as modelled, as text.
    [[nodiscard]] std::string guesses() const;

    /// The time that the card takes for what it does, also after a reset: "t3", "instant", "fetch=2us", ...
    /// Throws std::invalid_argument, with a complete sentence.
    void set_time(std::string_view text);
    /// Throws what set_time() would.
    static void check_time(std::string_view text);
    [[nodiscard]] std::string time() const;

    [[nodiscard]] std::uint64_t bar_size(unsigned bar) const override;
    [[nodiscard]] unsigned msix_vectors() const override;
    std::uint64_t mmio_read(unsigned bar, std::uint64_t offset, unsigned size) override;
    void mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) override;
    void config_read(std::uint32_t offset, MutableBytes to) override;
    void config_write(std::uint32_t offset, Bytes from) override;
    void reset() override;
    void restore_nonvolatile() override;

private:
    struct Impl;
    struct FaultRow;
    static std::span<const FaultRow> fault_rows();

    std::unique_ptr<Impl> impl_;
};

} // namespace t3sim
