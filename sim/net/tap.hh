// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A Linux TAP interface as an end of a wire. It connects the card to the host's TCP/IP stack, to bridges and
// to tcpdump.
#pragma once

#include <string>

#include "sim/net/descriptor_end.hh"

namespace t3sim {

class TapDevice : public DescriptorEnd {
public:
    /// Opens the interface @p name, or creates it if the process has the privileges. Sends received frames to
    /// @p link, which must outlive this. Throws std::runtime_error with a complete sentence.
    TapDevice(EventLoop& loop, Link& link, const std::string& name);
    void carrier(bool up) override;

private:
    bool goes_on(int error) override;

    std::string name_;
};

} // namespace t3sim
