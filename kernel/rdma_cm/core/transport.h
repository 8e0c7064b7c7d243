/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A transport: what a device does for listeners and connections, by its kind.
 *
 * The calls of consumers, the state table, the queue of events and the ports are the same for all
 * transports. A transport acts when the state has changed (actions.c, conn.c), and posts what the
 * device or the peer does as an event (event.c). The table has the states in which it may post one:
 *
 *  - After a connect, one of REPLY_OK, RESPONSE, REPLY_FAILED and CLOSE follows; after an
 *    accept, ESTABLISHED, REPLY_FAILED or CLOSE. Each may come inside the call. After an accept for
 *    datagrams nothing follows: the transport applies ACCEPTED itself.
 *  - A connection that was established ends with CLOSE or REPLY_FAILED. TIMEWAIT_EXIT may follow.
 *
 * All functions may sleep, unless stated otherwise. A function that is marked as optional may be
 * NULL.
 */
#ifndef T3_RDMA_CM_TRANSPORT_H
#define T3_RDMA_CM_TRANSPORT_H

#include <linux/in6.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "cm_fsm.h"

struct cm_dev;
struct cm_group;
struct cm_id;
struct cm_listener;
struct net;
struct net_device;
struct rdma_cm_event;
struct rdma_conn_param;
struct sockaddr;

/* Addresses of a wildcard listener on one device. */
#define CM_MAX_ADDRS	1024
/* Net devices of all namespaces that are looked at, to find who else has these addresses. */
#define CM_MAX_VISITS	4096

struct cm_addrs {
	unsigned int n;
	unsigned int visits;		/* that are left to @addr_use, which others can make long */
	struct sockaddr_in6 at[CM_MAX_ADDRS];
};

/* Who has an address, beside the namespace of an id. */
enum cm_addr_use {
	CM_ADDR_FREE,
	CM_ADDR_SHARED,		/* another namespace: nothing begins, and what has begun stays */
	CM_ADDR_TAKEN,		/* the namespace of the device: a listener ends, too */
};

/**
 * struct cm_transport - functions of a transport
 * @tcp: the ports of its devices are those of the host's TCP, so it is for ids of RDMA_PS_TCP and
 *	IB_QPT_RC only
 * @close_is_locked: a disconnect calls @close with handler_mutex held, as workers do
 * @serves: whether the transport serves a device
 * @serves_port: whether it serves a port of such a device
 * @port_is_on: whether such a port belongs to a net device with an address; does not sleep
 * @is_in_net: whether a net device of a device is in a namespace; does not sleep; optional, if the
 *	device serves each namespace that has a net device with one of its GIDs
 * @attach: an id has got its device and port, on a net device; optional
 * @detach: undoes that, and frees what the transport has for the id; in any context; optional
 * @cancel_waits: the device is being removed: no call for it waits for another process from now on;
 *	optional
 * @release: an id is destroyed: when this returns nothing is posted any more; optional
 * @resolve_route: finds the route of an id; optional
 * @listen_addrs: the addresses on which an id listens on a device; optional, if that is the address
 *	of the id
 * @addr_use: who else has such an address; optional, if that does not matter. Subtracts the net
 *	devices that it has visited from @visits, and visits no more than these
 * @listen: begins to listen on the device of a listener; a request may come inside the call
 * @unlisten: ends that; requests that come later are ignored
 * @get_qp: takes the reference of a connection on the QP with a number, if the transport needs one
 * @put_qp: puts it, if the id holds one; does not sleep
 * @init_qp_attr: the attributes that move a QP to the state in @attr
 * @connect: connects. 0: an event follows. Otherwise none does
 * @accept: accepts the request of an id. 0: an event follows. Otherwise none does
 * @establish: completes a connection after RESPONSE; optional
 * @reject: rejects the request of an id, or a reply after RESPONSE if there is @establish
 * @close: ends a connection, gracefully or abruptly. CLOSE follows if there was one
 * @cancel: ends a pending connect or accept early, if the device can; its event still follows;
 *	optional, if @release does this
 * @notify: the consumer reports an event of the QP; optional
 * @join: joins a multicast group for an id; optional
 * @leave: undoes that; as @join
 * @report: fills in the parameters of an event for the consumer
 */
struct cm_transport {
	bool tcp;
	bool close_is_locked;
	bool (*serves)(struct ib_device *device);
	bool (*serves_port)(struct ib_device *device, u32 port);
	bool (*port_is_on)(struct ib_device *device, u32 port, struct net_device *ndev,
			   const struct sockaddr *addr);
	bool (*is_in_net)(struct ib_device *device, struct net *net);
	int (*attach)(struct cm_id *id, struct net_device *ndev);
	void (*detach)(struct cm_id *id);
	void (*cancel_waits)(struct cm_dev *dev);
	void (*release)(struct cm_id *id);
	int (*resolve_route)(struct cm_id *id);
	void (*listen_addrs)(struct cm_id *id, struct ib_device *device, struct cm_addrs *addrs);
	enum cm_addr_use (*addr_use)(struct cm_id *id, struct ib_device *device,
				     const struct sockaddr_in6 *addr, unsigned int *visits);
	int (*listen)(struct cm_listener *l);
	void (*unlisten)(struct cm_listener *l);
	int (*get_qp)(struct cm_id *id, u32 qpn);
	void (*put_qp)(struct cm_id *id);
	int (*init_qp_attr)(struct cm_id *id, struct ib_qp_attr *attr, int *mask);
	int (*connect)(struct cm_id *id, const struct rdma_conn_param *param);
	int (*accept)(struct cm_id *id, const struct rdma_conn_param *param);
	int (*establish)(struct cm_id *id);
	int (*reject)(struct cm_id *id, const void *data, u8 len, u8 reason);
	void (*close)(struct cm_id *id, bool abrupt);
	void (*cancel)(struct cm_id *id);
	int (*notify)(struct cm_id *id, enum ib_event_type event);
	int (*join)(struct cm_id *id, struct cm_group *group);
	void (*leave)(struct cm_id *id, struct cm_group *group);
	void (*report)(struct cm_id *id, enum cm_event event, struct rdma_cm_event *report);
};

extern const struct cm_transport cm_iw_transport, cm_roce_transport;

#endif
