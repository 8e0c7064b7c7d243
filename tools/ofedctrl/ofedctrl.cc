// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/ofedctrl/ofedctrl.hh"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tools/common/stack.hh"

namespace ofedctrl {

using namespace t3tools;

namespace {

/// Written by --permanent, and removed with the package.
constexpr const char* choice_file = "/etc/modprobe.d/t3rdma-choice.conf";

/// A part of the stack for which there are two modules.
struct Part {
    const char* name;    // on the command line
    const char* in_tree; // the kernel's module
    const char* own;     // ours
    const char* what;
};
constexpr std::array parts{Part{"verbs", "ib_uverbs", "t3_uverbs", "verbs dispatcher"},
                           Part{"cm", "rdma_ucm", "t3_rdma_cm", "connection manager"}};

constexpr const Part& verbs_part = parts[0];
constexpr const Part& cm_part = parts[1];

/// The kernel's rdma_ucm needs functions of ib_uverbs and loads it, so our dispatcher beside that manager
/// needs other names. It must be loaded first, since libibverbs uses the first one.
const std::vector<std::string> parameters_beside{"class_name=t3_verbs", "prefix=t3uverbs"};
constexpr const char* class_of_own = "/sys/module/t3_uverbs/parameters/class_name";

/// Modules that stay loaded after the kernel's manager is unloaded, and that ours does not need.
constexpr std::array below_manager{"rdma_cm", "iw_cm"};

/// In the order in which they can be unloaded; the kernel's modules that were loaded as dependencies are
/// last.
constexpr std::array unload_order{"t3_rdma_cm", "rdma_ucm", "t3_uverbs", "ib_uverbs",
                                  "iw_cxgb3",   "rdma_cm",  "iw_cm",     "ib_cm"};
/// Modules that RDMA devices of other drivers also use.
constexpr std::array shared{"rdma_ucm", "ib_uverbs", "rdma_cm", "iw_cm", "ib_cm", "t3_rdma_cm", "t3_uverbs"};

template <typename Range> bool contains(const Range& range, const std::string& name) {
    return std::find(range.begin(), range.end(), name) != range.end();
}

struct Options {
    bool load = false;
    bool unload = false;
    bool query = false;
    bool json = false;
    bool permanent = false;
    std::string module_set;
    std::vector<std::string> own;
    std::vector<std::string> in_tree;

    bool selects_own(const Part& part) const { return contains(own, part.name) || contains(own, "all"); }
    bool selects_in_tree(const Part& part) const {
        return contains(in_tree, part.name) || contains(in_tree, "all");
    }
};

/// Ends the program with an error.
struct Stop {
    int status;
    std::string why;
};

class Control {
public:
    Control(const Options& options, const Machine& machine, std::ostream& out)
        : options_(options), machine_(machine), out_(out) {}

    void load();
    void unload();
    int query() const;

private:
    bool choose_own(const Part& part) const;
    bool is_loaded(const std::string& name) const { return find(loaded_modules(machine_), name) != nullptr; }
    bool is_ours(const std::string& name) const {
        return name == driver_module ||
               std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return name == part.own; });
    }
    std::string file_of(const std::string& name) const { return options_.module_set + "/" + name + ".ko"; }
    void need_root() const;
    void refuse_if_used() const;
    std::vector<std::string> conflicting() const;
    void insert(const std::string& name, const std::vector<std::string>& parameters = {});
    void remove_module(const std::string& name);
    void remember_choice() const;
    [[noreturn]] void explain(const std::string& name, const Outcome& outcome) const;

    const Options& options_;
    const Machine& machine_;
    std::ostream& out_;
    bool own_verbs_ = choose_own(verbs_part); // before anything is unloaded
    bool own_cm_ = choose_own(cm_part);
    bool beside_ = own_verbs_ && !own_cm_;
};

void Control::need_root() const {
    if (!machine_.privileged())
        throw Stop{status::no_rights, "loading and unloading modules needs root"};
}

/// A part that the command line does not name stays as it is loaded, or as chosen with --permanent; by
/// default the kernel's module.
bool Control::choose_own(const Part& part) const {
    if (options_.selects_own(part))
        return true;
    if (options_.selects_in_tree(part))
        return false;
    return is_loaded(part.own) ||
           machine_.read(choice_file).value_or("").find(fmt::format("blacklist {}", part.in_tree)) !=
               std::string::npos;
}

