// SPDX-License-Identifier: GPL-2.0
/*
 * The device of fake_ib.h for the benchmarks: a command on it has the cost of the dispatcher and of
 * ib_core. It reports the driver number of rxe, so that t3_uverbs serves it, as ib_uverbs does.
 *
 * On a net device it is one of iWARP, without a wire: its connections have both ends here, and it
 * answers at once. So a connection on it has the cost of the connection manager, of librdmacm, of
 * the dispatcher and of ib_core.
 *
 *  - A connect makes the upcall of the connect request inside the call.
 *  - An accept makes the upcalls of both ends, ESTABLISHED and CONNECT_REPLY; a reject that of the
 *    active end.
 *  - A QP that leaves RTS closes the connection: the peer gets DISCONNECT and CLOSE, the QP's own
 *    end gets CLOSE.
 *
 * As with a card, a QP exists until the connection has put its reference, and its destroy waits for
 * that. The ports of the device are not those of the host's TCP, and it does not use iwpmd.
 *
 * With iWARP it reports the driver number of qib with version 1 of its ABI. Debian's library for
 * that one passes all commands to the kernel and maps no memory.
 */
#include <linux/inet.h>
#include <linux/spinlock.h>
#include <net/net_namespace.h>

#include "../../tests/fakes/fake_ib.h"
#include "../../tests/fakes/fake_iw.h"

static char *netdev;
module_param(netdev, charp, 0444);
MODULE_PARM_DESC(netdev, "the net device that the device belongs to; none: it is not one of iWARP");

/* One end. Its iw_cm_id and QP have a reference from connect or accept to the last upcall. */
struct null_end {
	struct iw_cm_id *iw;
	struct fake_iw_qp *qp;
};

enum null_state { NULL_ASKED, NULL_OPEN, NULL_ENDED };

/* References: of the QP of each end, and of the request until it is accepted or rejected. */
struct null_conn {
	struct kref ref;
	enum null_state state;		/* null_lock, as the members below */
	struct null_end active, passive;
};

/* No upcall is made under this lock. */
static DEFINE_SPINLOCK(null_lock);

static struct fake_iw_device *null_device;
static DEFINE_XARRAY(null_listeners);	/* by port */

static void null_conn_free(struct kref *ref)
{
	kfree(container_of(ref, struct null_conn, ref));
}

static void null_conn_put(struct null_conn *conn)
{
	kref_put(&conn->ref, null_conn_free);
}

/* --- connections ---------------------------------------------------------- */

static int null_upcall(struct iw_cm_id *iw, enum iw_cm_event_type type, int status,
		       const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.local_addr = iw->m_local_addr,
		.remote_addr = iw->m_remote_addr,
	};

	if (param) {
		event.private_data = (void *)param->private_data;
		event.private_data_len = param->private_data_len;
		event.ird = param->ird;
		event.ord = param->ord;
	}
	return iw->event_handler(iw, &event);
}

/* Under null_lock, before the last upcall: then the consumer may connect the QP again. */
static struct null_end null_end_detach(struct null_end *end)
{
	end->qp->conn = NULL;
	return *end;
}

/* After the last upcall of an end that was connected. */
static void null_end_put(struct null_end end)
{
	end.iw->rem_ref(end.iw);
	fake_qp_put(end.qp);
}

/* The request was rejected or refused, or an end has gone: the active end gets no connection. */
static void null_refuse(struct null_conn *conn, int status, const struct iw_cm_conn_param *param)
{
	struct null_end active = {};

	spin_lock(&null_lock);
	if (conn->state == NULL_ASKED) {
		conn->state = NULL_ENDED;
		active = null_end_detach(&conn->active);
	}
	spin_unlock(&null_lock);
	if (!active.iw)
		return;
	null_upcall(active.iw, IW_CM_EVENT_CONNECT_REPLY, status, param);
	null_end_put(active);
	null_conn_put(conn);
}

