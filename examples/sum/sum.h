/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Common code of client and server: the wire format, and the steps that every program over librdmacm needs.
 */
#ifndef SUM_H
#define SUM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#define SUM_PORT	"7471"
#define SUM_TIMEOUT_MS	10000

/* The server's private data in its accept: where the client may write. In network byte order. */
struct sum_target {
	uint64_t addr;
	uint32_t rkey;
} __attribute__((packed));

/* The server's memory: the first number comes by RDMA write, the second by send, and the sum is sent back. */
struct sum_numbers {
	uint32_t first;
	uint32_t second;
	uint32_t sum;
};

/* One end of a connection with all its objects. */
struct sum_end {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL: the program polls for completions */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct sum_numbers *numbers;
};

/* Prints what failed and why, and exits with status 1. */
void sum_die(const char *what, int err) __attribute__((noreturn));

/* The next event of the channel, which must be `wanted`. The caller acknowledges it. */
struct rdma_cm_event *sum_wait_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted);
/* The same for an event whose contents are not needed. */
void sum_expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted);

/* PD, CQ, QP and registered memory for `id`, which is bound to a device. */
void sum_set_up(struct sum_end *end, struct rdma_cm_id *id, bool events);
void sum_tear_down(struct sum_end *end);

void sum_post_recv(struct sum_end *end, uint32_t *into);
void sum_post_send(struct sum_end *end, const uint32_t *from);
void sum_post_write(struct sum_end *end, const uint32_t *from, const struct sum_target *to);

/* Waits for a completion of `wanted`. Other requests that complete meanwhile must have succeeded. */
void sum_wait_completion(struct sum_end *end, enum ibv_wc_opcode wanted);

#endif