void Control::refuse_if_used() const {
    std::string processes;
    for (const auto& user : find_users(machine_))
        processes += fmt::format("\n  {} {} has /dev/infiniband/{} open", user.pid, user.command, user.node);
    if (!processes.empty())
        throw Stop{status::in_use, "in use:" + processes};
    // Modules that stay loaded and use one that is to be unloaded.
    const auto modules = loaded_modules(machine_);
    for (const auto& name : {driver_module, "ib_uverbs", "rdma_ucm", "t3_uverbs", "t3_rdma_cm"})
        if (const auto* module = find(modules, name))
            for (const auto& user : module->used_by)
                if (!contains(unload_order, user) && foreign_rdma_devices(machine_).empty())
                    throw Stop{status::in_use, fmt::format("in use: {} is needed by module {}", name, user)};
}

void Control::explain(const std::string& name, const Outcome& outcome) const {
    const auto& message = outcome.output;
    const auto has = [&](const char* text) { return message.find(text) != message.npos; };
    if (outcome.status == 127)
        throw Stop{status::failed, fmt::format("cannot run modprobe ({})", message)};
    if (has("not found in directory") || has("No such file"))
        throw Stop{status::no_module,
                   fmt::format("there is no {} for kernel {}{}", name, machine_.kernel_release(),
                               is_ours(name) ? "; 'dkms status t3rdma' shows whether it was built" : "")};
    if (has("Key was rejected"))
        throw Stop{status::failed,
                   fmt::format("the kernel refuses {}, which is not signed with a trusted key (Secure Boot); "
                               "see SECURE BOOT in ofedctrl(8)",
                               name)};
    if (has("Invalid module format") || has("Exec format"))
        throw Stop{status::failed,
                   fmt::format("{} was built for another kernel than {}; build it again ('dkms "
                               "autoinstall', or 'make modules')",
                               name, machine_.kernel_release())};
    if (has("in use"))
        throw Stop{status::in_use, fmt::format("{} is in use", name)};
    throw Stop{status::failed, fmt::format("{}: {}", name, message)};
}

void Control::insert(const std::string& name, const std::vector<std::string>& parameters) {
    if (is_loaded(name)) {
        out_ << fmt::format("{}: already loaded\n", name);
        return;
    }
    const std::string from = file_of(name);
    if (options_.module_set.empty() || !is_ours(name)) {
        std::vector<std::string> words{"modprobe", name};
        words.insert(words.end(), parameters.begin(), parameters.end());
        const auto outcome = machine_.run(words);
        if (outcome.status != 0)
            explain(name, outcome);
        out_ << fmt::format("{}: loaded\n", name);
        return;
    }
    if (!machine_.exists(from))
        throw Stop{status::no_module, fmt::format("there is no {}", from)};
    // insmod does not load dependencies.
    std::istringstream needed(machine_.run({"modinfo", "-F", "depends", from}).output);
    for (std::string dependency; std::getline(needed, dependency, ',');)
        if (!dependency.empty() && !is_loaded(dependency))
            insert(dependency);
    std::vector<std::string> words{"insmod", from};
    words.insert(words.end(), parameters.begin(), parameters.end());
    const auto outcome = machine_.run(words);
    if (outcome.status != 0)
        explain(name, outcome);
    out_ << fmt::format("{}: loaded from {}\n", name, from);
}

void Control::remove_module(const std::string& name) {
    const auto outcome = machine_.run({"rmmod", name});
    if (outcome.status != 0)
        explain(name, outcome);
    out_ << fmt::format("{}: unloaded\n", name);
}

/// The file has only the parts for which ours are chosen.
void Control::remember_choice() const {
    std::string lines;
    if (own_verbs_)
        lines += fmt::format("blacklist {}\n", verbs_part.in_tree);
    if (own_cm_)
        lines += fmt::format("blacklist {}\n", cm_part.in_tree);
    if (!lines.empty()) // loads ours with the driver
        lines += fmt::format("softdep iw_cxgb3 post:{}{}\n", own_verbs_ ? " t3_uverbs" : "",
                             own_cm_ ? " t3_rdma_cm" : "");
    if (beside_)
        lines += fmt::format("options t3_uverbs {}\nsoftdep ib_uverbs pre: t3_uverbs\n",
                             fmt::join(parameters_beside, " "));
    const bool done = lines.empty()
                          ? machine_.remove(choice_file)
                          : machine_.write(choice_file, "# Written by ofedctrl --permanent.\n" + lines);
    if (!done)
        throw Stop{status::failed, fmt::format("cannot write {}", choice_file)};
}

