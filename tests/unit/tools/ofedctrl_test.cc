// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/ofedctrl/ofedctrl.hh"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/fake_machine.hh"

namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

struct Ofedctrl : testing::Test {
    int run(const Words& words) {
        out.str("");
        err.str("");
        return ofedctrl::run(words, machine, out, err);
    }
    FakeMachine machine;
    std::ostringstream out, err;
};

const Words in_tree_stack{"cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"};

TEST_F(Ofedctrl, LoadsInOrderAndPrintsIt) {
    machine.add_card();
    EXPECT_EQ(run({"-l"}), 0) << err.str();
    EXPECT_EQ(machine.loaded, in_tree_stack);
    EXPECT_EQ(out.str(), "cxgb3: loaded\niw_cxgb3: loaded\nib_uverbs: loaded\nrdma_ucm: loaded\n");
}

TEST_F(Ofedctrl, LoadsAgainWithoutHarm) {
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"--load"}), 0);
    EXPECT_EQ(machine.loaded, in_tree_stack);
    EXPECT_THAT(out.str(), HasSubstr("iw_cxgb3: already loaded"));
    EXPECT_THAT(out.str(), HasSubstr("there is no T3 in this machine"));
}

TEST_F(Ofedctrl, OwnModulesReplaceThoseOfTheKernel) {
    machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_core", "ib_uverbs", "rdma_ucm"});
    EXPECT_EQ(run({"-l", "--own", "all"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "ib_core", "t3_uverbs", "t3_rdma_cm"));
}

TEST_F(Ofedctrl, OneOfTwoCanBeOwn) {
    EXPECT_EQ(run({"-l", "--own", "cm", "--in-tree", "verbs"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "ib_uverbs", "t3_rdma_cm"));
}

TEST_F(Ofedctrl, OwnDispatcherStandsBesideWhatTheKernelsManagerBrings) {
    const std::vector<std::string> both{"cxgb3", "iw_cxgb3", "t3_uverbs", "ib_uverbs", "rdma_ucm"};
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"-l", "--own", "verbs"}), 0) << err.str();
    EXPECT_EQ(machine.loaded, both);
    EXPECT_THAT(machine.ran,
                Contains(ElementsAre("modprobe", "t3_uverbs", "class_name=t3_verbs", "prefix=t3uverbs")));
    machine.ran.clear();
    EXPECT_EQ(run({"-l"}), 0) << err.str(); // it stays as it is
    EXPECT_THAT(machine.ran, IsEmpty());
    EXPECT_EQ(run({"-l", "--in-tree", "all"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"));
}

TEST_F(Ofedctrl, OwnDispatcherChangesItsNamesForTheKernelsManager) {
    EXPECT_EQ(run({"-l", "--own", "all"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"));
    EXPECT_EQ(run({"-l", "--in-tree", "cm"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "t3_uverbs", "ib_uverbs", "rdma_ucm"));
    EXPECT_EQ(machine.read("/sys/module/t3_uverbs/parameters/class_name"), "t3_verbs");
}

TEST_F(Ofedctrl, OwnManagerIsRefusedWithAnInfiniBandPort) {
    machine.add_rdma_device("mlx5_0", "mlx5_core", "uverbs1");
    machine.file("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    EXPECT_EQ(run({"-l", "--own", "cm"}), 0) << err.str();
    machine.set_loaded({});
    machine.file("/sys/class/infiniband/mlx5_0/ports/2/link_layer", "InfiniBand\n");
    EXPECT_EQ(run({"-l", "--own", "cm"}), 4);
    EXPECT_THAT(err.str(), HasSubstr("mlx5_0 has InfiniBand ports"));
    EXPECT_TRUE(machine.loaded.empty());
    EXPECT_EQ(run({"-l", "--own", "verbs"}), 0) << err.str();
}

TEST_F(Ofedctrl, WhatTheKernelsManagerStoodOnGoesWithIt) {
    machine.set_loaded({"cxgb3", "iw_cxgb3", "ib_cm", "iw_cm", "rdma_cm", "ib_uverbs", "rdma_ucm"});
    machine.used_by["iw_cm"] = "some_module";
    EXPECT_EQ(run({"-l", "--own", "cm"}), 0) << err.str();
    EXPECT_THAT(machine.loaded,
                ElementsAre("cxgb3", "iw_cxgb3", "ib_cm", "iw_cm", "ib_uverbs", "t3_rdma_cm"));
}

TEST_F(Ofedctrl, WithoutAChoiceWhatIsLoadedStays) {
    machine.set_loaded({"cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"});
    EXPECT_EQ(run({"-l"}), 0);
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"));
}

TEST_F(Ofedctrl, APermanentChoiceIsAFileThatTheOtherChoiceRemoves) {
    const char* file = "/etc/modprobe.d/t3rdma-choice.conf";
    EXPECT_EQ(run({"-l", "--own", "all", "--permanent"}), 0) << err.str();
    EXPECT_THAT(
        machine.read(file).value_or(""),
        HasSubstr("blacklist ib_uverbs\nblacklist rdma_ucm\nsoftdep iw_cxgb3 post: t3_uverbs t3_rdma_cm"));
    machine.set_loaded({});
    EXPECT_EQ(run({"-l"}), 0);
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"));
    EXPECT_EQ(run({"-l", "--in-tree", "all", "--permanent"}), 0) << err.str();
    EXPECT_FALSE(machine.exists(file));
    EXPECT_EQ(machine.loaded, in_tree_stack);
    // Ours has to be there before the kernel's manager brings the kernel's dispatcher.
    EXPECT_EQ(run({"-l", "--own", "verbs", "--permanent"}), 0) << err.str();
    EXPECT_THAT(machine.read(file).value_or(""),
                AllOf(HasSubstr("options t3_uverbs class_name=t3_verbs prefix=t3uverbs\n"),
                      HasSubstr("softdep ib_uverbs pre: t3_uverbs")));
}

TEST_F(Ofedctrl, AModuleSetIsInsertedWithWhatItNeeds) {
    for (const char* name : {"iw_cxgb3", "t3_uverbs"})
        machine.file(std::string("/opt/set/") + name + ".ko", "");
    machine.depends = "cxgb3,ib_core";
    EXPECT_EQ(run({"-l", "-k", "/opt/set", "--own", "verbs"}), 0) << err.str();
    EXPECT_THAT(machine.loaded,
                ElementsAre("cxgb3", "ib_core", "iw_cxgb3", "t3_uverbs", "ib_uverbs", "rdma_ucm"));
    EXPECT_THAT(out.str(), HasSubstr("iw_cxgb3: loaded from /opt/set/iw_cxgb3.ko"));
}

TEST_F(Ofedctrl, AModuleSetWithoutAModuleIsNamed) {
    EXPECT_EQ(run({"-l", "-k", "/opt/none"}), 6);
    EXPECT_THAT(err.str(), HasSubstr("there is no folder /opt/none"));
    machine.folder("/opt/set");
    EXPECT_EQ(run({"-l", "-k", "/opt/set"}), 6);
    EXPECT_THAT(err.str(), HasSubstr("there is no /opt/set/iw_cxgb3.ko"));
}

struct Refusal {
    const char* message;
    int status;
    const char* shown;
};
class OfedctrlRefused : public Ofedctrl, public testing::WithParamInterface<Refusal> {};
TEST_P(OfedctrlRefused, IsExplained) {
    machine.refusals["iw_cxgb3"] = {1, GetParam().message};
    EXPECT_EQ(run({"-l"}), GetParam().status);
    EXPECT_THAT(err.str(), HasSubstr(GetParam().shown));
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3"));
}
INSTANTIATE_TEST_SUITE_P(
    All, OfedctrlRefused,
    testing::Values(Refusal{"modprobe: FATAL: Module iw_cxgb3 not found in directory /lib/modules/6.1.0-test",
                            6, "there is no iw_cxgb3 for kernel 6.1.0-test; 'dkms status t3rdma'"},
                    Refusal{"modprobe: ERROR: could not insert 'iw_cxgb3': Key was rejected by service", 1,
                            "Secure Boot"},
                    Refusal{"modprobe: ERROR: could not insert 'iw_cxgb3': Invalid module format", 1,
                            "another kernel"},
                    Refusal{"modprobe: ERROR: could not insert 'iw_cxgb3': Cannot allocate memory", 1,
                            "Cannot allocate memory"}));

TEST_F(Ofedctrl, UnloadsInReverseAndLeavesTheNicDriver) {
    machine.set_loaded(
        {"cxgb3", "iw_cxgb3", "ib_core", "ib_uverbs", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "t3_uverbs"});
    EXPECT_EQ(run({"-u"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "ib_core"));
    EXPECT_EQ(run({"-u"}), 0);
    EXPECT_EQ(out.str(), "nothing to unload\n");
}

TEST_F(Ofedctrl, RefusesToUnloadWhatProcessesUse) {
    machine.add_card();
    machine.add_rdma_device();
    machine.add_user(4711, "rping", "uverbs0");
    machine.add_user(4712, "ucmatose", "rdma_cm");
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"-u"}), 4);
    EXPECT_THAT(err.str(), HasSubstr("4711 rping has /dev/infiniband/uverbs0 open"));
    EXPECT_THAT(err.str(), HasSubstr("4712 ucmatose has /dev/infiniband/rdma_cm open"));
    EXPECT_EQ(machine.loaded, in_tree_stack);
}

TEST_F(Ofedctrl, RefusesToUnloadWhatAModuleUses) {
    machine.used_by["rdma_ucm"] = "some_module,";
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"-u"}), 4);
    EXPECT_THAT(err.str(), HasSubstr("rdma_ucm is needed by module some_module"));
    EXPECT_EQ(machine.loaded, in_tree_stack);
}

TEST_F(Ofedctrl, LeavesOtherDevicesWhatTheyNeed) {
    machine.add_rdma_device("mlx5_0", "mlx5_core", "uverbs1");
    machine.add_user(99, "other", "uverbs1");
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"-u"}), 0) << err.str();
    EXPECT_THAT(machine.loaded, ElementsAre("cxgb3", "ib_uverbs", "rdma_ucm"));
    EXPECT_THAT(out.str(), HasSubstr("ib_uverbs: stays, mlx5_0 uses it"));
    EXPECT_EQ(run({"-l", "--own", "verbs"}), 4);
    EXPECT_THAT(err.str(), HasSubstr("in use by RDMA device mlx5_0"));
}

