// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The state table of an id: rules for every cell, and sequences of events. Spin checks the orders of events:
// tests/model.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

extern "C" {
#include "kernel/rdma_cm/core/cm_fsm.h"
}

#include "tests/unit/kernel/action_names.hh"

namespace {

struct Cell {
    cm_state state;
    cm_event event;
    t3_transition cell;
    std::string name() const { return std::string(cm_state_name(state)) + " + " + cm_event_name(event); }
};

std::vector<Cell> legal_cells() {
    std::vector<Cell> cells;
    for (int s = 0; s < CM_NUM_STATES; ++s)
        for (int e = 0; e < CM_NUM_EVENTS; ++e)
            if (const t3_transition* cell = cm_fsm(cm_state(s), cm_event(e)))
                cells.push_back({cm_state(s), cm_event(e), *cell});
    return cells;
}

// The connection holds a reference on its QP.
bool holds_qp(int state) {
    switch (state) {
    case CM_ST_CONNECTING:
    case CM_ST_RESPONDED:
    case CM_ST_ACCEPTING:
    case CM_ST_CANCELLING:
    case CM_ST_CONNECTED:
    case CM_ST_CLOSING:
        return true;
    default:
        return false;
    }
}

// A connect or an accept of the provider is pending: the reference stays until it has completed.
bool pending(int state) {
    return state == CM_ST_CONNECTING || state == CM_ST_ACCEPTING || state == CM_ST_CANCELLING;
}

void expect_complete_and_unique(std::vector<std::string> names) {
    EXPECT_THAT(names, testing::Not(testing::Contains("?")));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(CmTable, names_are_complete_and_unique) {
    std::vector<std::string> states, events, actions{kCmActions.begin(), kCmActions.end()};
    for (int s = 0; s < CM_NUM_STATES; ++s)
        states.push_back(cm_state_name(cm_state(s)));
    for (int e = 0; e < CM_NUM_EVENTS; ++e)
        events.push_back(cm_event_name(cm_event(e)));
    for (const auto& names : {states, events, actions})
        expect_complete_and_unique(names);
}

TEST(CmTable, states_and_events_out_of_range_are_refused) {
    EXPECT_EQ(cm_fsm(CM_NUM_STATES, CM_EV_DESTROY), nullptr);
    EXPECT_EQ(cm_fsm(CM_ST_IDLE, CM_NUM_EVENTS), nullptr);
    EXPECT_EQ(cm_fsm(cm_state(-1), CM_EV_DESTROY), nullptr);
}

TEST(CmTable, the_end_of_a_connection_drops_its_qp_or_waits_for_the_provider) {
    for (const Cell& c : legal_cells())
        if (holds_qp(c.state) && !holds_qp(c.cell.next)) {
            bool waits = pending(c.state) && (c.event == CM_EV_DESTROY || c.event == CM_EV_REMOVE);
            EXPECT_EQ(bool(c.cell.actions & CM_ACT_DROP_QP), !waits) << c.name();
        }
}

// The peer may not answer for long, and the removal of the device waits for the provider's last event.
TEST(CmTable, a_destroy_or_a_removal_cancels_what_is_pending) {
    for (const Cell& c : legal_cells())
        EXPECT_EQ(bool(c.cell.actions & CM_ACT_CANCEL),
                  pending(c.state) && (c.event == CM_EV_DESTROY || c.event == CM_EV_REMOVE))
            << c.name();
}

// Also if CLOSE comes instead of the reply to a connect: ibv_destroy_qp() waits for the reference.
TEST(CmTable, a_close_drops_the_qp_in_every_state_that_may_hold_one) {
    for (int s = 0; s < CM_NUM_STATES; ++s) {
        bool late = s == CM_ST_REMOVED || s == CM_ST_DESTROYING;
        if (!holds_qp(s) && !late)
            continue;
        const t3_transition* close = cm_fsm(cm_state(s), CM_EV_CLOSE);
        ASSERT_NE(close, nullptr) << cm_state_name(cm_state(s));
        EXPECT_EQ(close->next, late ? s : CM_ST_CLOSED) << cm_state_name(cm_state(s));
        int reported = late ? 0 : pending(s) ? CM_ACT_REPORT_FAILED : CM_ACT_REPORT_DISCONNECTED;
        EXPECT_EQ(close->actions, CM_ACT_DROP_QP | reported) << cm_state_name(cm_state(s));
    }
}

TEST(CmTable, only_events_of_provider_and_device_report_an_end) {
    for (const Cell& c : legal_cells()) {
        if (c.cell.actions & CM_ACT_REPORTS) {
            EXPECT_GE(c.event, CM_FIRST_QUEUED) << c.name();
        }
        if (c.cell.actions & (CM_ACT_REPORT_FAILED | CM_ACT_REPORT_DISCONNECTED)) {
            EXPECT_EQ(c.cell.next, CM_ST_CLOSED) << c.name();
        }
        if (c.cell.actions & CM_ACT_REPORT_REMOVAL) {
            EXPECT_EQ(c.cell.next, CM_ST_REMOVED) << c.name();
        }
    }
}

TEST(CmTable, one_event_is_reported_at_a_time) {
    for (const Cell& c : legal_cells())
        EXPECT_LE(__builtin_popcount(c.cell.actions & CM_ACT_REPORTS), 1) << c.name();
}

TEST(CmTable, established_cannot_be_reported_twice) {
    for (const Cell& c : legal_cells())
        for (cm_event again : {CM_EV_REPLY_OK, CM_EV_RESPONSE, CM_EV_ESTABLISHED})
            if (c.cell.actions & (CM_ACT_REPORT_ESTABLISHED | CM_ACT_REPORT_RESPONSE)) {
                const t3_transition* const cell = cm_fsm(cm_state(c.cell.next), again);
                EXPECT_FALSE(cell && cell->actions) << c.name();
            }
}

// C17: each state takes the removal of the device and a destroy.
TEST(CmTable, C17_every_state_can_be_left) {
    for (int s = 0; s < CM_NUM_STATES; ++s) {
        const t3_transition* destroy = cm_fsm(cm_state(s), CM_EV_DESTROY);
        EXPECT_EQ(destroy != nullptr, s != CM_ST_DESTROYING) << cm_state_name(cm_state(s));
        if (destroy) {
            EXPECT_EQ(destroy->next, CM_ST_DESTROYING);
        }
        if (s != CM_ST_IDLE && s != CM_ST_REMOVED && s != CM_ST_DESTROYING) {
            ASSERT_NE(cm_fsm(cm_state(s), CM_EV_REMOVE), nullptr) << cm_state_name(cm_state(s));
            EXPECT_EQ(cm_fsm(cm_state(s), CM_EV_REMOVE)->next, CM_ST_REMOVED);
            EXPECT_TRUE(cm_fsm(cm_state(s), CM_EV_REMOVE)->actions & CM_ACT_REPORT_REMOVAL);
        }
    }
}

TEST(CmTable, a_removed_id_reports_nothing_and_can_only_be_destroyed) {
    for (const Cell& c : legal_cells())
        if (c.state == CM_ST_REMOVED) {
            EXPECT_FALSE(c.cell.actions & CM_ACT_REPORTS) << c.name();
            EXPECT_TRUE(c.cell.next == CM_ST_REMOVED || c.cell.next == CM_ST_DESTROYING) << c.name();
        }
}

// C13, C14: a destroyed id takes late events without a report, and aborts a connection that is established
// late.
TEST(CmTable, C13_C14_a_destroyed_id_aborts_a_late_connection) {
    for (cm_event event : {CM_EV_REPLY_OK, CM_EV_RESPONSE, CM_EV_ESTABLISHED})
        EXPECT_EQ(cm_fsm(CM_ST_DESTROYING, event)->actions, CM_ACT_ABORT | CM_ACT_DROP_QP);
    for (const Cell& c : legal_cells())
        if (c.state == CM_ST_DESTROYING) {
            EXPECT_EQ(c.cell.next, CM_ST_DESTROYING) << c.name();
            EXPECT_FALSE(c.cell.actions & CM_ACT_REPORTS) << c.name();
        }
}

// C8: only one call at a time changes the address of an id.
TEST(CmTable, C8_only_an_idle_id_can_be_bound) {
    for (int s = 0; s < CM_NUM_STATES; ++s)
        EXPECT_EQ(cm_fsm(cm_state(s), CM_EV_BIND) != nullptr, s == CM_ST_IDLE);
    for (cm_event event : {CM_EV_BIND, CM_EV_RESOLVE_ADDR, CM_EV_LISTEN})
        EXPECT_EQ(cm_fsm(CM_ST_BINDING, event), nullptr);
}

struct Sequence {
    const char* name;
    std::vector<cm_event> events;
    cm_state end;
};

class CmSequence : public testing::TestWithParam<Sequence> {};

TEST_P(CmSequence, ends_in_the_expected_state) {
    cm_state state = CM_ST_IDLE;
    for (cm_event event : GetParam().events) {
        const t3_transition* cell = cm_fsm(state, event);
        ASSERT_NE(cell, nullptr) << cm_state_name(state) << " + " << cm_event_name(event);
        state = cm_state(cell->next);
    }
    EXPECT_EQ(state, GetParam().end);
}

const std::vector<cm_event> kResolved = {CM_EV_BIND,      CM_EV_BIND_DONE,     CM_EV_RESOLVE_ADDR,
                                         CM_EV_ADDR_DONE, CM_EV_RESOLVE_ROUTE, CM_EV_ROUTE_DONE};

std::vector<cm_event> resolved(std::vector<cm_event> more) {
    more.insert(more.begin(), kResolved.begin(), kResolved.end());
    return more;
}

INSTANTIATE_TEST_SUITE_P(
    Sequences, CmSequence,
    testing::Values(
        Sequence{"client",
                 resolved({CM_EV_CONNECT, CM_EV_REPLY_OK, CM_EV_DISCONNECT, CM_EV_CLOSE, CM_EV_DESTROY}),
                 CM_ST_DESTROYING},
        Sequence{"own_qp",
                 resolved({CM_EV_CONNECT, CM_EV_RESPONSE, CM_EV_ESTABLISH, CM_EV_PEER_CLOSE, CM_EV_CLOSE}),
                 CM_ST_CLOSED},
        Sequence{"refused", resolved({CM_EV_CONNECT, CM_EV_REPLY_FAILED, CM_EV_DISCONNECT}), CM_ST_CLOSED},
        Sequence{"closed_instead_of_a_reply", resolved({CM_EV_CONNECT, CM_EV_CLOSE, CM_EV_DISCONNECT}),
                 CM_ST_CLOSED},
        Sequence{"tried_again", resolved({CM_EV_CONNECT, CM_EV_CONNECT_FAILED, CM_EV_CONNECT}),
                 CM_ST_CONNECTING},
        Sequence{"cancelled", resolved({CM_EV_CONNECT, CM_EV_DISCONNECT, CM_EV_REPLY_OK, CM_EV_CLOSE}),
                 CM_ST_CLOSED},
        Sequence{
            "server",
            {CM_EV_REQUEST, CM_EV_ACCEPT, CM_EV_ESTABLISHED, CM_EV_PEER_CLOSE, CM_EV_DISCONNECT, CM_EV_CLOSE},
            CM_ST_CLOSED},
        Sequence{
            "both_close",
            {CM_EV_REQUEST, CM_EV_ACCEPT, CM_EV_ESTABLISHED, CM_EV_DISCONNECT, CM_EV_PEER_CLOSE, CM_EV_CLOSE},
            CM_ST_CLOSED},
        Sequence{"rejected", {CM_EV_REQUEST, CM_EV_REJECT, CM_EV_DESTROY}, CM_ST_DESTROYING},
        Sequence{"accept_failed", {CM_EV_REQUEST, CM_EV_ACCEPT, CM_EV_CLOSE}, CM_ST_CLOSED},
        Sequence{"listener", {CM_EV_BIND, CM_EV_BIND_DONE, CM_EV_LISTEN, CM_EV_DESTROY}, CM_ST_DESTROYING},
        Sequence{"two_lookups",
                 {CM_EV_BIND, CM_EV_BIND_DONE, CM_EV_RESOLVE_ADDR, CM_EV_ADDR_FAILED, CM_EV_RESOLVE_ADDR,
                  CM_EV_ADDR_DONE},
                 CM_ST_ADDR_RESOLVED}),
    [](const auto& info) { return info.param.name; });

} // namespace
