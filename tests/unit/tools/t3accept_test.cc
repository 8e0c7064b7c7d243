// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/t3accept.hh"

#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "tests/unit/tools/fake_machine.hh"
#include "tools/report/anonymise.hh"
#include "tools/report/inventory.hh"
#include "tools/t3accept/steps.hh"

namespace {

using namespace t3accept;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ---- parsers

TEST(Parse, Bandwidth) {
    const auto figures = perftest_figures(
        "---\n"
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      1000             1129.85            1129.10		   0.018066\n---\n");
    ASSERT_TRUE(figures);
    EXPECT_EQ(figures->dump(),
              R"({"bytes":65536,"iterations":1000,"peak MB/s":1129.85,"average MB/s":1129.1})");
}

TEST(Parse, Latency) {
    const auto figures =
        perftest_figures(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]  "
                         "  t_stdev[usec]   99% "
                         "percentile[usec]   99.9% percentile[usec]\n 16      1000          6.58           "
                         "12.50        6.70     	"
                         "       6.74        	0.22   		7.34    		12.50\n");
    ASSERT_TRUE(figures);
    EXPECT_EQ((*figures)["typical us"], 6.7);
    EXPECT_EQ((*figures)["mean us"], 6.74);
}

TEST(Parse, NoFigures) {
    EXPECT_FALSE(perftest_figures("Couldn't connect to 10.0.0.1:18515\n"));
    EXPECT_FALSE(perftest_figures(" #bytes #iterations    t_min[usec]\n"));
}

TEST(Parse, Ping) {
    const auto ping = ping_figures("10 packets transmitted, 9 received, 10% packet loss, time 1832ms\n"
                                   "rtt min/avg/max/mdev = 0.071/0.103/0.180/0.030 ms\n");
    ASSERT_TRUE(ping);
    EXPECT_EQ(ping->sent, 10);
    EXPECT_EQ(ping->received, 9);
    EXPECT_EQ(ping->mean_ms, "0.103");
    EXPECT_FALSE(ping_figures("ping: connect: Network is unreachable"));
}

/// The record of docs/hw/board.md at its place.
std::string vpd() {
    const auto field = [](const std::string& name, const std::string& text) {
        return name + static_cast<char>(text.size()) + text;
    };
    const auto fields = field("PN", "MODEL-T3C       ") + field("SN", "SIM00001") +
                        field("NA", "000743112200") + field("V0", "175000") + field("V1", "200000") +
                        field("RV", "x");
    return std::string(0xc00, '\0') + std::string("\x82\x10\0Model S320E-CR  \x90", 20) +
           static_cast<char>(fields.size()) + '\0' + fields;
}

TEST(Parse, Vpd) {
    const auto fields = vpd_fields(vpd());
    EXPECT_EQ(fields.at("ID"), "Model S320E-CR");
    EXPECT_EQ(fields.at("PN"), "MODEL-T3C");
    EXPECT_EQ(fields.at("SN"), "SIM00001");
    EXPECT_FALSE(fields.contains("RV"));
}

TEST(Parse, VpdThatReadsNonsense) {
    EXPECT_TRUE(vpd_fields("").empty());
    EXPECT_TRUE(vpd_fields(std::string(8192, '\xff')).empty());
    EXPECT_TRUE(vpd_fields("\x82").empty());
    // Cut at every length: no byte beyond the end is read.
    for (std::size_t length = 0xc00; length < vpd().size(); length++)
        vpd_fields(vpd().substr(0, length));
}

TEST(Parse, PciCapabilities) {
    std::string config(256, '\0');
    config[0x34] = 0x40;
    config[0x40] = 0x01;
    config[0x41] = '\x9c';
    config[0x9c] = 0x11;
    config[0x9e] = 8;
    EXPECT_EQ(pci_capabilities(config).dump(),
              R"([{"id":1,"offset":64},{"id":17,"offset":156,"vectors":9}])");
    config[0x9d] = 0x40; // a loop ends
    EXPECT_EQ(pci_capabilities(config).size(), 48U);
    EXPECT_TRUE(pci_capabilities(config.substr(0, 64)).empty());
    EXPECT_EQ(bar_sizes("0x0000000080000000 0x0000000080000fff 0x0000000000140204\n0x0 0x0 0x0\n"
                        "0xfe000000 0xfe7fffff 0x140204\n")
                  .dump(),
              R"({"BAR0":4096,"BAR2":8388608})");
}

TEST(Parse, NewLinesOfALog) {
    const std::vector<std::string> before{"a", "b"};
    EXPECT_THAT(new_lines(before, {"a", "b", "c"}), ElementsAre("c"));
    EXPECT_THAT(new_lines(before, {"a", "b"}), testing::IsEmpty());
    EXPECT_THAT(new_lines(before, {"x", "y"}), ElementsAre("x", "y")); // the ring was overwritten
    EXPECT_THAT(new_lines({}, {"x"}), ElementsAre("x"));
}

TEST(Parse, KernelLog) {
    EXPECT_EQ(classify("[1.0] cxgb3 0000:01:00.0 eth0: link up, 10Gbps, full-duplex"), LogLine::about_us);
    EXPECT_EQ(classify("[1.0] cxgb3 0000:01:00.0 eth0: link down"), LogLine::trouble);
    EXPECT_EQ(classify("[1.0] cxgb3 0000:01:00.0: PCI uncorrectable error"), LogLine::trouble);
    EXPECT_EQ(classify("[1.0] WARNING: CPU: 0 PID: 1 at mm/slub.c"), LogLine::trouble);
    EXPECT_EQ(classify("[1.0] pcieport 0000:00:01.0: AER: Corrected error received"), LogLine::trouble);
    EXPECT_EQ(classify("[1.0] ata1: error"), LogLine::other);
    EXPECT_EQ(classify("[1.0] iwpm_register_pid: Unable to send a nlmsg (client = 2)"), LogLine::about_us);
}

TEST(Parse, Counters) {
    EXPECT_EQ(changed({{"eth0/rx_errors", 1}, {"b", 2}}, {{"eth0/rx_errors", 3}, {"b", 2}, {"c", 1}}).dump(),
              R"([{"name":"c","before":0,"after":1},{"name":"eth0/rx_errors","before":1,"after":3}])");
    EXPECT_TRUE(counts_errors("eth0/rx_crc_errors"));
    EXPECT_FALSE(counts_errors("eth0/rx_packets"));
    EXPECT_TRUE(counts_repairs("iwp1s0/card_polls"));
}

// ---- what must not leave the machine

TEST(Anonymise, ReplacesTheSameTextByTheSameName) {
    Anonymiser anonymiser;
    EXPECT_EQ(anonymiser.text("eth0 00:07:43:11:22:00 to 00:07:43:aa:bb:cc, again 00:07:43:11:22:00"),
              "eth0 mac-1 to mac-2, again mac-1");
    EXPECT_EQ(anonymiser.text("10.0.0.1:7174 10.0.0.2"), "ipv4-1:7174 ipv4-2");
    EXPECT_EQ(anonymiser.text("fe80::207:43ff:fe11:2200 and 0007:4311:2200:0000"), "ipv6-1 and guid-1");
    EXPECT_EQ(anonymiser.text("0000:0000:0000:0000:0000:ffff:0a00:0001"), "ipv6-2");
}

TEST(Anonymise, KeepsWhatOnlyLooksLikeAnAddress) {
    Anonymiser anonymiser;
    for (const char* text :
         {"0000:01:00.0", "12:34:56", "T 7.12.0 TP 1.1.0", "127.0.0.1", "0.0.0.0", "6.1.0-50-amd64",
          "00:00:00:00:00:00", "std::string", "ff:ff:ff:ff:ff:ff", "44.0-2"})
        EXPECT_EQ(anonymiser.text(text), text);
}

TEST(Anonymise, ReplacesWords) {
    Anonymiser anonymiser;
    anonymiser.add("serial", "PT12345");
    anonymiser.add("host", "lab"); // too short
    anonymiser.add("host", "mybox");
    anonymiser.add("mac", "00:07:43:11:22:00");
    EXPECT_EQ(anonymiser.text("S/N: PT12345 on MyBox, mybox2, lab"), "S/N: serial-1 on host-1, mybox2, lab");
    EXPECT_EQ(anonymiser.text("lab"), "host-2");
    EXPECT_EQ(anonymiser.text("NA 000743112200 is 00:07:43:11:22:00"), "NA mac-1 is mac-1");
}

TEST(Anonymise, WholeReport) {
    const Json report{
        {"anonymous", false},
        {"log", {"peer: eth0: 10.1.2.3 PT12345"}},
        {"ends", {{{"host", "mybox"}, {"identifies", {{"host", {"mybox"}}, {"serial", {"PT12345"}}}}}}}};
    const auto out = anonymous(report);
    EXPECT_EQ(out.dump(),
              R"({"anonymous":true,"log":["peer: eth0: ipv4-1 serial-1"],"ends":[{"host":"host-1"}]})");
}

// ---- command lines of both ends

TEST(Tasks, CommandLines) {
    EXPECT_THAT(command({"rping", "", 64, 10}, Side::server, "10.0.0.1", "/x"),
                ElementsAre("rping", "-s", "-a", "10.0.0.1", "-C", "10", "-S", "64", "-V"));
    EXPECT_THAT(command({"ib_write_bw", "both ways", 64, 10}, Side::client, "10.0.0.1", "/x"),
                ElementsAre("ib_write_bw", "-R", "-F", "-s", "64", "-n", "10", "-b", "10.0.0.1"));
    EXPECT_THAT(command({"t3-rnr", "", 0, 0}, Side::client, "10.0.0.1", "/x"),
                ElementsAre("/x/t3-rnr", "client", "10.0.0.1"));
    EXPECT_EQ(port({"t3-rnr", "", 0, 0}), 7472);
}

TEST(Tasks, NothingElseIsRun) {
    EXPECT_THROW(command({"sh", "", 0, 0}, Side::server, "10.0.0.1", "/x"), std::invalid_argument);
    EXPECT_THROW(command({"../t3-rnr", "", 0, 0}, Side::server, "10.0.0.1", "/x"), std::invalid_argument);
    EXPECT_THROW(command({"rping", "-o", 0, 0}, Side::server, "10.0.0.1", "/x"), std::invalid_argument);
    EXPECT_THROW(command({"ib_write_bw", "", 1, 1}, Side::client, "--out_json_file=/etc/passwd", "/x"),
                 std::invalid_argument);
    EXPECT_THROW(command({"rping", "", -1, 0}, Side::server, "10.0.0.1", "/x"), std::invalid_argument);
    EXPECT_EQ(task_from(to_json(Task{"rping", "v", 1, 2})).variant, "v");
}

// ---- jobs

TEST(Jobs, StatusAndOutput) {
    Job job({"sh", "-c", "echo out; echo err >&2; exit 3"});
    const auto done = job.finish(std::chrono::seconds(20));
    EXPECT_EQ(done.status, 3);
    EXPECT_FALSE(done.late);
    EXPECT_EQ(done.output, "out\nerr\n");
}

TEST(Jobs, KilledAfterItsTimeWithItsChildren) {
    Job job({"sh", "-c", "sleep 1000 & echo $!; wait"});
    while (job.output().empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto done = job.finish(std::chrono::milliseconds(50));
    EXPECT_TRUE(done.late);
    EXPECT_EQ(done.status, 128 + 9);
}

TEST(Jobs, EndWithASignalToThisProgram) {
    handle_signals();
    Job job({"sleep", "1000"});
    raise(SIGINT);
    EXPECT_TRUE(job.finish(std::chrono::seconds(100)).late);
    handle_signals();
    EXPECT_FALSE(interrupted());
}

TEST(Jobs, MissingProgram) {
    EXPECT_THROW(Job({"no-such-program-of-t3accept"}), Missing);
    EXPECT_EQ(package_of("ib_read_lat"), "perftest");
    EXPECT_EQ(package_of("/usr/libexec/t3rdma/t3-rnr"), "t3rdma-tools");
}

// ---- a run

class FakeProbe : public t3doctor::Probe {
public:
    Interface interface(const std::string& name) override { return interfaces[name]; }
    Memlock memlock() override { return {true, 0}; }
    Verbs verbs() override { return {{"cxgb3_0"}, ""}; }
    Route route(const std::string&) override { return {"10.0.0.1", ""}; }
    Connection connect(const std::string&, int) override { return {}; }
    bool may_open(const std::string&) override { return true; }
    std::map<std::string, Interface> interfaces{{"eth0", {true, true, {"10.0.0.1"}, "T 7.12.0 TP 1.1.0"}},
                                                {"eth1", {false, false, {}, "T 7.12.0 TP 1.1.0"}}};
};

/// An end whose programs succeed, unless a test sets another result.
class FakeEnd : public Peer {
public:
    Json inventory() override { return {{"role", "peer"}, {"cards", Json::array()}}; }
    Counters counters() override { return now; }
    std::vector<std::string> new_log() override {
        if (!log_read) {
            log_read = true;
            return {};
        }
        return log;
    }
    Json objects() override { return Json::array({{{"ifname", "cxgb3_0"}, {"ifindex", 0U}, {"qp", qps}}}); }
    int start(const Task& task, Side, const std::string&) override {
        started.push_back(task.program);
        seconds = task.seconds;
        if (missing == task.program)
            throw Missing{task.program, true};
        if (throws == task.program)
            throw std::runtime_error("the server closed the connection");
        return static_cast<int>(started.size());
    }
    Done finish(int job, std::chrono::milliseconds) override {
        const auto result = results.find(started.at(static_cast<std::size_t>(job - 1)));
        if (result != results.end())
            return result->second;
        return {0, false,
                " #bytes #iterations BW peak BW average\n 64 1000 1.0 1.0\nreturn status 0\n"
                "{\"point\": \"G12\", \"result\": \"as modelled\", \"answer\": \"twice\"}\n"
                "{\"ok\": true, \"connections\": 5, \"checks\": 7}\n",
                0.5};
    }
    Transfer send(std::size_t) override { return {true, 1.0}; }
    Transfer receive(std::size_t) override { return {intact, 1.0}; }

    Counters now;
    bool log_read = false;
    std::vector<std::string> log, started;
    unsigned qps = 0;
    int seconds = -1; // of the last task
    std::string missing, throws;
    std::map<std::string, Done> results;
    bool intact = true;
};

/// Forwards to an end that the test keeps.
class Forward : public Peer {
public:
    explicit Forward(FakeEnd& to) : to_(to) {}
    Json inventory() override { return to_.inventory(); }
    Counters counters() override { return to_.counters(); }
    std::vector<std::string> new_log() override { return to_.new_log(); }
    Json objects() override { return to_.objects(); }
    int start(const Task& task, Side side, const std::string& server) override {
        return to_.start(task, side, server);
    }
    Done finish(int job, std::chrono::milliseconds limit) override { return to_.finish(job, limit); }
    Transfer send(std::size_t bytes) override { return to_.send(bytes); }
    Transfer receive(std::size_t bytes) override { return to_.receive(bytes); }

private:
    FakeEnd& to_;
};

/// It has the programs that the inventory and the ends use.
class AcceptMachine : public FakeMachine {
public:
    t3tools::Outcome run(const std::vector<std::string>& words) const override {
        if (words[0] == "dmesg")
            return {0, "[1.0] cxgb3 0000:01:00.0: eth0: link up"};
        if (words[0] == "dpkg-query")
            return words.back() == "perftest" ? t3tools::Outcome{0, "4.5"}
                                              : t3tools::Outcome{1, "no packages found"};
        if (words[0] == "rdma")
            return {0, "[]"};
        return FakeMachine::run(words);
    }
};

struct Accept : testing::Test {
    Accept() {
        machine.add_card();
        machine.add_rdma_device();
        machine.file("/dev/infiniband/uverbs0", "");
        machine.file("/etc/libibverbs.d/cxgb3.driver", "driver cxgb3\n");
        machine.file("/usr/lib/x86_64-linux-gnu/libibverbs/libcxgb3-rdmav34.so", "");
        machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"});
        machine.depends = "/lib/modules/6.1.0-test/kernel/drivers/infiniband/core/ib_core.ko";
        machine.file("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "8\n");
        machine.file("/sys/bus/pci/devices/0000:01:00.0/max_link_width", "8\n");
        machine.file("/sys/bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe\n");
        machine.file("/sys/bus/pci/devices/0000:01:00.0/vpd", vpd());
        machine.file("/sys/class/net/eth0/speed", "10000\n");
        setting.own = "10.0.0.1";
        setting.peer = "10.0.0.2";
        setting.quick = true;
    }
    Step step(const std::string& name) {
        setting.only = {name};
        FakeEnd here = local;
        Environment environment{machine, probe, here,
                                [&]() -> std::unique_ptr<Peer> {
                                    if (!refused.empty())
                                        throw std::runtime_error(refused);
                                    return std::make_unique<Forward>(peer);
                                },
                                [](const Step&) {}};
        report = accept(environment, setting);
        for (const auto& step : report.steps)
            if (step.name == name)
                return step;
        return {};
    }
    void expect(const std::string& name, State state, const char* what) {
        const auto found = step(name);
        EXPECT_EQ(word(found.state), std::string(word(state))) << name << ": " << found.what;
        EXPECT_THAT(found.what, HasSubstr(what)) << name;
    }
    AcceptMachine machine;
    FakeProbe probe;
    FakeEnd local, peer;
    Setting setting;
    std::string refused;
    Report report;
};

TEST_F(Accept, EveryStepThatNeedsNoNetworkPasses) {
    for (const auto& [name, title] : all_steps())
        if (name != "ping" && name != "ping-large" && name != "inventory")
            expect(name, State::passed, "");
    EXPECT_TRUE(report.passed());
}

TEST_F(Accept, StepsThatAreNotSelectedAreSkipped) {
    step("rping-small");
    for (const auto& step : report.steps)
        if (step.name != "rping-small" && step.name != "peer") {
            EXPECT_EQ(step.state, State::skipped) << step.name;
            EXPECT_EQ(step.what, "not selected");
        }
    EXPECT_THAT(peer.started, ElementsAre("rping"));
}

TEST_F(Accept, WithoutAnotherEnd) {
    setting.peer = setting.own = "";
    expect("rping-small", State::skipped, "needs another end: --peer or --both-ports");
    EXPECT_TRUE(report.passed());
}

TEST_F(Accept, TheOtherEndDoesNotReply) {
    refused = "cannot connect to t3accept --server at 10.0.0.2 port 7475: Connection refused";
    expect("peer", State::failed, "Connection refused");
    expect("rping-small", State::skipped, "there is no connection to the other end");
    EXPECT_FALSE(report.passed());
}

TEST_F(Accept, AProgramThatIsNotInstalledIsSkipped) {
    peer.missing = "ib_write_bw";
    expect("write-bw", State::skipped, "ib_write_bw is not installed at the other end (package perftest)");
}

TEST_F(Accept, AProgramThatFails) {
    peer.results["rping"] = {1, false, "wc error\n", 1};
    expect("rping-small", State::failed, "status 0 at the client, 1 at the server");
    EXPECT_THAT(report.steps.at(8).output, HasSubstr("wc error"));
    local.results["t3-rnr"] = {1, false, "{\"ok\": false, \"error\": \"rejected\"}\n", 1};
    expect("no-receive", State::failed, "the client reports a wrong result: rejected");
    local.results["rping"] = {137, true, "", 90};
    expect("rping-small", State::failed, "rping did not end within 90 s");
    peer.results.erase("rping");
    local.results["rping"] = {0, false, "client DISCONNECT EVENT...\nwait for RDMA_WRITE_ADV state 10\n", 1};
    expect("rping-small", State::failed, "disconnected before its last round");
    peer.throws = "t3-rate";
    expect("rate", State::failed, "the server closed the connection");
}

TEST_F(Accept, AnswersAreInTheReportAndFailNothing) {
    local.results["t3-probe"] = {
        0, false,
        "{\"point\": \"G1\", \"result\": \"not observed\", \"answer\": \"no tracefs\"}\n"
        "{\"point\": \"G12\", \"result\": \"other\", \"answer\": \"once\"}\n"
        "{\"ok\": true}\n",
        1};
    expect("questions", State::note, "G12: once");
    EXPECT_EQ(step("questions").figures.at("not observed"), 1);
    ASSERT_EQ(report.answers.size(), 2U);
    EXPECT_THAT(to_text(to_json(report)), HasSubstr("G12  other         once"));
    local.results["t3-probe"] = {0, false, "{\"ok\": true}\n", 1};
    expect("questions", State::failed, "t3-probe: status 0 at the client");
    local.results["t3-probe"] = {1, false, "{\"ok\": false}\n", 1};
    expect("questions", State::failed, "t3-probe: status 1 at the client");
}

TEST_F(Accept, QuestionsHaveTheTimeThatIsLeft) {
    EXPECT_EQ(step("questions").state, State::passed);
    EXPECT_EQ(peer.seconds, 400);
    setting.limit = std::chrono::seconds(100);
    step("questions");
    EXPECT_EQ(peer.seconds, 70); // 30 s are kept for the steps behind it
    setting.limit = std::chrono::seconds(20);
    step("questions");
    EXPECT_EQ(peer.seconds, 1);
    EXPECT_THROW(command({.program = "t3-probe", .variant = "", .seconds = -1}, Side::client, "10.0.0.2", ""),
                 std::invalid_argument);
    EXPECT_THAT(command({.program = "t3-probe", .variant = "", .seconds = 70}, Side::client, "10.0.0.2", ""),
                Contains("--seconds=70"));
}

TEST_F(Accept, PerftestMayCrashTwice) {
    local.results["ib_write_bw"] = {139, false, "", 1};
    expect("write-bw", State::failed, "status 139 at the client");
    EXPECT_THAT(local.started, testing::IsEmpty());
    EXPECT_EQ(std::ranges::count(peer.started, "ib_write_bw"), 3);
}

TEST_F(Accept, DataThatArriveChanged) {
    peer.intact = false;
    expect("tcp", State::failed, "changed");
}

TEST_F(Accept, ANarrowSlotIsNoted) {
    machine.file("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "4\n");
    expect("pcie", State::note, "has x4, the card could use x8");
    EXPECT_TRUE(report.passed());
    std::filesystem::remove(machine.path("/sys/bus/pci/devices/0000:01:00.0/current_link_width"));
    expect("pcie", State::skipped, "no PCIe link");
}

TEST_F(Accept, Links) {
    probe.interfaces["eth0"].carrier = false;
    expect("link", State::failed, "eth0 is up and has no link");
    probe.interfaces["eth0"].up = false;
    expect("link", State::failed, "no interface of the card is up");
    expect("card", State::failed, "t3doctor reports: link: no interface of the card is up");
}

TEST_F(Accept, SlowLinkIsNoted) {
    machine.file("/sys/class/net/eth0/speed", "1000\n");
    expect("link", State::note, "eth0 has 1000 Mbit/s");
}

TEST_F(Accept, KernelLog) {
    peer.log = {"[1.0] usb 1-1: error", "[2.0] cxgb3 0000:01:00.0 eth0: link up"};
    expect("log", State::passed, "");
    EXPECT_THAT(report.log, ElementsAre("peer: [2.0] cxgb3 0000:01:00.0 eth0: link up"));
    peer.log_read = false;
    peer.log = {"[3.0] WARNING: CPU: 0"};
    expect("log", State::failed, "the kernel reports: peer: [3.0] WARNING: CPU: 0");
}

TEST_F(Accept, Limit) {
    setting.limit = std::chrono::seconds(-1);
    expect("rping-small", State::skipped, "the time limit");
}

TEST_F(Accept, Inventory) {
    const auto found = inventory(machine, probe, "here");
    const auto& card = found.at("cards")[0];
    EXPECT_EQ(card["VPD"]["SN"], "SIM00001");
    EXPECT_EQ(card["link width"], "8");
    EXPECT_EQ(card["IOMMU"], "none");
    EXPECT_EQ(card["interfaces"][0]["firmware"], "7.12.0");
    EXPECT_EQ(card["interfaces"][0]["protocol SRAM"], "1.1.0");
    EXPECT_EQ(found["identifies"]["serial"][0], "SIM00001");
    EXPECT_EQ(found["software"]["packages"].dump(), R"({"perftest":"4.5"})");
    EXPECT_THAT(found["software"]["modules"].dump(),
                Not(HasSubstr("iw_cxgb3"))); // not in this folder's /sys/module
}

TEST_F(Accept, CountersOfInterfacesAndDevices) {
    machine.file("/sys/class/net/eth0/statistics/rx_errors", "5\n");
    machine.file("/sys/class/infiniband/cxgb3_0/hw_counters/card_polls", "2\n");
    machine.file("/sys/class/infiniband/cxgb3_0/hw_counters/lifespan", "10\n");
    machine.file("/sys/class/infiniband/cxgb3_0/ports/1/counters/port_rcv_data", "N/A (no PMA)\n");
    machine.file("/sys/bus/pci/devices/0000:01:00.0/aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 3\n");
    EXPECT_THAT(read_counters(machine),
                ElementsAre(testing::Pair("0000:01:00.0/aer/correctable/RxErr", 3),
                            testing::Pair("0000:01:00.0/aer/correctable/TOTAL_ERR_COR", 3),
                            testing::Pair("cxgb3_0/card_polls", 2), testing::Pair("eth0/rx_errors", 5)));
}

TEST_F(Accept, TextHasWhatJsonHas) {
    peer.results["rping"] = {1, false, "wc error\n", 1};
    step("rping-small");
    const auto text = to_text(to_json(report));
    EXPECT_THAT(text, AllOf(HasSubstr("FAILED"), HasSubstr("rping-small"), HasSubstr("wc error"),
                            HasSubstr("not selected")));
}

// ---- the control connection, with a real server

TEST(Control, RequestsErrorsAndTransfers) {
    FakeMachine machine;
    FakeProbe probe;
    FakeEnd served;
    served.now = {{"a", 1}};
    served.missing = "ucmatose";
    std::atomic<bool> ready = false;
    constexpr int test_port = 37475;
    std::thread server([&] { serve("127.0.0.1", test_port, served, [&] { ready = true; }); });
    while (!ready)
        std::this_thread::yield();
    {
        RemoteEnd remote("127.0.0.1", test_port);
        EXPECT_EQ(remote.counters(), (Counters{{"a", 1}}));
        EXPECT_EQ(remote.inventory()["role"], "peer");
        const int job = remote.start({"rping", "", 1, 1}, Side::server, "10.0.0.1");
        EXPECT_EQ(remote.finish(job, std::chrono::seconds(1)).status, 0);
        try {
            remote.start({"ucmatose", "", 1, 1}, Side::server, "10.0.0.1");
            FAIL();
        } catch (const Missing& missing) {
            EXPECT_TRUE(missing.at_peer);
        }
        EXPECT_THROW(remote.finish(77, std::chrono::seconds(1)), std::runtime_error);
        EXPECT_TRUE(remote.send(3'000'000).intact);
        EXPECT_TRUE(remote.receive(3'000'000).intact);
        EXPECT_EQ(remote.counters(), (Counters{{"a", 1}}));
    }
    pthread_kill(server.native_handle(), SIGTERM);
    server.join();
    EXPECT_TRUE(interrupted());
    handle_signals();
    EXPECT_THROW(RemoteEnd("127.0.0.1", test_port), std::runtime_error);
}

// ---- the command line

struct CommandLine : Accept {
    int run(const std::vector<std::string>& words) {
        out.str("");
        err.str("");
        return t3accept::run(words, machine, probe, "/usr/bin/t3accept", "/usr/libexec/t3rdma", out, err);
    }
    std::ostringstream out, err;
};

TEST_F(CommandLine, ListsTheSteps) {
    EXPECT_EQ(run({"--list"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("rping-small       rping with verified data\n"));
    EXPECT_EQ(run({"--list", "--json"}), 0);
    EXPECT_EQ(Json::parse(out.str()).size(), all_steps().size());
}

TEST_F(CommandLine, WrongOnes) {
    EXPECT_EQ(run({"--only", "nonsense"}), 2);
    EXPECT_THAT(err.str(), HasSubstr("there is no step nonsense"));
    EXPECT_EQ(run({"--peer", "10.0.0.2", "--both-ports"}), 2);
    EXPECT_EQ(run({"--peer", "nowhere"}), 2);
    EXPECT_EQ(run({"--server", "10.0.0.2", "--both-ports"}), 2);
    EXPECT_EQ(run({"--minutes", "0"}), 2);
}

TEST_F(CommandLine, WritesBothReports) {
    machine.folder("/reports");
    EXPECT_EQ(run({"--only", "pcie", "-o", "/reports/one"}), 0) << out.str() << err.str();
    const auto text = machine.read("/reports/one.txt").value_or("");
    const auto json = Json::parse(machine.read("/reports/one.json").value_or("{}"));
    EXPECT_THAT(text, HasSubstr("Chelsio T3, examined by t3accept"));
    EXPECT_TRUE(json["passed"] && json["anonymous"]);
    EXPECT_EQ(json["format"], "t3accept 1");
    EXPECT_EQ(run({"--only", "pcie", "-o", "/nowhere/one"}), 1);
    EXPECT_THAT(err.str(), HasSubstr("cannot be written"));
}

TEST_F(CommandLine, SerialNumberOnlyIfAskedFor) {
    machine.folder("/reports");
    run({"--only", "inventory", "-o", "/reports/one"});
    EXPECT_THAT(machine.read("/reports/one.json").value_or(""),
                AllOf(HasSubstr("serial-1"), Not(HasSubstr("SIM00001"))));
    EXPECT_THAT(machine.read("/reports/one.txt").value_or(""), Not(HasSubstr("SIM00001")));
    run({"--only", "inventory", "--personal", "-o", "/reports/one"});
    EXPECT_THAT(machine.read("/reports/one.json").value_or(""), HasSubstr("SIM00001"));
}

TEST_F(CommandLine, ReportsTheNumberOfSkippedSteps) {
    machine.folder("/reports");
    run({"--only", "pcie", "-o", "/reports/one"});
    EXPECT_THAT(out.str(), HasSubstr("\nPASSED (1 step skipped). The report"))
        << "that of the peer; the others were not asked for";
    run({"--only", "rping-small", "--only", "pcie", "-o", "/reports/one"}); // without another end
    EXPECT_THAT(out.str(), HasSubstr("\nPASSED (2 steps skipped). The report"));
}

TEST_F(CommandLine, AFailedStepIsStatus1) {
    machine.folder("/reports");
    probe.interfaces["eth0"].carrier = false;
    EXPECT_EQ(run({"--only", "link", "-o", "/reports/one"}), 1);
    EXPECT_THAT(out.str(), HasSubstr("FAILED"));
}

} // namespace
