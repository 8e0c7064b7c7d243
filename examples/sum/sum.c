// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sum.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sum_die(const char *what, int err)
{
	if (err)
		fprintf(stderr, "%s: %s\n", what, strerror(err));
	else
		fprintf(stderr, "%s\n", what);
	exit(1);
}

static void wait_readable(int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, SUM_TIMEOUT_MS);

	if (n < 0)
		sum_die("poll", errno);
	if (n == 0)
		sum_die(what, ETIMEDOUT);
}

struct rdma_cm_event *sum_wait_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	/* A server may wait for ever for its first client. */
	if (wanted != RDMA_CM_EVENT_CONNECT_REQUEST)
		wait_readable(channel->fd, rdma_event_str(wanted));
	if (rdma_get_cm_event(channel, &event))
		sum_die("rdma_get_cm_event", errno);
	if (event->event != wanted) {
		fprintf(stderr, "waiting for %s, got %s (status %d)\n", rdma_event_str(wanted),
			rdma_event_str(event->event), event->status);
		exit(1);
	}
	return event;
}

void sum_expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	rdma_ack_cm_event(sum_wait_event(channel, wanted));
}

void sum_set_up(struct sum_end *end, struct rdma_cm_id *id, bool events)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	end->id = id;
	end->pd = ibv_alloc_pd(id->verbs);
	if (!end->pd)
		sum_die("ibv_alloc_pd", errno);
	end->channel = NULL;
	if (events) {
		end->channel = ibv_create_comp_channel(id->verbs);
		if (!end->channel)
			sum_die("ibv_create_comp_channel", errno);
	}
	end->cq = ibv_create_cq(id->verbs, 4, NULL, end->channel, 0);
	if (!end->cq)
		sum_die("ibv_create_cq", errno);
	/* From now on the next completion makes an event. */
	if (events && ibv_req_notify_cq(end->cq, 0))
		sum_die("ibv_req_notify_cq", errno);

	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	if (rdma_create_qp(id, end->pd, &attr))
		sum_die("rdma_create_qp", errno);

	end->numbers = calloc(1, sizeof(*end->numbers));
	if (!end->numbers)
		sum_die("calloc", errno);
	end->mr = ibv_reg_mr(end->pd, end->numbers, sizeof(*end->numbers),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!end->mr)
		sum_die("ibv_reg_mr (see ulimit -l)", errno);
}

void sum_tear_down(struct sum_end *end)
{
	rdma_destroy_qp(end->id);
	ibv_dereg_mr(end->mr);
	ibv_destroy_cq(end->cq);
	if (end->channel)
		ibv_destroy_comp_channel(end->channel);
	ibv_dealloc_pd(end->pd);
	free(end->numbers);
}

static struct ibv_sge one_number(const struct sum_end *end, const uint32_t *at)
{
	return (struct ibv_sge){ .addr = (uintptr_t)at, .length = sizeof(*at), .lkey = end->mr->lkey };
}

void sum_post_recv(struct sum_end *end, uint32_t *into)
{
	struct ibv_sge sge = one_number(end, into);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_recv(end->id->qp, &wr, &bad);

	if (err)
		sum_die("ibv_post_recv", err);
}

void sum_post_send(struct sum_end *end, const uint32_t *from)
{
	struct ibv_sge sge = one_number(end, from);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_send(end->id->qp, &wr, &bad);

	if (err)
		sum_die("ibv_post_send (send)", err);
}

void sum_post_write(struct sum_end *end, const uint32_t *from, const struct sum_target *to)
{
	struct ibv_sge sge = one_number(end, from);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = be64toh(to->addr), .rkey = be32toh(to->rkey) },
	};
	struct ibv_send_wr *bad;
	int err = ibv_post_send(end->id->qp, &wr, &bad);

	if (err)
		sum_die("ibv_post_send (RDMA write)", err);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool poll_for(struct ibv_cq *cq, enum ibv_wc_opcode wanted)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "request failed: %s (vendor error 0x%x)\n", ibv_wc_status_str(wc.status),
				wc.vendor_err);
			exit(1);
		}
		if (wc.opcode == wanted)
			return true;
	}
	if (n < 0)
		sum_die("ibv_poll_cq", -n);
	return false;
}

void sum_wait_completion(struct sum_end *end, enum ibv_wc_opcode wanted)
{
	long deadline = now_ms() + SUM_TIMEOUT_MS;
	struct ibv_cq *cq;
	void *context;

	while (!poll_for(end->cq, wanted)) {
		if (!end->channel) {
			if (now_ms() > deadline)
				sum_die("waiting for a completion", ETIMEDOUT);
			continue;
		}
		wait_readable(end->channel->fd, "waiting for a completion");
		if (ibv_get_cq_event(end->channel, &cq, &context))
			sum_die("ibv_get_cq_event", errno);
		ibv_ack_cq_events(cq, 1);
		/* Arm first, then poll: the next poll finds completions that came in between. */
		if (ibv_req_notify_cq(cq, 0))
			sum_die("ibv_req_notify_cq", errno);
	}
}
