// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The check_ofed_verbs_support() sample of the AIX reference as a port to Linux. It is written to AIX's rules; AIX's headers and
 * libofedaix implement these rules. The reference does not declare `event`, and does not destroy its objects.
 */
#include <rdma/rdma_cm.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define RESOLVE_TIMEOUT_MS 2000

/* 0: an RNIC leads to the address. Else an error; below -1 it is -errno, as in AIX. */
static int check_ofed_verbs_support(struct sockaddr *address)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int result;

	channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	result = rdma_create_id(channel, &id, NULL, RDMA_PS_TCP);
	if (result)
		goto destroy_channel;
	result = rdma_resolve_addr(id, NULL, address, RESOLVE_TIMEOUT_MS);
	if (result)
		goto destroy_id;
	result = rdma_get_cm_event(channel, &event);
	if (result)
		goto destroy_id;
	result = event->status;
	rdma_ack_cm_event(event);
	/* On Linux an address without an RNIC may resolve too, but without a device. */
	if (!result && !id->verbs)
		result = -1;
destroy_id:
	rdma_destroy_id(id);
destroy_channel:
	rdma_destroy_event_channel(channel);
	return result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int result;

	if (argc != 2 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: %s ADDRESS   (IPv4)\n", argv[0]);
		return 2;
	}
	result = check_ofed_verbs_support((struct sockaddr *)&address);
	if (result < -1)
		printf("%s: no: %s\n", argv[1], strerror(-result));
	else
		printf("%s: %s\n", argv[1], result ? "no" : "yes");
	return result ? 1 : 0;
}
