// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3doctor/checks.hh"

#include <algorithm>
#include <array>
#include <regex>

#include <fmt/format.h>

#include "tools/common/stack.hh"
#include "tools/report/parse.hh"

namespace t3doctor {

using namespace t3tools;

namespace {

/// The firmware that the in-tree cxgb3 of 6.1 to 7.2 requires; it logs if it finds another one.
constexpr const char* wanted_firmware = "7.12.0";
/// With less, programs cannot register buffers of usual sizes.
constexpr std::uint64_t enough_memlock = 1 << 20;
constexpr const char* driver_file = "/etc/libibverbs.d/cxgb3.driver";

Finding fine(std::string what) {
    return {State::fine, std::move(what), ""};
}
Finding note(std::string what, std::string cure) {
    return {State::note, std::move(what), std::move(cure)};
}
Finding wrong(std::string what, std::string cure) {
    return {State::wrong, std::move(what), std::move(cure)};
}

struct Case {
    const Machine& machine;
    Probe& probe;
    const Target& target;
    std::vector<Card> cards;
    std::vector<Module> modules;

    bool loaded(const char* name) const { return find(modules, name) != nullptr; }
    std::vector<std::string> interfaces() const {
        std::vector<std::string> names;
        for (const auto& card : cards)
            names.insert(names.end(), card.interfaces.begin(), card.interfaces.end());
        return names;
    }
};

Finding check_card(const Case& it) {
    if (it.cards.empty())
        return wrong(
            "there is no Chelsio T3 on the PCI bus",
            "check that 'lspci -d 1425:' shows the card; if not, it is not seated, has no power, or the "
            "firmware of the machine hides the slot. A T4 or later card needs cxgb4 and iw_cxgb4 instead");
    std::string names;
    for (const auto& card : it.cards)
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", card.address, card.device);
    return fine(fmt::format("T3 at {}", names));
}

/// A narrow slot works, with less bandwidth.
Finding check_slot(const Case& it) {
    for (const auto& card : it.cards) {
        const std::string folder = "/sys/bus/pci/devices/" + card.address;
        const int width = std::atoi(it.machine.read(folder + "/current_link_width").value_or("0").c_str());
        const int widest = std::atoi(it.machine.read(folder + "/max_link_width").value_or("0").c_str());
        if (width > 0 && width < widest)
            return note(fmt::format("the slot of {} gives it {} PCI Express lanes of {}", card.address, width,
                                    widest),
                        "it works, but slower; use a slot with more lanes (x16 outside may be x4 inside)");
    }
    return fine("the slot has all lanes that the card can use");
}

/// What cxgb3 needs of the EEPROM; without it the driver does not use the card.
Finding check_eeprom(const Case& it) {
    for (const auto& card : it.cards) {
        const auto vpd = it.machine.read("/sys/bus/pci/devices/" + card.address + "/vpd");
        if (!vpd)
            continue;
        const auto fields = t3report::vpd_fields(*vpd);
        for (const char* field : {"SN", "NA", "V0", "V1"}) {
            if (fields.contains(field))
                continue;
            const auto what = fields.empty()
                                  ? fmt::format("the EEPROM of {} has no record of the board", card.address)
                                  : fmt::format("the EEPROM of {} has no field {}", card.address, field);
            if (card.driver == nic_module)
                return note(what, "cxgb3 accepted it; mention it if you report an error");
            return wrong(what,
                         "try another slot and look at the contacts; if that does not help, the EEPROM was "
                         "overwritten or is broken, and only a copy of a good one can repair it");
        }
    }
    return fine(it.machine.privileged() ? "the EEPROM describes the board" : "only root can read the EEPROM");
}

Finding check_nic(const Case& it) {
    for (const auto& card : it.cards) {
        if (card.driver.empty() && !it.loaded(nic_module))
            return wrong(
                "the NIC driver cxgb3 is not loaded",
                "modprobe cxgb3; if that does nothing, look for 'blacklist cxgb3' in /etc/modprobe.d");
        if (card.driver.empty())
            return wrong(fmt::format("cxgb3 is loaded but is not bound to the card {}", card.address),
                         "see the kernel log: dmesg | grep cxgb3");
        if (card.driver != nic_module)
            return wrong(fmt::format("the card {} is bound to {}, not to cxgb3", card.address, card.driver),
                         fmt::format("rebind it: echo {0} > /sys/bus/pci/drivers/{1}/unbind; "
                                     "echo {0} > /sys/bus/pci/drivers/cxgb3/bind",
                                     card.address, card.driver));
    }
    return fine("cxgb3 drives the card");
}

Finding check_firmware(const Case& it) {
    for (const auto& name : it.interfaces()) {
        const auto version = it.probe.interface(name).firmware; // "T 7.12.0 TP 1.1.0"
        std::smatch found;
        if (!std::regex_search(version, found, std::regex("(\\d+\\.\\d+\\.\\d+)")))
            return wrong(
                fmt::format("the NIC driver cannot read the firmware version of {} ('{}')", name, version),
                "the card's flash may be empty; install the package firmware-misc-nonfree, which has "
                "cxgb3/t3fw-7.12.0.bin, and load cxgb3 again");
        if (found[1] != wanted_firmware)
            return wrong(
                fmt::format("{} has firmware {}, the driver requires {}", name, found[1].str(),
                            wanted_firmware),
                "install the package firmware-misc-nonfree, which has cxgb3/t3fw-7.12.0.bin, and load cxgb3 "
                "again: it writes the firmware to the card");
    }
    return fine(fmt::format("firmware {}", wanted_firmware));
}

Finding check_offload(const Case& it) {
    if (it.machine.read("/sys/module/cxgb3/parameters/ofld_disable").value_or("0") != "0")
        return wrong(
            "offload is switched off: cxgb3 was loaded with ofld_disable=1",
            "remove 'options cxgb3 ofld_disable=1' from /etc/modprobe.d or ofld_disable from the kernel's "
            "command line, then: ofedctrl -u; modprobe -r cxgb3; ofedctrl -l");
    for (const auto& card : it.cards) {
        const auto vpd = it.machine.read("/sys/bus/pci/devices/" + card.address + "/vpd");
        const auto fields = t3report::vpd_fields(vpd.value_or(""));
        if (const auto clock = fields.find("V1"); clock != fields.end() && clock->second == "0")
            return wrong(fmt::format("the board {} has no memories for offload: it is a network card only",
                                     card.address),
                         "RDMA needs another board");
    }
    return fine("offload is on");
}

/// The last file for a PHY of a card that the kernel did not find, and that is still missing; or "". Boards
/// whose PHYs need one load it when they see the module of the cable.
std::string missing_phy_firmware(const Case& it) {
    const std::regex failed("cxgb3 (\\S+): .*firmware load for (cxgb3/ael20\\d+_\\w+_edc\\.bin) failed");
    const auto is_ours = [&](const std::string& address) {
        return std::ranges::any_of(it.cards, [&](const Card& card) { return card.address == address; });
    };
    const auto is_there = [&](const std::string& file) {
        return std::ranges::any_of(std::array{"", ".xz", ".zst"}, [&](const char* packed) {
            return it.machine.exists("/lib/firmware/" + file + packed);
        });
    };
    std::string file;
    std::smatch found;
    for (const auto& entry : t3report::lines(it.machine.run({"dmesg"}).output))
        if (std::regex_search(entry, found, failed) && is_ours(found[1]) && !is_there(found[2]))
            file = found[2];
    return file;
}

Finding check_link(const Case& it) {
    std::string down, cut;
    for (const auto& name : it.interfaces()) {
        const auto interface = it.probe.interface(name);
        if (interface.up && interface.carrier)
            return fine(fmt::format("{} is up and has a link", name));
        (interface.up ? cut : down) += " " + name;
    }
    const auto phy_firmware = cut.empty() ? "" : missing_phy_firmware(it);
    if (!phy_firmware.empty())
        return wrong(fmt::format("no link on{}, and the kernel did not find the PHY's {}", cut, phy_firmware),
                     "install the package firmware-misc-nonfree, which has the file, and load cxgb3 again");
    if (!cut.empty())
        return wrong(
            fmt::format("no link on{}", cut),
            "is the cable in, and the other end up? Both ends must be 10 Gbit/s Ethernet of the same kind");
    return wrong(fmt::format("no interface of the card is up (these are down:{})", down),
                 fmt::format("ip link set{} up", down.substr(0, down.find(' ', 1))));
}

Finding check_address(const Case& it) {
    for (const auto& name : it.interfaces()) {
        const auto interface = it.probe.interface(name);
        if (interface.up && !interface.addresses.empty())
            return fine(fmt::format("{} has the address {}", name, interface.addresses.front()));
    }
    return wrong(
        "no interface of the card that is up has an IPv4 address",
        fmt::format("ip addr add ADDRESS/24 dev {}", it.interfaces().empty() ? "NAME" : it.interfaces()[0]));
}

/// Independent of the checks before it: whether the kernel requires signed modules.
Finding check_signature(const Case& it) {
    const bool enforced = it.machine.read("/sys/module/module/parameters/sig_enforce") == "Y";
    const auto lockdown = it.machine.read("/sys/kernel/security/lockdown").value_or("[none]");
    if (!enforced && lockdown.find("[none]") != lockdown.npos)
        return fine("the kernel accepts unsigned modules");
    if (it.loaded(driver_module))
        return fine("the kernel accepts only signed modules, and accepts ours");
    const auto signer = it.machine.run({"modinfo", "-F", "signer", driver_module});
    if (signer.status == 0 && signer.output.empty())
        return wrong("the kernel accepts only signed modules (Secure Boot), and iw_cxgb3 is not signed",
                     "let DKMS sign it and enrol its key: mokutil --import /var/lib/dkms/mok.pub, reboot, "
                     "choose Enroll "
                     "MOK; then dkms build --force t3rdma. SECURE BOOT in ofedctrl(8) has the steps");
    // Without privileges the file shows no keys.
    const auto keys = it.machine.read("/proc/keys").value_or("");
    if (!signer.output.empty() && keys.find("asymmetri") != keys.npos &&
        keys.find(signer.output + ":") == keys.npos)
        return wrong(
            fmt::format("the kernel accepts only signed modules (Secure Boot), and iw_cxgb3 is signed "
                        "by '{}', which is not a trusted key",
                        signer.output),
            "enrol that key: mokutil --import /var/lib/dkms/mok.pub, reboot, choose Enroll MOK. "
            "SECURE BOOT in ofedctrl(8) has the steps");
    return note(
        fmt::format("the kernel accepts only signed modules; iw_cxgb3 is signed by '{}'", signer.output),
        "if it is refused (Key was rejected by service), that key is not enrolled: mokutil --import "
        "/var/lib/dkms/mok.pub, reboot, choose Enroll MOK");
}

Finding check_modules(const Case& it) {
    const auto core = it.machine.run({"modinfo", "-n", "ib_core"});
    if (core.status == 0 && core.output.find("/kernel/drivers/infiniband/") == core.output.npos &&
        core.output.find("/t3/") != 0)
        return wrong(fmt::format("ib_core is not the kernel's own but {}", core.output),
                     "iw_cxgb3 is built for the RDMA core of the kernel; remove the other one (MLNX_OFED or "
                     "the like)");
    for (const auto& [ours, theirs] :
         {std::pair{"t3_uverbs", "ib_uverbs"}, std::pair{"t3_rdma_cm", "rdma_ucm"}})
        if (it.loaded(ours) && it.loaded(theirs))
            return note(
                fmt::format("{} and {} are both loaded; programs use the one that came first", ours, theirs),
                "ofedctrl -l --own all, or ofedctrl -l --in-tree all");
    if (it.loaded(driver_module))
        return fine("iw_cxgb3 is loaded");
    const auto file = it.machine.run({"modinfo", "-n", driver_module});
    if (file.status != 0)
        return wrong(
            fmt::format("there is no iw_cxgb3 for kernel {}", it.machine.kernel_release()),
            "'dkms status t3rdma' shows whether it was built; it needs linux-headers of that kernel. Without "
            "packages: make modules && make install");
    for (const auto& name : it.machine.list("/etc/modprobe.d"))
        if (const auto text = it.machine.read("/etc/modprobe.d/" + name);
            text && std::regex_search(*text, std::regex("(^|\n)\\s*(blacklist|install)\\s+iw_cxgb3")))
            return wrong(fmt::format("iw_cxgb3 is not loaded, and /etc/modprobe.d/{} blocks it", name),
                         "remove that line, then ofedctrl -l");
    return wrong("iw_cxgb3 is not loaded", "ofedctrl -l; if it fails it prints the reason");
}

Finding check_device(const Case& it) {
    const auto devices = find_rdma_devices(it.machine);
    if (devices.empty())
        return wrong("iw_cxgb3 is loaded but registered no RDMA device",
                     "see the kernel log: dmesg | grep iw_cxgb3");
    for (const auto& device : devices) {
        if (device.node.empty())
            return wrong(fmt::format("{} has no verbs node: no dispatcher is loaded", device.name),
                         "ofedctrl -l");
        const std::string node = "/dev/infiniband/" + device.node;
        if (!it.machine.exists(node))
            return wrong(fmt::format("{} does not exist, but the kernel has the device", node),
                         "udev creates it: udevadm trigger; in a container it must be passed in");
        if (!it.probe.may_open(node))
            return wrong(fmt::format("you may not open {}", node),
                         "install rdma-core, whose udev rules set mode 0666, or become root");
    }
    if (!it.loaded("rdma_ucm") && !it.loaded("t3_rdma_cm"))
        return wrong("no connection manager is loaded", "ofedctrl -l");
    if (it.machine.read("/sys/module/t3_rdma_cm/parameters/reserve_tcp_ports") == "N")
        return note("t3_rdma_cm reserves no TCP ports: an RDMA listener takes the connections of a TCP "
                    "service with its address and port",
                    "remove reserve_tcp_ports=0 from /etc/modprobe.d, and until then: echo Y > "
                    "/sys/module/t3_rdma_cm/parameters/reserve_tcp_ports");
    return fine(fmt::format("{} is there, with /dev/infiniband/{}", devices[0].name, devices[0].node));
}

/// The private ABI number in a provider's file name; empty: none.
std::string abi_of(const std::string& text) {
    std::smatch found;
    return std::regex_search(text, found, std::regex("cxgb3-rdmav(\\d+)\\.so")) ? found[1].str() : "";
}

Finding check_provider(const Case& it) {
    if (!it.machine.exists(driver_file))
        return wrong(fmt::format("{} is missing, so libibverbs does not look for our provider", driver_file),
                     "install the package libibverbs-cxgb3 (make install without packages)");
    std::string file;
    for (const auto& folder : it.machine.list("/usr/lib"))
        for (const auto& name : it.machine.list("/usr/lib/" + folder + "/libibverbs"))
            if (!abi_of(name).empty())
                file = "/usr/lib/" + folder + "/libibverbs/" + name;
    if (file.empty())
        return wrong("the provider libcxgb3-rdmavNN.so is missing in /usr/lib/*/libibverbs",
                     "install the package libibverbs-cxgb3 (make provider && make install without packages)");
    const auto verbs = it.probe.verbs();
    for (const auto& device : find_rdma_devices(it.machine))
        if (std::find(verbs.devices.begin(), verbs.devices.end(), device.name) == verbs.devices.end()) {
            const auto wanted = abi_of(verbs.warnings);
            if (!wanted.empty() && wanted != abi_of(file))
                return wrong(
                    fmt::format("{} is for another rdma-core: libibverbs requires rdmav{}", file, wanted),
                    "install the libibverbs-cxgb3 of this Debian release, or build it here: make provider");
            return wrong(fmt::format("libibverbs does not use {} for {}{}{}", file, device.name,
                                     verbs.warnings.empty() ? "" : "; its warnings: ", verbs.warnings),
                         "the provider must be built for the installed rdma-core: install the "
                         "libibverbs-cxgb3 of this Debian release, or build it here: make provider");
        }
    return fine(fmt::format("libibverbs uses {}", file));
}

Finding check_memlock(const Case& it) {
    const auto limit = it.probe.memlock();
    if (limit.unlimited)
        return fine("memory can be locked without limit");
    const std::string cure =
        "raise the limit for your users: '* - memlock unlimited' in /etc/security/limits.d/rdma.conf (log in "
        "again), LimitMEMLOCK=infinity in a systemd unit";
    const auto text = fmt::format("{} KiB of memory can be locked (ulimit -l)", limit.bytes >> 10);
    if (limit.bytes < enough_memlock)
        return wrong(text + ": registering memory will fail with 'Cannot allocate memory'", cure);
    return note(text + ": larger buffers cannot be registered", cure);
}

Finding check_route(const Case& it) {
    const auto route = it.probe.route(it.target.address);
    if (route.source.empty())
        return wrong(fmt::format("there is no route to {} ({})", it.target.address, route.error),
                     "is the address right, and is the card's interface in that network? ip route get " +
                         it.target.address);
    for (const auto& name : it.interfaces()) {
        const auto own = it.probe.interface(name).addresses;
        if (std::find(own.begin(), own.end(), route.source) == own.end())
            continue;
        if (it.target.address == route.source)
            return wrong(fmt::format("{} is an address of this machine", route.source),
                         "a T3 has no loopback: give the address of the other machine");
        return fine(fmt::format("the route to {} uses {}", it.target.address, name));
    }
    return wrong(
        fmt::format("the route to {} has the source address {}, which is not on a T3", it.target.address,
                    route.source),
        fmt::format(
            "use the address that the other machine has on the T3's network, or add a route: ip route add {} "
            "dev {}",
            it.target.address, it.interfaces().empty() ? "NAME" : it.interfaces()[0]));
}

Finding check_connection(const Case& it) {
    using End = Probe::Connection::End;
    const auto& [address, port] = it.target;
    const auto connection = it.probe.connect(address, port);
    switch (connection.end) {
    case End::accepted:
        return fine(fmt::format("connected to {} port {} over {}", address, port, connection.device));
    case End::refused:
        return note(fmt::format("{} replies over {}, but has no listener on port {}", address,
                                connection.device, port),
                    fmt::format("start a server there: rping -s -a {} -p {}", address, port));
    case End::no_address:
        return wrong(
            fmt::format("no ARP reply from {}", address),
            "is that machine on, its interface up, in the same network (same VLAN and MTU)? ping it");
    case End::no_device:
        return wrong(fmt::format("the connection manager finds no RDMA device for the route to {}", address),
                     "ofedctrl -q");
    case End::no_answer:
        return wrong(
            fmt::format("{} replies to ARP, but not to the TCP connection on port {}", address, port),
            "a firewall in between drops it, or one of that machine if its RDMA is software (siw). Firewall "
            "rules "
            "of a machine with a T3 do not see its RDMA connections; those of switches and routers do. Allow "
            "that port, or run tcpdump at the other end");
    case End::other:
        break;
    }
    return wrong(fmt::format("connecting to {} failed: {}", address, connection.error), "dmesg | grep cxgb3");
}

struct Check {
    const char* name;
    const char* title;
    Finding (*run)(const Case&);
    bool independent; // runs also after a failed check
    bool remote;      // needs the address of another machine
};
constexpr std::array checks{
    Check{"card", "card", check_card, false, false},
    Check{"slot", "slot", check_slot, false, false},
    Check{"eeprom", "EEPROM", check_eeprom, false, false},
    Check{"nic", "NIC driver", check_nic, false, false},
    Check{"firmware", "firmware", check_firmware, false, false},
    Check{"offload", "offload", check_offload, false, false},
    Check{"link", "link", check_link, false, false},
    Check{"address", "address", check_address, false, false},
    Check{"signature", "Secure Boot", check_signature, true, false},
    Check{"modules", "modules", check_modules, true, false},
    Check{"device", "RDMA device", check_device, false, false},
    Check{"provider", "provider", check_provider, false, false},
    Check{"memlock", "locked memory", check_memlock, true, false},
    Check{"route", "route", check_route, false, true},
    Check{"connection", "connection", check_connection, false, true},
};

} // namespace

std::vector<std::pair<std::string, std::string>> all_checks() {
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& check : checks)
        names.emplace_back(check.name, check.title);
    return names;
}

std::vector<Result> examine(const Machine& machine, Probe& probe, const Target& target) {
    const Case it{machine, probe, target, find_cards(machine), loaded_modules(machine)};
    std::vector<Result> results;
    const char* failed = nullptr;
    for (const auto& check : checks) {
        Finding finding;
        if (check.remote && target.address.empty())
            continue;
        if (failed != nullptr && !check.independent)
            finding = {State::skipped, fmt::format("not checked, it needs '{}'", failed), ""};
        else
            finding = check.run(it);
        // A low limit does not prevent connections with small buffers.
        if (finding.state == State::wrong && failed == nullptr && check.run != check_memlock)
            failed = check.title;
        results.push_back({check.name, check.title, std::move(finding)});
    }
    return results;
}

} // namespace t3doctor
