// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// A machine in a folder, whose kernel is a list of loaded modules: modprobe, insmod and rmmod work on that.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/common/machine.hh"

class FakeMachine : public t3tools::Machine {
public:
    FakeMachine() : FakeMachine(make_folder()) {}
    ~FakeMachine() override { std::filesystem::remove_all(folder_); }

    void file(const std::string& name, const std::string& content) const {
        const auto target = path(name);
        std::filesystem::create_directories(target.parent_path());
        std::ofstream(target) << content;
    }
    void link(const std::string& name, const std::string& target) const {
        const auto at = path(name);
        std::filesystem::create_directories(at.parent_path());
        std::filesystem::create_symlink(target, at);
    }
    void folder(const std::string& name) const { std::filesystem::create_directories(path(name)); }

    /// A T3 at 0000:01:00.0 with two interfaces.
    void add_card() const {
        const std::string card = "/sys/bus/pci/devices/0000:01:00.0";
        file(card + "/vendor", "0x1425\n");
        file(card + "/device", "0x0036\n");
        link(card + "/driver", "../../../bus/pci/drivers/cxgb3");
        folder(card + "/net/eth0");
        folder(card + "/net/eth1");
    }
    void add_rdma_device(const std::string& name = "cxgb3_0", const std::string& driver = "cxgb3",
                         const std::string& node = "uverbs0") const {
        const std::string device = "/sys/class/infiniband/" + name;
        folder("/sys/devices/" + name);
        link("/sys/devices/" + name + "/driver", "../bus/pci/drivers/" + driver);
        link(device + "/device", "../../../devices/" + name);
        file(device + "/fw_ver", "7.12.0\n");
        file("/sys/class/infiniband_verbs/" + node + "/ibdev", name + "\n");
    }
    void add_user(int pid, const std::string& command, const std::string& node) const {
        file("/proc/" + std::to_string(pid) + "/comm", command + "\n");
        link("/proc/" + std::to_string(pid) + "/fd/5", "/dev/infiniband/" + node);
    }
    /// Loads without modprobe.
    void set_loaded(std::vector<std::string> names) {
        loaded = std::move(names);
        update();
    }

    std::string kernel_release() const override { return "6.1.0-test"; }
    bool privileged() const override { return root; }
    t3tools::Outcome run(const std::vector<std::string>& words) const override {
        ran.push_back(words);
        if (const auto refused = refusals.find(words.back()); refused != refusals.end())
            return refused->second;
        if (words[0] == "modinfo")
            return {0, depends};
        if (words.size() < 2 || words[0] == "dpkg-query")
            return {1, "not in this machine"};
        const std::string name = std::filesystem::path(words[1]).stem();
        if (words[0] == "rmmod") {
            if (name == "ib_uverbs" && std::ranges::find(loaded, "rdma_ucm") != loaded.end())
                return {1, "rmmod: ERROR: Module ib_uverbs is in use by: rdma_ucm"};
            std::erase(loaded, name);
        } else {
            load(name, words);
        }
        update();
        return {0, ""};
    }

    bool root = true;
    std::string depends;
    std::map<std::string, t3tools::Outcome> refusals; // by last word
    std::map<std::string, std::string> used_by;       // module to the column of /proc/modules
    mutable std::vector<std::string> loaded;
    mutable std::vector<std::vector<std::string>> ran;

private:
    explicit FakeMachine(std::filesystem::path folder) : Machine(folder), folder_(folder) {
        update();
        FakeMachine::folder("/etc/modprobe.d");
    }
    static std::filesystem::path make_folder() {
        std::string name = std::filesystem::temp_directory_path() / "t3-machine-XXXXXX";
        return mkdtemp(name.data());
    }
    void load(const std::string& name, const std::vector<std::string>& words) const {
        // As in the kernel: the manager has functions of the dispatcher.
        if (name == "rdma_ucm" && std::ranges::find(loaded, "ib_uverbs") == loaded.end())
            loaded.emplace_back("ib_uverbs");
        loaded.push_back(name);
        if (name == "t3_uverbs")
            file("/sys/module/t3_uverbs/parameters/class_name",
                 std::ranges::find(words, "class_name=t3_verbs") == words.end() ? "infiniband_verbs\n"
                                                                                : "t3_verbs\n");
    }
    void update() const {
        std::string text;
        for (const auto& name : loaded) {
            const auto user = used_by.find(name);
            const std::string users = user == used_by.end() ? "-" : user->second;
            text += name + " 4096 " + (user == used_by.end() ? "0 " : "1 ") + users + " Live 0x0\n";
        }
        file("/proc/modules", text);
    }
    std::filesystem::path folder_;
};
