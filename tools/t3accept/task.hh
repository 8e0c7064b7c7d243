// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/// The programs that both ends run. The server runs nothing else, since every host in its network can connect
/// to it.
#pragma once

#include <string>
#include <vector>

#include "tools/report/report.hh"

namespace t3accept {

using namespace t3report;

enum class Side { server, client };

struct Task {
    std::string program; // its key in the list
    std::string variant; // one of the program's; empty if it has none
    int size = 0;
    int count = 0;
    int seconds = 0; // after which the program begins nothing new; 0: its own limit
};

Json to_json(const Task& task);
Task task_from(const Json& json);

/// The command line of a side. Throws std::invalid_argument for what is not in the list. server: its address.
/// folder: of the programs that come with t3accept.
std::vector<std::string> command(const Task& task, Side side, const std::string& server,
                                 const std::string& folder);
/// The RDMA port where the server side listens.
int port(const Task& task);
/// The Debian package with a program.
std::string package_of(const std::string& program);

} // namespace t3accept
