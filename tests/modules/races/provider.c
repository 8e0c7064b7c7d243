// SPDX-License-Identifier: GPL-2.0
/*
 * Connections of the device without hardware. It observes the rules for a provider: it holds a
 * reference to the iw_cm_id from a successful connect or accept to the last upcall, makes one
 * upcall at a time per connection, and none for a request after its listener is destroyed. The
 * test decides what the peer does.
 */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/sock.h>

#include "races.h"

enum races_conn_state { CONNECTING, ACCEPTING, OPEN, ENDED };

struct races_conn {
	struct kref ref;
	struct mutex upcall_mutex;		/* held during upcalls */
	enum races_conn_state state;	/* under upcall_mutex */
	struct iw_cm_id *iw;
	struct fake_iw_qp *qp;
};

struct races_listener {
	struct list_head node;
	struct iw_cm_id *iw;
	struct fake_iw_device *dev;
	u16 port;
	unsigned int upcalls;	/* under races_conns_lock */
};

static DEFINE_SPINLOCK(races_conns_lock);
static LIST_HEAD(listeners);
static DECLARE_WAIT_QUEUE_HEAD(upcalls_done);

static struct sockaddr_storage races_address(u32 addr, u16 port)
{
	struct sockaddr_storage storage = {};
	struct sockaddr_in *sin = (struct sockaddr_in *)&storage;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(addr);
	sin->sin_port = htons(port);
	return storage;
}

enum { HERE = 0x0a4d0001, THERE = 0x0a4d0002 };	/* 10.77.0.1, 10.77.0.2 */

/* --- connections --------------------------------------------------------- */

static void races_conn_free(struct kref *ref)
{
	struct races_conn *conn = container_of(ref, struct races_conn, ref);

	atomic_dec(&races_objects[T3_RACES_CONNECTION]);
	kfree(conn);
}

static struct races_conn *races_conn_get(struct fake_iw_qp *qp)
{
	struct races_conn *conn;

	spin_lock(&races_conns_lock);
	conn = qp->conn;
	if (conn)
		kref_get(&conn->ref);
	spin_unlock(&races_conns_lock);
	return conn;
}

static int races_conn_make(struct iw_cm_id *iw, u32 qpn, enum races_conn_state state)
{
	struct fake_iw_qp *qp = fake_qp_find(to_fake_iw(iw->device), qpn);
	struct races_conn *conn;
	int ret = -ENOMEM;

	if (!qp)
		return -EINVAL;
	conn = kzalloc(sizeof(*conn), GFP_KERNEL);
	if (!conn)
		goto put;
	kref_init(&conn->ref);
	mutex_init(&conn->upcall_mutex);
	conn->state = state;
	conn->iw = iw;
	conn->qp = qp;
	atomic_inc(&races_objects[T3_RACES_CONNECTION]);
	spin_lock(&races_conns_lock);
	ret = qp->conn || completion_done(&qp->released) ? -EINVAL : 0;
	if (!ret) {
		iw->add_ref(iw);
		qp->conn = conn;
	}
	spin_unlock(&races_conns_lock);
	if (!ret)
		return 0;
	kref_put(&conn->ref, races_conn_free);
put:
	fake_qp_put(qp);
	return ret;
}

static int races_upcall(struct races_conn *conn, enum iw_cm_event_type type, int status)
{
	char data[] = "private";
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.local_addr = races_address(HERE, 4000),
		.remote_addr = races_address(THERE, 7000),
		.private_data = data,
		.private_data_len = sizeof(data),
		.ird = 2,
		.ord = 3,
	};

	return conn->iw->event_handler(conn->iw, &event);
}

/* Makes the last upcall. Needs upcall_mutex. */
static void races_conn_end(struct races_conn *conn, int status)
{
	enum races_conn_state was = conn->state;
	struct iw_cm_id *iw = conn->iw;

	lockdep_assert_held(&conn->upcall_mutex);
	if (was == ENDED)
		return;
	conn->state = ENDED;
	spin_lock(&races_conns_lock);
	conn->qp->conn = NULL;
	spin_unlock(&races_conns_lock);
	if (was == CONNECTING)
		races_upcall(conn, IW_CM_EVENT_CONNECT_REPLY, status ?: -ECONNRESET);
	else
		races_upcall(conn, IW_CM_EVENT_CLOSE, status);
	iw->rem_ref(iw);
	fake_qp_put(conn->qp);
	kref_put(&conn->ref, races_conn_free);
}

/* The QP goes to the error state or is destroyed. */
void fake_qp_disconnect(struct fake_iw_qp *qp)
{
	struct races_conn *conn = races_conn_get(qp);

	if (!conn)
		return;
	mutex_lock(&conn->upcall_mutex);
	races_conn_end(conn, -ECONNRESET);
	mutex_unlock(&conn->upcall_mutex);
	kref_put(&conn->ref, races_conn_free);
}

