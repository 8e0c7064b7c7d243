/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection that only receives, with a completion channel that reports its messages. The programs of this folder show
 * how to wait on this channel.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#define PORT		"7473"
#define MESSAGE_SIZE	64
#define TIMEOUT_MS	10000

struct receiver {
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *messages;
	unsigned int count;	/* expected messages; a receive is posted for each */
};

/* Prints what failed and why, and exits with status 1. */
void die(const char *what, int err) __attribute__((noreturn));

/* The only argument of the command line, a count; exits with status 2 if it is missing. */
unsigned int count_argument(int argc, char **argv);

/* Waits for a client, and connects with a receive posted for each of `count` messages. */
void receiver_open(struct receiver *r, unsigned int count);
void receiver_close(struct receiver *r);

/* Requests an event for the next completion. */
void receiver_arm(struct receiver *r);
/* Prints all messages that have arrived, without waiting; returns their number. */
unsigned int receiver_drain(struct receiver *r);

#endif
