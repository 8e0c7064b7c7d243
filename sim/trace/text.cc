// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One event a line: seconds, card, kind, connection, and what happened.
#include <fmt/format.h>

#include "sim/trace/decode.hh"

namespace t3sim::trace {

std::string to_text(const Trace& trace, const Filter& filter) {
    constexpr Time second = 1'000'000'000;
    std::string text;
    for (const Event* e : select(trace, filter)) {
        const Words w = describe(*e);
        std::string ids;
        if (e->head.tid != RecordHead::none)
            ids += fmt::format("tid {} ", e->head.tid);
        if (e->head.qp != RecordHead::none)
            ids += fmt::format("QP {:#x}", e->head.qp);
        std::string line =
            fmt::format("{:>6}.{:09} {:<4} {:<8} {:<15} {}", e->time / second, e->time % second,
                        trace.cards[e->card], kind_name(e->head.kind), ids, w.name);
        for (const auto* part : {&w.brief, &w.more})
            if (!part->empty())
                line += (part == &w.brief ? " " : "  ") + *part;
        text += line + '\n';
    }
    if (!trace.remark.empty())
        text += fmt::format("-- {} --\n", trace.remark);
    return text;
}

} // namespace t3sim::trace
