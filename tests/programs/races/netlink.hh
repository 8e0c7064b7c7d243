// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Requests to ib_core by netlink, as `rdma` of iproute2 sends them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace races {

struct IbDevice {
    uint32_t index;
    std::string name;
};

// The device of this network namespace whose name begins with `prefix`.
std::optional<IbDevice> find_device(const std::string& prefix);
int rename_device(uint32_t index, const std::string& name);
int move_device(uint32_t index, int netns_fd);
int set_exclusive_namespaces();
// Software devices, as `rdma link add` and `rdma link delete`.
int add_link(const std::string& name, const std::string& type, const std::string& interface);
int delete_link(uint32_t index);
// The number of objects of each kind: pd, cq, qp, cm_id, mr, ctx.
std::map<std::string, uint64_t> resources(uint32_t index);
// Dumps all entries of a kind as `rdma resource show` does; 0 or an errno.
int dump_resources(uint32_t index, int command);

} // namespace races
