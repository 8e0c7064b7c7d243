// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The connection table: rules for every cell, and sequences of events.
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
#include "kernel/iw_cxgb3/conn/ep_fsm.h"
}

#include "tests/unit/kernel/action_names.hh"

namespace {

struct Cell {
    ep_state state;
    ep_event event;
    const t3_transition* transition;
    std::string name() const { return std::string(ep_state_name(state)) + " + " + ep_event_name(event); }
};

std::vector<Cell> legal_cells() {
    std::vector<Cell> cells;
    for (int s = 0; s < EP_NUM_STATES; ++s)
        for (int e = 0; e < EP_NUM_EVENTS; ++e)
            if (const t3_transition* transition = ep_fsm(ep_state(s), ep_event(e)))
                cells.push_back({ep_state(s), ep_event(e), transition});
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
    names.insert(names.end(), kEpActions.begin(), kEpActions.end());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
    EXPECT_THAT(names, testing::Not(testing::Contains("?")));
    EXPECT_STREQ(ep_state_name(EP_NUM_STATES), "?");
    EXPECT_STREQ(ep_event_name(EP_NUM_EVENTS), "?");
}

TEST(EpTable, out_of_range_is_refused) {
    EXPECT_EQ(ep_fsm(EP_NUM_STATES, EP_EV_ABORT), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_NUM_EVENTS), nullptr);
    EXPECT_EQ(ep_fsm(ep_state(-1), EP_EV_ABORT), nullptr);
}

// B9
TEST(EpTable, timer_runs_in_states_with_a_timer) {
    for (const Cell& cell : legal_cells()) {
        bool before = ep_state_has_timer(cell.state),
             after = ep_state_has_timer(ep_state(cell.transition->next));
        bool start = cell.transition->actions & EP_ACT_START_TIMER,
             stop = cell.transition->actions & EP_ACT_STOP_TIMER;
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
        // A timeout that stays in a state with a timer restarts it, so that the wait stays bounded.
        if (cell.event == EP_EV_TIMEOUT && after) {
            EXPECT_TRUE(start) << cell.name();
        }
    }
}

// E7
TEST(EpTable, closing_transition_releases_once) {
    for (const Cell& cell : legal_cells()) {
        bool closes = cell.transition->next == EP_CLOSED && cell.state != EP_CLOSED;
        EXPECT_EQ(closes, bool(cell.transition->actions & EP_ACT_RELEASE)) << cell.name();
        EXPECT_EQ(closes && may_have_qp(cell.state), bool(cell.transition->actions & EP_ACT_QP_DISCONNECTED))
            << cell.name();
    }
}

// In a state without a timer the consumer decides, or a reply of the card is pending. CONN_EXIST is a reply,
// so the state after it has a timer.
TEST(EpTable, state_without_a_timer_waits_for_consumer_or_card) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (!ep_state_has_timer(ep_state(s))) {
            EXPECT_THAT(ep_state(s),
                        testing::AnyOf(EP_IDLE, EP_ABANDONED, EP_MPA_REQ_RCVD, EP_FPDU, EP_CLOSED))
                << ep_state_name(ep_state(s));
        }
    for (const Cell& cell : legal_cells())
        if (cell.transition->next == EP_ABANDONED && cell.state != EP_ABANDONED) {
            EXPECT_EQ(cell.state, EP_CONNECTING) << cell.name() << ": no reply of the card is pending";
        }
    EXPECT_EQ(ep_fsm(EP_CONNECTING, EP_EV_OPEN_EXISTS)->next, EP_OPEN_DELAYED);
    for (const ep_event event : {EP_EV_ABORT, EP_EV_SHUT_DOWN}) {
        ASSERT_NE(ep_fsm(EP_OPEN_DELAYED, event), nullptr);
        EXPECT_EQ(ep_fsm(EP_OPEN_DELAYED, event)->next, EP_CLOSED);
    }
}

// The card may use ring and TID until it replies, or until t3_dev_fatal() disables its bus mastering.
TEST(EpTable, abort_ends_with_a_reply_or_device_down) {
    for (const ep_state state : {EP_ABORTING, EP_ABORT_CROSSED})
        for (int e = 0; e < EP_NUM_EVENTS; ++e) {
            const t3_transition* transition = ep_fsm(state, ep_event(e));
            if (!transition || transition->next != EP_CLOSED)
                continue;
            EXPECT_THAT(ep_event(e), testing::AnyOf(EP_EV_ABORT_RPL, EP_EV_PEER_ABORT, EP_EV_DEVICE_DOWN))
                << ep_state_name(state) << " + " << ep_event_name(ep_event(e));
        }
    for (const Cell& cell : legal_cells())
        EXPECT_EQ(bool(cell.transition->actions & EP_ACT_DEVICE_FATAL),
                  cell.event == EP_EV_TIMEOUT &&
                      (cell.state == EP_ABORTING || cell.state == EP_ABORT_CROSSED))
            << cell.name();
}

