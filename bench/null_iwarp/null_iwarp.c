// SPDX-License-Identifier: GPL-2.0
/*
 * An iWARP device without hardware and without a wire, on a net device: its connections have both
 * ends here, and it answers at once. So a connection on it has the cost of the connection manager,
 * of librdmacm, of the dispatcher and of ib_core.
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
 * The device reports the driver number of qib with version 1 of its ABI. Debian's library for
 * that one passes all commands to the kernel and maps no memory. It cannot post work requests.
 */
#include <linux/inet.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

static char *netdev = "bench0";
module_param(netdev, charp, 0444);
MODULE_PARM_DESC(netdev, "the net device that the device belongs to");

struct null_conn;

/* ib_core allocates these; each begins with its own part. */
struct null_device {
	struct ib_device base;
	struct net_device *ndev;
	struct xarray qps;
	struct xarray listeners;	/* by port */
};

struct null_context {
	struct ib_ucontext base;
};

struct null_pd {
	struct ib_pd base;
};

struct null_cq {
	struct ib_cq base;
};

struct null_qp {
	struct ib_qp base;
	struct kref ref;
	struct completion released;
	struct null_conn *conn;		/* null_lock */
};

/* One end. Its iw_cm_id and QP have a reference from connect or accept to the last upcall. */
struct null_end {
	struct iw_cm_id *iw;
	struct null_qp *qp;
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

static struct null_device *null_device;

static struct null_qp *to_null_qp(struct ib_qp *qp)
{
	return container_of(qp, struct null_qp, base);
}

/* --- references ----------------------------------------------------------- */

static void null_qp_released(struct kref *ref)
{
	complete(&container_of(ref, struct null_qp, ref)->released);
}

static void null_qp_put(struct null_qp *qp)
{
	kref_put(&qp->ref, null_qp_released);
}

static struct null_qp *null_qp_get(u32 number)
{
	struct null_qp *qp;

	xa_lock(&null_device->qps);
	qp = xa_load(&null_device->qps, number);
	if (qp && !kref_get_unless_zero(&qp->ref))
		qp = NULL;
	xa_unlock(&null_device->qps);
	return qp;
}

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
	null_qp_put(end.qp);
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
static void null_close(struct null_qp *qp)
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
	end->qp = null_qp_get(qpn);
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

	xa_lock(&null_device->listeners);
	listener = xa_load(&null_device->listeners, ntohs(to->sin_port));
	if (listener)
		listener->add_ref(listener);
	xa_unlock(&null_device->listeners);
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
	ret = xa_insert(&null_device->listeners, ntohs(at->sin_port), iw, GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -EADDRINUSE : ret;
	iw->add_ref(iw);
	return 0;
}

static int null_destroy_listen(struct iw_cm_id *iw)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)&iw->m_local_addr;

	xa_erase(&null_device->listeners, ntohs(at->sin_port));
	iw->rem_ref(iw);
	return 0;
}

static void null_iw_add_ref(struct ib_qp *qp)
{
	kref_get(&to_null_qp(qp)->ref);
}

static void null_iw_rem_ref(struct ib_qp *qp)
{
	null_qp_put(to_null_qp(qp));
}

/* As other providers' it takes no reference. */
static struct ib_qp *null_iw_get_qp(struct ib_device *dev, int number)
{
	struct null_qp *qp = xa_load(&null_device->qps, number);

	return qp ? &qp->base : NULL;
}

/* --- verbs ---------------------------------------------------------------- */

static int null_query_device(struct ib_device *dev, struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	attr->max_qp = 100000;
	attr->max_qp_wr = 1000;
	attr->max_cq = 1000;
	attr->max_cqe = 100000;
	attr->max_pd = 1000;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	attr->max_qp_rd_atom = 4;
	attr->max_qp_init_rd_atom = 4;
	return 0;
}

static int null_query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->gid_tbl_len = 1;
	return 0;
}

static int null_port_immutable(struct ib_device *dev, u32 port,
			       struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = 1;
	return 0;
}

/* The MAC address, by which a connection manager finds the device. */
static int null_query_gid(struct ib_device *dev, u32 port, int index, union ib_gid *gid)
{
	*gid = (union ib_gid){};
	memcpy(gid->raw, null_device->ndev->dev_addr, ETH_ALEN);
	return 0;
}

static int null_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void null_dealloc_ucontext(struct ib_ucontext *context)
{
}

static int null_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct ib_mr *null_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *null_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
				      struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int null_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static int null_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
{
	cq->cqe = attr->cqe;
	return 0;
}

