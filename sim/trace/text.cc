// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One event per line: seconds, card, kind, connection, description.
#include <fmt/format.h>

#include "sim/trace/decode.hh"

namespace t3sim::trace {

void to_text(const Source& source, const Filter& filter, const Output& output) {
    constexpr Time second = 1'000'000'000;
    select(source, filter, [&](const Event& e) {
        const Words w = describe(e);
        std::string ids;
        if (e.head.tid != RecordHead::none)
            ids += fmt::format("tid {} ", e.head.tid);
        if (e.head.qp != RecordHead::none)
            ids += fmt::format("QP {:#x}", e.head.qp);
        std::string line = fmt::format("{:>6}.{:09} {:<4} {:<8} {:<15} {}", e.time / second, e.time % second,
                                       source.cards()[e.card], kind_name(e.head.kind), ids, w.name);
        for (const auto* part : {&w.brief, &w.more})
            if (!part->empty())
                line += (part == &w.brief ? " " : "  ") + *part;
        output(line + '\n');
    });
    if (!source.remark().empty())
        output(fmt::format("-- {} --\n", source.remark()));
}

std::string to_text(const Trace& trace, const Filter& filter) {
    std::string text;
    to_text(Memory(trace), filter, [&](std::string_view piece) { text += piece; });
    return text;
}

} // namespace t3sim::trace
