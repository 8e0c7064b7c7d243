// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Views of the recording of a short run: two cards, a connection, a queue pair on each side, six sends each
// way. The run is the valid beginning of tests/sim/hostile, so it is the same every time.
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/core/log.hh"
#include "sim/trace/trace.hh"
#include "tests/sim/hostile/guest.hh"
#include "tests/sim/trace/folder.hh"

namespace t3sim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using trace::Filter;

/// Always chooses 1, so the guest mutates nothing (which needs a 0).
class ValidChoices : public Choices {
public:
    std::uint32_t word() override { return 1; }
    [[nodiscard]] bool exhausted() const override { return false; }
};

class Views : public testing::Test {
protected:
    static void SetUpTestSuite() {
        set_log_levels("off", nullptr);
        folder = std::make_unique<Folder>();
        file = *folder / "run.t3t";
        ValidChoices choices;
        HostileGuest guest(choices);
        Recorder recorder(guest.queue(), file);
        guest.record(&recorder);
        guest.bring_up();
        guest.record(nullptr);
        recorder.flush();
        run = trace::read(file);
    }
    static void TearDownTestSuite() {
        run = {};
        folder.reset();
    }

    static int count(const std::string& text, const std::string& part) {
        int n = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
            ++n;
        return n;
    }

    static inline std::unique_ptr<Folder> folder;
    static inline std::string file;
    static inline trace::Trace run;
};

// --- Text --------------------------------------------------------------------------------------------------

/// The important lines, in the order of the connection's states.
TEST_F(Views, TextShowsAConnectionInOrder) {
    const std::string text = to_text(run, {});
    const char* const expected[] = {
        "b    wr                       PASS_OPEN_REQ  10.0.0.2:5001 - 0.0.0.0:0, stid 15740",
        "b    cpl                      PASS_OPEN_RPL status 0  stid 15740",
        "a    wr                       ACT_OPEN_REQ  10.0.0.1:4000 - 10.0.0.2:5001, atid 0",
        "a    tcp out  tid 0           SYN",
        "b    tcp in   tid 0           SYN",
        "b    cpl      tid 0           PASS_ACCEPT_REQ",
        "b    wr       tid 0           PASS_ACCEPT_RPL",
        "b    tcp out  tid 0           SYN|ACK",
        "a    cpl      tid 0           ACT_ESTABLISH",
        "b    cpl      tid 0           PASS_ESTABLISH",
        "b    wr       tid 0           RDMA_INIT QP 0x10  responder",
        "b    wr       tid 0           TX_DATA",
        "a    wr       tid 0           RDMA_INIT QP 0x10  initiator",
        "a    doorbell tid 0 QP 0x10   doorbell QP 0x10",
        "a    wr       tid 0 QP 0x10   SEND",
        "a    fpdu out tid 0 QP 0x10   SEND",
        "b    fpdu in  tid 0 QP 0x10   SEND",
        "b    cqe      tid 0 QP 0x10   CQE RECEIVE",
    };
    std::size_t at = 0;
    for (const char* line : expected) {
        const std::size_t found = text.find(line, at);
        ASSERT_NE(found, std::string::npos) << "after byte " << at << ": " << line << "\n" << text;
        at = found;
    }
    EXPECT_THAT(text, HasSubstr("a    mmio                     write SG_CONTROL 0x"));
    EXPECT_THAT(text, HasSubstr("a    dma                      read 128 B from 0x1"));
    EXPECT_EQ(count(text, "\n"), static_cast<int>(run.events.size()));
    // Time never goes back.
    for (std::size_t i = 1; i < run.events.size(); ++i)
        ASSERT_GE(run.events[i].time, run.events[i - 1].time);
}

TEST_F(Views, FiltersSelectEvents) {
    std::istringstream by_qp(to_text(run, {.card = "a", .qp = 0x10}));
    int lines = 0;
    for (std::string line; std::getline(by_qp, line); ++lines)
        EXPECT_TRUE(std::regex_search(line, std::regex("^ +\\d+\\.\\d{9} a .*tid 0 "))) << line;
    EXPECT_GT(lines, 20);
    EXPECT_EQ(to_text(run, {.tid = 4711}), "");
    EXPECT_THROW((void)to_text(run, {.card = "c"}), trace::BadTrace);
}

// --- Perfetto ----------------------------------------------------------------------------------------------

