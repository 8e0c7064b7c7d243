// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3info/model.hh"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <rdma/rdma_netlink.h>

#include "tools/common/stack.hh"

namespace t3info {

namespace {

/// The attributes of one level, by type.
class Attributes {
public:
    explicit Attributes(std::span<const std::byte> bytes) {
        auto* head = const_cast<nlattr*>(reinterpret_cast<const nlattr*>(bytes.data()));
        // nla_parse() ignores attributes newer than the headers of this build.
        nla_parse(table_.data(), RDMA_NLDEV_ATTR_MAX - 1, head, static_cast<int>(bytes.size()), nullptr);
    }
    std::uint64_t number(int type) const {
        const nlattr* found = table_.at(type);
        if (found == nullptr)
            return 0;
        switch (nla_len(found)) {
        case 1:
            return nla_get_u8(found);
        case 4:
            return nla_get_u32(found);
        case 8:
            return nla_get_u64(found);
        default:
            return 0;
        }
    }
    std::uint32_t number32(int type) const { return static_cast<std::uint32_t>(number(type)); }
    std::string text(int type) const {
        const nlattr* found = table_.at(type);
        return found != nullptr ? nla_get_string(found) : "";
    }
    std::span<const std::byte> bytes(int type) const {
        const nlattr* found = table_.at(type);
        if (found == nullptr)
            return {};
        return {static_cast<const std::byte*>(nla_data(found)), static_cast<std::size_t>(nla_len(found))};
    }

private:
    std::array<nlattr*, RDMA_NLDEV_ATTR_MAX> table_{};
};

template <std::size_t count>
std::string word(const std::array<const char*, count>& words, std::uint64_t value) {
    return value < count ? words[value] : std::to_string(value);
}

constexpr std::array port_states{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
constexpr std::array physical_states{
    "NOP", "SLEEP", "POLLING", "DISABLED", "TRAINING", "LINK_UP", "LINK_ERROR_RECOVER", "PHY_TEST"};
constexpr std::array qp_types{"SMI", "GSI", "RC", "UC", "UD"};
constexpr std::array qp_states{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array cm_states{"IDLE",           "ADDR_QUERY",     "ADDR_RESOLVED", "ROUTE_QUERY",
                               "ROUTE_RESOLVED", "CONNECT",        "DISCONNECT",    "ADDR_BOUND",
                               "LISTEN",         "DEVICE_REMOVAL", "DESTROYING"};

std::string address(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(sockaddr_in))
        return "";
    const auto* in = reinterpret_cast<const sockaddr_in*>(bytes.data());
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (in->sin_family == AF_INET) {
        inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
        return fmt::format("{}:{}", text.data(), ntohs(in->sin_port));
    }
    if (in->sin_family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
        const auto* in6 = reinterpret_cast<const sockaddr_in6*>(bytes.data());
        inet_ntop(AF_INET6, &in6->sin6_addr, text.data(), text.size());
        return fmt::format("[{}]:{}", text.data(), ntohs(in6->sin6_port));
    }
    return "";
}

class Collector {
public:
    Collector(Source& source, const t3tools::Machine& machine) : source_(source), machine_(machine) {}

    Device device(const Attributes& attributes) {
        Device device;
        device.index = attributes.number32(RDMA_NLDEV_ATTR_DEV_INDEX);
        device.name = attributes.text(RDMA_NLDEV_ATTR_DEV_NAME);
        device.firmware = attributes.text(RDMA_NLDEV_ATTR_FW_VERSION);
        device.protocol = attributes.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL);
        const auto guid = attributes.number(RDMA_NLDEV_ATTR_NODE_GUID);
        device.guid = fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                                  guid >> 16 & 0xffff, guid & 0xffff);
        const int index = static_cast<int>(device.index);
        for (const auto& message : source_.dump(RDMA_NLDEV_CMD_PORT_GET, index)) {
            const Attributes port(message);
            device.ports.push_back({port.number32(RDMA_NLDEV_ATTR_PORT_INDEX),
                                    word(port_states, port.number(RDMA_NLDEV_ATTR_PORT_STATE)),
                                    word(physical_states, port.number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE)),
                                    port.text(RDMA_NLDEV_ATTR_NDEV_NAME)});
        }
        each(index, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, [&](const Attributes& entry) {
            device.queue_pairs.push_back({entry.number32(RDMA_NLDEV_ATTR_RES_LQPN),
                                          word(qp_types, entry.number(RDMA_NLDEV_ATTR_RES_TYPE)),
                                          word(qp_states, entry.number(RDMA_NLDEV_ATTR_RES_STATE)),
                                          owner(entry)});
        });
        each(index, RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, [&](const Attributes& entry) {
            device.cm_ids.push_back({entry.number32(RDMA_NLDEV_ATTR_RES_CM_IDN),
                                     entry.number32(RDMA_NLDEV_ATTR_RES_LQPN),
                                     word(cm_states, entry.number(RDMA_NLDEV_ATTR_RES_STATE)),
                                     address(entry.bytes(RDMA_NLDEV_ATTR_RES_SRC_ADDR)),
                                     address(entry.bytes(RDMA_NLDEV_ATTR_RES_DST_ADDR)), owner(entry)});
        });
        each(index, RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, [&](const Attributes& entry) {
            device.regions.push_back({entry.number32(RDMA_NLDEV_ATTR_RES_MRN),
                                      entry.number(RDMA_NLDEV_ATTR_RES_MRLEN),
                                      entry.number32(RDMA_NLDEV_ATTR_RES_RKEY), owner(entry)});
        });
        each(index, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, [&](const Attributes& entry) {
            device.completion_queues.push_back({entry.number32(RDMA_NLDEV_ATTR_RES_CQN),
                                                entry.number32(RDMA_NLDEV_ATTR_RES_CQE),
                                                entry.number(RDMA_NLDEV_ATTR_RES_USECNT), owner(entry)});
        });
        each(index, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, [&](const Attributes& entry) {
            device.domains.push_back({entry.number32(RDMA_NLDEV_ATTR_RES_PDN),
                                      entry.number(RDMA_NLDEV_ATTR_RES_USECNT), owner(entry)});
        });
        counters(device);
        return device;
    }

private:
    /// The entries of a kind of object: a table in each message, and an attribute for each entry in it.
    void each(int device, int command, int table, const std::function<void(const Attributes&)>& take) {
        for (const auto& message : source_.dump(command, device)) {
            const auto bytes = Attributes(message).bytes(table);
            int left = static_cast<int>(bytes.size());
            auto* entry = const_cast<nlattr*>(reinterpret_cast<const nlattr*>(bytes.data()));
            for (; left > 0 && nla_ok(entry, left) != 0; entry = nla_next(entry, &left))
                take(Attributes({static_cast<const std::byte*>(nla_data(entry)),
                                 static_cast<std::size_t>(nla_len(entry))}));
        }
    }

