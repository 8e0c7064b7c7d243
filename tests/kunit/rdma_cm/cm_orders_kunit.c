// SPDX-License-Identifier: GPL-2.0
/*
 * Every order of moves, up to a number of them: calls of the consumer, events of a provider that
 * keeps its contract, and the removal of the device (C17).
 */
#include "conversation.h"

/*
 * The choices of a run, in order. next_run() changes the last one that has an alternative left, and
 * forgets those after it, until there is none.
 */
/* Sanitizers are slow. */
#define TURNS (IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KCSAN) ? 4 : 5)
#define MOST_TURNS 5
static struct {
	u8 taken[MOST_TURNS], of[MOST_TURNS];
	unsigned int known, now;
} choices;

static unsigned int choose(unsigned int of)
{
	if (choices.now == choices.known) {
		choices.taken[choices.known] = 0;
		choices.of[choices.known++] = of;
	}
	return choices.taken[choices.now++];
}

static bool next_run(void)
{
	choices.now = 0;
	while (choices.known && ++choices.taken[choices.known - 1] == choices.of[choices.known - 1])
		choices.known--;
	return choices.known;
}

enum move {
	M_CALL, M_DISCONNECT, M_ESTABLISH, M_REJECT, M_DESTROY, M_LOCK_HANDLER, M_UNLOCK_HANDLER,
	M_REMOVE, M_CALL_SUCCEEDS, M_CALL_FAILS, M_PEER_CLOSE, M_CLOSE, NUM_MOVES
};

static const char *const move_names[NUM_MOVES] = {
	"call", "disconnect", "establish", "reject", "destroy", "lock-handler", "unlock-handler",
	"remove", "call-succeeds", "call-fails", "peer-close", "close",
};

static struct {
	bool active, called, pending, peer_closed;
	char moves_made[160];
} run_state;

/* The moves that are possible now. Some are made once only, as a second one shows nothing new. */
static unsigned int possible_moves(enum move moves[NUM_MOVES])
{
	bool exists = id && got.destroyed != id;
	unsigned int n = 0;

	if (exists && !run_state.called)
		moves[n++] = M_CALL;
	if (exists) {
		moves[n++] = M_DISCONNECT;
		if (run_state.active)
			moves[n++] = M_ESTABLISH;
		moves[n++] = M_REJECT;
		moves[n++] = M_DESTROY;
		moves[n++] = handler_locked ? M_UNLOCK_HANDLER : M_LOCK_HANDLER;
		if (!removing)
			moves[n++] = M_REMOVE;
	}
	if (fake.conn && !fake.open) {
		moves[n++] = M_CALL_SUCCEEDS;
		moves[n++] = M_CALL_FAILS;
	}
	if (fake.conn && fake.open) {
		if (!run_state.peer_closed)
			moves[n++] = M_PEER_CLOSE;
		moves[n++] = M_CLOSE;
	}
	return n;
}

static void make_move(struct kunit *test, enum move move)
{
	int ret = 0;

	strlcat(run_state.moves_made, " ", sizeof(run_state.moves_made));
	strlcat(run_state.moves_made, move_names[move], sizeof(run_state.moves_made));
	switch (move) {
	case M_CALL:
		run_state.called = true;
		run_state.pending = !call(run_state.active ? CONNECT : ACCEPT);
		break;
	case M_DISCONNECT:
		call(DISCONNECT);
		break;
	case M_ESTABLISH:
		call(ESTABLISH);
		break;
	case M_REJECT:
		run_state.pending &= !!call(REJECT);
		break;
	case M_DESTROY:
		if (handler_locked)
			unlock_handler(id);
		handler_locked = false;
		flush_events();
		if (got.destroyed == id) {
			id = NULL;
			break;
		}
		got.destroyed = id;
		destroy(&id);
		break;
	case M_LOCK_HANDLER:
		lock_handler(id);
		handler_locked = true;
		break;
	case M_UNLOCK_HANDLER:
		unlock_handler(id);
		handler_locked = false;
		break;
	case M_REMOVE:
		remove_device();
		break;
	case M_CALL_SUCCEEDS:
		ret = fake_report(run_state.active ? FAKE_REPLY : FAKE_ESTABLISHED, 0);
		break;
	case M_CALL_FAILS:
		ret = fake_report(run_state.active ? FAKE_REPLY : FAKE_CLOSE, -ECONNREFUSED);
		break;
	case M_PEER_CLOSE:
		run_state.peer_closed = true;
		ret = fake_report(FAKE_PEER_CLOSE, 0);
		break;
	case M_CLOSE:
		ret = fake_report(FAKE_CLOSE, 0);
		break;
	case NUM_MOVES:
		break;
	}
	/* The slot of an event of the provider is always free. */
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "%s", run_state.moves_made);
	flush_events();
}

static void one_run(struct kunit *test, bool active, bool with_qp)
{
	static const struct conversation own_qp = { "ready without a QP", {
		S(BIND), S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(ROUTE), S(GOT_ROUTE) } };
	enum move moves[NUM_MOVES];
	unsigned int turn;

	memset(&run_state, 0, sizeof(run_state));
	run_state.active = active;
	begin(test, IN_PROCESS);
	if (active && !with_qp) {
		run(test, &own_qp);
	} else {
		run_shorthand(test, active ? READY : REQUESTED);
		destroy(&listener);
	}
	for (turn = 0; turn < TURNS; turn++) {
		unsigned int n = possible_moves(moves);

		if (!n)
			break;
		make_move(test, moves[choose(n)]);
	}
	if (handler_locked)
		make_move(test, M_UNLOCK_HANDLER);
	/* If the provider has ended a connect or an accept, the consumer got that. */
	if (run_state.pending && !fake.conn && id && got.destroyed != id && !removing)
		KUNIT_EXPECT_EQ_MSG(test, got.ended, 1u, "%s", run_state.moves_made);
	end(test);
	KUNIT_EXPECT_LE_MSG(test, got.established, 1u, "%s", run_state.moves_made);
	KUNIT_EXPECT_LE_MSG(test, got.ended, 1u, "%s", run_state.moves_made);
}

static bool has_failed(struct kunit *test)
{
	return READ_ONCE(test->status) == KUNIT_FAILURE;
}

static void every_order(struct kunit *test, bool active, bool with_qp)
{
	unsigned int runs = 0;

	memset(&choices, 0, sizeof(choices));
	do {
		one_run(test, active, with_qp);
		runs++;
		cond_resched();
	} while (next_run() && !has_failed(test));
	kunit_info(test, "%u runs\n", runs);
	KUNIT_EXPECT_GT(test, runs, 500u);
}

static void every_order_active(struct kunit *test)
{
	every_order(test, true, true);
}

static void every_order_without_qp(struct kunit *test)
{
	every_order(test, true, false);
}

static void every_order_passive(struct kunit *test)
{
	every_order(test, false, true);
}

static struct kunit_case cm_orders_cases[] = {
	KUNIT_CASE(every_order_active),
	KUNIT_CASE(every_order_without_qp),
	KUNIT_CASE(every_order_passive),
	{}
};

TEST_SUITE("t3_rdma_cm_orders", cm_orders_cases, .init = conversation_init,
	   .exit = conversation_exit);
