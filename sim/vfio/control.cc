// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vfio/control.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/core/client_fd.hh"
#include "sim/core/time.hh"
#include "sim/net/impairments.hh"
#include "sim/vfio/tables.hh"

namespace t3sim {
namespace {

using json = Json;
using Arguments = std::vector<std::string>;

constexpr std::size_t max_line = 65536;

/// A request that fails; the client receives the text.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Context {
    EventLoop& loop;
    Rig& rig;
    std::string command;
    std::string card; ///< where a part of a table begins; empty: at the start
    std::uint32_t number = 0;
    json next; ///< of the reply: where the next part begins
    std::shared_ptr<Subscription>& subscription;
    std::function<void()> wake; ///< the client
};

/// What a command does in the thread of one component.
struct Action {
    unsigned component;
    std::function<json()> run; ///< throws std::exception: the reason why it failed
    bool at_once = false;      ///< may run from within an event of a card
};

/// Of a command that has its result already.
Action result_of(json result) {
    return {0, [result = std::move(result)] { return result; }};
}

const Rig::Slot& find_card(Context& context, const std::string& name) {
    if (const auto* slot = context.rig.slot(name))
        return *slot;
    throw Refused("there is no card '" + name + "'");
}

/// What @p f returns, in the thread of a component.
template <typename F> json on(Context& context, unsigned component, F&& f) {
    json result;
    context.rig.on(component, [&] { result = f(); });
    return result;
}

json cards(Context& context, const Arguments&) {
    json result = json::array();
    for (const auto& slot : context.rig.slots()) {
        const auto& mac = slot.description.mac;
        result.push_back({{"name", slot.description.name},
                          {"socket", slot.description.socket},
                          {"mac", fmt::format("{:02x}", fmt::join(mac, ":"))},
                          {"serial", slot.description.serial},
                          {"guest", on(context, slot.component, [&] { return slot.server->connected(); })}});
    }
    return result;
}

json counters(Context& context, const Arguments& arguments) {
    json result = json::object();
    if (!arguments.empty())
        (void)find_card(context, arguments[0]);
    for (const auto& slot : context.rig.slots()) {
        if (!arguments.empty() && arguments[0] != slot.description.name)
            continue;
        json& card = result[slot.description.name] = json::object();
        const auto add = [&](const std::string& name, Counter value) { card[name] = value; };
        context.rig.on(slot.component, [&] {
            slot.card->counters().for_each(add);
            slot.server->counters().for_each(add);
        });
    }
    return result;
}

json impairments_of(const Impairer& impairer) {
    const Impairments& i = impairer.what();
    const auto& s = impairer.statistics();
    return {{"loss", i.loss},
            {"duplicate", i.duplicate},
            {"reorder", i.reorder},
            {"corrupt", i.corrupt},
            {"delay_ns", i.delay},
            {"jitter_ns", i.jitter},
            {"reorder_delay_ns", i.reorder_delay},
            {"rate", i.rate},
            {"queue", i.queue},
            {"seed", i.seed},
            {"done",
             {{"lost", s.lost},
              {"overflowed", s.overflowed},
              {"duplicated", s.duplicated},
              {"reordered", s.reordered},
              {"corrupted", s.corrupted}}}};
}

json wire_state(const Wire& wire) {
    json impaired = json::object();
    for (unsigned port = 0; port < wire.labels().size(); port++)
        if (const Impairer* impairer = wire.impairer(port))
            impaired[wire.labels()[port]] = impairments_of(*impairer);
    const auto& s = wire.statistics();
    return {{"name", wire.name()}, {"up", wire.up()},          {"ends", wire.labels()},  {"frames", s.frames},
            {"bytes", s.bytes},    {"lost_down", s.lost_down}, {"impairments", impaired}};
}

json wires(Context& context, const Arguments&) {
    json result = json::array();
    for (const auto& wire : context.rig.wires())
        result.push_back(on(context, context.rig.component(*wire), [&] { return wire_state(*wire); }));
    return result;
}

Wire& find_wire(Context& context, const std::string& name) {
    if (Wire* wire = context.rig.wire(name))
        return *wire;
    std::string known;
    for (const auto& wire : context.rig.wires())
        known += (known.empty() ? "" : ", ") + wire->name();
    throw Refused(fmt::format("there is no wire '{}'; wires are: {}", name, known.empty() ? "none" : known));
}

Action wire(Context& context, const Arguments& arguments) {
    if (arguments[0] != "up" && arguments[0] != "down")
        throw Refused("expected: wire up NAME or wire down NAME");
    Wire& wire = find_wire(context, arguments[1]);
    return {context.rig.component(wire), [&wire, up = arguments[0] == "up"] {
                wire.set_up(up);
                return wire_state(wire);
            }};
}

bool is_stop(const Arguments& arguments) {
    return arguments[0] == "stop" && arguments.size() == 1;
}

/// The limit of "start WHERE [SIZE]", 0: none. @p expected: the forms of the command.
std::uint64_t limit_of_start(const Arguments& arguments, const char* expected) {
    std::uint64_t limit = 0;
    if (arguments[0] != "start" || arguments.size() < 2)
        throw Refused(std::string("expected: ") + expected);
    if (arguments.size() == 3 && !parse_size(arguments[2], limit))
        throw Refused("'" + arguments[2] + "': expected a size such as 500K, 64M or 2G");
    return limit;
}

json capture(Context& context, const Arguments& arguments) {
    if (is_stop(arguments)) {
        if (!context.rig.stop_capture())
            throw Refused("no capture runs");
        return nullptr;
    }
    const std::uint64_t limit = limit_of_start(arguments, "capture start DIR [SIZE] or capture stop");
    return context.rig.start_capture(arguments[1], limit);
}

json record(Context& context, const Arguments& arguments) {
    if (is_stop(arguments)) {
        if (!context.rig.stop_recording())
            throw Refused("nothing is recorded");
        return nullptr;
    }
    const std::uint64_t limit = limit_of_start(arguments, "record start FILE [SIZE] or record stop");
    context.rig.start_recording(arguments[1], limit);
    return nullptr;
}

Action impair(Context& context, const Arguments& arguments) {
    Wire& wire = find_wire(context, arguments[0]);
    const auto& labels = wire.labels();
    const std::string& end = arguments[1];
    if (std::ranges::find(labels, end) == labels.end() && end != "all")
        throw Refused(fmt::format("wire '{}' has no end '{}'; its ends are: all, {}", wire.name(), end,
                                  fmt::join(labels, ", ")));
    Impairments impairments;
    std::string wrong;
    for (std::size_t i = 2; i < arguments.size(); i++)
        if (!parse_impairment(arguments[i], impairments, wrong))
            throw Refused(wrong);
    return {context.rig.component(wire), [&wire, end, impairments]() mutable {
                for (unsigned port = 0; port < wire.labels().size(); port++) {
                    if (end != "all" && wire.labels()[port] != end)
                        continue;
                    wire.impair(port, impairments);
                    impairments.seed++; // with equal seeds both directions would lose the same frames
                }
                return wire_state(wire);
            }};
}

json faults() {
    constexpr std::array amounts{"", "[TIMES]", "[TIME]", "[nth=N]"};
    json result = json::array();
    for (const Card::Fault& fault : Card::faults())
        result.push_back({{"name", fault.name},
                          {"amount", amounts.at(static_cast<std::size_t>(fault.amount))},
                          {"target", fault.object != Card::Fault::Object::none},
                          {"what", fault.what}});
    return result;
}

/// False: @p text is no number of the type.
template <typename Number> bool parse_number(const std::string& text, Number& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

/// A count is a plain number, a time has a unit; the catalogue states which one a fault takes.
std::uint64_t parse_amount(const Card::Fault& fault, const std::string& text) {
    std::uint64_t times = 0;
    switch (fault.amount) {
    case Card::Fault::Amount::times:
        if (parse_number(text, times))
            return times;
        throw Refused("'" + text + "': expected a number of times, for example 3");
    case Card::Fault::Amount::time:
        if (const auto time = parse_time(text))
            return *time;
        throw Refused("'" + text + "': expected a time such as 200ms");
    case Card::Fault::Amount::nth:
        throw Refused("'" + text + "': expected tid=N, qp=N or nth=N");
    case Card::Fault::Amount::none:
        break;
    }
    throw Refused(fmt::format("the fault '{}' has no amount", fault.name));
}

/// The number behind @p key ("nth="), if @p text begins with it.
template <typename Number>
bool parse_key(const std::string& text, std::string_view key, std::optional<Number>& to) {
    if (!text.starts_with(key))
        return false;
    Number value = 0;
    if (!parse_number(text.substr(key.size()), value))
        throw Refused("'" + text + "': expected a number");
    to = value;
    return true;
}

Action cause(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1)
        return result_of(faults());
    const Rig::Slot& slot = find_card(context, arguments[0]);
    if (arguments.size() < 2)
        throw Refused("expected: cause CARD FAULT; cause --list shows the faults");
    const auto all = Card::faults();
    const auto fault =
        std::find_if(all.begin(), all.end(), [&](const Card::Fault& f) { return arguments[1] == f.name; });
    if (fault == all.end())
        throw Refused("there is no fault '" + arguments[1] + "'; cause --list shows all");
    std::optional<std::uint64_t> amount;
    Card::Target target;
    for (std::size_t i = 2; i < arguments.size(); i++) {
        const std::string& text = arguments[i];
        const bool nth = fault->amount == Card::Fault::Amount::nth && parse_key(text, "nth=", amount);
        if (!nth && !parse_key(text, "tid=", target.tid) && !parse_key(text, "qp=", target.qp))
            amount = parse_amount(*fault, text);
    }
    return {slot.component,
            [&slot, name = fault->name, amount, target] {
                slot.card->inject(name, amount, target);
                return nullptr;
            },
            fault->at_once};
}

Action lie(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1) {
        json result = json::array();
        for (const Card::LieKind& kind : Card::lie_kinds())
            result.push_back({{"name", kind.name}, {"what", kind.what}});
        return result_of(std::move(result));
    }
    const Rig::Slot& slot = find_card(context, arguments[0]);
    if (arguments.size() == 2 && arguments[1] == "off")
        return {slot.component, [&slot] {
                    slot.card->stop_lies();
                    return nullptr;
                }};
    constexpr double usual_rate = 0.01;
    std::uint64_t seed = 0;
    double rate = usual_rate;
    if (arguments.size() < 2 || !parse_number(arguments[1], seed))
        throw Refused("expected: lie CARD SEED [RATE] [KIND...] or lie CARD off; lie --list shows the kinds");
    const bool has_rate = arguments.size() > 2 && parse_number(arguments[2], rate);
    if (!(rate > 0 && rate <= 1))
        throw Refused("'" + arguments[2] + "': expected a rate above 0, and 1 at most");
    Arguments kinds(arguments.begin() + (has_rate ? 3 : 2), arguments.end());
    return {slot.component, [&slot, seed, rate, kinds = std::move(kinds)] {
                slot.card->lie(seed, rate, kinds);
                return nullptr;
            }};
}

