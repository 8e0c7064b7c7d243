// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/common/machine.hh"
#include "tools/t3accept/job.hh"

namespace t3accept {

/// The second port of the card in a network namespace of its own, with a t3accept --server there: frames
/// between the ports then go through the cable, which the kernel would avoid in one namespace. The destructor
/// undoes all of it.
class BothPorts {
public:
    static constexpr const char* own = "198.18.7.1"; // RFC 2544: for tests of network devices
    static constexpr const char* peer = "198.18.7.2";

    /// Throws if the machine has no such card, or if a command fails. program: this one.
    BothPorts(const t3tools::Machine& machine, const std::string& program);
    ~BothPorts();
    BothPorts(const BothPorts&) = delete;
    BothPorts& operator=(const BothPorts&) = delete;

    /// What the server printed.
    std::string output() const { return server_ ? server_->output() : ""; }

private:
    void ip(std::vector<std::string> words) const;
    bool carrier(const std::string& interface) const;
    void undo();

    const t3tools::Machine& machine_;
    std::string first_, second_;
    std::vector<std::string> addresses_; // of the second port, with their prefix lengths
    bool was_up_[2] = {};
    std::unique_ptr<Job> server_;
};

} // namespace t3accept
