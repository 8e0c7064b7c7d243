// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sends numbered messages to cq-blocking or cq-nonblocking, one at a time.
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"

static struct rdma_cm_id *connect_to(const char *host)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *there;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(host, PORT, &hints, &there))
		die(host, errno);
	/* Address, route, queues and QP in one call; librdmacm creates the CQs. */
	if (rdma_create_ep(&id, there, NULL, &attr))
		die("rdma_create_ep (is there an RDMA device towards the receiver?)", errno);
	rdma_freeaddrinfo(there);
	if (rdma_connect(id, NULL))
		die("rdma_connect", errno);
	return id;
}

int main(int argc, char **argv)
{
	char message[MESSAGE_SIZE];
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int count, i, n;

	if (argc != 3 || (count = atoi(argv[2])) < 1) {
		fprintf(stderr, "usage: %s RECEIVER COUNT\n", argv[0]);
		return 2;
	}
	id = connect_to(argv[1]);
	mr = rdma_reg_msgs(id, message, sizeof(message));
	if (!mr)
		die("rdma_reg_msgs (see ulimit -l)", errno);
	for (i = 0; i < count; i++) {
		int length = snprintf(message, sizeof(message), "message %d of %d", i + 1, count);

		if (rdma_post_send(id, NULL, message, length, mr, 0))
			die("rdma_post_send", errno);
		/* Until the completion the card may read the message, so it must not change. */
		n = rdma_get_send_comp(id, &wc);
		if (n < 0)
			die("rdma_get_send_comp", errno);
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "send failed: %s\n", ibv_wc_status_str(wc.status));
			return 1;
		}
	}
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return 0;
}
