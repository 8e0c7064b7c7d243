// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Asynchronous events, non-blocking: reports events of a device and its ports, while the program does other work.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	if (!list)
		die("ibv_get_device_list", errno);
	for (i = 0; list[i] && !context; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		context = ibv_open_device(list[i]);
		if (!context)
			die(name, errno);
	}
	/* An opened device stays open without the list. */
	ibv_free_device_list(list);
	if (!context)
		die(name, ENODEV);
	return context;
}

/* Prints one event; false if there is none. */
static bool take_event(struct ibv_context *context)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(context, &event)) {
		if (errno != EAGAIN)
			die("ibv_get_async_event", errno);
		return false;
	}
	switch (event.event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		printf("%s: port %d\n", ibv_event_type_str(event.event_type), event.element.port_num);
		break;
	default:
		printf("%s\n", ibv_event_type_str(event.event_type));
	}
	fflush(stdout);
	/* Destroying the object of an event waits until the event is acknowledged. */
	ibv_ack_async_event(&event);
	return true;
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	int flags, count, seen = 0;

	if (argc != 3 || (count = atoi(argv[2])) < 1) {
		fprintf(stderr, "usage: %s DEVICE COUNT   (ends after COUNT events)\n", argv[0]);
		return 2;
	}
	context = open_device(argv[1]);
	flags = fcntl(context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK))
		die("fcntl", errno);
	printf("watching %s\n", argv[1]);
	fflush(stdout);
	while (seen < count) {
		struct pollfd watched = { .fd = context->async_fd, .events = POLLIN };
		int n = poll(&watched, 1, 100);

		if (n < 0)
			die("poll", errno);
		/* Between the events a program does its other work here. */
		if (n > 0 && take_event(context))
			seen++;
	}
	ibv_close_device(context);
	return 0;
}
