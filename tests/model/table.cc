// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Prints the state table of kernel/rdma_cm/core/cm_fsm.c in the languages of spin, which checks it,
// and of Graphviz, which draws it.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

extern "C" {
#include "kernel/rdma_cm/core/cm_fsm.h"
}

#include "tests/unit/kernel/action_names.hh"

namespace {

std::string constant(const char* prefix, const char* name) {
    std::string text = prefix;
    for (const char* c = name; *c; ++c)
        text += *c == '-' ? '_' : static_cast<char>(std::toupper(*c));
    return text;
}

std::string actions(const t3_transition& cell, const char* separator) {
    std::string text;
    for (unsigned bit = 0; bit < kCmActions.size(); ++bit)
        if (cell.actions >> bit & 1)
            text += (text.empty() ? "" : separator) + std::string(kCmActions[bit]);
    return text;
}

template <typename Visit> void each_cell(Visit visit) {
    for (int s = 0; s < CM_NUM_STATES; ++s)
        for (int e = 0; e < CM_NUM_EVENTS; ++e)
            if (const t3_transition* cell = cm_fsm(cm_state(s), cm_event(e)))
                visit(cm_state(s), cm_event(e), *cell);
}

// A cell to replace by a wrong one, for check-faults.
struct Fault {
    const char* state = "";
    const char* event = "";
    int cell = -1;
};

// Constants, and the cells.
void promela(const Fault& fault) {
    std::puts("/* Made by tests/model/table.cc from kernel/rdma_cm/core/cm_fsm.c. */");
    for (int s = 0; s < CM_NUM_STATES; ++s)
        std::printf("#define %s %d\n", constant("ST_", cm_state_name(cm_state(s))).c_str(), s);
    for (int e = 0; e < CM_NUM_EVENTS; ++e)
        std::printf("#define %s %d\n", constant("EV_", cm_event_name(cm_event(e))).c_str(), e);
    for (unsigned bit = 0; bit < kCmActions.size(); ++bit)
        std::printf("#define %s %u\n", constant("ACT_", kCmActions[bit]).c_str(), 1u << bit);
    // A C array, so that a lookup is one access: next state and actions, or -1.
    std::printf("c_decl {\n\tstatic const int cells[%d][%d] = {\n", CM_NUM_STATES, CM_NUM_EVENTS);
    for (int s = 0; s < CM_NUM_STATES; ++s) {
        std::printf("\t\t{");
        for (int e = 0; e < CM_NUM_EVENTS; ++e) {
            const t3_transition* cell = cm_fsm(cm_state(s), cm_event(e));
            bool wrong = !std::strcmp(fault.state, cm_state_name(cm_state(s))) &&
                         !std::strcmp(fault.event, cm_event_name(cm_event(e)));
            std::printf(" %d,", wrong ? fault.cell : cell ? cell->next << 16 | cell->actions : -1);
        }
        std::puts(" },");
    }
    std::puts("\t};\n}");
}

// One arrow for all events from one state to another. Leaves out transitions that all states have, and those
// that do not change the state.
void dot() {
    std::puts("// Made by tests/model/table.cc from kernel/rdma_cm/core/cm_fsm.c.\n"
              "digraph cm {\n\trankdir=TB; ranksep=0.35;\n"
              "\tnode [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n"
              "\tedge [fontname=\"sans-serif\", fontsize=9];");
    std::map<std::pair<int, int>, std::string> arrows;
    each_cell([&](cm_state state, cm_event event, const t3_transition& cell) {
        if (cell.next == state || event == CM_EV_DESTROY || event == CM_EV_REMOVE)
            return;
        std::string& label = arrows[{state, cell.next}];
        label += (label.empty() ? "" : "\\n") + std::string(cm_event_name(event));
        if (cell.actions)
            label += " / " + actions(cell, ", ");
    });
    for (const auto& [ends, label] : arrows)
        std::printf("\t\"%s\" -> \"%s\" [label=\"%s\"];\n", cm_state_name(cm_state(ends.first)),
                    cm_state_name(cm_state(ends.second)), label.c_str());
    std::puts("\tany [label=\"any\\nother\", shape=plaintext];\n"
              "\tany -> \"removed\" [label=\"remove\"];\n\tany -> \"destroying\" [label=\"destroy\"];\n}");
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && !std::strcmp(argv[1], "promela"))
        promela({});
    else if (argc == 6 && !std::strcmp(argv[1], "promela"))
        promela({argv[2], argv[3], std::atoi(argv[4]) << 16 | std::atoi(argv[5])});
    else if (argc == 2 && !std::strcmp(argv[1], "dot"))
        dot();
    else {
        std::fputs("usage: cm_table dot\n       cm_table promela [STATE EVENT NEXT ACTIONS]    with one cell "
                   "replaced\n",
                   stderr);
        return 2;
    }
    return 0;
}