Action guess(Context& context, const Arguments& arguments) {
    if (arguments[0] == "--list" && arguments.size() == 1) {
        json result = json::array();
        for (const Card::Question& row : Card::questions())
            result.push_back(
                {{"name", fmt::format("G{}", row.number)}, {"modelled", row.modelled}, {"other", row.other}});
        return result_of(std::move(result));
    }
    const Rig::Slot& slot = find_card(context, arguments[0]);
    return {slot.component, [&slot, arguments] {
                for (std::size_t i = 1; i < arguments.size(); i++)
                    slot.card->guess(arguments[i]);
                return slot.card->guesses();
            }};
}

json table(Context& context, const Arguments& arguments) {
    if (!arguments.empty())
        (void)find_card(context, arguments[0]);
    const std::string& card = context.card;
    // A part has cards of one component.
    std::vector<NamedCard> cards;
    std::string next_card;
    unsigned component = 0;
    for (const auto& slot : context.rig.slots()) {
        const std::string& name = slot.description.name;
        if ((!arguments.empty() && arguments[0] != name) || (cards.empty() && !card.empty() && card != name))
            continue;
        if (!cards.empty() && slot.component != component) {
            next_card = name;
            break;
        }
        component = slot.component;
        cards.push_back({name, slot.card.get()});
    }
    TablePart part;
    context.rig.on(component, [&] { part = table_part(context.command, cards, card, context.number); });
    if (part.card.empty())
        part.card = next_card;
    if (!part.card.empty())
        context.next = {{"card", part.card}, {"number", part.number}};
    return std::move(part.rows);
}

