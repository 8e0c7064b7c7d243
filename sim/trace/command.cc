// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/core/time.hh"
#include "sim/trace/trace.hh"

namespace t3sim::trace {
namespace {

constexpr int bad_input = 2;

bool read_time(const std::string& text, Time& time) {
    const auto read = parse_seconds(text);
    time = read.value_or(0);
    return read.has_value();
}

void save(const std::string& path, const std::function<void(const Output&)>& write) {
    std::ofstream out(path, std::ios::binary);
    write([&out](std::string_view piece) { out << piece; });
    out.close();
    if (!out)
        throw BadTrace(fmt::format("cannot write '{}'", path));
}

} // namespace

int command(int argc, const char* const* argv) {
    CLI::App app{"t3sim trace - shows a recording of t3sim --record", "t3sim trace"};
    app.footer("Without an output: --text. Times are as in the text: seconds, or with a unit (20ms).");
    std::string file, perfetto, ladder, from, to;
    bool text = false;
    Filter filter;
    app.add_option("FILE", file, "The recording")->required();
    app.add_flag("--text", text, "One event per line, to stdout");
    app.add_option("--perfetto", perfetto, "Writes a file for ui.perfetto.dev or chrome://tracing")
        ->type_name("OUT.json");
    app.add_option("--ladder", ladder, "Draws one connection; without --tid or --qp the one with most FPDUs")
        ->type_name("OUT.svg");
    app.add_option("--card", filter.card, "Only this card; its connection, for --ladder")->type_name("NAME");
    app.add_option("--tid", filter.tid, "Only the connection with this TID")->type_name("N");
    app.add_option("--qp", filter.qp, "Only this queue pair and its connection")->type_name("N");
    app.add_option("--from", from, "Only events from this time on")->type_name("T");
    app.add_option("--to", to, "Only events up to this time")->type_name("T");
    try {
        app.parse(argc, argv);
        if (!from.empty() && !read_time(from, filter.from))
            throw BadTrace(fmt::format("--from '{}': expected a time such as 1.5, 20ms or 300us", from));
        if (!to.empty() && !read_time(to, filter.to))
            throw BadTrace(fmt::format("--to '{}': expected a time such as 1.5, 20ms or 300us", to));
        const File trace(file);
        check(trace, filter); // before a file is created
        if (text || (perfetto.empty() && ladder.empty()))
            to_text(trace, filter,
                    [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); });
        else if (!trace.remark().empty())
            fmt::print(stderr, "t3sim: '{}': {}\n", file, trace.remark());
        if (!perfetto.empty())
            save(perfetto, [&](const Output& out) { to_perfetto(trace, filter, out); });
        if (!ladder.empty())
            save(ladder, [&](const Output& out) { out(to_ladder(trace, filter)); });
        return 0;
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app.help());
        return 0;
    } catch (const CLI::ParseError& e) {
        fmt::print(stderr, "t3sim: {} (see t3sim trace --help)\n", e.what());
    } catch (const BadTrace& e) {
        fmt::print(stderr, "t3sim: {}\n", e.what());
    }
    return bad_input;
}

} // namespace t3sim::trace