TEST_F(Views, PerfettoIsWellFormed) {
    const json document = json::parse(to_perfetto(run, {}));
    ASSERT_TRUE(document.at("traceEvents").is_array());
    std::map<std::pair<int, int>, int> open;
    std::map<std::pair<int, int>, double> busy_until; // slices of one track must not overlap
    std::map<int, double> flows;
    std::map<std::string, int> phases;
    for (const json& e : document["traceEvents"]) {
        const std::string phase = e.at("ph");
        const std::pair track{e.at("pid").get<int>(), e.at("tid").get<int>()};
        const double at = e.at("ts");
        ++phases[phase];
        if (phase == "B")
            ++open[track];
        if (phase == "E") {
            EXPECT_GE(--open[track], 0);
        }
        if (phase == "X") {
            EXPECT_FALSE(e.at("name").get<std::string>().empty());
            EXPECT_GE(at + 1e-6, busy_until[track]);
            busy_until[track] = at + e.at("dur").get<double>();
        }
        if (phase == "s") {
            EXPECT_TRUE(flows.emplace(e.at("id"), at).second);
        }
        if (phase == "f") {
            ASSERT_TRUE(flows.contains(e.at("id")));
            EXPECT_LE(flows[e.at("id")], at);
        }
    }
    for (const auto& [track, depth] : open)
        EXPECT_EQ(depth, 0);
    EXPECT_EQ(phases["B"], phases["E"]);
    EXPECT_EQ(phases["B"], 2); // a connection on each card
    EXPECT_EQ(phases["s"], phases["f"]);
    EXPECT_GE(phases["s"], 2);
    EXPECT_GE(phases["X"], static_cast<int>(run.events.size()));
}

// --- Ladder ------------------------------------------------------------------------------------------------

/// Tags are closed in the order in which they were opened, and nothing is left open.
void expect_xml(const std::string& text) {
    std::vector<std::string> open;
    const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
    std::size_t brackets = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), tag), end; it != end; ++it) {
        ++brackets;
        if ((*it)[1].length() != 0) {
            ASSERT_FALSE(open.empty());
            ASSERT_EQ(open.back(), (*it)[2]);
            open.pop_back();
        } else if ((*it)[3].length() == 0) {
            open.push_back((*it)[2]);
        }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(brackets, static_cast<std::size_t>(std::count(text.begin(), text.end(), '<')));
}

TEST_F(Views, LadderHasAllArrows) {
    const std::string svg = to_ladder(run, {});
    expect_xml(svg);
    for (const char* label :
         {">ACT_OPEN_REQ<", ">SYN<", ">SYN|ACK<", ">PASS_ACCEPT_REQ<", ">ACT_ESTABLISH<", ">PASS_ESTABLISH<",
          ">RDMA_INIT, QP 0x10<", ">doorbell<", ">card a, tid 0<", ">card b, tid 0<"})
        EXPECT_THAT(svg, HasSubstr(label));
    // Every FPDU between the cards is an arrow.
    int fpdus = 0;
    for (const trace::Event& e : run.events)
        fpdus += e.head.kind == EventKind::fpdu_out;
    EXPECT_GE(fpdus, 12);
    EXPECT_EQ(count(svg, "class=\"a fpdu\""), fpdus);
    EXPECT_EQ(count(svg, ">x</text>"), 0); // the wire lost nothing
    // The same from the other side, and by QP.
    EXPECT_EQ(to_ladder(run, {.card = "b", .tid = 0}), svg);
    EXPECT_EQ(to_ladder(run, {.qp = 0x10}), svg);
    EXPECT_THROW((void)to_ladder(run, {.tid = 99}), trace::BadTrace);
}

// --- The command -------------------------------------------------------------------------------------------

TEST_F(Views, CommandWritesFilesAndRefusesBadInput) {
    const auto run_command = [](std::vector<const char*> arguments) {
        arguments.insert(arguments.begin(), "trace");
        return trace::command(static_cast<int>(arguments.size()), arguments.data());
    };
    const std::string out = *folder / "out.json", svg = *folder / "out.svg", bad = *folder / "bad";
    EXPECT_EQ(run_command({file.c_str(), "--perfetto", out.c_str(), "--ladder", svg.c_str()}), 0);
    EXPECT_TRUE(json::accept(content(out)));
    EXPECT_THAT(content(svg), HasSubstr("</svg>"));
    EXPECT_EQ(run_command({file.c_str(), "--ladder", svg.c_str(), "--tid", "99"}), 2);
    EXPECT_EQ(run_command({file.c_str(), "--from", "soon"}), 2);
    EXPECT_EQ(run_command({(*folder / "none").c_str()}), 2);
    write_file(bad, "hello");
    EXPECT_EQ(run_command({bad.c_str()}), 2);
    EXPECT_EQ(run_command({}), 2);
}

TEST(RecordingOff, LeavesNoFile) {
    set_log_levels("off", nullptr);
    const Folder folder;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder / "");
    ValidChoices choices;
    HostileGuest guest(choices);
    guest.bring_up();
    EXPECT_TRUE(std::filesystem::is_empty("."));
    {
        Recorder recorder(guest.queue(), "stopped");
        guest.record(&recorder);
        guest.record(nullptr);
        guest.bring_up();
    }
    EXPECT_TRUE(trace::read("stopped").events.empty()); // and stopping stops
    std::filesystem::current_path(before);
}

} // namespace
} // namespace t3sim::test
