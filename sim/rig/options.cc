// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/options.hh"

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/card/card.hh"
#include "sim/core/log.hh"

namespace t3sim {
namespace {

constexpr std::size_t max_cards = 8;
constexpr unsigned max_threads = 64;

/// A mistake in the command line; the text states what was expected.
struct Wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};

bool is_name(const std::string& text) {
    return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '_' || c == '-';
    });
}

/// Splits "KEY=VALUE".
std::pair<std::string, std::string> key_value(const std::string& option, const std::string& text,
                                              const char* example) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == text.npos || equals + 1 == text.size())
        throw Wrong(fmt::format("{} '{}': expected for example {} {}", option, text, option, example));
    return {text.substr(0, equals), text.substr(equals + 1)};
}

Options::CardSpec& find_card(Options& options, const std::string& option, const std::string& name) {
    for (auto& card : options.cards)
        if (card.name == name)
            return card;
    std::string known;
    for (const auto& card : options.cards)
        known += (known.empty() ? "" : ", ") + card.name;
    throw Wrong(fmt::format("{}: there is no card '{}'; cards are: {}", option, name, known));
}

std::array<std::uint8_t, 6> parse_mac(const std::string& text) {
    std::array<std::uint8_t, 6> mac{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::size_t i = 0; i < mac.size(); i++) {
        const auto [next, error] = std::from_chars(at, std::min(at + 2, end), mac[i], 16);
        const bool last = i + 1 == mac.size();
        if (error != std::errc() || next != at + 2 || (last ? next != end : next == end || *next != ':'))
            throw Wrong(fmt::format("--mac '{}': expected six octets such as 00:07:43:11:22:00", text));
        at = next + 1;
    }
    if ((mac[0] & 1) != 0)
        throw Wrong(
            fmt::format("--mac '{}': that is a multicast address; the first octet must be even", text));
    if (mac[3] >= 0x80)
        throw Wrong(
            fmt::format("--mac '{}': the fourth octet must be below 80 (a port's second address has that "
                        "bit set)",
                        text));
    return mac;
}

Options::End parse_end(Options& options, const std::string& option, const std::string& text) {
    Options::End end;
    for (const auto& [prefix, kind] :
         {std::pair{"qemu:", Options::End::Kind::qemu}, std::pair{"tap:", Options::End::Kind::tap},
          std::pair{"udp:", Options::End::Kind::udp}}) {
        if (text.starts_with(prefix) && text.size() > std::strlen(prefix)) {
            end.kind = kind;
            end.where = text.substr(std::strlen(prefix));
            return end;
        }
    }
    const auto dot = text.rfind('.');
    if (dot == text.npos || dot == 0 || dot + 2 != text.size() || text[dot + 1] < '0' ||
        text[dot + 1] >= static_cast<char>('0' + Card::ports))
        throw Wrong(
            fmt::format("{}: '{}' is not an end of a wire; expected CARD.PORT with port 0 or 1, qemu:PATH, "
                        "tap:NAME or udp:[PORT@]HOST:PORT",
                        option, text));
    end.card = find_card(options, option, text.substr(0, dot)).name;
    end.port = static_cast<unsigned>(text[dot + 1] - '0');
    return end;
}

void add_wire(Options& options, const std::string& text) {
    Options::WireSpec wire;
    std::string ends = text;
    if (const auto equals = text.find('='); equals != text.npos && text.find_first_of(":,") > equals) {
        wire.name = text.substr(0, equals);
        if (!is_name(wire.name))
            throw Wrong(
                fmt::format("--wire '{}': a wire's name has letters, digits, '-' and '_' only", text));
        ends = text.substr(equals + 1);
    }
    std::string name;
    for (const auto& part : CLI::detail::split(ends, ',')) {
        wire.ends.push_back(parse_end(options, "--wire '" + text + "'", part));
        name += (name.empty() ? "" : "-") + wire.ends.back().label();
    }
    if (wire.ends.size() < 2)
        throw Wrong(
            fmt::format("--wire '{}': a wire has two ends at least, for example --wire a.0,b.0", text));
    if (wire.name.empty())
        wire.name = name;
    options.wires.push_back(std::move(wire));
}

