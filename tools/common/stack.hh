// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The stack of a machine: the loaded modules, the devices, and the processes that use them.
#pragma once

#include <string>
#include <vector>

#include "tools/common/machine.hh"

namespace t3tools {

inline constexpr const char* nic_module = "cxgb3";
inline constexpr const char* driver_module = "iw_cxgb3";

/// A row of /proc/modules.
struct Module {
    std::string name;
    int references = 0;
    std::vector<std::string> used_by;
};
std::vector<Module> parse_modules(const std::string& text);
std::vector<Module> loaded_modules(const Machine& machine);
const Module* find(const std::vector<Module>& modules, const std::string& name);

/// A T3 on the PCI bus.
struct Card {
    std::string address; // 0000:01:00.0
    std::string device;  // 0x0036
    std::string driver;  // empty: none
    std::vector<std::string> interfaces;
};
std::vector<Card> find_cards(const Machine& machine);

/// A T3 that is an RDMA device.
struct RdmaDevice {
    std::string name;
    std::string firmware;
    std::string card; // PCI address
    std::string node; // below /dev/infiniband; empty: it has none
};
std::vector<RdmaDevice> find_rdma_devices(const Machine& machine);

/// RDMA devices of other drivers, which need the modules shared with them.
std::vector<std::string> foreign_rdma_devices(const Machine& machine);

/// RDMA devices with a port whose link layer is InfiniBand.
std::vector<std::string> infiniband_devices(const Machine& machine);

/// A process with a device node open.
struct User {
    int pid = 0;
    std::string command;
    std::string node; // "uverbs0"
};
/// The processes that have a verbs node of our devices or a connection manager's open. Without root only the
/// caller's own processes are found.
std::vector<User> find_users(const Machine& machine);

} // namespace t3tools
