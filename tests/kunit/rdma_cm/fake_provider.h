/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All of t3_rdma_cm but its user device, on an iWARP device that the test plays: what the provider
 * says, in which context, and also inside our calls.
 *
 * The provider keeps its side of the contract: a reference on the iw_cm_id from a connect or an
 * accept that succeeded to its last word. It counts what it is told.
 */
#ifndef T3_FAKE_PROVIDER_H
#define T3_FAKE_PROVIDER_H

#include <kunit/test.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/module.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

/* Instead of t3_race_point.h: the test may let something else happen at a named point. */
#define T3_RACE_POINT_H
static void fake_point(const char *name);
#define T3_RACE_POINT(name)	fake_point(#name)

/* Instead of trace.h: no events of a test in tracefs. */
#define T3_RDMA_CM_TRACE_H
#include <t3_uverbs_file.h>

#include "compat_net.h"
#include "rdma_cm.h"

#define trace_cm_step(...)	do { } while (0)
#define trace_cm_refused(...)	do { } while (0)
#define trace_cm_upcall(...)	do { } while (0)
#define trace_cm_tell(...)	do { } while (0)

#define FAKE_QPN 7

enum fake_context { IN_PROCESS, IN_SOFTIRQ, IN_HARDIRQ, UNDER_LOCK };

/* What the provider says; also what it says inside one of our calls, before that returns. */
enum fake_word { SAYS_NOTHING, SAYS_REPLY, SAYS_ESTABLISHED, SAYS_PEER_CLOSE, SAYS_CLOSE };

/* There is a second device, older than the first and on the same interface. */
static bool fake_has_other;

static struct {
	struct ib_device device, other;
	struct ib_port_data port_data[2];
	struct ib_gid_attr gid_attr;
	struct ib_qp qp;
	struct cm_dev *cm_dev, *other_dev;
	/* The QP as an object of a process; whether resource tracking has it. */
	struct ib_uobject uobject;
	struct ib_uverbs_file ufile;
	bool untracked;
	int entry_refs;
	/* Its destroy has begun; has ended; the QP was used after that. */
	bool qp_dying, qp_gone, qp_used_when_gone;
	int qp_destroyed;		/* what the destroy answered */
	bool qp_missed;			/* connected or accepted, and not there: siw warns */
	/* What happens when a thread comes to a named point, once. */
	const char *at;
	void (*meanwhile)(void);
	/* cm_remove_one() waits; had users then; has returned; the device was used after. */
	bool removal_waits, removal_has_users, removed, used_when_removed;
	enum fake_context context;
	/* The provider's side of the connection, of a request, and of the listener. */
	struct iw_cm_id *conn, *ear, *other_ear;
	bool open;			/* there is a connection, so CLOSE is its last word */
	int fails;			/* what the next call answers */
	enum fake_word inside;		/* what the next call says before it returns */
	int inside_status;
	/* What it was told. */
	atomic_t qp_refs;
	unsigned int rejects, closes, aborts;
	/* What the devices answer to a listen; the other one is in another namespace. */
	int listen_fails, other_listen_fails;
	bool other_elsewhere;
	unsigned int warnings;
	/* Whom the last listen was charged to. */
	kuid_t listen_uid;
	struct mem_cgroup *listen_memcg;
	/* The provider takes ports in the host's TCP by sockets, as siw does. */
	bool has_sockets;
	struct socket *sock;
	/* The interface that a lookup finds has no device. */
	bool no_device;
	/* An address lookup. */
	bool known;			/* the next one has nothing to wait for */
	void (*found)(int status, struct sockaddr *src, struct rdma_dev_addr *addr, void *context);
	void *looking;
} fake;

static void fake_point(const char *name)
{
	if (!fake.at || strcmp(fake.at, name))
		return;
	fake.at = NULL;
	fake.meanwhile();
}

/* --- what it says --------------------------------------------------------- */

struct fake_upcall {
	struct iw_cm_id *to;
	struct iw_cm_event said;
	int ret;
	struct irq_work irq_work;
	struct tasklet_struct tasklet;
	struct completion done;
};

/* A lock of the provider's, which it also takes in softirqs. */
static DEFINE_SPINLOCK(fake_lock);