Action reset(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    return {slot.component, [&slot] {
                slot.server->reset_device();
                return nullptr;
            }};
}

Action action_of(Context& context, const std::string& command, const Arguments& arguments);

json at(Context& context, const Arguments& arguments) {
    const Rig::Slot& slot = find_card(context, arguments[0]);
    CardEvents& events = *slot.events;
    if (arguments.size() == 1)
        return on(context, slot.component, [&] { return events.commands(); });
    if (arguments.size() == 2 && arguments[1] == "off") {
        context.rig.on(slot.component, [&] { events.drop_rules(); });
        return nullptr;
    }
    Arguments selection{arguments[1]};
    std::optional<std::uint64_t> nth;
    auto word = arguments.begin() + 2;
    for (; word != arguments.end() && word->find('=') != std::string::npos; ++word)
        if (!parse_key(*word, "nth=", nth))
            selection.push_back(*word);
    if (nth == 0U)
        throw Refused("nth is counted from 1");
    EventFilter filter(selection);
    if (word == arguments.end())
        throw Refused(
            "expected a command behind the event, for example: at a cpl name=PEER_CLOSE cause a unplug");
    const std::string& command = *word;
    const Action action = action_of(context, command, {word + 1, arguments.end()});
    if (action.component != slot.component)
        throw Refused(fmt::format("no wires join the card '{}' and what '{}' is about", arguments[0],
                                  fmt::join(word, arguments.end(), " ")));
    context.rig.on(slot.component, [&] {
        events.add({.command = fmt::format("{}", fmt::join(word, arguments.end(), " ")),
                    .filter = filter,
                    .left = nth.value_or(1),
                    .at_once = action.at_once,
                    .run = [run = action.run] { (void)run(); }});
    });
    return nullptr;
}