TEST_F(Ofedctrl, LoadingAndUnloadingNeedRoot) {
    machine.root = false;
    for (const char* action : {"-l", "-u"}) {
        EXPECT_EQ(run({action}), 5);
        EXPECT_THAT(err.str(), HasSubstr("needs root"));
    }
    EXPECT_EQ(run({"-q"}), 3);
    EXPECT_THAT(machine.ran, IsEmpty());
}

TEST_F(Ofedctrl, QueryPrintsTheLoadedModules) {
    EXPECT_EQ(run({"-q"}), 3);
    EXPECT_THAT(out.str(), HasSubstr("iw_cxgb3    own      not loaded"));
    machine.add_card();
    machine.add_rdma_device();
    machine.add_user(4711, "rping", "uverbs0");
    machine.used_by["iw_cxgb3"] = "-";
    machine.set_loaded(in_tree_stack);
    EXPECT_EQ(run({"-q"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("iw_cxgb3    own      loaded, in use by 1"));
    EXPECT_THAT(out.str(), HasSubstr("ib_uverbs   in-tree  loaded\n"));
    EXPECT_THAT(out.str(),
                HasSubstr("device cxgb3_0: card cxgb3_0, firmware 7.12.0, /dev/infiniband/uverbs0"));
    EXPECT_THAT(out.str(), HasSubstr("used by 4711 rping (uverbs0)"));
}

TEST_F(Ofedctrl, QueryAsJson) {
    machine.add_rdma_device();
    machine.set_loaded({"cxgb3", "iw_cxgb3", "t3_uverbs", "rdma_ucm"});
    EXPECT_EQ(run({"-q", "--json"}), 0);
    const auto json = nlohmann::json::parse(out.str());
    EXPECT_EQ(json["loaded"], true);
    EXPECT_EQ(json["modules"][2]["name"], "t3_uverbs");
    EXPECT_EQ(json["modules"][2]["origin"], "own");
    EXPECT_EQ(json["devices"][0]["name"], "cxgb3_0");
}

struct Wrong {
    Words words;
    const char* why;
};
class OfedctrlWrong : public Ofedctrl, public testing::WithParamInterface<Wrong> {};
TEST_P(OfedctrlWrong, CommandLineGetsOneLineAndStatus2) {
    EXPECT_EQ(run(GetParam().words), 2);
    EXPECT_THAT(err.str(), HasSubstr(GetParam().why));
    const auto text = err.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
    EXPECT_THAT(machine.ran, IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(All, OfedctrlWrong,
                         testing::Values(Wrong{{}, "Exactly 1"}, Wrong{{"-l", "-u"}, "Exactly 1"},
                                         Wrong{{"-l", "-x"}, "-x"}, Wrong{{"-l", "-k"}, "module-set"},
                                         Wrong{{"-l", "--own", "nic"}, "nic not in"},
                                         Wrong{{"-u", "--own", "cm"}, "go with --load"},
                                         Wrong{{"-q", "-k", "/x"}, "goes with --load"},
                                         Wrong{{"-l", "--json"}, "goes with --query"},
                                         Wrong{{"-l", "--own", "all", "--in-tree", "cm"}, "the same part"}));

TEST_F(Ofedctrl, HelpAndVersion) {
    EXPECT_EQ(run({"-h"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("--module-set"));
    EXPECT_EQ(run({"--version"}), 0);
    EXPECT_EQ(out.str(), "ofedctrl (t3rdma) 0.1\n");
}

} // namespace