static void fake_upcall_now(struct fake_upcall *up)
{
	up->ret = up->to->event_handler(up->to, &up->said);
	complete(&up->done);
}

static void fake_upcall_softirq(struct tasklet_struct *tasklet)
{
	fake_upcall_now(container_of(tasklet, struct fake_upcall, tasklet));
}

static void fake_upcall_hardirq(struct irq_work *work)
{
	fake_upcall_now(container_of(work, struct fake_upcall, irq_work));
}

/* In the context that the test is about; returns when the upcall has. */
static int fake_call_up(struct iw_cm_id *to, const struct iw_cm_event *said)
{
	struct fake_upcall up = { .to = to, .said = *said };

	init_completion(&up.done);
	switch (fake.context) {
	case IN_PROCESS:
		/* Nothing may sleep, though it is a task. */
		non_block_start();
		fake_upcall_now(&up);
		non_block_end();
		break;
	case UNDER_LOCK:
		spin_lock(&fake_lock);
		fake_upcall_now(&up);
		spin_unlock(&fake_lock);
		break;
	case IN_SOFTIRQ:
		tasklet_setup(&up.tasklet, fake_upcall_softirq);
		tasklet_schedule(&up.tasklet);
		wait_for_completion(&up.done);
		tasklet_kill(&up.tasklet);
		break;
	case IN_HARDIRQ:
		init_irq_work(&up.irq_work, fake_upcall_hardirq);
		irq_work_queue(&up.irq_work);
		wait_for_completion(&up.done);
		irq_work_sync(&up.irq_work);
		break;
	}
	return up.ret;
}

static struct sockaddr_storage fake_address(u32 addr, u16 port)
{
	struct sockaddr_storage storage = {};
	struct sockaddr_in *sin = (struct sockaddr_in *)&storage;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(addr);
	sin->sin_port = htons(port);
	return storage;
}

enum { FAKE_HERE = 0x0a000001, FAKE_THERE = 0x0a000002 };

/* Says something about the connection; its last word gives the reference back. */
static int fake_say(enum fake_word word, int status)
{
	char data[] = "private";
	struct iw_cm_id *conn = fake.conn;
	struct iw_cm_event said = { .status = status };
	bool last = false;
	int ret;

	switch (word) {
	case SAYS_REPLY:
		said.event = IW_CM_EVENT_CONNECT_REPLY;
		said.local_addr = fake_address(FAKE_HERE, 4000);
		said.remote_addr = fake_address(FAKE_THERE, 7000);
		/* As siw has it: the length is what the peer announced, the data never came. */
		said.private_data = status == -ECONNABORTED ? (void *)4 : data;
		said.private_data_len = sizeof(data);
		said.ird = 2;
		said.ord = 3;
		fake.open = !status;
		last = status;
		break;
	case SAYS_ESTABLISHED:
		said.event = IW_CM_EVENT_ESTABLISHED;
		fake.open = true;
		break;
	case SAYS_PEER_CLOSE:
		said.event = IW_CM_EVENT_DISCONNECT;
		break;
	case SAYS_CLOSE:
		said.event = IW_CM_EVENT_CLOSE;
		last = true;
		break;
	default:
		return 0;
	}
	if (last) {
		fake.conn = NULL;
		fake.open = false;
	}
	ret = fake_call_up(conn, &said);
	if (last)
		conn->rem_ref(conn);
	return ret;
}

/* A connect request; what the listener says to it. */
static int fake_request(void)
{
	char data[] = "hello";
	struct iw_cm_event said = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = fake_address(FAKE_HERE, 7000),
		.remote_addr = fake_address(FAKE_THERE, 4000),
		.private_data = data,
		.private_data_len = sizeof(data),
		.ird = 2,
		.ord = 3,
		.provider_data = &fake,
	};

	return fake_call_up(fake.ear, &said);
}

/* --- its calls ------------------------------------------------------------ */

static struct ib_qp *fake_get_qp(struct ib_device *device, int qpn)
{
	return qpn == FAKE_QPN && !fake.qp_gone ? &fake.qp : NULL;
}