// A consumer that moves its QP to ERR frees its buffers after the flush. A FIN flushes nothing, so it needs
// an abort.
TEST(EpTable, abort_is_allowed_with_an_attached_qp) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (may_have_qp(ep_state(s))) {
            const t3_transition* transition = ep_fsm(ep_state(s), EP_EV_ABORT);
            ASSERT_NE(transition, nullptr) << ep_state_name(ep_state(s));
            EXPECT_THAT(transition->next, testing::AnyOf(EP_ABORTING, EP_ABORT_CROSSED))
                << ep_state_name(ep_state(s));
        }
}

TEST(EpTable, closed_is_final) {
    for (const Cell& cell : legal_cells())
        if (cell.state == EP_CLOSED) {
            EXPECT_EQ(cell.transition->next, EP_CLOSED) << cell.name();
            EXPECT_EQ(cell.transition->actions, 0) << cell.name();
        }
}

TEST(EpTable, device_down_closes_every_state) {
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        const t3_transition* transition = ep_fsm(ep_state(s), EP_EV_DEVICE_DOWN);
        ASSERT_NE(transition, nullptr) << ep_state_name(ep_state(s));
        EXPECT_EQ(transition->next, EP_CLOSED);
        EXPECT_EQ(transition->actions & (EP_ACT_SEND_CLOSE | EP_ACT_SEND_ABORT | EP_ACT_SEND_ABORT_RPL), 0)
            << "nothing can be sent after DEVICE_DOWN";
    }
}

TEST(EpTable, every_state_is_reachable) {
    std::vector<bool> reached(EP_NUM_STATES);
    reached[EP_IDLE] = true;
    for (int round = 0; round < EP_NUM_STATES; ++round)
        for (const Cell& cell : legal_cells())
            if (reached[cell.state])
                reached[cell.transition->next] = true;
    EXPECT_THAT(reached, testing::Each(true));
}

// The module may be unloaded from a working card: each connection must be aborted, or a reply must be
// pending.
TEST(EpTable, shut_down_ends_every_connection) {
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        const t3_transition* transition = ep_fsm(ep_state(s), EP_EV_SHUT_DOWN);
        ASSERT_NE(transition, nullptr) << ep_state_name(ep_state(s));
        EXPECT_THAT(transition->next, testing::AnyOf(EP_ABANDONED, EP_ABORTING, EP_ABORT_CROSSED, EP_CLOSED))
            << ep_state_name(ep_state(s));
    }
}

// B9
TEST(EpTable, every_timer_has_a_timeout) {
    for (int s = 0; s < EP_NUM_STATES; ++s)
        if (ep_state_has_timer(ep_state(s))) {
            EXPECT_NE(ep_fsm(ep_state(s), EP_EV_TIMEOUT), nullptr) << ep_state_name(ep_state(s));
        }
}

TEST(EpTable, peer_abort_gets_a_reply_in_every_state_with_a_tid) {
    for (int s = EP_SYN_RCVD; s < EP_CLOSED; ++s) {
        const t3_transition* transition = ep_fsm(ep_state(s), EP_EV_PEER_ABORT);
        ASSERT_NE(transition, nullptr) << ep_state_name(ep_state(s));
        EXPECT_TRUE(transition->actions & EP_ACT_SEND_ABORT_RPL) << ep_state_name(ep_state(s));
    }
}

TEST(EpTable, one_abort_request_per_connection) {
    for (const Cell& cell : legal_cells()) {
        bool enters = cell.transition->next == EP_ABORTING && cell.state != EP_ABORTING;
        EXPECT_EQ(enters, bool(cell.transition->actions & EP_ACT_SEND_ABORT)) << cell.name();
    }
}

