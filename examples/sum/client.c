// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sends two numbers to the server, one by RDMA write into its memory and one by send, and prints the sum that
 * the server returns.
 */
#include "sum.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rdma_cm_id *resolve(struct rdma_event_channel *channel, const char *host)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *addr;
	struct rdma_cm_id *id;
	int err;

	err = getaddrinfo(host, SUM_PORT, &hints, &addr);
	if (err) {
		fprintf(stderr, "%s: %s\n", host, gai_strerror(err));
		exit(1);
	}
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		sum_die("rdma_create_id", errno);
	if (rdma_resolve_addr(id, NULL, addr->ai_addr, SUM_TIMEOUT_MS))
		sum_die("rdma_resolve_addr (is there an RDMA device towards the server?)", errno);
	sum_expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, SUM_TIMEOUT_MS))
		sum_die("rdma_resolve_route", errno);
	sum_expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	freeaddrinfo(addr);
	return id;
}

static void connect_to(struct rdma_cm_id *id, struct sum_target *target)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 7 };
	struct rdma_cm_event *event;

	if (rdma_connect(id, &param))
		sum_die("rdma_connect", errno);
	event = sum_wait_event(id->channel, RDMA_CM_EVENT_ESTABLISHED);
	if (event->param.conn.private_data_len < sizeof(*target))
		sum_die("the server did not send an address", 0);
	memcpy(target, event->param.conn.private_data, sizeof(*target));
	rdma_ack_cm_event(event);
}

int main(int argc, char **argv)
{
	bool events = argc > 1 && !strcmp(argv[1], "--events");
	char **args = argv + 1 + events;
	struct rdma_event_channel *channel;
	struct sum_target target;
	struct sum_end end;

	if (argc - events != 4) {
		fprintf(stderr, "usage: %s [--events] SERVER FIRST SECOND\n", argv[0]);
		return 2;
	}
	channel = rdma_create_event_channel();
	if (!channel)
		sum_die("rdma_create_event_channel", errno);
	sum_set_up(&end, resolve(channel, args[0]), events);
	end.numbers->first = htonl(strtoul(args[1], NULL, 0));
	end.numbers->second = htonl(strtoul(args[2], NULL, 0));

	/* Post the receive before any message that makes the server reply. */
	sum_post_recv(&end, &end.numbers->sum);
	connect_to(end.id, &target);

	/* In this order the first number is in place when the message with the second one arrives. */
	sum_post_write(&end, &end.numbers->first, &target);
	sum_post_send(&end, &end.numbers->second);
	sum_wait_completion(&end, IBV_WC_RECV);
	printf("%u + %u = %u\n", ntohl(end.numbers->first), ntohl(end.numbers->second), ntohl(end.numbers->sum));

	rdma_disconnect(end.id);
	sum_expect_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	sum_tear_down(&end);
	rdma_destroy_id(end.id);
	rdma_destroy_event_channel(channel);
	return 0;
}