static void fake_add_ref(struct ib_qp *qp)
{
	fake.qp_used_when_gone |= fake.qp_gone;
	atomic_inc(&fake.qp_refs);
}

static void fake_rem_ref(struct ib_qp *qp)
{
	fake.qp_used_when_gone |= fake.qp_gone;
	if (atomic_dec_and_test(&fake.qp_refs) && fake.qp_dying)
		fake.qp_gone = true;
}

/*
 * What a destroy in another thread comes to: the verbs file refuses it while somebody uses the
 * object, and the provider waits for the last reference beside the QP's own.
 */
static void fake_destroy_qp(void)
{
	fake.qp_destroyed = atomic_cmpxchg(&fake.uobject.usecnt, 0, -1) ? -EBUSY : 0;
	if (fake.qp_destroyed)
		return;
	fake.qp_dying = true;
	fake.qp_gone = !atomic_read(&fake.qp_refs);
}

/* The same by the file's end, which waits for who is in a command. */
static void fake_close_verbs(void)
{
	fake.qp_destroyed = -EBUSY;
	if (!down_write_trylock(&fake.ufile.hw_destroy_rwsem))
		return;
	fake_destroy_qp();
	up_write(&fake.ufile.hw_destroy_rwsem);
}

static int fake_take_port(const struct iw_cm_id *iw)
{
	const struct sockaddr_in *local = (const struct sockaddr_in *)&iw->m_local_addr;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = local->sin_port };
	int ret;

	if (!fake.has_sockets)
		return 0;
	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &fake.sock);
	if (ret)
		return ret;
	ret = t3_kernel_bind(fake.sock, (struct sockaddr *)&any, sizeof(any));
	if (ret) {
		sock_release(fake.sock);
		fake.sock = NULL;
	}
	return ret;
}

static void fake_give_port_back(void)
{
	if (fake.sock)
		sock_release(fake.sock);
	fake.sock = NULL;
}

/*
 * The end of each call: the test may have it fail, or say something before it returns. The QP is
 * looked up here again, by its number, as providers do.
 */
static int fake_answer(struct iw_cm_id *iw, u32 qpn)
{
	enum fake_word inside = fake.inside;
	int ret = fake.fails;

	fake.fails = 0;
	fake.inside = SAYS_NOTHING;
	if (ret)
		return ret;
	if (!fake_get_qp(iw->device, qpn)) {
		fake.qp_missed = true;
		return -EINVAL;
	}
	fake_add_ref(&fake.qp);
	iw->add_ref(iw);
	fake_rem_ref(&fake.qp);
	fake.conn = iw;
	fake_say(inside, fake.inside_status);
	return 0;
}

static int fake_connect(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	int ret = fake_take_port(iw);

	if (ret)
		return ret;
	return fake_answer(iw, param->qpn);
}

static int fake_accept(struct iw_cm_id *iw, struct iw_cm_conn_param *param)
{
	return fake_answer(iw, param->qpn);
}

static int fake_reject(struct iw_cm_id *iw, const void *data, u8 len)
{
	fake.used_when_removed |= fake.removed;
	fake.rejects++;
	return 0;
}

static int fake_create_listen(struct iw_cm_id *iw, int backlog)
{
	int ret = fake.fails;

	fake.listen_uid = current_uid();
#ifdef CONFIG_MEMCG
	fake.listen_memcg = current->active_memcg;
#endif
	fake.fails = 0;
	if (!ret)
		ret = iw->device == &fake.other ? fake.other_listen_fails : fake.listen_fails;
	if (!ret)
		ret = fake_take_port(iw);
	if (ret)
		return ret;
	iw->add_ref(iw);
	*(iw->device == &fake.other ? &fake.other_ear : &fake.ear) = iw;
	return 0;
}

static int fake_destroy_listen(struct iw_cm_id *iw)
{
	*(iw->device == &fake.other ? &fake.other_ear : &fake.ear) = NULL;
	fake_give_port_back();
	iw->rem_ref(iw);
	return 0;
}

