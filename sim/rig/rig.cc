// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/rig/rig.hh"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <sys/random.h>

#include "sim/net/qemu_socket.hh"
#include "sim/net/tap.hh"
#include "sim/net/udp_socket.hh"
#include "sim/vfio/server.hh"
#include "sim/vhost/server.hh"

namespace t3sim {

namespace {

std::array<std::uint64_t, 2> random_secret() {
    std::array<std::uint64_t, 2> secret{};
    if (getrandom(secret.data(), sizeof secret, 0) != sizeof secret)
        throw std::runtime_error("getrandom() failed");
    return secret;
}

} // namespace

Rig::Rig(EventLoop& loop, const Options& options) : main_(loop), components_(components(options)) {
    const unsigned most = options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
    thread_count_ = std::clamp(components_.count, 1U, std::max(most, 1U));
    for (unsigned component = 0; component < components_.count; ++component) {
        const bool of_main = component == 0 && thread_count_ == 1;
        loops_.push_back(of_main ? &loop
                                 : own_loops_.emplace_back(std::make_unique<EventLoop>(loop.start())).get());
    }
    for (const auto& description : options.cards) {
        const unsigned component = components_.of_card[slots_.size()];
        EventLoop& its_loop = *loops_[component];
        Slot slot{.description = description, .server = {}, .card = {}, .component = component, .events = {}};
        if (description.vhost_user)
            slot.server = std::make_unique<vhost::Server>(its_loop, description.socket);
        else
            slot.server = std::make_unique<vfio::Server>(its_loop, description.socket);
        slot.card = std::make_unique<Card>(CardConfig{.name = description.name,
                                                      .mac = description.mac,
                                                      .serial = description.serial,
                                                      .chip = description.chip,
                                                      .lanes = description.lanes,
                                                      .secret = random_secret()},
                                           *slot.server, its_loop.queue());
        for (const auto& guess : options.guesses)
            slot.card->guess(guess);
        for (const auto& time : options.times)
            slot.card->set_time(time);
        slot.events = std::make_unique<CardEvents>(*slot.card, description.name, its_loop.queue());
        slots_.push_back(std::move(slot));
    }
    for (const auto& description : options.wires) {
        EventLoop& its_loop = *loops_[components_.of_wire[wires_.size()]];
        auto& wire = *wires_.emplace_back(std::make_unique<Wire>(its_loop.queue(), description.name));
        wire.compute_sums(options.compute_sums);
        for (const auto& end : description.ends)
            plug(wire, its_loop, end);
    }
    if (!options.capture.empty())
        start_capture(options.capture, options.capture_limit);
    if (!options.record.empty())
        start_recording(options.record, options.record_limit);
    // Last, so that no guest accesses a card before its wires are connected.
    for (const auto& slot : slots_)
        slot.server->attach(*slot.card);
}

void Rig::plug(Wire& wire, EventLoop& loop, const Options::End& end) {
    switch (end.kind) {
    case Options::End::Kind::card_port: {
        Card& card = *slot(end.card)->card;
        card.connect(end.port, wire);
        wire.attach(card.port(end.port), end.label());
        return;
    }
    case Options::End::Kind::qemu:
        others_.push_back(std::make_unique<QemuSocket>(loop, wire, end.where));
        break;
    case Options::End::Kind::tap:
        others_.push_back(std::make_unique<TapDevice>(loop, wire, end.where));
        break;
    case Options::End::Kind::udp:
        others_.push_back(std::make_unique<UdpSocket>(loop, wire, end.where));
        break;
    }
    wire.attach(*others_.back(), end.label());
}

void Rig::run() {
    if (thread_count_ == 1) {
        Signals::prepare();
        std::vector<EventLoop*> all{&main_};
        for (EventLoop* loop : loops_)
            if (loop != &main_)
                all.push_back(loop);
        return EventLoop::run_together(all);
    }
    std::vector<std::vector<EventLoop*>> groups(thread_count_);
    for (unsigned component = 0; component < components_.count; ++component)
        groups[component % thread_count_].push_back(loops_[component]);
    for (const auto& group : groups)
        threads_.emplace_back([this, &group] {
            try {
                Signals::prepare();
                EventLoop::run_together(group);
            } catch (...) {
                main_.post([this, error = std::current_exception()] {
                    failure_ = error;
                    main_.stop();
                });
            }
        });
    try {
        main_.run();
    } catch (...) {
        failure_ = std::current_exception();
    }
    for (const auto& group : groups)
        group[0]->post([&group] { group[0]->stop(); });
    for (std::thread& thread : threads_)
        thread.join();
    threads_.clear();
    if (failure_)
        std::rethrow_exception(failure_);
}

void Rig::on(unsigned component, const std::function<void()>& task) const {
    // A thread comes to it after one turn, unless the machine is overloaded or a disk does not respond.
    constexpr Time limit = 5'000'000'000;
    if (threads_.empty())
        loops_[component]->call_here(task);
    else if (!loops_[component]->call(task, limit))
        throw std::runtime_error("the thread of the card or wire does not respond");
}

void Rig::post(unsigned component, std::function<void()> task) const {
    loops_[component]->post(std::move(task));
}

std::vector<std::string> Rig::start_capture(const std::string& directory, std::uint64_t limit) {
    stop_capture();
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error)
        throw std::runtime_error("cannot make '" + directory + "': " + error.message());
    std::vector<std::string> files;
    captures_.resize(wires_.size());
    try {
        for (std::size_t i = 0; i < wires_.size(); ++i) {
            Wire& wire = *wires_[i];
            files.push_back(directory + "/" + wire.name() + ".pcapng");
            on(component(wire), [&] {
                captures_[i] = std::make_unique<PcapngWriter>(loops_[component(wire)]->queue(), wire,
                                                              files.back(), limit);
            });
        }
    } catch (...) {
        stop_capture();
        throw;
    }
    return files;
}