/* The end with @qp leaves RTS. Both ends get their last upcall, once. */
void fake_qp_disconnect(struct fake_iw_qp *qp)
{
	struct null_end self, peer, active, passive;
	enum null_state was;
	struct null_conn *conn;

	spin_lock(&null_lock);
	conn = qp->conn;
	if (!conn) {
		spin_unlock(&null_lock);
		return;
	}
	kref_get(&conn->ref);
	was = conn->state;
	if (was == NULL_OPEN) {
		conn->state = NULL_ENDED;
		active = null_end_detach(&conn->active);
		passive = null_end_detach(&conn->passive);
		self = active.qp == qp ? active : passive;
		peer = active.qp == qp ? passive : active;
	}
	spin_unlock(&null_lock);
	if (was == NULL_OPEN) {
		null_upcall(peer.iw, IW_CM_EVENT_DISCONNECT, 0, NULL);
		null_upcall(peer.iw, IW_CM_EVENT_CLOSE, 0, NULL);
		null_end_put(peer);
		null_upcall(self.iw, IW_CM_EVENT_CLOSE, 0, NULL);
		null_end_put(self);
		null_conn_put(conn);
		null_conn_put(conn);
	} else if (was == NULL_ASKED) {
		null_refuse(conn, -ECONNRESET, NULL);
	}
	null_conn_put(conn);
}

/* Takes the references of an end. */
static int null_end_get(struct null_end *end, struct iw_cm_id *iw, u32 qpn)
{
	end->qp = fake_qp_find(null_device, qpn);
	if (!end->qp)
		return -EINVAL;
	iw->add_ref(iw);
	end->iw = iw;
	return 0;
}

static struct iw_cm_id *null_listener_get(const struct iw_cm_id *iw)
{
	const struct sockaddr_in *to = (const struct sockaddr_in *)&iw->m_remote_addr;
	struct iw_cm_id *listener;

	xa_lock(&null_listeners);
	listener = xa_load(&null_listeners, ntohs(to->sin_port));
	if (listener)
		listener->add_ref(listener);
	xa_unlock(&null_listeners);
	return listener;
}

static int null_connect(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	struct iw_cm_event request = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = iw->m_remote_addr,
		.remote_addr = iw->m_local_addr,
		.private_data = (void *)param->private_data,
		.private_data_len = param->private_data_len,
		.ird = param->ird,
		.ord = param->ord,
	};
	struct iw_cm_id *listener = null_listener_get(iw);
	struct null_conn *conn;
	int ret = -ENOMEM;

	if (!listener)
		return -ECONNREFUSED;
	conn = kzalloc(sizeof(*conn), GFP_KERNEL);
	if (!conn)
		goto put_listener;
	kref_init(&conn->ref);
	ret = null_end_get(&conn->active, iw, param->qpn);
	if (ret) {
		kfree(conn);
		goto put_listener;
	}
	kref_get(&conn->ref);
	spin_lock(&null_lock);
	conn->active.qp->conn = conn;
	spin_unlock(&null_lock);

	request.provider_data = conn;
	if (listener->event_handler(listener, &request)) {
		null_refuse(conn, -ECONNREFUSED, NULL);
		null_conn_put(conn);
	}
put_listener:
	listener->rem_ref(listener);
	return ret;
}

/* Also if it fails this consumes the request. */
static int null_accept(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	struct null_conn *conn = iw->provider_data;
	struct null_end passive = {};
	struct iw_cm_id *active = NULL;
	int ret;

	ret = null_end_get(&passive, iw, param->qpn);
	if (ret)
		goto refuse;
	spin_lock(&null_lock);
	if (conn->state == NULL_ASKED) {
		conn->state = NULL_OPEN;
		conn->passive = passive;
		passive.qp->conn = conn;
		kref_get(&conn->ref);
		active = conn->active.iw;
		active->add_ref(active);
	}
	spin_unlock(&null_lock);
	if (!active) {
		null_end_put(passive);
		ret = -ECONNRESET;
		goto refuse;
	}
	null_upcall(iw, IW_CM_EVENT_ESTABLISHED, 0, param);
	null_upcall(active, IW_CM_EVENT_CONNECT_REPLY, 0, param);
	active->rem_ref(active);
	null_conn_put(conn);
	return 0;

refuse:
	null_refuse(conn, -ECONNRESET, NULL);
	null_conn_put(conn);
	return ret;
}