    Owner owner(const Attributes& entry) const {
        const auto pid = entry.number32(RDMA_NLDEV_ATTR_RES_PID);
        if (pid == 0)
            return {0, entry.text(RDMA_NLDEV_ATTR_RES_KERN_NAME)};
        return {pid, machine_.read(fmt::format("/proc/{}/comm", pid)).value_or("?")};
    }

    void counters(Device& device) const {
        const std::string base = "/sys/class/infiniband/" + device.name;
        take_counters(base + "/hw_counters", "", device);
        for (const auto& port : device.ports)
            take_counters(fmt::format("{}/ports/{}/hw_counters", base, port.number),
                          fmt::format("port{}.", port.number), device);
    }

    void take_counters(const std::string& folder, const std::string& prefix, Device& device) const {
        for (const auto& name : machine_.list(folder)) {
            if (name == "lifespan") // the age of cached values, not a counter
                continue;
            const auto text = machine_.read(folder + "/" + name).value_or("");
            std::uint64_t value = 0;
            if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc())
                device.counters[prefix + name] = value;
        }
    }

    Source& source_;
    const t3tools::Machine& machine_;
};

} // namespace

std::vector<Device> collect(Source& source, const t3tools::Machine& machine, const std::string& only) {
    std::vector<Device> devices;
    Collector collector(source, machine);
    const auto ours = t3tools::find_rdma_devices(machine);
    for (const auto& message : source.dump(RDMA_NLDEV_CMD_GET, -1)) {
        const Attributes attributes(message);
        const auto name = attributes.text(RDMA_NLDEV_ATTR_DEV_NAME);
        const bool is_t3 =
            std::any_of(ours.begin(), ours.end(), [&](const auto& device) { return device.name == name; });
        if (is_t3 && (only.empty() || only == name))
            devices.push_back(collector.device(attributes));
    }
    return devices;
}

} // namespace t3info
