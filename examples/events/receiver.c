// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "receiver.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	exit(1);
}

unsigned int count_argument(int argc, char **argv)
{
	int count = argc == 2 ? atoi(argv[1]) : 0;

	if (count < 1 || count > 512) {
		fprintf(stderr, "usage: %s COUNT   (number of messages, 1 to 512)\n", argv[0]);
		exit(2);
	}
	return count;
}

static struct rdma_cm_id *wait_for_client(struct receiver *r)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *any;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(NULL, PORT, &hints, &any))
		die("rdma_getaddrinfo", errno);
	if (rdma_create_ep(&r->listener, any, NULL, NULL))
		die("rdma_create_ep", errno);
	rdma_freeaddrinfo(any);
	if (rdma_listen(r->listener, 1))
		die("rdma_listen to port " PORT, errno);
	if (rdma_get_request(r->listener, &id))
		die("rdma_get_request", errno);
	return id;
}

static void make_queues(struct receiver *r)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = r->count, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	r->channel = ibv_create_comp_channel(r->id->verbs);
	if (!r->channel)
		die("ibv_create_comp_channel", errno);
	/* One entry for every completion that can be outstanding: a CQ that overflows ends the connection. */
	r->cq = ibv_create_cq(r->id->verbs, r->count + 1, r, r->channel, 0);
	if (!r->cq)
		die("ibv_create_cq", errno);
	attr.send_cq = r->cq;
	attr.recv_cq = r->cq;
	if (rdma_create_qp(r->id, NULL, &attr))
		die("rdma_create_qp", errno);
}

static void post_receives(struct receiver *r)
{
	unsigned int i;

	r->messages = calloc(r->count, MESSAGE_SIZE);
	if (!r->messages)
		die("calloc", errno);
	r->mr = rdma_reg_msgs(r->id, r->messages, r->count * MESSAGE_SIZE);
	if (!r->mr)
		die("rdma_reg_msgs (see ulimit -l)", errno);
	for (i = 0; i < r->count; i++) {
		char *message = r->messages + i * MESSAGE_SIZE;

		if (rdma_post_recv(r->id, message, message, MESSAGE_SIZE, r->mr))
			die("rdma_post_recv", errno);
	}
}

void receiver_open(struct receiver *r, unsigned int count)
{
	*r = (struct receiver){ .count = count };
	r->id = wait_for_client(r);
	make_queues(r);
	/* Do this before accepting: from then on messages may come. */
	post_receives(r);
	receiver_arm(r);
	if (rdma_accept(r->id, NULL))
		die("rdma_accept", errno);
}

void receiver_close(struct receiver *r)
{
	rdma_disconnect(r->id);
	rdma_destroy_qp(r->id);
	rdma_dereg_mr(r->mr);
	ibv_destroy_cq(r->cq);
	ibv_destroy_comp_channel(r->channel);
	rdma_destroy_id(r->id);
	rdma_destroy_ep(r->listener);
	free(r->messages);
}

void receiver_arm(struct receiver *r)
{
	int err = ibv_req_notify_cq(r->cq, 0);

	if (err)
		die("ibv_req_notify_cq", err);
}

unsigned int receiver_drain(struct receiver *r)
{
	unsigned int found = 0;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(r->cq, 1, &wc)) > 0) {
		/* If a request failed, only status, id and QP are defined. */
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "receive failed: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		printf("%.*s\n", (int)wc.byte_len, (char *)(uintptr_t)wc.wr_id);
		found++;
	}
	if (n < 0)
		die("ibv_poll_cq", -n);
	return found;
}