static int null_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int null_poll_cq(struct ib_cq *cq, int most, struct ib_wc *wc)
{
	return 0;
}

static int null_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int null_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct null_qp *qp = to_null_qp(base);
	static u32 next;
	int ret;

	kref_init(&qp->ref);
	init_completion(&qp->released);
	/* Numbers are not reused at once, so that resource tracking has an entry for each QP. */
	ret = xa_alloc_cyclic(&null_device->qps, &base->qp_num, qp, XA_LIMIT(1, 0xffffff), &next,
			      GFP_KERNEL);
	return ret < 0 ? ret : 0;
}

static int null_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	if (mask & IB_QP_STATE && (attr->qp_state == IB_QPS_SQD || attr->qp_state == IB_QPS_ERR))
		null_close(to_null_qp(qp));
	return 0;
}

static int null_destroy_qp(struct ib_qp *base, struct ib_udata *udata)
{
	struct null_qp *qp = to_null_qp(base);

	xa_erase(&null_device->qps, base->qp_num);
	null_close(qp);
	null_qp_put(qp);
	wait_for_completion(&qp->released);
	return 0;
}

static int null_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	*bad = wr;
	return -EOPNOTSUPP;
}

static int null_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	*bad = wr;
	return -EOPNOTSUPP;
}

static const struct ib_device_ops null_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_QIB,
	.uverbs_abi_ver = 1,
	.query_device = null_query_device,
	.query_port = null_query_port,
	.query_gid = null_query_gid,
	.get_port_immutable = null_port_immutable,
	.alloc_ucontext = null_alloc_ucontext,
	.dealloc_ucontext = null_dealloc_ucontext,
	.alloc_pd = null_alloc_pd,
	.dealloc_pd = null_dealloc_pd,
	.get_dma_mr = null_get_dma_mr,
	.reg_user_mr = null_reg_user_mr,
	.dereg_mr = null_dereg_mr,
	.create_cq = null_create_cq,
	.destroy_cq = null_destroy_cq,
	.poll_cq = null_poll_cq,
	.req_notify_cq = null_req_notify_cq,
	.create_qp = null_create_qp,
	.modify_qp = null_modify_qp,
	.destroy_qp = null_destroy_qp,
	.post_send = null_post_send,
	.post_recv = null_post_recv,
	.iw_connect = null_connect,
	.iw_accept = null_accept,
	.iw_reject = null_reject,
	.iw_create_listen = null_create_listen,
	.iw_destroy_listen = null_destroy_listen,
	.iw_add_ref = null_iw_add_ref,
	.iw_rem_ref = null_iw_rem_ref,
	.iw_get_qp = null_iw_get_qp,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, null_context, base),
	INIT_RDMA_OBJ_SIZE(ib_pd, null_pd, base),
	INIT_RDMA_OBJ_SIZE(ib_cq, null_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, null_qp, base),
};

/* --- the module ----------------------------------------------------------- */

static int null_register(void)
{
	struct ib_device *dev = &null_device->base;
	int err;

	dev->node_type = RDMA_NODE_RNIC;
	dev->phys_port_cnt = 1;
	dev->num_comp_vectors = 1;
	dev->node_guid = cpu_to_be64(1);	/* librdmacm has no device without one */
	strscpy(dev->iw_ifname, netdev, sizeof(dev->iw_ifname));
	ib_set_device_ops(dev, &null_ops);
	err = ib_device_set_netdev(dev, null_device->ndev, 1);
	return err ? err : ib_register_device(dev, "null%d", NULL);
}

static int __init null_init(void)
{
	struct net_device *ndev;
	int err;

	null_device = ib_alloc_device(null_device, base);
	if (!null_device)
		return -ENOMEM;
	xa_init_flags(&null_device->qps, XA_FLAGS_ALLOC1);
	xa_init(&null_device->listeners);
	ndev = dev_get_by_name(&init_net, netdev);
	null_device->ndev = ndev;
	err = ndev ? null_register() : -ENODEV;
	if (err) {
		dev_put(ndev);
		ib_dealloc_device(&null_device->base);
	}
	return err;
}

static void __exit null_exit(void)
{
	struct net_device *ndev = null_device->ndev;

	ib_unregister_device(&null_device->base);
	dev_put(ndev);
	ib_dealloc_device(&null_device->base);
}

module_init(null_init);
module_exit(null_exit);

MODULE_DESCRIPTION("iWARP device that answers at once, for bench-cm");
MODULE_LICENSE("GPL");
