// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The control socket: one JSON object per line each way. Request {"command": "wire", "args": ["down",
// "a.0-b.0"]}; reply {"ok": true, "result": ...} or {"ok": false, "error": "what is wrong"}.
#pragma once

#include <list>
#include <span>
#include <string>

#include "sim/core/event_loop.hh"
#include "sim/core/unix_socket.hh"
#include "sim/vfio/rig.hh"

namespace t3sim {

class Control {
public:
    Control(EventLoop& loop, Rig& rig, const std::string& path);
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    ~Control();

    /// Executes one request line. Returns the reply, without the newline.
    std::string handle_line(const std::string& line);

private:
    struct Client {
        Fd socket;
        EventLoop::Watch watch = 0;
        std::string input;
    };

    void accept(Fd socket);
    /// False: the client is done.
    bool read(Client& client);

    EventLoop& loop_;
    Rig& rig_;
    std::list<Client> clients_;
    Listener listener_;
};

/// t3sim ctl SOCKET COMMAND [ARG...]; returns the exit status.
int control_client(std::span<const char* const> arguments);

} // namespace t3sim
