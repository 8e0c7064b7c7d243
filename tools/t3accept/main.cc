// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <filesystem>
#include <iostream>

#include "tools/t3accept/t3accept.hh"
#include "tools/t3doctor/probe.hh"

int main(int argc, char** argv) {
    namespace fs = std::filesystem;
    std::error_code error;
    const auto program = fs::read_symlink("/proc/self/exe", error);
    // Where they are installed; in a build tree and in the lab they are beside the tools.
    auto folder = program.parent_path().parent_path() / "libexec/t3rdma";
    if (!fs::exists(folder, error))
        folder = program.parent_path();
    t3doctor::SystemProbe probe;
    return t3accept::run({argv + 1, argv + argc}, t3tools::Machine(), probe, program, folder, std::cout,
                         std::cerr);
}