json subscribe(Context& context, const Arguments& arguments) {
    if (context.subscription)
        throw Refused("this connection has a subscription already");
    std::vector<const Rig::Slot*> slots;
    Arguments selection;
    for (const std::string& word : arguments) {
        if (const Rig::Slot* slot = context.rig.slot(word))
            slots.push_back(slot);
        else
            selection.push_back(word);
    }
    const auto subscription = std::make_shared<Subscription>(EventFilter(selection), context.wake);
    for (const Rig::Slot& slot : context.rig.slots())
        if (slots.empty() || std::ranges::find(slots, &slot) != slots.end())
            context.rig.on(slot.component, [&] { slot.events->subscribe(subscription); });
    context.subscription = subscription;
    return nullptr;
}

json version(Context&, const Arguments&) {
    return {{"protocol", Control::version}, {"program", program_version}};
}

json quit(Context& context, const Arguments&) {
    context.loop.stop();
    return nullptr;
}

json help(Context&, const Arguments&);

struct Row {
    const char* name;
    std::size_t min_arguments, max_arguments;
    json (*handler)(Context&, const Arguments&);
    const char* usage;
    bool is_table = false;
    Action (*prepare)(Context&, const Arguments&) = nullptr; ///< instead of a handler; also for `at`
};

constexpr Row rows[] = {
    {"cards", 0, 0, cards, "cards                 cards and their sockets"},
    {"counters", 0, 1, counters, "counters [CARD]       all counters"},
    {"connections", 0, 1, table, "connections [CARD]    offloaded TCP connections", true},
    {"qps", 0, 1, table, "qps [CARD]            connected queue pairs", true},
    {"cqs", 0, 1, table, "cqs [CARD]            completion queues", true},
    {"regions", 0, 1, table, "regions [CARD]        memory regions and windows", true},
    {"rings", 0, 1, table, "rings [CARD]          rings in host memory: of QPs and of the NIC driver", true},
    {"reset", 1, 1, nullptr, "reset CARD            resets the card, as a reset of its PCI function does",
     false, reset},
    {"wires", 0, 0, wires, "wires                 state and statistics of the wires"},
    {"wire", 2, 2, nullptr, "wire up|down NAME     plugs or pulls a cable", false, wire},
    {"capture", 1, 3, capture,
     "capture start DIR [SIZE] | capture stop\n                      writes DIR/WIRE.pcapng for each wire"},
    {"record", 1, 3, record,
     "record start FILE [SIZE] | record stop\n                      records events of all cards, for t3sim "
     "trace"},
    {"impair", 3, 16, nullptr,
     "impair WIRE END|all KEY=VALUE... | none\n                      impairs frames of END: loss, duplicate, "
     "reorder, corrupt (0 to 1), delay,\n                      jitter, reorder-delay (50us), rate (1G), "
     "queue (64K), seed",
     false, impair},
    {"cause", 1, 4, nullptr,
     "cause CARD FAULT [TIMES|TIME|tid=N|qp=N|nth=N] | cause --list\n                      injects a fault "
     "into the card, see docs/faults.md",
     false, cause},
    {"at", 1, 24, at,
     "at CARD EVENT [name=NAME] [tid=N] [qp=N] [nth=N] COMMAND... | at CARD [off]\n                      "
     "runs "
     "cause, lie, guess, impair, wire or reset at the nth such event, see\n                      "
     "docs/script.md"},
    {"subscribe", 0, 24, subscribe,
     "subscribe [CARD] [EVENT] [name=NAME] [tid=N] [qp=N]\n                      prints what the cards do, a "
     "line of JSON each, until it is interrupted"},
    {"lie", 1, 10, nullptr,
     "lie CARD SEED [RATE] [KIND...] | lie CARD off | lie --list\n                      makes the card lie "
     "to its "
     "driver, see docs/faults.md",
     false, lie},
    {"guess", 1, 16, nullptr,
     "guess CARD [Gn=other|Gn=modelled...] | guess --list\n                      selects the card's answers "
     "to "
     "open questions, and shows those that are not usual",
     false, guess},
    {"version", 0, 0, version, "version               of the protocol and of the program"},
    {"quit", 0, 0, quit, "quit                  ends t3sim"},
    {"help", 0, 0, help, "help                  this list"},
};

