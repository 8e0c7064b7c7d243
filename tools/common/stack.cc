// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/common/stack.hh"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>
#include <string_view>

namespace t3tools {

namespace {

constexpr std::string_view chelsio = "0x1425";
constexpr std::string_view nodes = "/dev/infiniband/";

/// Device ids of T3 cards; T4 and later have larger ones.
bool is_t3(const std::string& device) {
    static const std::set<std::string_view> known{"0x0020", "0x0021", "0x0022", "0x0023", "0x0024", "0x0025",
                                                  "0x0026", "0x0030", "0x0031", "0x0032", "0x0035", "0x0036"};
    return known.contains(device);
}

std::vector<std::string> words(const std::string& text, char separator) {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, separator);)
        if (!word.empty() && word != "-")
            found.push_back(word);
    return found;
}

/// The RDMA device of a verbs node: each dispatcher's class has a folder per node with a file that names it.
std::string device_of_node(const Machine& machine, const std::string& node) {
    for (const auto& name : machine.list("/sys/class"))
        if (const auto device = machine.read("/sys/class/" + name + "/" + node + "/ibdev"))
            return *device;
    return {};
}

std::string node_of_device(const Machine& machine, const std::string& device) {
    for (const auto& group : machine.list("/sys/class"))
        if (group.find("verbs") != group.npos)
            for (const auto& node : machine.list("/sys/class/" + group))
                if (machine.read("/sys/class/" + group + "/" + node + "/ibdev") == device)
                    return node;
    return {};
}

bool is_number(const std::string& text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

} // namespace

std::vector<Module> parse_modules(const std::string& text) {
    std::vector<Module> modules;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        Module module;
        std::string size;
        std::string users;
        // A module that is just being loaded or unloaded has "-" instead of a count.
        std::string references;
        if (!(fields >> module.name >> size >> references))
            continue;
        fields >> users;
        module.references = is_number(references) ? std::stoi(references) : 0;
        module.used_by = words(users, ',');
        modules.push_back(std::move(module));
    }
    return modules;
}

std::vector<Module> loaded_modules(const Machine& machine) {
    return parse_modules(machine.read("/proc/modules").value_or(""));
}

const Module* find(const std::vector<Module>& modules, const std::string& name) {
    const auto found =
        std::find_if(modules.begin(), modules.end(), [&](const Module& m) { return m.name == name; });
    return found == modules.end() ? nullptr : &*found;
}

std::vector<Card> find_cards(const Machine& machine) {
    std::vector<Card> cards;
    for (const auto& address : machine.list("/sys/bus/pci/devices")) {
        const std::string folder = "/sys/bus/pci/devices/" + address;
        const auto device = machine.read(folder + "/device").value_or("");
        if (machine.read(folder + "/vendor") != chelsio || !is_t3(device))
            continue;
        cards.push_back(
            {address, device, machine.link_name(folder + "/driver"), machine.list(folder + "/net")});
    }
    return cards;
}

std::vector<RdmaDevice> find_rdma_devices(const Machine& machine) {
    std::vector<RdmaDevice> devices;
    for (const auto& name : machine.list("/sys/class/infiniband")) {
        const std::string folder = "/sys/class/infiniband/" + name;
        if (machine.link_name(folder + "/device/driver") != nic_module)
            continue;
        devices.push_back({name, machine.read(folder + "/fw_ver").value_or(""),
                           machine.link_name(folder + "/device"), node_of_device(machine, name)});
    }
    return devices;
}

std::vector<std::string> foreign_rdma_devices(const Machine& machine) {
    std::vector<std::string> names;
    for (const auto& name : machine.list("/sys/class/infiniband"))
        if (machine.link_name("/sys/class/infiniband/" + name + "/device/driver") != nic_module)
            names.push_back(name);
    return names;
}

std::vector<std::string> infiniband_devices(const Machine& machine) {
    std::vector<std::string> names;
    for (const auto& name : machine.list("/sys/class/infiniband")) {
        const std::string ports = "/sys/class/infiniband/" + name + "/ports";
        const auto numbers = machine.list(ports);
        if (std::any_of(numbers.begin(), numbers.end(), [&](const std::string& port) {
                return machine.read(ports + "/" + port + "/link_layer") == "InfiniBand";
            }))
            names.push_back(name);
    }
    return names;
}

std::vector<User> find_users(const Machine& machine) {
    std::set<std::string> ours;
    for (const auto& device : find_rdma_devices(machine))
        ours.insert(device.name);
    std::vector<User> users;
    for (const auto& entry : machine.list("/proc")) {
        if (!is_number(entry))
            continue;
        std::set<std::string> open;
        for (const auto& fd : machine.list("/proc/" + entry + "/fd")) {
            const auto target = machine.link_target("/proc/" + entry + "/fd/" + fd);
            if (target.starts_with(nodes))
                open.insert(target.substr(nodes.size()));
        }
        for (const auto& node : open) {
            const auto device = device_of_node(machine, node);
            if (device.empty() || ours.contains(device))
                users.push_back(
                    {std::stoi(entry), machine.read("/proc/" + entry + "/comm").value_or("?"), node});
        }
    }
    std::sort(users.begin(), users.end(), [](const User& a, const User& b) { return a.pid < b.pid; });
    return users;
}

} // namespace t3tools