static int null_reject(struct iw_cm_id *iw, const void *data, u8 len)
{
	struct iw_cm_conn_param param = { .private_data = data, .private_data_len = len };
	struct null_conn *conn = iw->provider_data;

	null_refuse(conn, -ECONNREFUSED, &param);
	null_conn_put(conn);
	return 0;
}

static int null_create_listen(struct iw_cm_id *iw, int backlog)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)&iw->m_local_addr;
	int ret;

	if (at->sin_family != AF_INET)
		return -EAFNOSUPPORT;
	ret = xa_insert(&null_listeners, ntohs(at->sin_port), iw, GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -EADDRINUSE : ret;
	iw->add_ref(iw);
	return 0;
}

static int null_destroy_listen(struct iw_cm_id *iw)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)&iw->m_local_addr;

	xa_erase(&null_listeners, ntohs(at->sin_port));
	iw->rem_ref(iw);
	return 0;
}

/* --- QPs and the module ----------------------------------------------------- */

static int null_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct fake_iw_qp *qp = to_fake_qp(base);
	static u32 next;
	int ret;

	fake_qp_init(qp);
	/* Numbers are not reused at once, so that resource tracking has an entry for each QP. */
	ret = xa_alloc_cyclic(&null_device->qps, &base->qp_num, qp, XA_LIMIT(1, 0xffffff), &next,
			      GFP_KERNEL);
	return ret < 0 ? ret : 0;
}

static int null_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	if (mask & IB_QP_STATE && (attr->qp_state == IB_QPS_SQD || attr->qp_state == IB_QPS_ERR))
		fake_qp_disconnect(to_fake_qp(qp));
	return 0;
}

static int null_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	fake_qp_destroy(to_fake_qp(qp));
	return 0;
}

static const struct ib_device_ops null_ops = {
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = 1,
};

static const struct ib_device_ops null_iw_ops = {
	.driver_id = RDMA_DRIVER_QIB,
	.uverbs_abi_ver = 1,
	.create_qp = null_create_qp,
	.modify_qp = null_modify_qp,
	.destroy_qp = null_destroy_qp,
	.iw_connect = null_connect,
	.iw_accept = null_accept,
	.iw_reject = null_reject,
	.iw_create_listen = null_create_listen,
	.iw_destroy_listen = null_destroy_listen,
};

static int null_register(void)
{
	int err = 0;

	ib_set_device_ops(&null_device->ib, netdev ? &null_iw_ops : &null_ops);
	if (netdev) {
		null_device->ndev = dev_get_by_name(&init_net, netdev);
		err = null_device->ndev ? fake_iw_init(null_device) : -ENODEV;
	}
	return err ?: fake_ib_register(&null_device->ib, "null%d");
}

static void null_free(void)
{
	dev_put(null_device->ndev);
	ib_dealloc_device(&null_device->ib);
}

static int __init null_init(void)
{
	int err;

	null_device = ib_alloc_device(fake_iw_device, ib);
	if (!null_device)
		return -ENOMEM;
	err = null_register();
	if (err)
		null_free();
	return err;
}

static void __exit null_exit(void)
{
	ib_unregister_device(&null_device->ib);
	null_free();
}

module_init(null_init);
module_exit(null_exit);

MODULE_DESCRIPTION("RDMA device without hardware, for bench-uverbs and bench-cm");
MODULE_LICENSE("GPL");