TEST(EpTable, one_terminate_per_connection) {
    for (const Cell& cell : legal_cells()) {
        bool enters = cell.transition->next == EP_TERMINATING && cell.state != EP_TERMINATING;
        EXPECT_EQ(enters, bool(cell.transition->actions & EP_ACT_SEND_TERMINATE)) << cell.name();
        // No way back to the state in which it is sent.
        if (cell.transition->next == EP_FPDU) {
            EXPECT_TRUE(cell.state == EP_FPDU || cell.state == EP_ACCEPTING || cell.state == EP_MPA_REQ_SENT)
                << cell.name();
        }
    }
}

TEST(EpTable, one_fin_per_connection) {
    auto fin_sent = [](ep_state s) { return s == EP_CLOSING || s == EP_FIN_WAIT || s == EP_LAST_ACK; };
    for (const Cell& cell : legal_cells()) {
        bool enters = fin_sent(ep_state(cell.transition->next)) && !fin_sent(cell.state);
        EXPECT_EQ(enters, bool(cell.transition->actions & EP_ACT_SEND_CLOSE)) << cell.name();
    }
}

TEST(EpTable, attached_qp_gets_lost_on_every_abnormal_end) {
    for (const Cell& cell : legal_cells()) {
        bool attached =
            may_have_qp(cell.state) && cell.state != EP_ABORTING && cell.state != EP_ABORT_CROSSED;
        bool bad = cell.transition->next == EP_ABORTING ||
                   (cell.transition->next == EP_CLOSED && !(cell.transition->actions & EP_ACT_QP_CLOSED));
        EXPECT_EQ(attached && bad, bool(cell.transition->actions & EP_ACT_QP_LOST)) << cell.name();
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
        const t3_transition* transition = ep_fsm(state, script.events[i]);
        ASSERT_NE(transition, nullptr) << ep_state_name(state) << " + " << ep_event_name(script.events[i]);
        state = ep_state(transition->next);
        ASSERT_STREQ(ep_state_name(state), ep_state_name(script.states[i])) << "step " << i;
    }
}

const std::vector<Script> scripts = {
    {"active_close_by_us",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_INIT_DONE, EP_EV_DISCONNECT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_FPDU, EP_CLOSING, EP_FIN_WAIT, EP_CLOSED}},
    {"passive_close_by_the_peer",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ACCEPT, EP_EV_INIT_DONE, EP_EV_PEER_CLOSE,
      EP_EV_CLOSE_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_ACCEPTING, EP_FPDU, EP_LAST_ACK, EP_CLOSED}},
    {"simultaneous_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_DISCONNECT, EP_EV_PEER_CLOSE, EP_EV_CLOSE_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_CLOSING, EP_LAST_ACK, EP_CLOSED}},
    {"passive_reject",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_REJECT, EP_EV_CLOSE_RPL, EP_EV_PEER_CLOSE},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_MPA_REQ_RCVD, EP_CLOSING, EP_FIN_WAIT, EP_CLOSED}},
    {"active_rejected",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_REJECTED, EP_EV_PEER_CLOSE, EP_EV_CLOSE_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_CLOSING, EP_LAST_ACK, EP_CLOSED}},
    {"conn_exist_then_established",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_TIMEOUT, EP_EV_ESTABLISHED},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_CONNECTING, EP_MPA_REQ_SENT}},
    {"second_open_arp_failed",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_TIMEOUT, EP_EV_ARP_FAILED},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_CONNECTING, EP_CLOSED}},
    {"abort_before_the_second_open",
     {EP_EV_CONNECT, EP_EV_OPEN_EXISTS, EP_EV_ABORT},
     {EP_CONNECTING, EP_OPEN_DELAYED, EP_CLOSED}},
    {"connection_refused", {EP_EV_CONNECT, EP_EV_OPEN_FAILED}, {EP_CONNECTING, EP_CLOSED}},
    {"open_arp_failed", {EP_EV_CONNECT, EP_EV_ARP_FAILED}, {EP_CONNECTING, EP_CLOSED}},
    {"timeout_before_established",
     {EP_EV_CONNECT, EP_EV_TIMEOUT, EP_EV_ESTABLISHED, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_ABANDONED, EP_ABORTING, EP_CLOSED}},
    {"timeout_of_the_mpa_request",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_TIMEOUT, EP_EV_ABORT_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_ABORTING, EP_CLOSED}},
    {"bad_mpa_request",
     {EP_EV_SYN, EP_EV_ESTABLISHED, EP_EV_MPA_BAD, EP_EV_ABORT_RPL},
     {EP_SYN_RCVD, EP_MPA_REQ_WAIT, EP_ABORTING, EP_CLOSED}},
    {"aborts_cross_peer_first",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ABORT, EP_EV_PEER_ABORT, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_ABORTING, EP_ABORTING, EP_CLOSED}},
    {"aborts_cross_reply_first",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_ABORT, EP_EV_ABORT_RPL_CROSSED,
      EP_EV_PEER_ABORT},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_ABORTING, EP_ABORT_CROSSED, EP_CLOSED}},
    {"no_reply_to_the_abort",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_TIMEOUT, EP_EV_TIMEOUT, EP_EV_DEVICE_DOWN},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_ABORTING, EP_ABORTING, EP_CLOSED}},
    {"terminate_then_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_TERMINATE, EP_EV_DISCONNECT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_TERMINATING, EP_CLOSING, EP_FIN_WAIT, EP_CLOSED}},
    {"terminate_timeout",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_TERMINATE, EP_EV_TIMEOUT, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_TERMINATING, EP_ABORTING, EP_CLOSED}},
    {"error_after_disconnect_aborts",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_DISCONNECT, EP_EV_ABORT, EP_EV_CLOSE_RPL,
      EP_EV_PEER_CLOSE, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_CLOSING, EP_ABORTING, EP_ABORTING, EP_ABORTING, EP_CLOSED}},
    {"bad_close",
     {EP_EV_CONNECT, EP_EV_ESTABLISHED, EP_EV_MPA_FRAME, EP_EV_PEER_CLOSE, EP_EV_BAD_CLOSE, EP_EV_ABORT_RPL},
     {EP_CONNECTING, EP_MPA_REQ_SENT, EP_FPDU, EP_LAST_ACK, EP_ABORTING, EP_CLOSED}},
};

