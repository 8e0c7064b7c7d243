// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion events, blocking: the program sleeps in ibv_get_cq_event() until a message has come.
 */
#include "receiver.h"

#include <errno.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	unsigned int messages = 0, events = 0;
	struct receiver r;

	receiver_open(&r, count_argument(argc, argv));
	while (messages < r.count) {
		struct ibv_cq *cq;
		void *context;

		if (ibv_get_cq_event(r.channel, &cq, &context))
			die("ibv_get_cq_event", errno);
		events++;
		/*
		 * Each arm gives one event. Arm first and poll afterwards. The poll then finds a message that comes in between.
		 * In the reverse order such a message would be found only with the next event.
		 */
		receiver_arm(&r);
		messages += receiver_drain(&r);
	}
	/* ibv_destroy_cq() waits until every event is acknowledged. One call for all is cheaper: it takes a lock. */
	ibv_ack_cq_events(r.cq, events);
	fprintf(stderr, "%u messages\n", messages);
	receiver_close(&r);
	return 0;
}