/* A close: an abort ends the connection at once, a graceful one when the test says so. */
static int fake_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	enum fake_word inside = fake.inside;

	fake.qp_used_when_gone |= fake.qp_gone;
	if (attr->qp_state == IB_QPS_ERR)
		fake.aborts++;
	else
		fake.closes++;
	if (!fake.open)
		return -EINVAL;
	fake.inside = SAYS_NOTHING;
	if (attr->qp_state == IB_QPS_ERR)
		fake_say(SAYS_CLOSE, -ECONNRESET);
	else
		fake_say(inside, 0);
	return 0;
}

/* --- what ib_core does ---------------------------------------------------- */

static int fake_translate_ip(const struct sockaddr *addr, struct rdma_dev_addr *dev_addr)
{
	dev_addr->bound_dev_if = init_net.loopback_dev->ifindex;
	return 0;
}

static int fake_resolve_ip(struct sockaddr *src, const struct sockaddr *dst,
			   struct rdma_dev_addr *addr, unsigned long timeout_ms,
			   void (*found)(int status, struct sockaddr *src,
					 struct rdma_dev_addr *addr, void *context),
			   bool by_gid, void *context)
{
	int ret = fake.fails;

	fake.fails = 0;
	if (ret)
		return ret;
	fake.found = found;
	fake.looking = context;
	return 0;
}

static bool fake_route_known(struct sockaddr *src, const struct sockaddr *dst,
			     struct rdma_dev_addr *addr)
{
	struct sockaddr_storage here = fake_address(FAKE_HERE, cm_addr_port(src));

	if (!fake.known)
		return false;
	fake.known = false;
	fake_translate_ip(NULL, addr);
	cm_addr_copy(src, (struct sockaddr *)&here);
	return true;
}

static void fake_addr_cancel(struct rdma_dev_addr *addr)
{
	fake.looking = NULL;
}

/* The lookup's end. */
static void fake_find(int status)
{
	struct cm_id *id = fake.looking;
	struct sockaddr_storage src = fake_address(FAKE_HERE, cm_addr_port(cm_src(id)));

	fake_translate_ip(NULL, &id->mirror.id.route.addr.dev_addr);
	fake.looking = NULL;
	fake.found(status, (struct sockaddr *)&src, &id->mirror.id.route.addr.dev_addr, id);
}

static const struct ib_gid_attr *fake_get_gid_attr(struct ib_device *device, u32 port, int index)
{
	return &fake.gid_attr;
}

static struct net_device *fake_gid_ndev(const struct ib_gid_attr *attr)
{
	return fake.no_device ? NULL : init_net.loopback_dev;
}

static bool fake_access_netns(const struct ib_device *device, const struct net *net)
{
	return !fake.other_elsewhere || device != &fake.other;
}

static struct rdma_restrack_entry *fake_entry(struct ib_device *device,
					      enum rdma_restrack_type type, u32 id)
{
	if (fake.untracked || fake.qp_gone || id != FAKE_QPN)
		return ERR_PTR(-ENOENT);
	fake.entry_refs++;
	return &fake.qp.res;
}

static int fake_put_entry(struct rdma_restrack_entry *entry)
{
	fake.entry_refs--;
	return 0;
}

#undef ibdev_warn_ratelimited
#define ibdev_warn(...)			(fake.warnings++)
#define ibdev_warn_ratelimited(...)	(fake.warnings++)
#define rdma_restrack_get_byid		fake_entry
#define rdma_restrack_put		fake_put_entry
#define ib_modify_qp			fake_modify_qp
#define rdma_translate_ip		fake_translate_ip
#define rdma_resolve_ip			fake_resolve_ip
#define rdma_addr_cancel		fake_addr_cancel
#define cm_route_known			fake_route_known
#define rdma_get_gid_attr		fake_get_gid_attr
#define rdma_put_gid_attr(attr)		do { } while (0)
#define rdma_read_gid_attr_ndev_rcu	fake_gid_ndev
#define rdma_dev_access_netns		fake_access_netns
#define ib_set_client_data(dev, client, data) \
	(*((dev) == &fake.other ? &fake.other_dev : &fake.cm_dev) = (data))
#define ib_register_client(client)	((void)(client), 0)
#define ib_unregister_client(client)	((void)(client))
#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(symbol)
#undef MODULE_ALIAS_RDMA_CLIENT
#define MODULE_ALIAS_RDMA_CLIENT(name)