INSTANTIATE_TEST_SUITE_P(Connection, EpScript, testing::ValuesIn(scripts),
                         [](const auto& info) { return info.param.name; });

// A repeated message of the card is refused. It does not count as the other half of a close.
TEST(EpTable, repeated_close_messages_are_refused) {
    EXPECT_EQ(ep_fsm(EP_LAST_ACK, EP_EV_PEER_CLOSE), nullptr);
    EXPECT_EQ(ep_fsm(EP_FIN_WAIT, EP_EV_CLOSE_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_EV_CLOSE_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_FPDU, EP_EV_ABORT_RPL), nullptr);
    EXPECT_EQ(ep_fsm(EP_CLOSED, EP_EV_PEER_ABORT), nullptr);
}

// docs/states.md contains the table. The test compares it, or writes it with T3_UPDATE_DOCS.
std::string table_as_markdown() {
    std::string text = "| State | Event | Next | Actions |\n|---|---|---|---|\n";
    for (const Cell& cell : legal_cells()) {
        bool stays = cell.transition->next == cell.state;
        if (stays && !cell.transition->actions)
            continue; // listed below
        std::string actions;
        for (unsigned bit = 0; bit < kEpActions.size(); ++bit)
            if (cell.transition->actions & (1 << bit))
                actions += (actions.empty() ? "" : ", ") + std::string(kEpActions[bit]);
        text += std::string("| ") + ep_state_name(cell.state) + " | " + ep_event_name(cell.event) + " | " +
                ep_state_name(ep_state(cell.transition->next)) + " | " + actions + " |\n";
    }
    text += "\nLegal events without an action:\n\n| State | Events |\n|---|---|\n";
    for (int s = 0; s < EP_NUM_STATES; ++s) {
        std::string events;
        for (const Cell& cell : legal_cells())
            if (cell.state == s && cell.transition->next == s && !cell.transition->actions)
                events += (events.empty() ? "" : ", ") + std::string(ep_event_name(cell.event));
        if (!events.empty())
            text += std::string("| ") + ep_state_name(ep_state(s)) + " | " + events + " |\n";
    }
    return text;
}

TEST(EpTable, documentation_is_current) {
    const std::string path = T3_SOURCE_DIR "/docs/states.md";
    const std::string begin = "<!-- connection table: begin -->\n", end = "<!-- connection table: end -->";
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    std::string text = file.str();
    std::size_t from = text.find(begin), to = text.find(end);
    ASSERT_NE(from, std::string::npos) << path;
    ASSERT_NE(to, std::string::npos) << path;
    from += begin.size();
    if (std::getenv("T3_UPDATE_DOCS"))
        std::ofstream(path) << text.replace(from, to - from, table_as_markdown());
    else
        EXPECT_EQ(text.substr(from, to - from), table_as_markdown())
            << "T3_UPDATE_DOCS=1 kernel_ep_fsm updates it";
}

} // namespace
