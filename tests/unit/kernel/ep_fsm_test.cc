// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The connection table: rules that every cell obeys, and whole connections as scripts.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

extern "C" {
#include "kernel/iw_cxgb3/ep_fsm.h"
}

namespace {

struct Cell {
    ep_state state;
    ep_event event;
    const ep_step* step;
    std::string name() const { return std::string(ep_state_name(state)) + " + " + ep_event_name(event); }
};

std::vector<Cell> legal_cells() {
    std::vector<Cell> cells;
    for (int s = 0; s < EP_NUM_STATES; ++s)
        for (int e = 0; e < EP_NUM_EVENTS; ++e)
            if (const ep_step* step = ep_fsm(ep_state(s), ep_event(e)))
                cells.push_back({ep_state(s), ep_event(e), step});
    return cells;
}

// States in which a QP can be attached: RDMA_INIT has been sent.
bool may_have_qp(ep_state state) {
    switch (state) {
    case EP_ACCEPTING:
    case EP_FPDU:
    case EP_TERMINATING:
    case EP_CLOSING:
    case EP_FIN_WAIT:
    case EP_LAST_ACK:
    case EP_ABORTING:
    case EP_ABORT_CROSSED:
        return true;
    default:
        return false;
    }
}

TEST(EpTable, names_are_complete_and_unique) {
    std::vector<std::string> names;
    for (int s = 0; s < EP_NUM_STATES; ++s)
        names.push_back(ep_state_name(ep_state(s)));
    for (int e = 0; e < EP_NUM_EVENTS; ++e)
        names.push_back(ep_event_name(ep_event(e)));
    for (unsigned b = 0; b < EP_NUM_ACTIONS; ++b)
        names.push_back(ep_action_name(b));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
    EXPECT_THAT(names, testing::Not(testing::Contains("?")));
    EXPECT_STREQ(ep_state_name(EP_NUM_STATES), "?");
    EXPECT_STREQ(ep_event_name(EP_NUM_EVENTS), "?");
    EXPECT_STREQ(ep_action_name(EP_NUM_ACTIONS), "?");
}

TEST(EpTable, numbers_outside_are_refused) {
    EXPECT_EQ(ep_fsm(EP_NUM_STATES, EP_EV_ABORT), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_NUM_EVENTS), nullptr);
    EXPECT_EQ(ep_fsm(ep_state(-1), EP_EV_ABORT), nullptr);
}

// B9
TEST(EpTable, timer_runs_where_it_must_and_nowhere_else) {
    for (const Cell& cell : legal_cells()) {
        bool before = ep_state_has_timer(cell.state), after = ep_state_has_timer(ep_state(cell.step->next));
        bool start = cell.step->actions & EP_START_TIMER, stop = cell.step->actions & EP_STOP_TIMER;
        EXPECT_FALSE(start && stop) << cell.name();
        if (!before && after) {
            EXPECT_TRUE(start) << cell.name();
        }
        if (before && !after) {
            EXPECT_TRUE(stop) << cell.name();
        }
        if (!after) {
            EXPECT_FALSE(start) << cell.name();
        }
        // After an expiry only a new start keeps the wait bounded.
        if (cell.event == EP_EV_TIMEOUT && after) {
            EXPECT_TRUE(start) << cell.name();
        }
    }
}

// E7
TEST(EpTable, the_end_releases_everything_once) {
    for (const Cell& cell : legal_cells()) {
        bool dies = cell.step->next == EP_DEAD && cell.state != EP_DEAD;
        EXPECT_EQ(dies, bool(cell.step->actions & EP_RELEASE)) << cell.name();
        EXPECT_EQ(dies && may_have_qp(cell.state), bool(cell.step->actions & EP_QP_DETACH)) << cell.name();
    }
}

