// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A UDP socket as an end of a wire: each datagram is a frame, as with QEMU's -netdev dgram. The other end is
// another t3sim or a QEMU, on this host or another one, and neither needs privileges.
#pragma once

#include <string>

#include "sim/net/descriptor_end.hh"

namespace t3sim {

class UdpSocket : public DescriptorEnd {
public:
    /// @p where is [PORT@]HOST:PORT, the peer's address, and before it the local port if that is another one.
    /// HOST is a name or an address; an IPv6 address stands in brackets. Datagrams of others than the peer
    /// are dropped. Sends received frames to @p link, which must outlive this. Throws std::runtime_error with
    /// a complete sentence.
    UdpSocket(EventLoop& loop, Link& link, const std::string& where);
    void carrier(bool) override {} // the protocol cannot express it

private:
    bool goes_on(int error) override;
};

} // namespace t3sim
