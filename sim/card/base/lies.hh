// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A card that lies to its driver (docs/faults.md): what the host reads from the card, and what the card
// writes into the host's rings, passes one function of Lies, which changes some of it. Nothing is written
// outside of the rings and buffers of the driver. Each kind has its own random numbers: the same seed and the
// same sequence of events of a kind give the same lies, whatever happens elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/bytes.hh"
#include "sim/core/counters.hh"
#include "sim/core/random.hh"
#include "sim/hw/cqe.hh"
#include "sim/hw/sge.hh"

namespace t3sim {

/// The last values of a kind, from which a lie takes one that the driver has a use for.
template <typename T> class Recent {
public:
    void add(T value) {
        if (values_.size() < most)
            values_.push_back(std::move(value));
        else
            values_[next_++ % most] = std::move(value);
    }
    /// After add().
    [[nodiscard]] const T& any(Random& random) const { return values_[random.below(values_.size())]; }

private:
    static constexpr std::size_t most = 16;
    std::vector<T> values_;
    std::size_t next_ = 0;
};

class Lies {
public:
    enum class Kind : std::uint8_t { registers, vpd, cpl, cqe, buffer, interrupt, doorbell };
    struct Row {
        const char* name;
        const char* what;
    };
    /// By Kind.
    [[nodiscard]] static std::span<const Row> rows();

    explicit Lies(Counters& counters);
    /// @p rate: the probability of a lie at each opportunity. @p kinds: by name; none: all. Throws
    /// std::invalid_argument, with a complete sentence.
    void begin(std::uint64_t seed, double rate, std::span<const std::string> kinds);
    void end() { any_ = false; }
    /// A reset: what the card has sent before is not repeated to the next client.
    void forget();
    [[nodiscard]] bool any() const { return any_; }

    // Each returns the truth unless it is time for a lie.

    /// What a read of @p size bytes returns.
    std::uint64_t read(Kind kind, std::uint64_t value, unsigned size);

    struct Message {
        unsigned queue; ///< response queue
        Buffer cpl;
    };
    /// The messages that are sent instead of one.
    std::vector<Message> messages(unsigned queue, Bytes cpl);

    /// How many entries a completion has.
    unsigned completions();
    /// Changes an entry, or the place of a ring of @p size where it is written.
    void entry(hw::CqeLayout& cqe, std::uint32_t& index, std::uint32_t size);
    /// @p head: the first two words of the descriptor.
    void event(std::array<std::uint32_t, 2>& head, hw::CqeLayout& cqe);

    void response(MutableBytes descriptor);
    /// Whether the next buffer of a free list is left out.
    bool skips_buffer() { return now(Kind::buffer); }

    /// The vectors to raise instead of one.
    std::vector<unsigned> interrupts(unsigned vector);

    struct Doorbell {
        bool lost = false;
        std::uint32_t cause = 0; ///< of SG_INT_CAUSE
    };
    Doorbell doorbell();

private:
    struct Stream {
        bool on = false;
        Random random{0};
        Counter* count;
    };
    Stream& stream(Kind kind) { return streams_[static_cast<std::size_t>(kind)]; }
    /// Whether to lie this time.
    bool now(Kind kind);
    Buffer changed(Random& random, Bytes cpl);
    void change(Random& random, hw::CqeLayout& cqe);

    std::array<Stream, 7> streams_;
    bool any_ = false;
    double rate_ = 0;
    Recent<Buffer> messages_;
    std::optional<Message> held_; ///< the next one overtakes it
    Recent<std::uint32_t> qps_;
};

} // namespace t3sim