// Who waits without a timer waits for the consumer, or for an answer that the card owes. The answer of
// CONN_EXIST has been given.
TEST(EpTable, a_wait_without_a_timer_is_for_the_consumer_or_for_an_answer) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (!ep_state_has_timer(ep_state(s))) {
            EXPECT_THAT(ep_state(s), testing::AnyOf(EP_IDLE, EP_ABANDONED, EP_MPA_REQ_RCVD, EP_FPDU, EP_DEAD))
                << ep_state_name(ep_state(s));
        }
    for (const Cell& cell : legal_cells())
        if (cell.step->next == EP_ABANDONED && cell.state != EP_ABANDONED) {
            EXPECT_EQ(cell.state, EP_CONNECTING) << cell.name() << ": nothing is asked of the card here";
        }
    EXPECT_EQ(ep_fsm(EP_CONNECTING, EP_EV_OPEN_EXISTS)->next, EP_OPEN_DELAYED);
    for (const ep_event event : {EP_EV_ABORT, EP_EV_RETIRE}) {
        ASSERT_NE(ep_fsm(EP_OPEN_DELAYED, event), nullptr);
        EXPECT_EQ(ep_fsm(EP_OPEN_DELAYED, event)->next, EP_DEAD);
    }
}

// Ring and TID stay the card's until it answers, or is declared dead and its bus mastering is taken.
TEST(EpTable, an_abort_ends_by_an_answer_or_with_the_card) {
    for (const ep_state state : {EP_ABORTING, EP_ABORT_CROSSED})
        for (int e = 0; e < EP_NUM_EVENTS; ++e) {
            const ep_step* step = ep_fsm(state, ep_event(e));
            if (!step || step->next != EP_DEAD)
                continue;
            EXPECT_THAT(ep_event(e), testing::AnyOf(EP_EV_ABORT_RPL, EP_EV_PEER_ABORT, EP_EV_DEVICE_DOWN))
                << ep_state_name(state) << " + " << ep_event_name(ep_event(e));
        }
    for (const Cell& cell : legal_cells())
        EXPECT_EQ(bool(cell.step->actions & EP_CARD_DEAD),
                  cell.event == EP_EV_TIMEOUT &&
                      (cell.state == EP_ABORTING || cell.state == EP_ABORT_CROSSED))
            << cell.name();
}

// A consumer that moves its QP to ERR frees its buffers when they are flushed, and a FIN flushes nothing.
TEST(EpTable, an_abort_is_granted_wherever_a_qp_is_attached) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (may_have_qp(ep_state(s))) {
            const ep_step* step = ep_fsm(ep_state(s), EP_EV_ABORT);
            ASSERT_NE(step, nullptr) << ep_state_name(ep_state(s));
            EXPECT_THAT(step->next, testing::AnyOf(EP_ABORTING, EP_ABORT_CROSSED))
                << ep_state_name(ep_state(s));
        }
}

TEST(EpTable, dead_stays_dead) {
    for (const Cell& cell : legal_cells())
        if (cell.state == EP_DEAD) {
            EXPECT_EQ(cell.step->next, EP_DEAD) << cell.name();
            EXPECT_EQ(cell.step->actions, 0) << cell.name();
        }
}

TEST(EpTable, every_state_survives_the_adapter) {
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        const ep_step* step = ep_fsm(ep_state(s), EP_EV_DEVICE_DOWN);
        ASSERT_NE(step, nullptr) << ep_state_name(ep_state(s));
        EXPECT_EQ(step->next, EP_DEAD);
        EXPECT_EQ(step->actions & (EP_SEND_CLOSE | EP_SEND_ABORT | EP_SEND_ABORT_RPL), 0)
            << "nothing can be sent any more";
    }
}

// The module may be unloaded while the card lives on: what it knows must have been aborted, or be on its way
// to an answer.
TEST(EpTable, no_state_keeps_a_connection_when_the_driver_leaves) {
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        const ep_step* step = ep_fsm(ep_state(s), EP_EV_RETIRE);
        ASSERT_NE(step, nullptr) << ep_state_name(ep_state(s));
        EXPECT_THAT(step->next, testing::AnyOf(EP_ABANDONED, EP_ABORTING, EP_ABORT_CROSSED, EP_DEAD))
            << ep_state_name(ep_state(s));
    }
}

// B9
TEST(EpTable, every_wait_ends) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (ep_state_has_timer(ep_state(s))) {
            EXPECT_NE(ep_fsm(ep_state(s), EP_EV_TIMEOUT), nullptr) << ep_state_name(ep_state(s));
        }
}

TEST(EpTable, the_peers_abort_is_answered_wherever_the_card_knows_the_connection) {
    for (int s = EP_SYN_RCVD; s < EP_DEAD; ++s) {
        const ep_step* step = ep_fsm(ep_state(s), EP_EV_PEER_ABORT);
        ASSERT_NE(step, nullptr) << ep_state_name(ep_state(s));
        EXPECT_TRUE(step->actions & EP_SEND_ABORT_RPL) << ep_state_name(ep_state(s));
    }
}