bool Rig::stop_capture() {
    const bool ran = !captures_.empty();
    for (std::size_t i = 0; i < captures_.size(); ++i)
        on(component(*wires_[i]), [&] { captures_[i].reset(); });
    captures_.clear();
    return ran;
}

void Rig::start_recording(const std::string& path, std::uint64_t limit) {
    stop_recording();
    const std::uint32_t count = components_.with_cards;
    if (limit != 0 && limit / count < trace_file::min_limit)
        throw std::runtime_error("a recording needs a limit of at least " +
                                 std::to_string(count * trace_file::min_limit) + " bytes");
    recorders_.resize(count);
    const std::uint64_t id = wall_clock();
    try {
        for (std::uint32_t component = 0; component < count; ++component)
            on(component, [&] {
                auto& recorder = recorders_[component];
                recorder = std::make_unique<Recorder>(loops_[component]->queue(),
                                                      trace_file::file_of(path, component), limit / count,
                                                      Recorder::Component{component, count, id});
                for (const auto& slot : slots_)
                    if (slot.component == component)
                        slot.card->record(recorder.get());
            });
    } catch (...) {
        stop_recording();
        throw;
    }
}

bool Rig::stop_recording() {
    const bool ran = !recorders_.empty();
    for (std::uint32_t component = 0; component < recorders_.size(); ++component)
        on(component, [&] {
            for (const auto& slot : slots_)
                if (slot.component == component)
                    slot.card->record(nullptr);
            recorders_[component].reset();
        });
    recorders_.clear();
    return ran;
}

Rig::~Rig() {
    // The destructor of a card may still access its host and its wires.
    for (auto& slot : slots_)
        slot.card.reset();
}

const Rig::Slot* Rig::slot(const std::string& name) const {
    for (const auto& slot : slots_)
        if (slot.description.name == name)
            return &slot;
    return nullptr;
}

Wire* Rig::wire(const std::string& name) const {
    for (const auto& wire : wires_)
        if (wire->name() == name)
            return wire.get();
    return nullptr;
}

unsigned Rig::component(const Wire& wire) const {
    const auto found = std::ranges::find(wires_, &wire, &std::unique_ptr<Wire>::get);
    return components_.of_wire.at(static_cast<std::size_t>(found - wires_.begin()));
}

} // namespace t3sim
