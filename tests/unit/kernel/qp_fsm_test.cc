// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// QP transitions: sequences of events, and rules that hold for the whole table.
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "kernel/iw_cxgb3/verbs/qp_fsm.h"
}

namespace {

std::vector<t3_qp_state> states() {
    std::vector<t3_qp_state> all;
    for (int s = 0; s < T3_QPS_NUM; s++)
        all.push_back(static_cast<t3_qp_state>(s));
    return all;
}

std::vector<t3_qp_event> events() {
    std::vector<t3_qp_event> all;
    for (int e = 0; e < T3_QPEV_NUM; e++)
        all.push_back(static_cast<t3_qp_event>(e));
    return all;
}

t3_transition transition(t3_qp_state state, t3_qp_event event) {
    const t3_transition* found = t3_qp_fsm(state, event);
    return found ? *found : t3_transition{};
}

struct Step {
    t3_qp_event event;
    t3_qp_state expected;
};

void walk(const std::string& name, const std::vector<Step>& steps) {
    auto state = T3_QPS_IDLE;
    for (const auto& step : steps) {
        const auto taken = transition(state, step.event);
        ASSERT_TRUE(taken.legal) << name << ": " << t3_qp_event_name(step.event) << " in "
                                 << t3_qp_state_name(state);
        ASSERT_EQ(taken.next, step.expected) << name << ": after " << t3_qp_event_name(step.event);
        state = t3_qp_state(taken.next);
    }
}

TEST(QpFsm, Sequences) {
    walk("peer closes", {{T3_QPEV_USER_INIT, T3_QPS_IDLE},
                         {T3_QPEV_CONNECT, T3_QPS_RTS},
                         {T3_QPEV_PEER_CLOSE, T3_QPS_CLOSING},
                         {T3_QPEV_CLOSED, T3_QPS_IDLE},
                         {T3_QPEV_USER_CLOSE, T3_QPS_IDLE},
                         {T3_QPEV_DESTROY, T3_QPS_ERROR}});
    walk("consumer closes", {{T3_QPEV_CONNECT, T3_QPS_RTS},
                             {T3_QPEV_USER_CLOSE, T3_QPS_CLOSING},
                             {T3_QPEV_PEER_CLOSE, T3_QPS_CLOSING},
                             {T3_QPEV_CLOSED, T3_QPS_IDLE}});
    walk("reset by the peer, late events, reuse", {{T3_QPEV_CONNECT, T3_QPS_RTS},
                                                   {T3_QPEV_LOST, T3_QPS_ERROR},
                                                   {T3_QPEV_PROTO_ERROR, T3_QPS_ERROR},
                                                   {T3_QPEV_CLOSED, T3_QPS_ERROR},
                                                   {T3_QPEV_USER_RESET, T3_QPS_IDLE},
                                                   {T3_QPEV_CONNECT, T3_QPS_RTS}});
    walk("error detected here", {{T3_QPEV_CONNECT, T3_QPS_RTS},
                                 {T3_QPEV_PROTO_ERROR, T3_QPS_TERMINATE},
                                 {T3_QPEV_PROTO_ERROR, T3_QPS_TERMINATE},
                                 {T3_QPEV_PEER_CLOSE, T3_QPS_TERMINATE},
                                 {T3_QPEV_CLOSED, T3_QPS_ERROR}});
}

TEST(QpFsm, OnlyAConnectionLeadsToRts) {
    for (const auto state : states())
        for (const auto event : events()) {
            const auto step = transition(state, event);
            if (step.legal && step.next == T3_QPS_RTS && state != T3_QPS_RTS) {
                EXPECT_EQ(event, T3_QPEV_CONNECT);
                EXPECT_EQ(state, T3_QPS_IDLE);
            }
        }
}

TEST(QpFsm, EndOfAConnectionFlushesAndDropsTheEndpoint) {
    for (const auto state : {T3_QPS_RTS, T3_QPS_CLOSING, T3_QPS_TERMINATE})
        for (const auto event : events()) {
            const auto step = transition(state, event);
            if (!step.legal || step.next == T3_QPS_RTS || step.next == T3_QPS_CLOSING ||
                step.next == T3_QPS_TERMINATE)
                continue;
            EXPECT_TRUE(step.actions & T3_QPA_FLUSH)
                << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
            EXPECT_TRUE(step.actions & T3_QPA_DROP_EP)
                << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
        }
}

// The ring must not accept requests that would never complete.
TEST(QpFsm, EnteringErrorStopsPostingAndFlushes) {
    for (const auto state : states())
        for (const auto event : events()) {
            const auto step = transition(state, event);
            if (!step.legal || step.next == state)
                continue;
            if (step.next == T3_QPS_ERROR || step.next == T3_QPS_TERMINATE) {
                EXPECT_TRUE(step.actions & T3_QPA_MARK_ERROR)
                    << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
            }
            if (step.next == T3_QPS_ERROR) {
                EXPECT_TRUE(step.actions & T3_QPA_FLUSH)
                    << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
            }
        }
}

// A3: a second error must not flush again.
TEST(QpFsm, ErrorStateDoesNotFlushAgain) {
    for (const auto event : events())
        EXPECT_FALSE(transition(T3_QPS_ERROR, event).actions & T3_QPA_FLUSH) << t3_qp_event_name(event);
}

// The end of a connection is legal in each state that can have one.
TEST(QpFsm, EndOfAConnectionIsNeverRefused) {
    for (const auto state : {T3_QPS_RTS, T3_QPS_CLOSING, T3_QPS_TERMINATE, T3_QPS_ERROR})
        for (const auto event : {T3_QPEV_CLOSED, T3_QPEV_LOST, T3_QPEV_PEER_CLOSE, T3_QPEV_DESTROY})
            EXPECT_TRUE(transition(state, event).legal)
                << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
}

// rdma_disconnect() of iWARP starts with a move to SQD. perftest fails if that is refused because the peer
// was first.
TEST(QpFsm, CloseIsNeverRefused) {
    for (const auto state : states())
        EXPECT_TRUE(transition(state, T3_QPEV_USER_CLOSE).legal) << t3_qp_state_name(state);
}

// The QP of a failed accept is flushed, but not if the accept failed because the QP had a connection.
TEST(QpFsm, FailedAcceptEndsOnlyAQpWithoutAConnection) {
    const auto idle = transition(T3_QPS_IDLE, T3_QPEV_ACCEPT_FAILED);
    EXPECT_EQ(idle.next, T3_QPS_ERROR);
    EXPECT_EQ(idle.actions, unsigned{T3_QPA_MARK_ERROR | T3_QPA_FLUSH});
    for (const auto state : {T3_QPS_RTS, T3_QPS_CLOSING, T3_QPS_TERMINATE, T3_QPS_ERROR}) {
        const auto step = transition(state, T3_QPEV_ACCEPT_FAILED);
        EXPECT_TRUE(step.legal && step.next == state) << t3_qp_state_name(state);
        EXPECT_EQ(step.actions, 0u) << t3_qp_state_name(state);
    }
}

TEST(QpFsm, ResetOfAConnectedQpIsRefused) {
    for (const auto state : {T3_QPS_RTS, T3_QPS_CLOSING, T3_QPS_TERMINATE})
        EXPECT_FALSE(transition(state, T3_QPEV_USER_RESET).legal);
}

TEST(QpFsm, DestroyLetsACloseComplete) {
    for (const auto state : {T3_QPS_CLOSING, T3_QPS_TERMINATE}) {
        const auto step = transition(state, T3_QPEV_DESTROY);
        EXPECT_EQ(step.next, state);
        EXPECT_EQ(step.actions, unsigned{T3_QPA_LIMIT_CLOSE}) << t3_qp_state_name(state);
    }
    EXPECT_TRUE(transition(T3_QPS_RTS, T3_QPEV_DESTROY).actions & T3_QPA_ABORT);
}

// The peer may not answer for long, and a destroy or a removal would wait as long.
TEST(QpFsm, ModifyToErrorAbortsAPendingConnect) {
    for (const auto state : states())
        for (const auto event : events())
            EXPECT_EQ(bool(transition(state, event).actions & T3_QPA_ABORT_CONNECT),
                      state == T3_QPS_IDLE && event == T3_QPEV_USER_ERROR)
                << t3_qp_event_name(event) << " in " << t3_qp_state_name(state);
}

// A consumer that moves its QP to ERR frees its buffers next. After a FIN the card may still access them.
TEST(QpFsm, ModifyToErrorAbortsEveryConnection) {
    for (const auto state : {T3_QPS_RTS, T3_QPS_CLOSING, T3_QPS_TERMINATE}) {
        const auto step = transition(state, T3_QPEV_USER_ERROR);
        EXPECT_TRUE(step.legal && step.actions & T3_QPA_ABORT) << t3_qp_state_name(state);
        EXPECT_TRUE(step.actions & T3_QPA_MARK_ERROR) << t3_qp_state_name(state);
    }
}

TEST(QpFsm, OutOfRangeValuesAreIllegal) {
    EXPECT_FALSE(transition(static_cast<t3_qp_state>(T3_QPS_NUM), T3_QPEV_CLOSED).legal);
    EXPECT_FALSE(transition(T3_QPS_IDLE, static_cast<t3_qp_event>(T3_QPEV_NUM)).legal);
    EXPECT_FALSE(transition(static_cast<t3_qp_state>(-1), static_cast<t3_qp_event>(-1)).legal);
    EXPECT_STREQ(t3_qp_state_name(static_cast<t3_qp_state>(99)), "?");
}

TEST(QpFsm, EveryStateAndEventHasAName) {
    for (const auto state : states())
        EXPECT_STRNE(t3_qp_state_name(state), "?");
    for (const auto event : events())
        EXPECT_NE(t3_qp_event_name(event), nullptr);
}

} // namespace
