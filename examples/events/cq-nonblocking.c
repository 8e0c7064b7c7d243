// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion events, non-blocking: the channel is one of the file descriptors in the program's own poll() loop. The program
 * does other work meanwhile.
 */
#include "receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>

static void do_not_block(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		die("fcntl", errno);
}

/* Reads and acknowledges all pending events; false if there is none. */
static bool take_events(struct receiver *r)
{
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	while (!ibv_get_cq_event(r->channel, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		any = true;
	}
	if (errno != EAGAIN)
		die("ibv_get_cq_event", errno);
	return any;
}

int main(int argc, char **argv)
{
	unsigned int messages = 0, idle_ms = 0;
	struct receiver r;

	receiver_open(&r, count_argument(argc, argv));
	do_not_block(r.channel->fd);
	while (messages < r.count) {
		struct pollfd watched = { .fd = r.channel->fd, .events = POLLIN };
		int n = poll(&watched, 1, 10);

		if (n < 0)
			die("poll", errno);
		if (n == 0) {
			/* Here a program does its other work. */
			idle_ms += 10;
			if (idle_ms >= TIMEOUT_MS)
				die("waiting for messages", ETIMEDOUT);
			continue;
		}
		idle_ms = 0;
		if (!take_events(&r))
			continue;
		/* Arm, then poll: see cq-blocking.c. */
		receiver_arm(&r);
		messages += receiver_drain(&r);
	}
	/* One more event may be unread here. ibv_destroy_cq() waits only for events that were read. */
	fprintf(stderr, "%u messages\n", messages);
	receiver_close(&r);
	return 0;
}