json help(Context&, const Arguments&) {
    json result = json::array();
    for (const auto& row : rows)
        result.push_back(row.usage);
    return result;
}

const Row& find_row_of(const std::string& command, const Arguments& arguments) {
    for (const auto& row : rows) {
        if (command != row.name)
            continue;
        if (arguments.size() < row.min_arguments || arguments.size() > row.max_arguments)
            throw Refused(std::string("usage: ") + row.usage);
        return row;
    }
    throw Refused("unknown command '" + command + "'; try help");
}

Action action_of(Context& context, const std::string& command, const Arguments& arguments) {
    const Row& row = find_row_of(command, arguments);
    if (!row.prepare)
        throw Refused("'" + command +
                      "' cannot run at an event; cause, lie, guess, impair, wire and reset can");
    return row.prepare(context, arguments);
}

json dispatch(Context& context, const std::string& line) {
    // A Json, which keeps the order of keys, compares each new one with all earlier ones.
    const auto request = nlohmann::json::parse(line, nullptr, false);
    if (!request.is_object() || !request.contains("command") || !request["command"].is_string())
        throw Refused(R"(expected one JSON object such as {"command": "wire", "args": ["down", "a.0-b.0"]})");
    if (request.contains("version") &&
        (!request["version"].is_number_unsigned() || request["version"] > Control::version))
        throw Refused(fmt::format("this t3sim speaks version {} of the protocol", Control::version));
    if (request.contains("from")) {
        // Only its members are copied. A copy of arrays in each other, of which a line may have 32,000, would
        // need the stack for each.
        const auto& from = request["from"];
        if (!from.is_object() || !from.contains("card") || !from["card"].is_string() ||
            !from.contains("number") || !from["number"].is_number_unsigned())
            throw Refused(R"("from" must be the "next" of the reply before)");
        context.card = from["card"];
        context.number = from["number"];
    }
    Arguments arguments;
    if (request.contains("args")) {
        if (!request["args"].is_array())
            throw Refused(R"("args" must be an array of strings)");
        for (const auto& argument : request["args"]) {
            if (!argument.is_string())
                throw Refused(R"("args" must be an array of strings)");
            arguments.push_back(argument.get<std::string>());
        }
    }
    context.command = request["command"].get<std::string>();
    const Row& row = find_row_of(context.command, arguments);
    if (!row.prepare)
        return row.handler(context, arguments);
    const Action action = row.prepare(context, arguments);
    return on(context, action.component, action.run);
}

} // namespace

