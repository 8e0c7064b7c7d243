// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3info/show.hh"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace t3info {

namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Owner& owner) {
    return owner.pid == 0 ? fmt::format("[{}]", owner.name) : fmt::format("{} {}", owner.pid, owner.name);
}

Json json_of(const Owner& owner) {
    return {{"pid", owner.pid}, {"name", owner.name}};
}

/// A table of text. Columns are as wide as their content.
class Table {
public:
    explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    std::string text() const {
        if (rows_.size() == 1)
            return "";
        std::vector<std::size_t> widths(rows_[0].size());
        for (const auto& row : rows_)
            for (std::size_t i = 0; i < row.size(); i++)
                widths[i] = std::max(widths[i], row[i].size());
        std::string text;
        for (const auto& row : rows_) {
            std::string line = " ";
            for (std::size_t i = 0; i < row.size(); i++)
                line += fmt::format(" {:<{}}", row[i], i + 1 == row.size() ? 0 : widths[i] + 1);
            text += line + "\n";
        }
        return text;
    }

private:
    std::vector<std::vector<std::string>> rows_;
};

/// One kind of object: its JSON and its table.
struct Kind {
    const char* name;
    std::function<Json(const Device&)> json;
    std::function<std::string(const Device&)> text;
};

template <typename Items, typename Function> Json list(const Items& items, Function convert) {
    Json json = Json::array();
    for (const auto& item : items)
        json.push_back(convert(item));
    return json;
}

const std::vector<Kind>& object_kinds() {
    static const std::vector<Kind> table{
        {"ports",
         [](const Device& device) {
             return list(device.ports, [](const Port& port) {
                 return Json{{"number", port.number},
                             {"state", port.state},
                             {"physical", port.physical},
                             {"interface", port.interface}};
             });
         },
         [](const Device& device) {
             Table table({"PORT", "STATE", "PHYSICAL", "INTERFACE"});
             for (const auto& port : device.ports)
                 table.add({std::to_string(port.number), port.state, port.physical, port.interface});
             return table.text();
         }},
        {"qp",
         [](const Device& device) {
             return list(device.queue_pairs, [](const QueuePair& qp) {
                 return Json{{"number", qp.number},
                             {"type", qp.type},
                             {"state", qp.state},
                             {"owner", json_of(qp.owner)}};
             });
         },
         [](const Device& device) {
             Table table({"QP", "TYPE", "STATE", "OWNER"});
             for (const auto& qp : device.queue_pairs)
                 table.add({std::to_string(qp.number), qp.type, qp.state, name_of(qp.owner)});
             return table.text();
         }},
        {"cm",
         [](const Device& device) {
             return list(device.cm_ids, [](const CmId& id) {
                 return Json{{"number", id.number}, {"qp", id.qp},         {"state", id.state},
                             {"local", id.local},   {"remote", id.remote}, {"owner", json_of(id.owner)}};
             });
         },
         [](const Device& device) {
             Table table({"CM ID", "STATE", "LOCAL", "REMOTE", "QP", "OWNER"});
             for (const auto& id : device.cm_ids)
                 table.add({std::to_string(id.number), id.state, id.local, id.remote,
                            id.qp != 0 ? std::to_string(id.qp) : "-", name_of(id.owner)});
             return table.text();
         }},
        {"mr",
         [](const Device& device) {
             return list(device.regions, [](const Region& region) {
                 return Json{{"number", region.number},
                             {"length", region.length},
                             {"rkey", region.rkey},
                             {"owner", json_of(region.owner)}};
             });
         },
         [](const Device& device) {
             Table table({"MR", "LENGTH", "RKEY", "OWNER"});
             for (const auto& region : device.regions)
                 table.add({std::to_string(region.number), std::to_string(region.length),
                            region.rkey != 0 ? fmt::format("{:#x}", region.rkey) : "-",
                            name_of(region.owner)});
             return table.text();
         }},
        {"cq",
         [](const Device& device) {
             return list(device.completion_queues, [](const CompletionQueue& cq) {
                 return Json{{"number", cq.number},
                             {"entries", cq.entries},
                             {"users", cq.users},
                             {"owner", json_of(cq.owner)}};
             });
         },
         [](const Device& device) {
             Table table({"CQ", "ENTRIES", "USERS", "OWNER"});
             for (const auto& cq : device.completion_queues)
                 table.add({std::to_string(cq.number), std::to_string(cq.entries), std::to_string(cq.users),
                            name_of(cq.owner)});
             return table.text();
         }},
        {"pd",
         [](const Device& device) {
             return list(device.domains, [](const Domain& pd) {
                 return Json{{"number", pd.number}, {"users", pd.users}, {"owner", json_of(pd.owner)}};
             });
         },
         [](const Device& device) {
             Table table({"PD", "USERS", "OWNER"});
             for (const auto& pd : device.domains)
                 table.add({std::to_string(pd.number), std::to_string(pd.users), name_of(pd.owner)});
             return table.text();
         }},
        {"counters", [](const Device& device) { return Json(device.counters); },
         [](const Device& device) {
             Table table({"COUNTER", "VALUE"});
             for (const auto& [name, value] : device.counters)
                 table.add({name, std::to_string(value)});
             return table.text();
         }},
    };
    return table;
}

std::string head(const Device& device) {
    return fmt::format("{}: {}, firmware {}, GUID {}; {} QPs, {} CM ids, {} MRs, {} CQs, {} PDs\n",
                       device.name, device.protocol, device.firmware, device.guid, device.queue_pairs.size(),
                       device.cm_ids.size(), device.regions.size(), device.completion_queues.size(),
                       device.domains.size());
}

} // namespace

Json to_json(const std::vector<Device>& devices, const std::set<std::string>& wanted) {
    Json all = Json::array();
    for (const auto& device : devices) {
        Json json{{"name", device.name},
                  {"firmware", device.firmware},
                  {"guid", device.guid},
                  {"protocol", device.protocol}};
        for (const auto& kind : object_kinds())
            if (wanted.contains(kind.name))
                json[kind.name] = kind.json(device);
        all.push_back(std::move(json));
    }
    return all;
}

std::string to_text(const std::vector<Device>& devices, const std::set<std::string>& wanted) {
    std::string text;
    for (const auto& device : devices) {
        text += head(device);
        for (const auto& kind : object_kinds())
            if (wanted.contains(kind.name))
                text += kind.text(device);
    }
    return text;
}

std::string to_screen(const std::vector<Device>& before, const std::vector<Device>& now, double seconds) {
    std::string text;
    for (const auto& device : now) {
        const auto old = std::find_if(before.begin(), before.end(),
                                      [&](const Device& other) { return other.name == device.name; });
        text += head(device);
        Table table({"COUNTER", "VALUE", "PER SECOND"});
        for (const auto& [name, value] : device.counters) {
            const auto known = old != before.end() ? old->counters.find(name) : device.counters.end();
            if (old == before.end() || known == old->counters.end() || known->second == value)
                continue;
            // The counters of a device that was removed and registered again start at zero.
            const auto grown = value >= known->second ? value - known->second : value;
            table.add(
                {name, std::to_string(value), fmt::format("{:.0f}", static_cast<double>(grown) / seconds)});
        }
        text += table.text();
        for (const auto& kind : object_kinds())
            if (kind.name != std::string("counters"))
                text += kind.text(device);
    }
    return text;
}

} // namespace t3info