/// Loaded modules that conflict with the choice. libibverbs and librdmacm use the module that registers
/// first, so these must be unloaded before others are loaded.
std::vector<std::string> Control::conflicting() const {
    std::vector<std::string> names;
    const bool is_beside = is_loaded("t3_uverbs") && machine_.read(class_of_own).value_or("") == "t3_verbs";
    if (beside_ && !is_beside)
        names = {"t3_uverbs", "ib_uverbs"};
    else if (!beside_)
        names = {own_verbs_ ? verbs_part.in_tree : verbs_part.own};
    names.emplace_back(own_cm_ ? cm_part.in_tree : cm_part.own);
    std::erase_if(names, [&](const std::string& name) { return !is_loaded(name); });
    // The kernel's manager needs the kernel's dispatcher.
    if (contains(names, "ib_uverbs") && is_loaded("rdma_ucm") && !contains(names, "rdma_ucm"))
        names.emplace_back("rdma_ucm");
    return names;
}

void Control::load() {
    need_root();
    if (!options_.module_set.empty() && !machine_.exists(options_.module_set))
        throw Stop{status::no_module, fmt::format("there is no folder {}", options_.module_set)};
    if (const auto ports = infiniband_devices(machine_); own_cm_ && !ports.empty())
        throw Stop{status::in_use,
                   fmt::format("{} has InfiniBand ports, which t3_rdma_cm does not serve; use --in-tree cm",
                               ports.front())};
    const auto conflicts = conflicting();
    if (!conflicts.empty()) {
        refuse_if_used();
        if (const auto foreign = foreign_rdma_devices(machine_); !foreign.empty())
            throw Stop{status::in_use, fmt::format("{} is in use by RDMA device {}, which is not a T3",
                                                   conflicts.front(), foreign.front())};
    }
    for (const char* name : unload_order)
        if (contains(conflicts, name))
            remove_module(name);
    if (own_cm_)
        for (const char* name : below_manager) {
            const auto modules = loaded_modules(machine_);
            if (const auto* module = find(modules, name); module != nullptr && module->references == 0)
                remove_module(name);
        }
    insert(nic_module);
    insert(driver_module);
    insert(own_verbs_ ? verbs_part.own : verbs_part.in_tree,
           beside_ ? parameters_beside : std::vector<std::string>());
    insert(own_cm_ ? cm_part.own : cm_part.in_tree);
    if (options_.permanent)
        remember_choice();
    if (find_cards(machine_).empty())
        out_ << "note: there is no T3 in this machine\n";
}

void Control::unload() {
    need_root();
    refuse_if_used();
    const auto foreign = foreign_rdma_devices(machine_);
    bool any = false;
    for (const char* name : unload_order) {
        const auto modules = loaded_modules(machine_);
        const auto* module = find(modules, name);
        if (module == nullptr)
            continue;
        const bool is_shared = contains(shared, name);
        if (is_shared && !foreign.empty()) {
            out_ << fmt::format("{}: stays, {} uses it\n", name, foreign.front());
            continue;
        }
        if (is_shared && module->references > 0) {
            out_ << fmt::format("{}: stays, it is in use{}{}\n", name, module->used_by.empty() ? "" : " by ",
                                fmt::join(module->used_by, ", "));
            continue;
        }
        remove_module(name);
        any = true;
    }
    if (!any)
        out_ << "nothing to unload\n";
}