TEST(EpTable, one_abort_request_per_connection) {
    for (const Cell& cell : legal_cells()) {
        bool enters = cell.step->next == EP_ABORTING && cell.state != EP_ABORTING;
        EXPECT_EQ(enters, bool(cell.step->actions & EP_SEND_ABORT)) << cell.name();
    }
}

TEST(EpTable, one_fin_per_connection) {
    auto fin_sent = [](ep_state s) { return s == EP_CLOSING || s == EP_FIN_WAIT || s == EP_LAST_ACK; };
    for (const Cell& cell : legal_cells()) {
        bool enters = fin_sent(ep_state(cell.step->next)) && !fin_sent(cell.state);
        EXPECT_EQ(enters, bool(cell.step->actions & EP_SEND_CLOSE)) << cell.name();
    }
}

TEST(EpTable, an_attached_qp_is_told_of_every_bad_end) {
    for (const Cell& cell : legal_cells()) {
        bool attached =
            may_have_qp(cell.state) && cell.state != EP_ABORTING && cell.state != EP_ABORT_CROSSED;
        bool bad = cell.step->next == EP_ABORTING ||
                   (cell.step->next == EP_DEAD && !(cell.step->actions & EP_QP_IDLE));
        EXPECT_EQ(attached && bad, bool(cell.step->actions & EP_QP_ERROR)) << cell.name();
    }
}

struct Script {
    const char* name;
    std::vector<ep_event> events;
    std::vector<ep_state> states;
};

void PrintTo(const Script& script, std::ostream* out) {
    *out << script.name;
}

class EpScript : public testing::TestWithParam<Script> {};

TEST_P(EpScript, walks) {
    const Script& script = GetParam();
    ASSERT_EQ(script.events.size(), script.states.size());
    ep_state state = EP_IDLE;
    for (std::size_t i = 0; i < script.events.size(); ++i) {
        const ep_step* step = ep_fsm(state, script.events[i]);
        ASSERT_NE(step, nullptr) << ep_state_name(state) << " + " << ep_event_name(script.events[i]);
        state = ep_state(step->next);
        ASSERT_STREQ(ep_state_name(state), ep_state_name(script.states[i])) << "step " << i;
    }
}

const std::vector<Script> scripts = {
    {"active_then_we_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_INIT_DONE, EP_EV_DISCONNECT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_FPDU, EP_CLOSING, EP_FIN_WAIT, EP_DEAD}},
    {"passive_then_the_peer_closes",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ACCEPT, EP_EV_INIT_DONE, EP_EV_PEER_CLOSE,
      EP_EV_CLOSE_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_ACCEPTING, EP_FPDU, EP_LAST_ACK, EP_DEAD}},
    {"both_close_at_once",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_DISCONNECT, EP_EV_PEER_CLOSE, EP_EV_CLOSE_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_CLOSING, EP_LAST_ACK, EP_DEAD}},
    {"passive_reject",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_REJECT, EP_EV_CLOSE_RPL, EP_EV_PEER_CLOSE},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_CLOSING, EP_FIN_WAIT, EP_DEAD}},
    {"active_rejected",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_REJECTED, EP_EV_PEER_CLOSE, EP_EV_CLOSE_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_CLOSING, EP_LAST_ACK, EP_DEAD}},
    {"the_old_connection_is_still_there",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_TIMEOUT, EP_EV_ESTABLISHED},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_CONNECTING, EP_MPA_REQ_SENT}},
    {"the_second_try_cannot_leave",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_TIMEOUT, EP_EV_ARP_FAILED},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_CONNECTING, EP_DEAD}},
    {"aborted_before_the_second_try",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_ABORT},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_DEAD}},
    {"nobody_listens", {EP_EV_CONNECT, EP_EV_OPEN_FAILED}, {EP_CONNECTING, EP_DEAD}},
    {"no_neighbour", {EP_EV_CONNECT, EP_EV_ARP_FAILED}, {EP_CONNECTING, EP_DEAD}},
    {"slow_network_gives_up_first",
     {EP_EV_CONNECT, EP_EV_TIMEOUT, EP_EV_ESTABLISHED, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_ABANDONED, EP_ABORTING, EP_DEAD}},
    {"half_a_request",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_TIMEOUT, EP_EV_ABORT_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_ABORTING, EP_DEAD}},
    {"garbage_instead_of_a_request",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_BAD, EP_EV_ABORT_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_ABORTING, EP_DEAD}},
    {"aborts_cross_peer_first",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ABORT, EP_EV_PEER_ABORT, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_ABORTING, EP_ABORTING, EP_DEAD}},
    {"aborts_cross_reply_first",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ABORT, EP_EV_ABORT_RPL_CROSSED,
      EP_EV_PEER_ABORT},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_ABORTING, EP_ABORT_CROSSED, EP_DEAD}},
    {"card_never_answers_the_abort",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_TIMEOUT, EP_EV_TIMEOUT, EP_EV_DEVICE_DOWN},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_ABORTING, EP_ABORTING, EP_DEAD}},
    {"terminate_then_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_TERMINATE, EP_EV_DISCONNECT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_TERMINATING, EP_CLOSING, EP_FIN_WAIT, EP_DEAD}},
    {"terminate_that_is_never_reported",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_TERMINATE, EP_EV_TIMEOUT, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_TERMINATING, EP_ABORTING, EP_DEAD}},
    {"error_after_disconnect_aborts",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_DISCONNECT, EP_EV_ABORT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_CLOSING, EP_ABORTING, EP_ABORTING, EP_ABORTING, EP_DEAD}},
    {"bad_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_PEER_CLOSE, EP_EV_BAD_CLOSE, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_LAST_ACK, EP_ABORTING, EP_DEAD}},
};

