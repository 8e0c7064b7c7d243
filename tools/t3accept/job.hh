// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

namespace t3accept {

using Clock = std::chrono::steady_clock;

/// From this call on SIGINT, SIGTERM and SIGHUP only set what interrupted() returns, so that whatever was
/// changed can be undone. It is false again after the call.
void handle_signals();
bool interrupted();

/// How a program ended.
struct Done {
    int status = 0;    // of the exit, or 128 + the signal
    bool late = false; // it was killed because its time was over
    std::string output;
    double seconds = 0;
};

/// A program that runs beside this one. It is killed with its children if it still runs when the object ends.
class Job {
public:
    /// Throws Missing if it is not installed.
    explicit Job(const std::vector<std::string>& words);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    bool running();
    Done finish(std::chrono::milliseconds limit);
    /// Sends SIGTERM and waits for a short time, so that it can end what it started.
    void terminate();
    std::string output() const;

private:
    void kill_group() const;

    pid_t child_ = 0;
    int output_ = -1;
    bool ended_ = false;
    int status_ = 0;
    Clock::time_point started_ = Clock::now();
};

/// A program that a step needs is not installed.
struct Missing {
    std::string program;
    bool at_peer = false;
};

} // namespace t3accept