/// --wire-qemu and --tap: adds an end to the wire of that port, or creates a wire.
void add_end(Options& options, const std::string& option, const std::string& text, const char* prefix,
             const char* example) {
    const auto [port, where] = key_value(option, text, example);
    const auto end = parse_end(options, option, port);
    const auto other = parse_end(options, option, prefix + where);
    for (auto& wire : options.wires)
        for (const auto& there : wire.ends)
            if (there.kind == Options::End::Kind::card_port && there.label() == end.label()) {
                wire.ends.push_back(other);
                return;
            }
    options.wires.push_back({.name = end.label() + "-" + other.label(), .ends = {end, other}});
}

void check_wires(const Options& options) {
    std::set<std::string> names, ends;
    for (const auto& wire : options.wires) {
        if (!names.insert(wire.name).second)
            throw Wrong(fmt::format("two wires are called '{}'; name them: --wire NAME=a.0,b.0", wire.name));
        for (const auto& end : wire.ends)
            if (!ends.insert(end.kind == Options::End::Kind::card_port ? end.label() : end.where).second)
                throw Wrong(fmt::format("{} is plugged into two wires; use one wire with more ends: --wire "
                                        "a.0,b.0,c.0",
                                        end.label()));
    }
}

std::string guess_list() {
    std::string out;
    for (const auto& row : Card::questions())
        out +=
            fmt::format("{:<5}{:<56}  other: {}\n", fmt::format("G{}", row.number), row.modelled, row.other);
    return out;
}

} // namespace

bool parse_size(const std::string& text, std::uint64_t& bytes) {
    std::uint64_t value = 0;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string unit(next, text.data() + text.size());
    const unsigned shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 99;
    if (error != std::errc() || shift == 99 || value == 0 || value > std::uint64_t{1} << 40 >> shift)
        return false;
    bytes = value << shift;
    return true;
}

Components components(const Options& options) {
    const auto card_number = [&](const std::string& name) {
        return static_cast<std::size_t>(std::ranges::find(options.cards, name, &Options::CardSpec::name) -
                                        options.cards.begin());
    };
    // The cards and wires that are reached from a card, or else from a wire.
    constexpr unsigned none = ~0U;
    Components c{.of_card = std::vector(options.cards.size(), none),
                 .of_wire = std::vector(options.wires.size(), none)};
    const auto spread = [&] {
        for (bool more = true; std::exchange(more, false);)
            for (std::size_t wire = 0; wire < options.wires.size(); ++wire)
                for (const auto& end : options.wires[wire].ends) {
                    if (end.kind != Options::End::Kind::card_port)
                        continue;
                    unsigned &of_wire = c.of_wire[wire], &of_card = c.of_card[card_number(end.card)];
                    more |= of_wire != of_card;
                    of_wire = of_card = std::min(of_wire, of_card);
                }
    };
    for (unsigned& of_card : c.of_card)
        if (of_card == none) {
            of_card = c.with_cards++;
            spread();
        }
    c.count = c.with_cards;
    for (unsigned& of_wire : c.of_wire)
        if (of_wire == none)
            of_wire = c.count++;
    return c;
}

std::string Options::End::label() const {
    switch (kind) {
    case Kind::card_port:
        return card + "." + std::to_string(port);
    case Kind::qemu:
        return "qemu-" + where.substr(where.rfind('/') + 1);
    case Kind::tap:
        return where;
    case Kind::udp:
        return "udp-" + where;
    }
    return {};
}

