// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/report/inventory.hh"

#include <algorithm>
#include <charconv>
#include <regex>

#include <fmt/format.h>

#include "tools/common/stack.hh"

namespace t3report {

using namespace t3tools;

namespace {

/// The value of a file, or nothing; without the blanks that sysfs pads with.
void put(Json& json, const char* key, const std::optional<std::string>& value) {
    if (value && !value->empty())
        json[key] = *value;
}

std::string match(const std::string& text, const char* regex) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(regex)) ? found[1].str() : "";
}

Json machine_of(const Machine& machine) {
    Json json;
    put(json, "kernel", machine.kernel_release());
    put(json, "kernel build", machine.read("/proc/sys/kernel/version"));
    put(json, "architecture", machine.read("/proc/sys/kernel/arch"));
    put(json, "system", match(machine.read("/etc/os-release").value_or(""), "PRETTY_NAME=\"?([^\"\n]*)"));
    const auto cpus = machine.read("/proc/cpuinfo").value_or("");
    put(json, "processor", match(cpus, "model name\\s*: ([^\n]*)"));
    put(json, "processors", match(machine.read("/sys/devices/system/cpu/online").value_or(""), "(.*)"));
    put(json, "memory", match(machine.read("/proc/meminfo").value_or(""), "MemTotal:\\s*([^\n]*)"));
    for (const char* name : {"sys_vendor", "product_name", "board_vendor", "board_name", "bios_version"})
        put(json, name, machine.read(std::string("/sys/class/dmi/id/") + name));
    std::string relevant;
    for (const auto& line : lines(machine.read("/proc/cmdline").value_or(""))) {
        static const std::regex wanted("\\S*(iommu|swiotlb|pci|aspm|lockdown|sig_enforce)\\S*");
        for (std::sregex_iterator word(line.begin(), line.end(), wanted), none; word != none; ++word)
            relevant += (relevant.empty() ? "" : " ") + word->str();
    }
    put(json, "kernel parameters", relevant);
    json["iommu groups"] = machine.list("/sys/kernel/iommu_groups").size();
    return json;
}

Json software_of(const Machine& machine) {
    Json packages = Json::object();
    for (const char* name :
         {"rdma-core", "libibverbs1", "librdmacm1", "ibverbs-providers", "rdmacm-utils", "perftest",
          "libibverbs-cxgb3", "t3rdma-dkms", "t3rdma-tools", "firmware-misc-nonfree"}) {
        const auto found = machine.run({"dpkg-query", "-W", "-f", "${Version}", name});
        if (found.status == 0)
            put(packages, name, found.output);
    }
    Json modules = Json::object();
    for (const char* name : {"cxgb3", "iw_cxgb3", "ib_core", "ib_uverbs", "t3_uverbs", "iw_cm", "rdma_cm",
                             "rdma_ucm", "t3_rdma_cm"}) {
        const std::string folder = std::string("/sys/module/") + name;
        if (!machine.exists(folder))
            continue;
        const auto version = machine.read(folder + "/version").value_or("");
        const auto source = machine.read(folder + "/srcversion").value_or("");
        modules[name] = fmt::format("loaded{}{}{}{}", version.empty() ? "" : " version ", version,
                                    source.empty() ? "" : " source ", source);
    }
    Json parameters = Json::object();
    for (const auto& name : machine.list("/sys/module/iw_cxgb3/parameters"))
        put(parameters, name.c_str(), machine.read("/sys/module/iw_cxgb3/parameters/" + name));
    auto providers = Json::array();
    for (const auto& folder : machine.list("/usr/lib"))
        for (const auto& name : machine.list("/usr/lib/" + folder + "/libibverbs"))
            if (name.find("cxgb3") != name.npos)
                providers.push_back(name);
    return {{"packages", packages},
            {"modules", modules},
            {"iw_cxgb3 parameters", parameters},
            {"providers", providers}};
}

/// Of hw_rev, which is the type that cxgb3 gives its clients.
const char* chip_name(const std::string& type) {
    if (type == "0")
        return "T3A";
    if (type == "1")
        return "T3B";
    return type == "2" ? "T3C" : "unknown";
}

Json rdma_of(const Machine& machine, const RdmaDevice& device) {
    Json json{{"name", device.name}, {"node", device.node}};
    const std::string folder = "/sys/class/infiniband/" + device.name;
    for (const char* name : {"fw_ver", "hw_rev", "hca_type", "board_id"})
        put(json, name, machine.read(folder + "/" + name));
    if (json.contains("hw_rev"))
        json["chip"] = chip_name(json["hw_rev"].get<std::string>());
    for (const auto& port : machine.list(folder + "/ports"))
        put(json, ("port " + port + " state").c_str(), machine.read(folder + "/ports/" + port + "/state"));
    return json;
}

Json interface_of(const Machine& machine, t3doctor::Probe& probe, const std::string& name, Json& macs) {
    Json json{{"name", name}};
    const std::string folder = "/sys/class/net/" + name;
    for (const char* file : {"address", "mtu", "speed", "duplex", "carrier", "operstate"})
        put(json, file, machine.read(folder + "/" + file));
    if (json.contains("address"))
        macs.push_back(json["address"]);
    const auto seen = probe.interface(name);
    put(json, "firmware", match(seen.firmware, "T (\\S+)"));
    put(json, "protocol SRAM", match(seen.firmware, "TP (\\S+)"));
    json["addresses"] = seen.addresses;
    return json;
}

