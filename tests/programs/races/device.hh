// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The device on which operations race: the one without hardware of the module t3_races, a T3 card, or rxe,
// the kernel's RoCE in software. The latter two are connected with another guest, which runs this program
// with
// --peer.
#pragma once

#include "../../modules/races/t3_races.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace races {

// Functions that return an int return 0 or an errno.
class Device {
public:
    virtual ~Device() = default;
    Device(const Device&) = delete;

    const std::string prefix;           // of the name, whatever it is now
    const std::string name, other_name; // before and after a renaming
    const std::string interface;
    const uint32_t here, peer, unused; // IPv4 addresses
    // A connection is established by the answer to the reply (RTU), and there are datagrams and multicast.
    const bool roce;

    virtual int plug() = 0;
    virtual int unplug() = 0;
    virtual bool plugged() = 0;
    // Ends what the peer has of earlier fixtures. Returns 0 or an errno.
    virtual int end_earlier_connections() { return 0; }
    // What the device needs after its interface was down. Returns 0 or an errno.
    virtual int after_link_down() { return 0; }
    // Causes an event. ENOTSUP if this device does not have it.
    virtual int report(t3_races_event_type type, uint32_t which, int status = 0) = 0;
    // The objects that were created and not destroyed, for a report.
    virtual std::string objects() = 0;
    // The objects of ib_core, by their names in `rdma resource`.
    virtual const std::map<std::string, uint64_t>& kernel_objects() const;
    // Our modules that have race points and serve this device.
    virtual const std::vector<std::string>& modules() const;
    // Waits at most 5 s. Without a carrier no address is resolved.
    bool wait_for_carrier() const;

protected:
    Device(std::string prefix_, std::string name_, std::string other_name_, std::string interface_,
           uint32_t here_, uint32_t peer_, uint32_t unused_, bool roce_ = false)
        : prefix(std::move(prefix_)), name(std::move(name_)), other_name(std::move(other_name_)),
          interface(std::move(interface_)), here(here_), peer(peer_), unused(unused_), roce(roce_) {}
};

// That of t3_races, unless use_card() or use_rxe() was called.
Device& device();
// The card whose first port is a network interface.
void use_card(const std::string& interface);
// The rxe device on a network interface.
void use_rxe(const std::string& interface);

} // namespace races