ParseResult parse_options(int argc, const char* const* argv) {
    CLI::App app{"t3sim - Chelsio T3 RDMA cards as a program: each card is a PCI device that QEMU (10.1 or "
                 "newer) plugs "
                 "into a guest over vfio-user, and whose ports are joined by Ethernet wires.",
                 "t3sim"};
    app.footer(R"(Running:   t3sim ctl SOCKET COMMAND...   talks to a running t3sim (t3sim ctl SOCKET help)
Recording: t3sim trace FILE              shows what --record wrote (t3sim trace --help)

Example:   t3sim --card a=/tmp/a.sock --card b=/tmp/b.sock --wire a.0,b.0 --capture /tmp/pcap --control /tmp/ctl.sock
           qemu-system-x86_64 -M q35 -accel tcg -m 512M -object memory-backend-memfd,id=ram,size=512M,share=on \
             -machine memory-backend=ram -device pcie-root-port,id=rp0,chassis=1,slot=1,hotplug=off \
             -device '{"driver":"vfio-user-pci","bus":"rp0","socket":{"type":"unix","path":"/tmp/a.sock"}}' ...

Prints "t3sim: ready" when all sockets listen. SIGTERM, SIGINT or "quit" end it.)");
    app.set_version_flag("--version", program_version);

    std::vector<std::string> cards, wires, qemus, taps, macs, serials, chips, lanes, vhosts;
    std::string capture_limit, record_limit, threads;
    Options options;
    // One value per option: "--card a=x b=y" must not consume "b=y".
    const auto each = [&](const char* name, std::vector<std::string>& to, const char* type,
                          const char* help) {
        app.add_option(name, to, help)->type_name(type)->expected(1)->take_all()->allow_extra_args(false);
    };
    each("--card", cards, "NAME=SOCKET",
         "A card (1 to 8), and where it listens for its guest: QEMU's vfio-user-pci, or see --vhost-user");
    each("--mac", macs, "NAME=MAC", "Address of a card's port 0; port 1 has the next one");
    each("--chip", chips, "NAME=t3b|t3c", "Chip of a card (default: t3c)");
    each("--lanes", lanes, "NAME=N", "PCI Express lanes of a card's slot: 1, 2, 4 or 8 (default: 8)");
    each("--serial", serials, "NAME=TEXT", "Serial number of a card (up to 16 characters)");
    each("--vhost-user", vhosts, "NAME",
         "This card's guest is User Mode Linux, with virtio_uml.device=SOCKET:ID on its command line; ID is "
         "the "
         "kernel's CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID");
    each("--wire", wires, "[NAME=]END,END[,END...]",
         "Joins ends: CARD.PORT, qemu:PATH (a socket for QEMU's -netdev stream), tap:NAME or "
         "udp:[PORT@]HOST:PORT (another t3sim there, or QEMU's -netdev dgram); more than two "
         "make a hub");
    each("--wire-qemu", qemus, "CARD.PORT=PATH", "Short for an end qemu:PATH on the wire of that port");
    each("--tap", taps, "CARD.PORT=NAME", "Short for an end tap:NAME on the wire of that port");
    each("--guess", options.guesses, "Gn=other",
         "All cards give the other answer to this open question; list: shows the questions that have one");
    each(
        "--time", options.times, "KEY=TIME",
        "The time that all cards take, by default none: fetch, write, command, jitter (2us), seed; or t3, an "
        "estimate of real ones. Later values replace earlier ones");
    app.add_option("--capture", options.capture, "Writes WIRE.pcapng for each wire here")->type_name("DIR");
    app.add_option("--capture-limit", capture_limit,
                   "Keeps only the last part of a capture, e.g. 64M per wire")
        ->type_name("SIZE");
    app.add_option("--record", options.record,
                   "Records the events of all cards, for t3sim trace; t3sim ctl can start it later")
        ->type_name("FILE");
    app.add_option("--record-limit", record_limit, "Keeps only the last part of the recording, e.g. 64M")
        ->type_name("SIZE");
    app.add_option("--control", options.control, "Listens here for t3sim ctl")->type_name("SOCKET");
    app.add_flag(
        "--compute-sums", options.compute_sums,
        "Computes and checks all CRCs and checksums; by default two cards leave them out between each other "
        "while no capture, recording or impairment needs them");
    app.add_option(
           "--threads", threads,
           "Threads for the cards, at most (default: as many as processors). Cards that wires join have "
           "the same thread")
        ->type_name("N");
    app.add_option("--log-level", options.log_level,
                   "trace, debug, info, warning, error, off; or by part: info,mmio=trace,vfio=debug")
        ->type_name("LEVELS");

    try {
        app.parse(argc, argv);
        if (std::ranges::find(options.guesses, "list") != options.guesses.end())
            return {.options = {}, .message = guess_list(), .status = 0};
        if (cards.empty())
            throw Wrong("no card; give at least one, for example --card a=/tmp/a.sock");
        if (cards.size() > max_cards)
            throw Wrong(fmt::format("{} cards; at most {} are possible", cards.size(), max_cards));
        for (const auto& text : cards) {
            auto [name, socket] = key_value("--card", text, "a=/tmp/a.sock");
            if (!is_name(name))
                throw Wrong(
                    fmt::format("--card '{}': a card's name has letters, digits, '-' and '_' only", text));
            for (const auto& other : options.cards)
                if (other.name == name || other.socket == socket)
                    throw Wrong(fmt::format("--card '{}': that {} is used twice", text,
                                            other.name == name ? "name" : "socket"));
            // Distinct by default: two cards on one wire must not share an address.
            const auto n = static_cast<std::uint8_t>(options.cards.size());
            options.cards.push_back(
                {.name = name,
                 .socket = socket,
                 .mac = {0x00, 0x07, 0x43, 0x11, 0x22, static_cast<std::uint8_t>(n * 0x10)},
                 .serial = fmt::format("SIM{:07}", n + 1)});
        }
        for (const auto& text : macs) {
            const auto [name, mac] = key_value("--mac", text, "a=00:07:43:11:22:00");
            find_card(options, "--mac", name).mac = parse_mac(mac);
        }
        for (const auto& text : serials) {
            const auto [name, serial] = key_value("--serial", text, "a=SIM0000001");
            if (serial.size() > 16)
                throw Wrong(fmt::format("--serial '{}': at most 16 characters", text));
            find_card(options, "--serial", name).serial = serial;
        }
        for (const auto& text : chips) {
            const auto [name, chip] = key_value("--chip", text, "a=t3b");
            if (chip != "t3b" && chip != "t3c")
                throw Wrong(fmt::format("--chip '{}': there are t3b and t3c", text));
            find_card(options, "--chip", name).chip = chip == "t3b" ? Chip::t3b : Chip::t3c;
        }
        for (const auto& text : options.guesses)
            try {
                Card::check_guess(text);
            } catch (const std::invalid_argument& e) {
                throw Wrong(fmt::format("--guess: {}; see --guess list", e.what()));
            }
        for (const auto& text : options.times)
            try {
                Card::check_time(text);
            } catch (const std::invalid_argument& e) {
                throw Wrong(fmt::format("--time: {}", e.what()));
            }
        for (const auto& name : vhosts)
            find_card(options, "--vhost-user", name).vhost_user = true;
        for (const auto& text : lanes) {
            const auto [name, count] = key_value("--lanes", text, "a=4");
            if (count != "1" && count != "2" && count != "4" && count != "8")
                throw Wrong(fmt::format("--lanes '{}': a slot has 1, 2, 4 or 8", text));
            find_card(options, "--lanes", name).lanes = static_cast<unsigned>(count[0] - '0');
        }
        for (const auto& text : wires)
            add_wire(options, text);
        for (const auto& text : qemus)
            add_end(options, "--wire-qemu", text, "qemu:", "a.0=/tmp/net.sock");
        for (const auto& text : taps)
            add_end(options, "--tap", text, "tap:", "a.0=tap0");
        check_wires(options);
        if (!capture_limit.empty() && !parse_size(capture_limit, options.capture_limit))
            throw Wrong(
                fmt::format("--capture-limit '{}': expected a size such as 500K, 64M or 2G", capture_limit));
        if (!capture_limit.empty() && options.capture.empty())
            throw Wrong("--capture-limit without --capture; add --capture DIR");
        if (!record_limit.empty() && !parse_size(record_limit, options.record_limit))
            throw Wrong(
                fmt::format("--record-limit '{}': expected a size such as 500K, 64M or 2G", record_limit));
        if (!record_limit.empty() && options.record.empty())
            throw Wrong("--record-limit without --record; add --record FILE");
        if (!threads.empty()) {
            const char* const end = threads.data() + threads.size();
            const auto [next, error] = std::from_chars(threads.data(), end, options.threads);
            if (error != std::errc() || next != end || options.threads == 0 || options.threads > max_threads)
                throw Wrong(
                    fmt::format("--threads '{}': expected a number from 1 to {}", threads, max_threads));
        }
        if (std::string wrong; !set_log_levels(options.log_level, &wrong))
            throw Wrong(
                fmt::format("--log-level: '{}' is neither a level nor PART=LEVEL; levels are trace, debug, "
                            "info, warning, error, off",
                            wrong));
    } catch (const CLI::CallForHelp&) {
        return {.options = {}, .message = app.help(), .status = 0};
    } catch (const CLI::CallForVersion& e) {
        return {.options = {}, .message = std::string(e.what()) + "\n", .status = 0};
    } catch (const CLI::ParseError& e) {
        return {
            .options = {}, .message = fmt::format("t3sim: {} (see t3sim --help)\n", e.what()), .status = 2};
    } catch (const Wrong& e) {
        return {.options = {}, .message = fmt::format("t3sim: {}\n", e.what()), .status = 2};
    }
    return {.options = std::move(options), .message = {}, .status = 0};
}

} // namespace t3sim