static int races_conn_apply(struct races_conn *conn, u32 type, int status)
{
	switch (type) {
	case T3_RACES_EV_REPLY:
		if (conn->state != CONNECTING)
			return -EINVAL;
		if (status) {
			races_conn_end(conn, status);
			return 0;
		}
		conn->state = OPEN;
		return races_upcall(conn, IW_CM_EVENT_CONNECT_REPLY, 0);
	case T3_RACES_EV_ESTABLISHED:
		if (conn->state != ACCEPTING)
			return -EINVAL;
		conn->state = OPEN;
		return races_upcall(conn, IW_CM_EVENT_ESTABLISHED, 0);
	case T3_RACES_EV_PEER_CLOSE:
		if (conn->state != OPEN)
			return -EINVAL;
		return races_upcall(conn, IW_CM_EVENT_DISCONNECT, 0);
	case T3_RACES_EV_CLOSE:
		races_conn_end(conn, status);
		return 0;
	case T3_RACES_EV_TIMEOUT:
		if (conn->state != CONNECTING && conn->state != ACCEPTING)
			return -EINVAL;
		races_conn_end(conn, -ETIMEDOUT);
		return 0;
	default:
		return -EINVAL;
	}
}

int races_conn_event(struct fake_iw_qp *qp, const struct t3_races_event *event)
{
	struct races_conn *conn = races_conn_get(qp);
	int ret;

	if (!conn)
		return -ENOTCONN;
	mutex_lock(&conn->upcall_mutex);
	ret = races_conn_apply(conn, event->type, event->status);
	mutex_unlock(&conn->upcall_mutex);
	kref_put(&conn->ref, races_conn_free);
	return ret;
}

static int races_iw_connect(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	return races_conn_make(iw, param->qpn, CONNECTING);
}

/* A connect request, for which a real provider has an endpoint. */
struct races_request {
	u16 port;
};

static void races_request_end(struct iw_cm_id *iw)
{
	struct races_request *request = iw->provider_data;

	iw->provider_data = NULL;
	kfree(request);
	atomic_dec(&races_objects[T3_RACES_REQUEST]);
}

static int races_iw_accept(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	int ret = races_conn_make(iw, param->qpn, ACCEPTING);

	/* An accept consumes the request, also if it fails. */
	races_request_end(iw);
	return ret;
}

static int races_iw_reject(struct iw_cm_id *iw, const void *data, u8 len)
{
	races_request_end(iw);
	return 0;
}

/* --- listeners ----------------------------------------------------------- */

static int races_iw_create_listen(struct iw_cm_id *iw, int backlog)
{
	struct races_listener *l = kzalloc(sizeof(*l), GFP_KERNEL);

	if (!l)
		return -ENOMEM;
	l->iw = iw;
	l->dev = to_fake_iw(iw->device);
	l->port = ntohs(((struct sockaddr_in *)&iw->m_local_addr)->sin_port);
	iw->add_ref(iw);
	iw->provider_data = l;
	atomic_inc(&races_objects[T3_RACES_LISTENER]);
	spin_lock(&races_conns_lock);
	list_add_tail(&l->node, &listeners);
	spin_unlock(&races_conns_lock);
	return 0;
}

static bool races_no_upcalls(struct races_listener *l)
{
	bool none;

	spin_lock(&races_conns_lock);
	none = !l->upcalls;
	spin_unlock(&races_conns_lock);
	return none;
}

static int races_iw_destroy_listen(struct iw_cm_id *iw)
{
	struct races_listener *l = iw->provider_data;

	spin_lock(&races_conns_lock);
	list_del(&l->node);
	spin_unlock(&races_conns_lock);
	wait_event(upcalls_done, races_no_upcalls(l));
	kfree(l);
	atomic_dec(&races_objects[T3_RACES_LISTENER]);
	iw->rem_ref(iw);
	return 0;
}

static struct races_listener *races_listener_begin(struct fake_iw_device *dev, u16 port)
{
	struct races_listener *l;

	spin_lock(&races_conns_lock);
	list_for_each_entry(l, &listeners, node) {
		if (l->dev != dev || l->port != port)
			continue;
		l->upcalls++;
		spin_unlock(&races_conns_lock);
		return l;
	}
	spin_unlock(&races_conns_lock);
	return NULL;
}

static void races_listener_end(struct races_listener *l)
{
	spin_lock(&races_conns_lock);
	l->upcalls--;
	/* Under the lock: the listener may be freed as soon as the count is 0. */
	wake_up_all(&upcalls_done);
	spin_unlock(&races_conns_lock);
}

int races_request(struct fake_iw_device *dev, u16 port)
{
	char data[] = "hello";
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = races_address(HERE, port),
		.remote_addr = races_address(THERE, 4000),
		.private_data = data,
		.private_data_len = sizeof(data),
		.ird = 2,
		.ord = 3,
	};
	struct races_request *request = kzalloc(sizeof(*request), GFP_KERNEL);
	struct races_listener *l;
	int ret;

	if (!request)
		return -ENOMEM;
	l = races_listener_begin(dev, port);
	if (!l) {
		kfree(request);
		return -ECONNREFUSED;
	}
	request->port = port;
	event.provider_data = request;
	atomic_inc(&races_objects[T3_RACES_REQUEST]);
	ret = l->iw->event_handler(l->iw, &event);
	races_listener_end(l);
	if (ret) {
		atomic_dec(&races_objects[T3_RACES_REQUEST]);
		kfree(request);
	}
	return ret;
}

const struct ib_device_ops races_conn_ops = {
	.iw_connect = races_iw_connect,
	.iw_accept = races_iw_accept,
	.iw_reject = races_iw_reject,
	.iw_create_listen = races_iw_create_listen,
	.iw_destroy_listen = races_iw_destroy_listen,
};
