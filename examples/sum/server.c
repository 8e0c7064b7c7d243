// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Adds the two numbers of one client and sends the sum back.
 */
#include "sum.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rdma_cm_id *listen_on(struct rdma_event_channel *channel)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(SUM_PORT)) };
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		sum_die("rdma_create_id", errno);
	if (rdma_bind_addr(id, (struct sockaddr *)&any))
		sum_die("rdma_bind_addr to port " SUM_PORT, errno);
	if (rdma_listen(id, 1))
		sum_die("rdma_listen", errno);
	return id;
}

static void accept_with(struct sum_end *end)
{
	struct sum_target target = {
		.addr = htobe64((uintptr_t)&end->numbers->first),
		.rkey = htobe32(end->mr->rkey),
	};
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.private_data = &target,
		.private_data_len = sizeof(target),
	};

	if (rdma_accept(end->id, &param))
		sum_die("rdma_accept", errno);
	sum_expect_event(end->id->channel, RDMA_CM_EVENT_ESTABLISHED);
}

int main(int argc, char **argv)
{
	bool events = argc == 2 && !strcmp(argv[1], "--events");
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;
	struct rdma_cm_id *child;
	struct sum_end end;
	uint32_t sum;

	if (argc > 1 + events) {
		fprintf(stderr, "usage: %s [--events]\n", argv[0]);
		return 2;
	}
	channel = rdma_create_event_channel();
	if (!channel)
		sum_die("rdma_create_event_channel", errno);
	listener = listen_on(channel);

	event = sum_wait_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	rdma_ack_cm_event(event);

	sum_set_up(&end, child, events);
	/* Post it before accepting: from then on the client may send. */
	sum_post_recv(&end, &end.numbers->second);
	accept_with(&end);

	/* The write came before the send, so its number is in place when the send has arrived. */
	sum_wait_completion(&end, IBV_WC_RECV);
	sum = ntohl(end.numbers->first) + ntohl(end.numbers->second);
	end.numbers->sum = htonl(sum);
	sum_post_send(&end, &end.numbers->sum);
	sum_wait_completion(&end, IBV_WC_SEND);
	printf("%u + %u = %u\n", ntohl(end.numbers->first), ntohl(end.numbers->second), sum);

	/* The client closes when it has the sum. */
	sum_expect_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(end.id);
	sum_tear_down(&end);
	rdma_destroy_id(end.id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return 0;
}
