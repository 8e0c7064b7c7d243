// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The control socket: one JSON object per line each way. Request {"command": "wire", "args": ["down",
// "a.0-b.0"]}; reply {"version": 1, "ok": true, "result": ...} or {"version": 1, "ok": false, "error": "what
// is wrong"}. README.md describes the protocol, commands.hh has the commands.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/unix_socket.hh"
#include "sim/core/worker.hh"
#include "sim/rig/rig.hh"

namespace t3sim {

class Control {
public:
    Control(EventLoop& loop, Rig& rig, const std::string& path);
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    ~Control();

    /// One more takes the place of the first one that is idle, or waits. So clients cannot use up the
    /// descriptors of the process.
    static constexpr std::size_t max_clients = 32;

    /// Executes one request line of a client. Returns the reply, without the newline.
    std::string handle_line(const std::string& line, std::shared_ptr<Subscription>& subscription);

private:
    struct Client {
        Fd socket;
        EventLoop::Watch watch = 0;
        std::string input;
        std::string output; ///< the rest of a reply
        std::shared_ptr<Subscription> subscription;
        /// Nothing to do until more input, or an event, arrives.
        [[nodiscard]] bool idle() const {
            return output.empty() && input.find('\n') == std::string::npos &&
                   !(subscription && subscription->waits());
        }
    };
    using ClientPlace = std::list<Client>::iterator;

    void accept(Fd socket);
    // False: the client is done.
    bool ready(Client& client, std::uint32_t events);
    bool read(Client& client);
    bool work(Client& client);
    bool send_output(Client& client);

    void drop(ClientPlace client);
    [[nodiscard]] Worker& free_worker();
    /// Wakes the client of a subscription. In any thread.
    [[nodiscard]] std::function<void()> waker();
    void wake_subscribers();

    EventLoop& loop_;
    Rig& rig_;
    /// They close sockets, and with them the descriptors that clients have sent: a request needs none. A
    /// close that never ends takes one of them.
    std::array<Worker, 8> workers_;
    std::list<Client> clients_;
    const EventLoop::SharedShare share_ = std::make_shared<EventLoop::Share>(); ///< of all clients
    Listener listener_;
};

} // namespace t3sim
