// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/common/cli.hh"

#include <algorithm>

#include <fmt/format.h>

namespace t3tools {

std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments, std::ostream& out,
                         std::ostream& err) {
    app.set_version_flag("--version", fmt::format("{} (t3rdma) {}", app.get_name(), version));
    std::reverse(arguments.begin(), arguments.end()); // as CLI11 requires them
    try {
        app.parse(arguments);
        return std::nullopt;
    } catch (const CLI::CallForHelp&) {
        out << app.help();
        return status::ok;
    } catch (const CLI::CallForVersion& wanted) {
        out << wanted.what() << "\n";
        return status::ok;
    } catch (const CLI::ParseError& error) {
        err << fmt::format("{}: {}; see {} --help\n", app.get_name(), error.what(), app.get_name());
        return status::usage;
    }
}

} // namespace t3tools