INSTANTIATE_TEST_SUITE_P(Connection, EpScript, testing::ValuesIn(scripts),
                         [](const auto& info) { return info.param.name; });

// A repeated card message is refused, not counted as the other half of a close.
TEST(EpTable, repeated_close_messages_are_refused) {
    EXPECT_EQ(ep_fsm(EP_LAST_ACK, EP_EV_PEER_CLOSE), nullptr);
    EXPECT_EQ(ep_fsm(EP_FIN_WAIT, EP_EV_CLOSE_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_EV_CLOSE_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_EV_ABORT_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_DEAD, EP_EV_PEER_ABORT), nullptr);
}

// docs/states.md shows the table; this writes it, or compares.
std::string table_as_markdown() {
    std::string text = "| State | Event | Next | Actions |\n|---|---|---|---|\n";
    for (const Cell& cell : legal_cells()) {
        bool stays = cell.step->next == cell.state;
        if (stays && !cell.step->actions)
            continue; // ignored on purpose; listed below
        std::string actions;
        for (unsigned bit = 0; bit < EP_NUM_ACTIONS; ++bit)
            if (cell.step->actions & (1 << bit))
                actions += (actions.empty() ? "" : ", ") + std::string(ep_action_name(bit));
        text += std::string("| ") + ep_state_name(cell.state) + " | " + ep_event_name(cell.event) + " | " +
                ep_state_name(ep_state(cell.step->next)) + " | " + actions + " |\n";
    }
    text += "\nLegal events without an action:\n\n| State | Events |\n|---|---|\n";
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        std::string events;
        for (const Cell& cell : legal_cells())
            if (cell.state == s && cell.step->next == s && !cell.step->actions)
                events += (events.empty() ? "" : ", ") + std::string(ep_event_name(cell.event));
        if (!events.empty())
            text += std::string("| ") + ep_state_name(ep_state(s)) + " | " + events + " |\n";
    }
    return text;
}

TEST(EpTable, is_the_one_in_the_documentation) {
    const std::string path = T3_SOURCE_DIR "/docs/states.md";
    const std::string begin = "<!-- connection table: begin -->\n", end = "<!-- connection table: end -->";
    std::stringstream whole;
    whole << std::ifstream(path).rdbuf();
    std::string text = whole.str();
    std::size_t from = text.find(begin), to = text.find(end);
    ASSERT_NE(from, std::string::npos) << path;
    ASSERT_NE(to, std::string::npos) << path;
    from += begin.size();
    if (std::getenv("T3_UPDATE_DOCS"))
        std::ofstream(path) << text.replace(from, to - from, table_as_markdown());
    else
        EXPECT_EQ(text.substr(from, to - from), table_as_markdown())
            << "T3_UPDATE_DOCS=1 kernel_ep_fsm writes it anew";
}

} // namespace
