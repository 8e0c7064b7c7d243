// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <endian.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT "7475"
#define SIZE 256

/* What the server sends to the client: where it may write, and the key for it. In network byte order. */
struct target {
	uint64_t address;
	uint32_t rkey;
} __attribute__((packed));

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC, /* reliable, connected: the only kind of iWARP */
		.sq_sig_all = 1,       /* each request makes a completion */
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

/* A completion reports that a request is done, and its status. */
static void check(int found, const struct ibv_wc *wc, const char *what)
{
	if (found < 0)
		die(what);
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static void serve(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *any;
	struct ibv_qp_init_attr attr = queues();
	static char buffer[SIZE];
	struct rdma_cm_id *listener, *id;
	struct rdma_conn_param answer = { 0 };
	struct target target;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_getaddrinfo(NULL, PORT, &hints, &any) || rdma_create_ep(&listener, any, NULL, &attr))
		die("rdma_create_ep");
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		die("rdma_get_request");

	/* From now on a peer that has the key may write there. */
	mr = rdma_reg_write(id, buffer, sizeof(buffer));
	if (!mr)
		die("rdma_reg_write");
	/* A receive for the message that reports the write. It carries no data, so it needs no memory. */
	if (rdma_post_recvv(id, NULL, NULL, 0))
		die("rdma_post_recvv");

	target = (struct target){ .address = htobe64((uintptr_t)buffer), .rkey = htobe32(mr->rkey) };
	answer.private_data = &target;
	answer.private_data_len = sizeof(target);
	if (rdma_accept(id, &answer))
		die("rdma_accept");

	check(rdma_get_recv_comp(id, &wc), &wc, "receive");
	printf("the client wrote: %s\n", buffer);

	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(any);
}

static void write_to(const char *host, const char *text)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *there;
	struct ibv_qp_init_attr attr = queues();
	char buffer[SIZE] = "";
	struct rdma_cm_id *id;
	struct target target;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	strncpy(buffer, text, SIZE - 1);
	if (rdma_getaddrinfo(host, PORT, &hints, &there) || rdma_create_ep(&id, there, NULL, &attr))
		die("rdma_create_ep");
	if (rdma_connect(id, NULL))
		die("rdma_connect");
	if (id->event->param.conn.private_data_len < sizeof(target)) {
		fprintf(stderr, "the server did not send an address\n");
		exit(1);
	}
	memcpy(&target, id->event->param.conn.private_data, sizeof(target));

	/* The card reads from this memory, so it must be registered too. */
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	if (!mr)
		die("rdma_reg_msgs");
	/* The first RDMA write. The server's processor takes no part in it. */
	if (rdma_post_write(id, NULL, buffer, strlen(buffer) + 1, mr, 0, be64toh(target.address), be32toh(target.rkey)))
		die("rdma_post_write");
	/* An empty message notifies the server. It cannot arrive before the data. */
	if (rdma_post_sendv(id, NULL, NULL, 0, 0))
		die("rdma_post_sendv");
	check(rdma_get_send_comp(id, &wc), &wc, "RDMA write");
	check(rdma_get_send_comp(id, &wc), &wc, "send");
	printf("written to 0x%llx with key 0x%x\n", (unsigned long long)be64toh(target.address), be32toh(target.rkey));

	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(there);
}

int main(int argc, char **argv)
{
	if (argc == 1)
		serve();
	else if (argc == 3)
		write_to(argv[1], argv[2]);
	else {
		fprintf(stderr, "usage: %s            waits for a write\n       %s HOST TEXT  writes TEXT there\n", argv[0], argv[0]);
		return 2;
	}
	return 0;
}
