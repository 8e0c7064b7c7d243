/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A transport: what a device does for listeners and connections, by its kind.
 *
 * The calls of consumers, the state table, the queue of events and the ports are the same for all
 * transports. A transport acts when the state has changed (id.c, conn.c), and posts what the device
 * or the peer does as an event (event.c). The table says in which state it may post which event:
 *
 *  - After a connect, one of REPLY_OK, REPLY_OK_OWN_QP, REPLY_FAILED and CLOSE follows; after an
 *    accept, ESTABLISHED or CLOSE. Each may come inside the call.
 *  - CLOSE is the last event of a connection that was established.
 *
 * Only functions that are marked may be called while nothing may sleep.
 */
#ifndef T3_RDMA_CM_TRANSPORT_H
#define T3_RDMA_CM_TRANSPORT_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct cm_id;
struct cm_listener;
struct rdma_conn_param;

/**
 * struct cm_transport - functions of a transport
 * @serves: whether the transport serves a device
 * @serves_port: whether it serves a port of such a device
 * @listen: begins to listen on the device of a listener; a request may come inside the call
 * @unlisten: ends that; requests that come later are ignored
 * @get_qp: takes the reference of a connection on the QP with a number, if the transport needs one
 * @put_qp: puts it, if the id holds one; does not sleep
 * @init_qp_attr: the attributes that move a QP to the state in @attr
 * @connect: connects. 0: an event follows. Otherwise none does
 * @accept: accepts the request of an id. 0: an event follows. Otherwise none does
 * @reject: rejects the request of an id
 * @close: ends a connection, gracefully or abruptly. CLOSE follows if there was one
 */
struct cm_transport {
	bool (*serves)(struct ib_device *device);
	bool (*serves_port)(struct ib_device *device, u32 port);
	int (*listen)(struct cm_listener *l);
	void (*unlisten)(struct cm_listener *l);
	int (*get_qp)(struct cm_id *id, u32 qpn);
	void (*put_qp)(struct cm_id *id);
	int (*init_qp_attr)(struct cm_id *id, struct ib_qp_attr *attr, int *mask);
	int (*connect)(struct cm_id *id, const struct rdma_conn_param *param);
	int (*accept)(struct cm_id *id, const struct rdma_conn_param *param);
	int (*reject)(struct cm_id *id, const void *data, u8 len);
	void (*close)(struct cm_id *id, bool abrupt);
};

extern const struct cm_transport cm_iw_transport;

#endif
