// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The objects of one t3sim process: cards with their servers, and the wires between them. Those of one
// component (options.hh) have one event loop, and so one thread. Other threads use them only through on().
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sim/card/card.hh"
#include "sim/core/event_loop.hh"
#include "sim/core/pci_server.hh"
#include "sim/core/recorder.hh"
#include "sim/net/pcapng.hh"
#include "sim/net/wire.hh"
#include "sim/rig/events.hh"
#include "sim/rig/options.hh"

namespace t3sim {

class Rig {
public:
    /// @p loop: of the main thread, for all that is not of one component. Throws std::runtime_error with a
    /// complete sentence if something cannot be opened.
    Rig(EventLoop& loop, const Options& options);
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    ~Rig();

    /// Runs the loop of the main thread until it is stopped, and meanwhile the cards, in their threads.
    void run();
    /// The loop of a component, for its thread.
    [[nodiscard]] EventLoop& loop(unsigned component) const { return *loops_[component]; }
    /// Runs @p task in the thread of a component and waits for its end. In the main thread. Throws
    /// std::runtime_error if that thread does not come to the task; then it is not run.
    void on(unsigned component, const std::function<void()>& task) const;
    /// The same without waiting.
    void post(unsigned component, std::function<void()> task) const;

    struct Slot {
        Options::CardSpec description;
        std::unique_ptr<PciServer> server;
        std::unique_ptr<Card> card;
        unsigned component;
        std::unique_ptr<CardEvents> events;
    };
    [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }
    [[nodiscard]] const Slot* slot(const std::string& name) const;
    [[nodiscard]] const std::vector<std::unique_ptr<Wire>>& wires() const { return wires_; }
    [[nodiscard]] Wire* wire(const std::string& name) const;
    [[nodiscard]] unsigned component(const Wire& wire) const;

    /// Starts a capture of every wire in DIR/WIRE.pcapng, replacing a running capture. Creates the directory.
    /// @p limit: bytes per wire, 0 for none. Returns the files. Throws std::runtime_error; then no capture
    /// runs.
    std::vector<std::string> start_capture(const std::string& directory, std::uint64_t limit);
    /// False if none runs.
    bool stop_capture();

    /// Starts to record the events of all cards (sim/core/recorder.hh), replacing a running recording. The
    /// components share the limit. Throws std::runtime_error; then none runs.
    void start_recording(const std::string& path, std::uint64_t limit);
    /// False if none runs.
    bool stop_recording();

private:
    void plug(Wire& wire, EventLoop& loop, const Options::End& end);

    EventLoop& main_;
    Components components_;
    unsigned thread_count_;
    std::vector<std::unique_ptr<EventLoop>> own_loops_;
    std::vector<EventLoop*> loops_;    ///< by component
    std::vector<std::thread> threads_; ///< empty: all run in the main thread
    std::exception_ptr failure_;       ///< of another thread
    // Destroyed in reverse order: senders of frames before their receivers.
    std::vector<std::unique_ptr<Wire>> wires_;
    std::vector<std::unique_ptr<Endpoint>> others_;       ///< QEMU sockets and TAP devices
    std::vector<std::unique_ptr<PcapngWriter>> captures_; ///< by wire; empty: none runs
    std::vector<std::unique_ptr<Recorder>> recorders_;    ///< by component; empty: none runs
    std::vector<Slot> slots_;
};

} // namespace t3sim