#ifndef FAKE_WITH_UCM
int cm_ucm_nl_info(struct ib_client_nl_info *res)
{
	return 0;
}
#endif

void cm_res_init(struct cm_mirror *mirror, const char *caller, const struct cm_mirror *parent)
{
}

/* Entries that are shown; ever without a device, or when the device has gone (C12). */
static struct {
	int shown;
	bool without_device, after_removal;
} fake_res;

void cm_res_show(struct cm_mirror *mirror)
{
	fake_res.without_device |= !mirror->id.device;
	mirror->res.valid = true;
	fake_res.shown++;
}

void cm_res_hide(struct cm_mirror *mirror)
{
	if (!mirror->res.valid)
		return;
	fake_res.without_device |= !mirror->id.device;
	mirror->res.valid = false;
	fake_res.shown--;
}

enum cm_res_state cm_res_state(enum cm_state state)
{
	return CM_RES_IDLE;
}

/* Of a device's removal. */
static void fake_wait_for_users(struct completion *gone)
{
	fake.removal_has_users = !completion_done(gone);
	WRITE_ONCE(fake.removal_waits, true);
	wait_for_completion(gone);
}

/* Allocations that no memory cgroup is charged for; the device's own do not count. */
static unsigned int fake_uncharged;

static inline void *fake_kzalloc(size_t size, gfp_t gfp)
{
	if (!(gfp & __GFP_ACCOUNT))
		fake_uncharged++;
	return kzalloc(size, gfp);
}

#undef kzalloc
#define kzalloc				fake_kzalloc

#include "address.c"
#include "cm_fsm.c"
#include "port.c"
#define wait_for_completion		fake_wait_for_users
#include "device.c"
#undef wait_for_completion
#include "iw.c"
#include "qp.c"
#include "event.c"
#include "id.c"
#include "resolve.c"
#include "conn.c"

/* Of all that there are, also those that are being destroyed. */
static unsigned int number_of_ids(void)
{
	struct list_head *item;
	unsigned int n = 0;

	list_for_each(item, &all_ids)
		n++;
	return n;
}

/* --- its life -------------------------------------------------------------- */

static void fake_add(struct kunit *test, struct ib_device *device)
{
	unsigned int uncharged = fake_uncharged;

	device->phys_port_cnt = 1;
	device->port_data = fake.port_data;
	device->ops.iw_connect = fake_connect;
	device->ops.iw_accept = fake_accept;
	device->ops.iw_reject = fake_reject;
	device->ops.iw_create_listen = fake_create_listen;
	device->ops.iw_destroy_listen = fake_destroy_listen;
	device->ops.iw_get_qp = fake_get_qp;
	device->ops.iw_add_ref = fake_add_ref;
	device->ops.iw_rem_ref = fake_rem_ref;
	KUNIT_ASSERT_EQ(test, cm_add_one(device), 0);
	fake_uncharged = uncharged;
}

static void fake_plug_in(struct kunit *test, enum fake_context context)
{
	memset(&fake, 0, sizeof(fake));
	memset(&fake_res, 0, sizeof(fake_res));
	fake.context = context;
	fake.port_data[1].immutable.core_cap_flags = RDMA_CORE_CAP_PROT_IWARP |
						     RDMA_CORE_CAP_IW_CM;
	fake.qp.device = &fake.device;
	fake.qp.qp_num = FAKE_QPN;
	if (fake_has_other)
		fake_add(test, &fake.other);
	fake_add(test, &fake.device);
}

/* The QP is one of the process that runs now, not of a module. */
static void fake_give_qp_to_process(void)
{
	init_rwsem(&fake.ufile.hw_destroy_rwsem);
	fake.uobject.ufile = &fake.ufile;
	fake.qp.uobject = (struct ib_uqp_object *)&fake.uobject;
	fake.qp.res.task = current;
}

/* Tells all who use it, and waits until they have let go. */
static void fake_unplug(struct work_struct *work)
{
	cm_remove_one(&fake.device, fake.cm_dev);
	fake_res.after_removal |= fake_res.shown && !fake_has_other;
	fake.removed = true;
}

#endif