Json card_of(const Machine& machine, t3doctor::Probe& probe, const Card& card, Json& identifies) {
    const std::string folder = "/sys/bus/pci/devices/" + card.address;
    Json json{{"address", card.address}, {"device", card.device}, {"driver", card.driver}};
    for (const auto& [key, file] : {std::pair{"PCI revision", "revision"},
                                    {"subsystem vendor", "subsystem_vendor"},
                                    {"subsystem", "subsystem_device"},
                                    {"link speed", "current_link_speed"},
                                    {"link width", "current_link_width"},
                                    {"largest link speed", "max_link_speed"},
                                    {"largest link width", "max_link_width"},
                                    {"NUMA node", "numa_node"}})
        put(json, key, machine.read(folder + "/" + file));
    if (const auto sizes = bar_sizes(machine.read(folder + "/resource").value_or("")); !sizes.empty())
        json["bytes of BARs"] = sizes;
    if (const auto found = pci_capabilities(machine.read(folder + "/config").value_or("")); !found.empty())
        json["PCI capabilities"] = found;
    json["MSI vectors"] = machine.list(folder + "/msi_irqs").size();
    const auto group = machine.link_name(folder + "/iommu_group");
    json["IOMMU"] =
        group.empty()
            ? "none"
            : fmt::format(
                  "group {}, {}", group,
                  machine.read("/sys/kernel/iommu_groups/" + group + "/type").value_or("type unknown"));
    if (const auto vpd = machine.read(folder + "/vpd")) {
        const auto fields = vpd_fields(*vpd);
        json["VPD"] = fields.empty() ? Json("has no record") : Json(fields);
        if (fields.contains("SN"))
            identifies["serial"].push_back(fields.at("SN"));
        if (fields.contains("NA"))
            identifies["mac"].push_back(fields.at("NA"));
    } else {
        json["VPD"] = machine.privileged() ? "cannot be read" : "only root can read it";
    }
    auto interfaces = Json::array();
    for (const auto& name : card.interfaces)
        interfaces.push_back(interface_of(machine, probe, name, identifies["mac"]));
    json["interfaces"] = interfaces;
    for (const auto& device : find_rdma_devices(machine))
        if (device.card == card.address)
            json["RDMA device"] = rdma_of(machine, device);
    return json;
}

void read_folder(const Machine& machine, const std::string& folder, const std::string& name, Counters& out) {
    for (const auto& file : machine.list(folder)) {
        const auto text = machine.read(folder + "/" + file).value_or("");
        unsigned long long value = 0;
        const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
        if (end.ec == std::errc() && end.ptr == text.data() + text.size() && file != "lifespan")
            out[name + "/" + file] = value;
    }
}

/// Errors of the PCI Express link (AER): "RxErr 0", one in a line.
void read_link_errors(const Machine& machine, const std::string& address, Counters& out) {
    for (const char* kind : {"correctable", "nonfatal", "fatal"})
        for (const auto& entry :
             lines(machine.read(fmt::format("/sys/bus/pci/devices/{}/aer_dev_{}", address, kind))
                       .value_or(""))) {
            const auto space = entry.find(' ');
            if (space != entry.npos)
                out[fmt::format("{}/aer/{}/{}", address, kind, entry.substr(0, space))] =
                    std::strtoull(entry.c_str() + space, nullptr, 10);
        }
}

} // namespace

Json inventory(const Machine& machine, t3doctor::Probe& probe, const std::string& role) {
    Json identifies{{"mac", Json::array()}, {"serial", Json::array()}, {"host", Json::array()}};
    if (const auto host = machine.read("/proc/sys/kernel/hostname"))
        identifies["host"].push_back(*host);
    auto cards = Json::array();
    for (const auto& card : find_cards(machine))
        cards.push_back(card_of(machine, probe, card, identifies));
    return {{"role", role},
            {"host", machine.read("/proc/sys/kernel/hostname").value_or("")},
            {"machine", machine_of(machine)},
            {"software", software_of(machine)},
            {"cards", cards},
            {"other RDMA devices", foreign_rdma_devices(machine)},
            {"identifies", identifies}};
}

Counters read_counters(const Machine& machine) {
    Counters out;
    for (const auto& card : find_cards(machine)) {
        for (const auto& name : card.interfaces)
            read_folder(machine, "/sys/class/net/" + name + "/statistics", name, out);
        read_link_errors(machine, card.address, out);
    }
    for (const auto& device : find_rdma_devices(machine)) {
        const std::string folder = "/sys/class/infiniband/" + device.name;
        read_folder(machine, folder + "/hw_counters", device.name, out);
        for (const auto& port : machine.list(folder + "/ports"))
            for (const char* kind : {"/hw_counters", "/counters"})
                read_folder(machine, folder + "/ports/" + port + kind, device.name + "/" + port, out);
    }
    return out;
}

} // namespace t3report