Control::Control(EventLoop& loop, Rig& rig, const std::string& path)
    : loop_(loop), rig_(rig), listener_(
                                  loop, path, [this](Fd socket) { accept(std::move(socket)); }, share_) {
    worker_.on_idle(loop, [this] { listener_.pause(false); });
}

Control::~Control() {
    for (const auto& client : clients_)
        loop_.unwatch(client.watch);
}

std::string Control::handle_line(const std::string& line, std::shared_ptr<Subscription>& subscription) {
    Context context{loop_, rig_, {}, {}, 0, {}, subscription, waker()};
    json reply{{"version", version}};
    try {
        json result = dispatch(context, line);
        reply["ok"] = true;
        reply["result"] = std::move(result);
        if (!context.next.is_null())
            reply["next"] = context.next;
    } catch (const std::runtime_error& e) {
        reply["ok"] = false;
        reply["error"] = e.what();
    } catch (const std::invalid_argument& e) { // of a card, about its arguments
        reply["ok"] = false;
        reply["error"] = e.what();
    }
    // The request may contain invalid UTF-8, which the reply must not repeat.
    return reply.dump(-1, ' ', false, json::error_handler_t::replace);
}

void Control::accept(Fd socket) {
    if (clients_.size() >= max_clients) {
        const auto idle =
            std::ranges::find_if(clients_, [](const Client& one) { return one.idle() && !one.subscription; });
        drop(idle == clients_.end() ? clients_.begin() : idle);
    }
    listener_.pause(worker_.is_behind()); // until it is idle
    const auto client = clients_.emplace(clients_.end());
    client->socket = std::move(socket);
    try {
        client->watch = loop_.watch(
            client->socket.get(), EPOLLIN,
            [this, client](std::uint32_t events) {
                if (!ready(*client, events))
                    drop(client);
            },
            share_);
    } catch (...) {
        drop(client); // by the worker, as it may have sent descriptors
        throw;
    }
}

std::function<void()> Control::waker() {
    return [this, token = std::weak_ptr(share_)] {
        loop_.post([this, token] {
            if (token.lock())
                wake_subscribers();
        });
    };
}

