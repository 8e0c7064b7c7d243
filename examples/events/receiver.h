/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection that only receives, with the completion channel that tells of its messages. How to wait on that channel
 * is what the programs of this folder show.
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
	unsigned int count;	/* of messages that will come, each with a receive posted for it */
};

/* Prints what was tried and why it failed, and leaves the program with status 1. */
void die(const char *what, int err) __attribute__((noreturn));

/* The count on the command line, which has nothing else; leaves with status 2 if it is not there. */
unsigned int count_argument(int argc, char **argv);

/* Waits for a client, and connects with a receive posted for each of `count` messages. */
void receiver_open(struct receiver *r, unsigned int count);
void receiver_close(struct receiver *r);

/* Asks for an event at the next completion. */
void receiver_arm(struct receiver *r);
/* Prints all messages that are there, without waiting; returns how many. */
unsigned int receiver_drain(struct receiver *r);

#endif
