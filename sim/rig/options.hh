// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The command line of t3sim. All of it is checked before any file or socket is opened.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/card/card.hh"

namespace t3sim {

constexpr const char* program_version = "t3sim (t3rdma) 0.1";

struct Options {
    struct CardSpec {
        std::string name;
        std::string socket;      ///< where QEMU's vfio-user-pci connects, or User Mode Linux
        bool vhost_user = false; ///< the socket's protocol is vhost-user
        std::array<std::uint8_t, 6> mac{};
        std::string serial;
        Chip chip = Chip::t3c;
        unsigned lanes = 8;
    };
    /// One end of a wire.
    struct End {
        enum class Kind { card_port, qemu, tap, udp } kind = Kind::card_port;
        std::string card;  ///< card_port: name of the card
        unsigned port = 0; ///< card_port
        std::string where; ///< qemu: path of the socket; tap: name of the interface; udp: as UdpSocket
        [[nodiscard]] std::string label() const;
    };
    struct WireSpec {
        std::string name;
        std::vector<End> ends;
    };

    std::vector<CardSpec> cards;
    std::vector<WireSpec> wires;
    std::string capture;              ///< directory; empty: none
    std::uint64_t capture_limit = 0;  ///< bytes per wire; 0: none
    std::string record;               ///< file of the flight recorder; empty: none
    std::uint64_t record_limit = 0;   ///< bytes; 0: none
    std::string control;              ///< path of the control socket; empty: none
    std::vector<std::string> guesses; ///< of all cards: "G12=other"
    std::vector<std::string> times;   ///< of all cards: "t3", "jitter=100us"
    std::string log_level = "info";
    bool compute_sums = false; ///< also of frames that only cards see
    unsigned threads = 0;      ///< at most; 0: as many as this process may use processors
};

/// Cards and other ends that wires join, directly or through other cards, are one component. Components with
/// cards come first, in the order of their first cards; they are the first @c with_cards ones.
struct Components {
    std::vector<unsigned> of_card, of_wire;
    unsigned with_cards = 0, count = 0;
};
Components components(const Options& options);

/// The result of parsing: options, or a text to print and the exit status.
struct ParseResult {
    std::optional<Options> options;
    std::string message; ///< help or version for stdout (status 0), one line for stderr (status 2)
    int status = 0;
};

/// Parses a size such as "64M", up to 1T; false if @p text is not a size.
bool parse_size(const std::string& text, std::uint64_t& bytes);

ParseResult parse_options(int argc, const char* const* argv);

} // namespace t3sim