void Control::wake_subscribers() {
    for (const Client& client : clients_)
        if (client.subscription)
            loop_.change(client.watch, client.idle() ? EPOLLIN : EPOLLOUT);
}

void Control::drop(ClientPlace client) {
    if (client->subscription)
        for (const auto& slot : rig_.slots())
            rig_.post(slot.component, [events = slot.events.get(), gone = client->subscription] {
                events->unsubscribe(gone);
            });
    loop_.unwatch(client->watch);
    shutdown(client->socket.get(), SHUT_RDWR);
    worker_.close(std::move(client->socket));
    clients_.erase(client);
}

bool Control::ready(Client& client, std::uint32_t events) {
    if (client.idle())
        return read(client) && work(client);
    return (events & (EPOLLHUP | EPOLLERR)) == 0 && work(client);
}

bool Control::read(Client& client) {
    std::array<char, 4096> piece{};
    std::vector<Fd> fds;
    const ssize_t n = receive_with(client.socket.get(), piece.data(), piece.size(), fds);
    if (n <= 0 || !fds.empty()) {
        const bool nothing_yet = n < 0 && (errno == EAGAIN || errno == EINTR);
        worker_.close(std::move(fds));
        return nothing_yet;
    }
    client.input.append(piece.data(), static_cast<std::size_t>(n));
    return true;
}

/// Executes one request, or sends the rest of its reply. Between two requests the cards and the other clients
/// have their turns.
bool Control::work(Client& client) {
    if (const auto end = client.input.find('\n'); client.output.empty() && end != std::string::npos) {
        client.output = handle_line(client.input.substr(0, end), client.subscription) + '\n';
        client.input.erase(0, end + 1);
    } else if (client.output.empty() && client.subscription) {
        client.output = client.subscription->lines();
    }
    if (!client.output.empty() && !send_output(client))
        return false;
    loop_.change(client.watch, client.idle() ? EPOLLIN : EPOLLOUT);
    return !client.idle() || client.input.size() <= max_line;
}

bool Control::send_output(Client& client) {
    const ssize_t n =
        ::send(client.socket.get(), client.output.data(), client.output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    client.output.erase(0, static_cast<std::size_t>(n));
    return true;
}

namespace {

/// A failure of t3sim ctl; printed, status 1.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Client {
public:
    explicit Client(const std::string& path) : socket_(connect_unix(path)) {
        if (!socket_)
            throw Failed(fmt::format("cannot reach a t3sim at '{}': {}", path, std::strerror(errno)));
    }

    /// The reply to a request that succeeded.
    json ask(const json& request) {
        const std::string line = request.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
        if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(line.size()))
            throw Failed("connection lost");
        std::array<char, 65536> piece{};
        auto end = input_.find('\n');
        while (end == std::string::npos) {
            const ssize_t n = recv(socket_.get(), piece.data(), piece.size(), 0);
            if (n <= 0)
                break;
            const std::size_t before = input_.size();
            input_.append(piece.data(), static_cast<std::size_t>(n));
            end = input_.find('\n', before);
        }
        json reply = json::parse(input_.substr(0, end), nullptr, false);
        input_.erase(0, end == std::string::npos ? end : end + 1);
        if (!reply.is_object() || !reply.contains("ok"))
            throw Failed("no reply");
        if (!reply["ok"].get<bool>())
            throw Failed(reply.value("error", "refused"));
        return reply;
    }

    /// All parts of a table.
    json table(json request) {
        json all = json::array();
        for (;;) {
            json reply = ask(request);
            for (json& row : reply["result"])
                all.push_back(std::move(row));
            if (!reply.contains("next"))
                return all;
            request["from"] = reply["next"];
        }
    }

    /// Prints what follows the reply until the connection ends.
    void copy_lines() {
        std::array<char, 65536> piece{};
        for (;;) {
            fmt::print("{}", input_);
            std::fflush(stdout);
            const ssize_t n = recv(socket_.get(), piece.data(), piece.size(), 0);
            if (n <= 0)
                break;
            input_.assign(piece.data(), static_cast<std::size_t>(n));
        }
    }

private:
    Fd socket_;
    std::string input_; ///< behind the last reply
};

