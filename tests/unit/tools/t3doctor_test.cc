// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3doctor/t3doctor.hh"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/fake_machine.hh"

namespace {

using namespace t3doctor;
using testing::ElementsAre;
using testing::HasSubstr;

/// A healthy machine, unless a test changes an answer.
class FakeProbe : public Probe {
public:
    Interface interface(const std::string& name) override { return interfaces[name]; }
    Memlock memlock() override { return limit; }
    Verbs verbs() override { return libibverbs; }
    Route route(const std::string&) override { return way; }
    Connection connect(const std::string&, int) override { return connection; }
    bool may_open(const std::string&) override { return open; }

    std::map<std::string, Interface> interfaces{{"eth0", {true, true, {"10.0.0.1"}, "T 7.12.0 TP 1.1.0"}},
                                                {"eth1", {false, false, {}, "T 7.12.0 TP 1.1.0"}}};
    Memlock limit{true, 0};
    Verbs libibverbs{{"cxgb3_0"}, ""};
    Route way{"10.0.0.1", ""};
    Connection connection{Connection::End::accepted, "cxgb3_0", ""};
    bool open = true;
};

struct Doctor : testing::Test {
    Doctor() {
        machine.add_card();
        machine.add_rdma_device();
        machine.file("/dev/infiniband/uverbs0", "");
        machine.file("/etc/libibverbs.d/cxgb3.driver", "driver cxgb3\n");
        machine.file("/usr/lib/x86_64-linux-gnu/libibverbs/libcxgb3-rdmav34.so", "");
        machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"});
        machine.depends = "/lib/modules/6.1.0-test/kernel/drivers/infiniband/core/ib_core.ko";
    }
    Finding find(const std::string& check, const std::string& address = "10.0.0.2") {
        for (const auto& result : examine(machine, probe, {address, 7174}))
            if (result.check == check)
                return result.finding;
        return {State::skipped, "no such check", ""};
    }
    void expect(const std::string& check, State state, const char* what, const char* cure = "") {
        const auto finding = find(check);
        EXPECT_EQ(finding.state, state) << finding.what;
        EXPECT_THAT(finding.what, HasSubstr(what));
        EXPECT_THAT(finding.cure, HasSubstr(cure));
    }
    int run(const std::vector<std::string>& words) {
        out.str("");
        err.str("");
        return t3doctor::run(words, machine, probe, out, err);
    }
    FakeMachine machine;
    FakeProbe probe;
    std::ostringstream out, err;
};

TEST_F(Doctor, HealthyMachine) {
    for (const auto& result : examine(machine, probe, {"10.0.0.2", 7174}))
        EXPECT_EQ(result.finding.state, State::fine) << result.check << ": " << result.finding.what;
    EXPECT_EQ(run({}), 0);
    EXPECT_THAT(out.str(), HasSubstr("No problem found"));
}

TEST_F(Doctor, NoCardAndAllThatFollowsIsSkipped) {
    machine.file("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n");
    expect("card", State::wrong, "no Chelsio T3", "lspci");
    expect("nic", State::skipped, "it needs 'card'");
    expect("memlock", State::fine, "");
}

TEST_F(Doctor, ACardOfALaterKindIsNone) {
    machine.file("/sys/bus/pci/devices/0000:01:00.0/device", "0x4401\n");
    expect("card", State::wrong, "no Chelsio T3", "iw_cxgb4");
}

TEST_F(Doctor, NicDriver) {
    std::filesystem::remove(machine.path("/sys/bus/pci/devices/0000:01:00.0/driver"));
    expect("nic", State::wrong, "is not bound to the card 0000:01:00.0", "dmesg");
    machine.set_loaded({});
    expect("nic", State::wrong, "not loaded", "modprobe cxgb3");
    machine.link("/sys/bus/pci/devices/0000:01:00.0/driver", "../../drivers/vfio-pci");
    expect("nic", State::wrong, "is bound to vfio-pci", "unbind");
}

TEST_F(Doctor, Firmware) {
    probe.interfaces["eth0"].firmware = "T 7.10.0 TP 1.1.0";
    expect("firmware", State::wrong, "eth0 has firmware 7.10.0, the driver requires 7.12.0",
           "firmware-misc-nonfree");
    probe.interfaces["eth0"].firmware = "N/A";
    expect("firmware", State::wrong, "cannot read the firmware version of eth0", "firmware-misc-nonfree");
}

TEST_F(Doctor, Slot) {
    machine.file("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "4\n");
    machine.file("/sys/bus/pci/devices/0000:01:00.0/max_link_width", "8\n");
    expect("slot", State::note, "gives it 4 PCI Express lanes of 8", "x16 outside");
}

/// A record at 0 with these fields.
std::string vpd(const std::string& fields) {
    return std::string("\x82\x05\0board\x90", 9) + static_cast<char>(fields.size()) + '\0' + fields;
}

TEST_F(Doctor, Eeprom) {
    const std::string file = "/sys/bus/pci/devices/0000:01:00.0/vpd";
    machine.file(file, vpd("SN\x01"
                           "xNA\x01"
                           "xV0\x01"
                           "xV1\x01"
                           "x"));
    expect("eeprom", State::fine, "describes the board");
    machine.file(file, "nonsense");
    expect("eeprom", State::note, "has no record of the board", "cxgb3 accepted it");
    std::filesystem::remove(machine.path("/sys/bus/pci/devices/0000:01:00.0/driver"));
    expect("eeprom", State::wrong, "has no record of the board", "only a copy of a good one");
    machine.file(file, vpd("SN\x01"
                           "x"));
    expect("eeprom", State::wrong, "has no field NA");
}

TEST_F(Doctor, Offload) {
    machine.file("/sys/bus/pci/devices/0000:01:00.0/vpd", vpd("SN\x01"
                                                              "xNA\x01"
                                                              "xV0\x01"
                                                              "xV1\x01"
                                                              "0"));
    expect("offload", State::wrong, "has no memories for offload", "another board");
    machine.file("/sys/module/cxgb3/parameters/ofld_disable", "1\n");
    expect("offload", State::wrong, "switched off", "ofld_disable=1");
}

TEST_F(Doctor, LinkAndAddress) {
    probe.interfaces["eth0"].carrier = false;
    expect("link", State::wrong, "no link on eth0", "cable");
    machine.refusals["dmesg"] = {0, "[1.0] cxgb3 0000:01:00.0: Direct firmware load for "
                                    "cxgb3/ael2020_twx_edc.bin failed with error -2\n"};
    expect("link", State::wrong, "cxgb3/ael2020_twx_edc.bin", "firmware-misc-nonfree");
    machine.file("/lib/firmware/cxgb3/ael2020_twx_edc.bin.xz", "");
    expect("link", State::wrong, "no link on eth0", "cable"); // an old line of the log
    machine.refusals.clear();
    probe.interfaces["eth0"].up = false;
    expect("link", State::wrong, "are down: eth0 eth1", "ip link set eth0 up");
    probe.interfaces["eth0"] = {true, true, {}, "T 7.12.0"};
    expect("address", State::wrong, "IPv4", "ip addr add ADDRESS/24 dev eth0");
}

TEST_F(Doctor, SecureBoot) {
    machine.file("/sys/module/module/parameters/sig_enforce", "Y\n");
    expect("signature", State::fine, "accepts ours");
    machine.set_loaded({"cxgb3"});
    machine.depends = "";
    expect("signature", State::wrong, "iw_cxgb3 is not signed", "mokutil --import");
    machine.depends = "DKMS module signing key";
    expect("signature", State::note, "signed by 'DKMS module signing key'", "mokutil --import");
    machine.file("/proc/keys",
                 "00a I------ 1 perm 1f030000 0 0 asymmetri Debian Secure Boot CA: 6cce: X509.rsa\n");
    expect("signature", State::wrong, "signed by 'DKMS module signing key', which is not a trusted key",
           "enrol that key: mokutil --import");
    machine.file("/proc/keys",
                 "00b I------ 1 perm 1f030000 0 0 asymmetri DKMS module signing key: 0a21: X509.rsa\n");
    expect("signature", State::note, "signed by 'DKMS module signing key'");
    machine.file("/sys/module/module/parameters/sig_enforce", "N\n");
    machine.file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    expect("signature", State::note, "only signed modules");
}

TEST_F(Doctor, Modules) {
    machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_uverbs", "t3_uverbs", "rdma_ucm"});
    expect("modules", State::note, "t3_uverbs and ib_uverbs are both loaded", "ofedctrl -l --own all");
    machine.set_loaded({"cxgb3", "ib_uverbs"});
    expect("modules", State::wrong, "iw_cxgb3 is not loaded", "ofedctrl -l");
    machine.file("/etc/modprobe.d/local.conf", "# mine\nblacklist iw_cxgb3\n");
    expect("modules", State::wrong, "/etc/modprobe.d/local.conf blocks it");
    machine.refusals["iw_cxgb3"] = {1, "modinfo: ERROR: Module iw_cxgb3 not found."};
    expect("modules", State::wrong, "no iw_cxgb3 for kernel 6.1.0-test", "dkms status");
    machine.depends = "/lib/modules/6.1.0-test/updates/dkms/ib_core.ko";
    expect("modules", State::wrong, "ib_core is not the kernel's own", "MLNX_OFED");
}

TEST_F(Doctor, Device) {
    probe.open = false;
    expect("device", State::wrong, "you may not open /dev/infiniband/uverbs0", "0666");
    std::filesystem::remove(machine.path("/dev/infiniband/uverbs0"));
    expect("device", State::wrong, "/dev/infiniband/uverbs0 does not exist", "udevadm");
    std::filesystem::remove_all(machine.path("/sys/class/infiniband_verbs"));
    expect("device", State::wrong, "cxgb3_0 has no verbs node", "ofedctrl -l");
    std::filesystem::remove_all(machine.path("/sys/class/infiniband"));
    expect("device", State::wrong, "registered no RDMA device", "dmesg");
}

TEST_F(Doctor, ConnectionManager) {
    machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_uverbs"});
    expect("device", State::wrong, "no connection manager", "ofedctrl -l");
    machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_uverbs", "t3_rdma_cm"});
    machine.file("/sys/module/t3_rdma_cm/parameters/reserve_tcp_ports", "Y\n");
    expect("device", State::fine, "is there");
    machine.file("/sys/module/t3_rdma_cm/parameters/reserve_tcp_ports", "N\n");
    expect("device", State::note, "reserves no TCP ports", "echo Y");
}

TEST_F(Doctor, Provider) {
    probe.libibverbs = {{}, "libibverbs: Warning: couldn't load driver 'libcxgb3-rdmav65.so': no such file"};
    expect("provider", State::wrong, "is for another rdma-core: libibverbs requires rdmav65",
           "of this Debian release");
    probe.libibverbs = {{}, "cxgb3: this libibverbs is not the one I was built for"};
    expect("provider", State::wrong, "its warnings: cxgb3: this libibverbs is not the one", "make provider");
    std::filesystem::remove_all(machine.path("/usr/lib"));
    expect("provider", State::wrong, "libcxgb3-rdmavNN.so is missing", "libibverbs-cxgb3");
    std::filesystem::remove(machine.path("/etc/libibverbs.d/cxgb3.driver"));
    expect("provider", State::wrong, "cxgb3.driver is missing", "libibverbs-cxgb3");
}

TEST_F(Doctor, LockedMemory) {
    probe.limit = {false, 64 << 10};
    expect("memlock", State::wrong, "64 KiB", "memlock unlimited");
    expect("route", State::fine, ""); // the limit alone stops no connection
    probe.limit = {false, 8 << 20};
    expect("memlock", State::note, "8192 KiB");
}

TEST_F(Doctor, Route) {
    probe.way = {"", "Network is unreachable"};
    expect("route", State::wrong, "no route to 10.0.0.2 (Network is unreachable)");
    expect("connection", State::skipped, "");
    probe.way = {"192.168.1.5", ""};
    expect("route", State::wrong, "source address 192.168.1.5, which is not on a T3",
           "ip route add 10.0.0.2 dev eth0");
    probe.way = {"10.0.0.1", ""};
    EXPECT_THAT(find("route", "10.0.0.1").cure, HasSubstr("no loopback"));
}

TEST_F(Doctor, Connection) {
    using End = Probe::Connection::End;
    const auto ends = [&](End end, State state, const char* what, const char* cure) {
        probe.connection = {end, "cxgb3_0", "reason"};
        expect("connection", state, what, cure);
    };
    ends(End::refused, State::note, "no listener on port 7174", "rping -s");
    ends(End::no_address, State::wrong, "ARP", "ping");
    ends(End::no_device, State::wrong, "no RDMA device", "ofedctrl -q");
    ends(End::no_answer, State::wrong, "not to the TCP connection", "firewall");
    ends(End::other, State::wrong, "failed: reason", "dmesg");
}

TEST_F(Doctor, EveryCheckRunsOnAHealthyMachine) {
    std::vector<std::string> ran, known;
    for (const auto& result : examine(machine, probe, {"10.0.0.2", 7174}))
        ran.push_back(result.check);
    for (const auto& [name, title] : all_checks())
        known.push_back(name);
    EXPECT_EQ(ran, known);
}

TEST_F(Doctor, StatusBriefAndJson) {
    probe.limit = {false, 64 << 10};
    EXPECT_EQ(run({"--brief"}), 1);
    const auto text = out.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    EXPECT_EQ(run({"--json", "10.0.0.2"}), 1);
    const auto json = nlohmann::json::parse(out.str());
    EXPECT_EQ(json["healthy"], false);
    EXPECT_EQ(json["checks"].size(), all_checks().size());
    EXPECT_EQ(json["checks"][12]["state"], "WRONG");
}

class DoctorWrong : public Doctor, public testing::WithParamInterface<std::vector<std::string>> {};
TEST_P(DoctorWrong, CommandLine) {
    EXPECT_EQ(run(GetParam()), 2);
    EXPECT_THAT(err.str(), testing::StartsWith("t3doctor: "));
    EXPECT_THAT(err.str(), testing::EndsWith("see t3doctor --help\n"));
}
using Words = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(All, DoctorWrong,
                         testing::Values(Words{"nonsense"}, Words{"10.0.0.2", "-p", "0"}, Words{"-p"},
                                         Words{"--cure"}, Words{"10.0.0.1", "10.0.0.2"}));

TEST_F(Doctor, ReportToSend) {
    machine.folder("/reports");
    machine.file("/proc/sys/kernel/hostname", "mybox\n");
    machine.refusals["dmesg"] = {
        0, "[1.0] mybox: cxgb3 0000:01:00.0: eth0 at 10.0.0.1\n[2.0] usb 1-1: new device"};
    probe.interfaces["eth0"].carrier = false;
    EXPECT_EQ(run({"--report", "/reports/one.txt"}), 1);
    const auto text = machine.read("/reports/one.txt").value_or("");
    EXPECT_THAT(text,
                testing::AllOf(HasSubstr("Chelsio T3, examined by t3doctor"), HasSubstr("no link on eth0"),
                               HasSubstr("[1.0] host-1: cxgb3 0000:01:00.0: eth0 at ipv4-1"),
                               testing::Not(HasSubstr("usb"))));
    EXPECT_EQ(run({"--report", "/reports/one.json", "--personal"}), 1);
    const auto json = nlohmann::json::parse(machine.read("/reports/one.json").value_or("{}"));
    EXPECT_EQ(json["ends"][0]["host"], "mybox");
    EXPECT_EQ(run({"--personal"}), 2);
    EXPECT_EQ(run({"--report", "/nowhere/one.txt"}), 1);
    EXPECT_THAT(err.str(), HasSubstr("cannot be written"));
}

} // namespace