int Control::query() const {
    const auto modules = loaded_modules(machine_);
    const auto devices = find_rdma_devices(machine_);
    const auto users = find_users(machine_);
    bool complete = find(modules, driver_module) != nullptr;

    struct Row {
        std::string role, name, origin;
        const Module* module;
    };
    std::vector<Row> rows{{"NIC driver", nic_module, "in-tree", find(modules, nic_module)},
                          {"RDMA driver", driver_module, "own", find(modules, driver_module)}};
    for (const auto& part : parts) {
        const auto *in_tree = find(modules, part.in_tree), *own = find(modules, part.own);
        complete = complete && (in_tree != nullptr || own != nullptr);
        if (own != nullptr)
            rows.push_back({part.what, part.own, "own", own});
        if (in_tree != nullptr || own == nullptr)
            rows.push_back({part.what, part.in_tree, "in-tree", in_tree});
    }

    if (options_.json) {
        auto json = nlohmann::ordered_json{{"loaded", complete}, {"modules", nlohmann::json::array()}};
        for (const auto& row : rows)
            json["modules"].push_back({{"role", row.role},
                                       {"name", row.name},
                                       {"origin", row.origin},
                                       {"loaded", row.module != nullptr},
                                       {"references", row.module != nullptr ? row.module->references : 0}});
        json["devices"] = nlohmann::json::array();
        for (const auto& device : devices)
            json["devices"].push_back({{"name", device.name},
                                       {"firmware", device.firmware},
                                       {"card", device.card},
                                       {"node", device.node}});
        json["users"] = nlohmann::json::array();
        for (const auto& user : users)
            json["users"].push_back({{"pid", user.pid}, {"command", user.command}, {"node", user.node}});
        out_ << json.dump(2) << "\n";
        return complete ? status::ok : status::not_loaded;
    }
    out_ << fmt::format("{:<20}{:<12}{:<9}{}\n", "PART", "MODULE", "ORIGIN", "STATE");
    for (const auto& row : rows)
        out_ << fmt::format("{:<20}{:<12}{:<9}{}\n", row.role, row.name, row.origin,
                            row.module == nullptr ? "not loaded"
                            : row.module->references == 0
                                ? "loaded"
                                : fmt::format("loaded, in use by {}", row.module->references));
    for (const auto& device : devices)
        out_ << fmt::format("device {}: card {}, firmware {}, {}\n", device.name, device.card,
                            device.firmware,
                            device.node.empty() ? "no verbs node" : "/dev/infiniband/" + device.node);
    for (const auto& user : users)
        out_ << fmt::format("used by {} {} ({})\n", user.pid, user.command, user.node);
    return complete ? status::ok : status::not_loaded;
}

} // namespace

int run(const std::vector<std::string>& arguments, const Machine& machine, std::ostream& out,
        std::ostream& err) {
    Options options;
    CLI::App app("Loads, unloads and shows the RDMA stack of Chelsio T3 cards.", "ofedctrl");
    auto* action = app.add_option_group("what to do, one of");
    action->add_flag("-l,--load", options.load, "Load the stack");
    action->add_flag("-u,--unload", options.unload, "Unload the stack; the NIC driver stays");
    action->add_flag("-q,--query", options.query, "Show what is loaded (exit status 3: incomplete)");
    action->require_option(1);
    app.add_option("-k,--module-set", options.module_set, "Load our modules from this folder")
        ->type_name("PATH");
    const auto names = CLI::IsMember({"verbs", "cm", "all"});
    app.add_option("--own", options.own, "Use our module for: verbs, cm or all")
        ->type_name("PART")
        ->check(names);
    app.add_option("--in-tree", options.in_tree, "Use the kernel's module for: verbs, cm or all")
        ->type_name("PART")
        ->check(names);
    app.add_flag("--permanent", options.permanent, "Keep that choice at the next boot");
    app.add_flag("--json", options.json, "Print JSON");
    if (const auto end = parse(app, arguments, out, err))
        return *end;
    const auto usage_error = [&](const char* what) {
        err << fmt::format("ofedctrl: {}; see ofedctrl --help\n", what);
        return status::usage;
    };
    if (!options.load && (!options.own.empty() || !options.in_tree.empty() || options.permanent))
        return usage_error("--own, --in-tree and --permanent go with --load");
    if (!options.load && !options.module_set.empty())
        return usage_error("--module-set goes with --load");
    if (!options.query && options.json)
        return usage_error("--json goes with --query");
    for (const auto& part : parts)
        if (options.selects_own(part) && options.selects_in_tree(part))
            return usage_error("--own and --in-tree name the same part");

    Control control(options, machine, out);
    try {
        if (options.load)
            control.load();
        if (options.unload)
            control.unload();
        return options.query ? control.query() : status::ok;
    } catch (const Stop& stop) {
        err << fmt::format("ofedctrl: {}\n", stop.why);
        return stop.status;
    }
}

} // namespace ofedctrl
