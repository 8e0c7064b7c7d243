// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The two ends of the run: this machine, and another one (or this one's other port) behind a TCP connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/common/machine.hh"
#include "tools/report/parse.hh"
#include "tools/t3accept/job.hh"
#include "tools/t3accept/task.hh"
#include "tools/t3doctor/checks.hh"

namespace t3accept {

inline constexpr int control_port = 7475;

/// All calls throw std::exception if they fail, and Missing if a program is not installed.
class End {
public:
    virtual ~End() = default;
    virtual Json inventory() = 0;
    virtual Counters counters() = 0;
    /// Lines of the kernel log since the last call.
    virtual std::vector<std::string> new_log() = 0;
    /// RDMA objects that exist, by kind.
    virtual Json objects() = 0;
    /// Starts a side of a task; the server side listens when it returns.
    virtual int start(const Task& task, Side side, const std::string& server) = 0;
    virtual Done finish(int job, std::chrono::milliseconds limit) = 0;
    /// Kills what was started and not finished.
    virtual void reset() {}
};

class LocalEnd : public End {
public:
    /// folder: of the programs that come with t3accept.
    LocalEnd(const t3tools::Machine& machine, t3doctor::Probe& probe, std::string role, std::string folder);
    Json inventory() override;
    Counters counters() override;
    std::vector<std::string> new_log() override;
    Json objects() override;
    int start(const Task& task, Side side, const std::string& server) override;
    Done finish(int job, std::chrono::milliseconds limit) override;
    void reset() override { jobs_.clear(); }

private:
    bool listens(int port) const;

    const t3tools::Machine& machine_;
    t3doctor::Probe& probe_;
    std::string role_;
    std::string folder_;
    std::vector<std::string> log_;
    std::map<int, std::unique_ptr<Job>> jobs_;
    int last_ = 0;
};

/// The figures of a transfer over the control connection, which is ordinary TCP.
struct Transfer {
    bool intact = false;
    double seconds = 0;
};

/// The other end.
class Peer : public End {
public:
    /// Sends or receives this much data with a pattern.
    virtual Transfer send(std::size_t bytes) = 0;
    virtual Transfer receive(std::size_t bytes) = 0;
};

class Stream;

/// An error affects one request only: the next one connects again.
class RemoteEnd : public Peer {
public:
    RemoteEnd(const std::string& address, int port);
    ~RemoteEnd() override;
    Json inventory() override;
    Counters counters() override;
    std::vector<std::string> new_log() override;
    Json objects() override;
    int start(const Task& task, Side side, const std::string& server) override;
    Done finish(int job, std::chrono::milliseconds limit) override;
    Transfer send(std::size_t bytes) override;
    Transfer receive(std::size_t bytes) override;

private:
    void connect();
    Json ask(const Json& request, std::chrono::milliseconds limit = std::chrono::seconds(60));
    Json exchange(const Json& request, std::chrono::milliseconds limit);
    /// Runs an exchange; if it fails, the connection is closed, since a late reply would be taken for the
    /// next one.
    template <typename F> auto guarded(F&& action);

    std::string address_;
    int port_;
    std::unique_ptr<Stream> stream_;
};

/// Serves one client after the other, until SIGTERM or SIGINT. ready is called when it listens.
void serve(const std::string& address, int port, End& end, const std::function<void()>& ready);

} // namespace t3accept