const Row* find_row(std::string_view command) {
    const auto* row =
        std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return command == r.name; });
    return row == std::end(rows) ? nullptr : row;
}

void print_table(const std::string& name, const json& table, bool as_json, bool again) {
    if (as_json) // one line each time, for programs
        fmt::print("{}\n", table.dump(again ? -1 : 2));
    else
        fmt::print("{}{}", again && isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", table_text(name, table));
    std::fflush(stdout);
}

int run_command(const std::string& path, const std::string& command, Arguments arguments) {
    const Row* row = find_row(command);
    const bool is_table = row && row->is_table;
    bool as_json = false, watch = false;
    if (is_table)
        std::erase_if(arguments, [&](const std::string& argument) {
            as_json |= argument == "--json";
            watch |= argument == "--watch";
            return argument == "--json" || argument == "--watch";
        });
    Client client(path);
    const json request{{"version", Control::version}, {"command", command}, {"args", arguments}};
    if (is_table) {
        print_table(command, client.table(request), as_json, watch);
        while (watch) {
            sleep(1);
            print_table(command, client.table(request), as_json, true);
        }
        return 0;
    }
    const json reply = client.ask(request);
    const json& result = reply["result"];
    if (command == "subscribe")
        client.copy_lines();
    else if (command == "help")
        for (const auto& usage : result)
            fmt::print("{}\n", usage.get<std::string>());
    else if (command == "cause" && result.is_array())
        for (const auto& fault : result)
            fmt::print("{:22} {:22} {}\n", fault["name"].get<std::string>(),
                       (fault["target"].get<bool>() ? "[tid=N|qp=N] " : "") +
                           fault["amount"].get<std::string>(),
                       fault["what"].get<std::string>());
    else if (command == "guess" && result.is_array())
        for (const auto& row : result)
            fmt::print("{:<5}{:<56}  other: {}\n", row["name"].get<std::string>(),
                       row["modelled"].get<std::string>(), row["other"].get<std::string>());
    else if (!result.is_null())
        fmt::print("{}\n", result.dump(2));
    return 0;
}

} // namespace

int control_client(std::span<const char* const> arguments) {
    if (!arguments.empty() &&
        (arguments[0] == std::string_view("--help") || arguments[0] == std::string_view("-h"))) {
        fmt::print("Usage: t3sim ctl [SOCKET] COMMAND [ARG...]\n\n"
                   "Without SOCKET: the one that the variable {} names. Then a SOCKET whose name is a "
                   "command needs a "
                   "folder (./quit).\n\nCommands:\n",
                   control_variable);
        for (const auto& row : rows)
            fmt::print("{}\n", row.usage);
        fmt::print("\nOptions of connections, qps, cqs, regions and rings:\n"
                   "  --json      JSON instead of columns\n"
                   "  --watch     again every second; with --json one line each time\n");
        return 0;
    }
    const char* const variable = std::getenv(control_variable);
    std::string path;
    if (variable && *variable && !arguments.empty() && find_row(arguments[0])) {
        path = variable;
    } else if (arguments.size() >= 2) {
        path = arguments[0];
        arguments = arguments.subspan(1);
    } else {
        fmt::print(
            stderr,
            "t3sim: usage: t3sim ctl [SOCKET] COMMAND [ARG...]; t3sim ctl --help lists the commands; without "
            "SOCKET the variable {} must name it\n",
            control_variable);
        return 2;
    }
    try {
        return run_command(path, arguments[0], {arguments.begin() + 1, arguments.end()});
    } catch (const Failed& e) {
        fmt::print(stderr, "t3sim: {}\n", e.what());
        return 1;
    }
}

} // namespace t3sim
