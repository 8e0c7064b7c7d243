// SPDX-License-Identifier: GPL-2.0
/*
 * The port mapper of iWARP: mappings, requests to the daemon, and the state of the daemon and of
 * mapped peers. iwpm.h describes lifetimes.
 *
 * The daemon is the process that replies to a REG_PID, which goes to a multicast group, or
 * announces itself (HELLO, MAPINFO). After a request without a reply the next message to it is a
 * REG_PID. Without a reply to that, or if it has not read for as long, it gets no requests until it
 * sends a message. It is the same if all leave the group without a reply: kernels from 6.12 on let
 * any process join, but only a privileged one send. No mapping is requested of a peer whose daemon
 * did not reply for CM_IWPM_PEER_PAUSE, unless the peer sends a request, or our daemon is started
 * again.
 *
 * A message of a daemon changes ports only, never addresses: a peer's iwpmd is not authenticated.
 */
#include <linux/hashtable.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "iwpm.h"

#define CM_IWPM_PEERS		16
#define CM_IWPM_PEER_PAUSE	60	/* s */
#define CM_IWPM_MAX_REMOTES	1024
#define CM_IWPM_REMOTE_LIFE	120	/* s; a peer connects as soon as it has its answer */

DEFINE_SPINLOCK(cm_iwpm_lock);

/* The daemon, and where we are with it. */
static struct {
	struct cm_iwpm_daemon to;
	bool own;		/* we are the client of ib_core */
	bool registered;	/* the daemon has answered REG_PID */
	bool no_reply;		/* it has not answered */
	struct cm_iwpm_mapinfo mapinfo;
	u32 last_seq;
	u64 last_mapping;
} cm_iwpm __guarded_by(&cm_iwpm_lock);

static struct list_head cm_requests __guarded_by(&cm_iwpm_lock) = LIST_HEAD_INIT(cm_requests);
/* Mappings that the daemon has, sorted by their numbers; and those that it shall forget. */
static struct list_head cm_mappings __guarded_by(&cm_iwpm_lock) = LIST_HEAD_INIT(cm_mappings);
static struct list_head cm_unmapped __guarded_by(&cm_iwpm_lock) = LIST_HEAD_INIT(cm_unmapped);

/* Peers whose daemon did not answer, and the user whose request that was. */
static struct {
	union cm_inet addr;
	unsigned long user;
	unsigned long until;
} cm_paused_peers[CM_IWPM_PEERS] __guarded_by(&cm_iwpm_lock);
static unsigned int cm_next_paused_peer __guarded_by(&cm_iwpm_lock);

static DECLARE_HASHTABLE(cm_remotes, 8) __guarded_by(&cm_iwpm_lock);
static struct list_head cm_remote_list __guarded_by(&cm_iwpm_lock) =
	LIST_HEAD_INIT(cm_remote_list);
static unsigned int cm_number_of_remotes __guarded_by(&cm_iwpm_lock);

/* Not cm_wq: its work items must not wait for those that wait for the daemon. */
static struct workqueue_struct *cm_iwpm_wq;

static bool cm_inet_same(const union cm_inet *a, const union cm_inet *b)
{
	return cm_addr_same(&a->sa, &b->sa) && cm_addr_port(&a->sa) == cm_addr_port(&b->sa);
}

/* --- the daemon ------------------------------------------------------------ */

static void cm_iwpm_finish(struct cm_iwpm_request *req, int status)
	__must_hold(&cm_iwpm_lock)
{
	lockdep_assert_held(&cm_iwpm_lock);
	if (req->finished)
		return;
	req->status = status;
	req->finished = true;
	complete(&req->done);
}

/* Ends all requests to a daemon; 0: those to the multicast group. */
static void cm_iwpm_finish_all(u32 portid, int status)
	__must_hold(&cm_iwpm_lock)
{
	struct cm_iwpm_request *req;

	lockdep_assert_held(&cm_iwpm_lock);
	list_for_each_entry(req, &cm_requests, item)
		if (req->daemon.portid == portid)
			cm_iwpm_finish(req, status);
}

/* A netlink port was closed. If it was the daemon's, no answer will come. */
void cm_iwpm_lose(u32 portid)
{
	bool others = rdma_nl_chk_listeners(RDMA_NL_GROUP_IWPM);
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	if (cm_iwpm.to.portid == portid) {
		cm_iwpm.to.portid = 0;
		cm_iwpm.mapinfo.wanted = false;
		cm_iwpm.registered = false;
	}
	cm_iwpm_finish_all(portid, -ECONNREFUSED);
	if (!others)
		cm_iwpm_finish_all(0, -ECONNREFUSED);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/* A peer is asked again: its daemon answers, or ours has been started. NULL: all peers. */
static void cm_iwpm_resume_peer(const union cm_inet *peer)
	__must_hold(&cm_iwpm_lock)
{
	unsigned int i;

	lockdep_assert_held(&cm_iwpm_lock);
	for (i = 0; i < CM_IWPM_PEERS; i++)
		if (!peer || cm_addr_same(&cm_paused_peers[i].addr.sa, &peer->sa))
			cm_paused_peers[i].addr.sa.sa_family = AF_UNSPEC;
}

/* The sender of a message is the daemon from now on. */
static void cm_iwpm_meet(u32 portid, u32 echo, u16 version)
	__must_hold(&cm_iwpm_lock)
{
	lockdep_assert_held(&cm_iwpm_lock);
	if (cm_iwpm.to.portid && cm_iwpm.to.portid != portid)
		cm_iwpm_finish_all(cm_iwpm.to.portid, -ECONNREFUSED);
	cm_iwpm.to.portid = portid;
	cm_iwpm.to.echo = echo;
	cm_iwpm.to.version = min_t(u16, version, IWPM_UABI_VERSION);
	cm_iwpm.registered = false;
	cm_iwpm.no_reply = false;
}

/* A message of the daemon: it is alive. Return: false if it is from another process. */
bool cm_iwpm_from_daemon(u32 portid, u32 echo)
{
	unsigned long flags;
	bool same;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	same = portid && portid == cm_iwpm.to.portid;
	if (same) {
		cm_iwpm.to.echo = echo;
		cm_iwpm.no_reply = false;
	}
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return same;
}

void cm_iwpm_hello(u32 portid, u32 echo, u16 version)
{
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	cm_iwpm_meet(portid, echo, version);
	cm_iwpm_resume_peer(NULL);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

static struct cm_iwpm_request *cm_iwpm_find(u32 seq)
	__must_hold(&cm_iwpm_lock)
{
	struct cm_iwpm_request *req;

	lockdep_assert_held(&cm_iwpm_lock);
	list_for_each_entry(req, &cm_requests, item)
		if (req->seq == seq && !req->finished)
			return req;
	return NULL;
}

/* The answer to a REG_PID, for the device with a name. */
void cm_iwpm_registered(u32 portid, u32 echo, u16 version, u32 seq, const char *device)
{
	struct cm_iwpm_request *req;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	/* A late answer: the daemon can be asked again. */
	cm_iwpm.no_reply = false;
	req = cm_iwpm_find(seq);
	if (req && req->op == RDMA_NL_IWPM_REG_PID) {
		if (strcmp(device, dev_name(&req->dev->device->dev))) {
			cm_iwpm_finish(req, -EINVAL);
		} else {
			cm_iwpm_meet(portid, echo, version);
			cm_iwpm.registered = true;
			cm_iwpm_finish(req, 0);
		}
	}
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/* The daemon has refused a request. It has no mapping for it. */
void cm_iwpm_error(u32 seq, u16 code)
{
	struct cm_iwpm_request *req;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	req = cm_iwpm_find(seq);
	if (req)
		cm_iwpm_finish(req, -EREMOTEIO);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	pr_debug("t3_rdma_cm: iwpmd refuses request %u: error %u\n", seq, code);
}

/* --- mappings -------------------------------------------------------------- */

/* For devices without ports of their own (siw) the daemon must leave the port as it is. */
static bool cm_iwpm_is_usable(const struct cm_mapping *mapping, const struct cm_iwpm_addrs *addrs)
{
	const struct cm_iwpm_addrs *own = &mapping->addrs;
	u16 port = cm_addr_port(&addrs->mapped_local.sa);

	if (!port || !cm_addr_same(&addrs->mapped_local.sa, &own->local.sa))
		return false;
	if (mapping->flags & IWPM_FLAGS_NO_PORT_MAP && port != cm_addr_port(&own->local.sa))
		return false;
	if (!own->remote.sa.sa_family)
		return true;
	return cm_addr_port(&addrs->mapped_remote.sa) &&
	       addrs->mapped_remote.sa.sa_family == own->remote.sa.sa_family &&
	       (cm_addr_any(&addrs->mapped_remote.sa) ||
		cm_addr_same(&addrs->mapped_remote.sa, &own->remote.sa));
}

static void cm_iwpm_set_mapped(struct cm_mapping *mapping, const struct cm_iwpm_addrs *addrs)
	__must_hold(&cm_iwpm_lock)
{
	struct cm_iwpm_addrs *own = &mapping->addrs;

	lockdep_assert_held(&cm_iwpm_lock);
	own->mapped_local = own->local;
	cm_addr_set_port(&own->mapped_local.sa, cm_addr_port(&addrs->mapped_local.sa));
	own->mapped_remote = own->remote;
	cm_addr_set_port(&own->mapped_remote.sa, cm_addr_port(&addrs->mapped_remote.sa));
	mapping->seq = ++cm_iwpm.last_mapping;
	list_add_tail(&mapping->item, &cm_mappings);
}

/**
 * cm_iwpm_answer - the daemon has answered
 * @op: what was asked
 * @seq: number of the request
 * @status: 0, or why there is no mapped port of the peer; the local port is mapped in either case
 * @addrs: addresses of the request, and the mapped ones
 */
void cm_iwpm_answer(u8 op, u32 seq, int status, const struct cm_iwpm_addrs *addrs)
{
	struct cm_iwpm_request *req;
	struct cm_mapping *mapping;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	req = cm_iwpm_find(seq);
	if (!req || req->op != op)
		goto unlock;
	mapping = req->mapping;
	if (!cm_inet_same(&addrs->local, &mapping->addrs.local) ||
	    (op == RDMA_NL_IWPM_QUERY_MAPPING &&
	     !cm_inet_same(&addrs->remote, &mapping->addrs.remote))) {
		cm_iwpm_finish(req, -EINVAL);
	} else if (status || !cm_iwpm_is_usable(mapping, addrs)) {
		req->mapped = true;
		cm_iwpm_finish(req, -EREMOTEIO);
	} else {
		cm_iwpm_set_mapped(mapping, addrs);
		cm_iwpm_finish(req, 0);
	}
unlock:
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

static struct cm_mapping *cm_mapping_new(struct cm_id *id, const struct ib_device *device,
					 const struct sockaddr *local,
					 const struct sockaddr *remote)
{
	struct cm_mapping *mapping = cm_zalloc_nowait(id->memcg, sizeof(*mapping));

	if (!mapping)
		return NULL;
	context_unsafe(INIT_LIST_HEAD(&mapping->item)); /* not published yet */
	cm_addr_copy(&mapping->addrs.local.sa, local);
	if (remote)
		cm_addr_copy(&mapping->addrs.remote.sa, remote);
	if (device->iw_driver_flags & IW_F_NO_PORT_MAP)
		mapping->flags = IWPM_FLAGS_NO_PORT_MAP;
	return mapping;
}

/* Puts the mappings after a number into a message. Return: how many; @after: number of the last. */
unsigned int cm_iwpm_next_mappings(u64 *after, struct sk_buff *skb, u16 version)
{
	struct cm_mapping *mapping;
	unsigned int number = 0;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	list_for_each_entry(mapping, &cm_mappings, item) {
		if (mapping->seq <= *after)
			continue;
		if (!cm_iwpm_put_mapping(skb, mapping, version))
			break;
		*after = mapping->seq;
		number++;
	}
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return number;
}

/* Unless the daemon has started again meanwhile. */
static void cm_iwpm_save_mapinfo(const struct cm_iwpm_mapinfo *info)
{
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	if (cm_iwpm.mapinfo.request == info->request)
		cm_iwpm.mapinfo = *info;
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/* The daemon does not read at present. */
static void cm_iwpm_keep_unmapped(struct cm_mapping *mapping)
{
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	list_add(&mapping->item, &cm_unmapped);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/*
 * Sends the daemon, one after the other, what it does not know: mappings that have ended, and after
 * its start the existing ones. Return: 0: there may be more; -ENOENT if there is nothing more;
 * -EAGAIN if the daemon does not read.
 */
static int cm_iwpm_notify_next(void)
{
	struct cm_mapping *mapping = NULL;
	struct cm_iwpm_daemon daemon;
	struct cm_iwpm_mapinfo info;
	unsigned long flags;
	bool wanted;
	int ret = 0;
	u32 seq;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	daemon = cm_iwpm.to;
	info = cm_iwpm.mapinfo;
	wanted = info.wanted && daemon.portid;
	seq = ++cm_iwpm.last_seq;
	if (!wanted)
		mapping = list_first_entry_or_null(&cm_unmapped, struct cm_mapping, item);
	if (mapping)
		list_del(&mapping->item);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);

	if (wanted) {
		ret = cm_iwpm_send_mapinfo(&daemon, &info);
		cm_iwpm_save_mapinfo(&info);
	} else if (mapping && daemon.portid) {
		ret = cm_iwpm_send_remove(&daemon, seq, &mapping->addrs.local);
	}
	if (ret == -ECONNREFUSED)
		cm_iwpm_lose(daemon.portid);
	if (mapping && ret == -EAGAIN)
		cm_iwpm_keep_unmapped(mapping);
	else
		kfree(mapping);
	if (ret == -EAGAIN)
		return ret;
	return wanted || mapping ? 0 : -ENOENT;
}

static void cm_iwpm_notify(struct work_struct *work);
static DECLARE_DELAYED_WORK(cm_iwpm_work, cm_iwpm_notify);

static void cm_iwpm_notify(struct work_struct *work)
{
	int ret;

	do
		ret = cm_iwpm_notify_next();
	while (!ret);
	if (ret == -EAGAIN)
		queue_delayed_work(cm_iwpm_wq, &cm_iwpm_work, CM_IWPM_RETRY);
}

void cm_iwpm_mapinfo_wanted(u32 portid, u32 echo, u16 version)
{
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	cm_iwpm_meet(portid, echo, version);
	cm_iwpm_resume_peer(NULL);
	cm_iwpm.mapinfo = (struct cm_iwpm_mapinfo) {
		.request = cm_iwpm.mapinfo.request + 1,
		.wanted = true,
	};
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	queue_delayed_work(cm_iwpm_wq, &cm_iwpm_work, 0);
}

/**
 * cm_iwpm_unmap - end a mapping, and free it; in any context
 * @mapping: the mapping, or NULL
 */
void cm_iwpm_unmap(struct cm_mapping *mapping)
{
	unsigned long flags;

	if (!mapping)
		return;
	spin_lock_irqsave(&cm_iwpm_lock, flags);
	list_move_tail(&mapping->item, &cm_unmapped);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	queue_delayed_work(cm_iwpm_wq, &cm_iwpm_work, 0);
}

/* --- requests -------------------------------------------------------------- */

static bool cm_iwpm_is_busy(unsigned long user)
	__must_hold(&cm_iwpm_lock)
{
	const struct cm_iwpm_request *req;
	unsigned int pending = 0;

	lockdep_assert_held(&cm_iwpm_lock);
	list_for_each_entry(req, &cm_requests, item)
		pending += req->user == user;
	return pending >= CM_IWPM_MAX_PENDING;
}

/* Adds a request to the list. Return: 0, or why the daemon is not asked. */
static int cm_iwpm_begin(struct cm_iwpm_request *req)
{
	const struct cm_mapping *mapping = req->mapping;
	unsigned long flags;
	int ret = 0;

	init_completion(&req->done);
	/* A listener is mapped by a worker. Ids of other namespaces are not mapped. */
	req->user = cm_user_number(req->listener ? req->listener->id->listen_cred : current_cred(),
				   &init_net);
	spin_lock_irqsave(&cm_iwpm_lock, flags);
	if (!cm_iwpm.own || cm_iwpm.no_reply || (mapping && !cm_iwpm.registered))
		ret = -ENOENT;
	else if (mapping && mapping->flags && cm_iwpm.to.version == IWPM_UABI_VERSION_MIN)
		ret = -EOPNOTSUPP;
	else if (req->dev->map_cancelled || (req->listener && req->listener->map_cancelled))
		ret = -ECANCELED;
	else if (cm_iwpm_is_busy(req->user))
		ret = -EBUSY;
	if (!ret) {
		req->daemon = cm_iwpm.to;
		if (!mapping)
			req->daemon.portid = 0;
		req->seq = ++cm_iwpm.last_seq;
		list_add_tail(&req->item, &cm_requests);
	}
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return ret;
}

static bool cm_iwpm_pauses(unsigned int i)
	__must_hold(&cm_iwpm_lock)
{
	lockdep_assert_held(&cm_iwpm_lock);
	return cm_paused_peers[i].addr.sa.sa_family != AF_UNSPEC &&
	       time_before(jiffies, cm_paused_peers[i].until);
}

/* A user can name any number of peers. They replace those of other users last. */
static unsigned int cm_iwpm_peer_to_replace(unsigned long user)
	__must_hold(&cm_iwpm_lock)
{
	unsigned int i, n, own = CM_IWPM_PEERS;

	lockdep_assert_held(&cm_iwpm_lock);
	for (n = 0; n < CM_IWPM_PEERS; n++) {
		i = (cm_next_paused_peer + n) % CM_IWPM_PEERS;
		if (!cm_iwpm_pauses(i))
			return i;
		if (own == CM_IWPM_PEERS && cm_paused_peers[i].user == user)
			own = i;
	}
	return own < CM_IWPM_PEERS ? own : cm_next_paused_peer % CM_IWPM_PEERS;
}

static void cm_iwpm_pause_peer(const union cm_inet *peer, unsigned long user)
	__must_hold(&cm_iwpm_lock)
{
	unsigned int i = cm_iwpm_peer_to_replace(user);

	lockdep_assert_held(&cm_iwpm_lock);
	cm_next_paused_peer = i + 1;
	cm_paused_peers[i].addr = *peer;
	cm_paused_peers[i].user = user;
	cm_paused_peers[i].until = jiffies + CM_IWPM_PEER_PAUSE * HZ;
}

/* The daemon did not reply to a request, or did not read it, in time; or it is gone. */
static void cm_iwpm_note_no_reply(const struct cm_iwpm_request *req)
	__must_hold(&cm_iwpm_lock)
{
	lockdep_assert_held(&cm_iwpm_lock);
	cm_iwpm.registered = false;
	if (!req->mapping || !req->sent)
		cm_iwpm.no_reply = true;
	else if (req->op == RDMA_NL_IWPM_QUERY_MAPPING)
		cm_iwpm_pause_peer(&req->mapping->addrs.remote, req->user);
}

/* Takes a request off the list. @left: what is left of its time; 0: none; negative: killed */
static int cm_iwpm_end(struct cm_iwpm_request *req, long left)
{
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	list_del(&req->item);
	if (req->finished) {
		ret = req->status;
		if (!req->mapping && ret == -ECONNREFUSED)
			cm_iwpm_note_no_reply(req);
	} else if (left) {
		ret = -EINTR;
	} else {
		ret = -ETIMEDOUT;
		cm_iwpm_note_no_reply(req);
	}
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return ret;
}

/* Return: 0, or an error: there is no mapping then. */
static int cm_iwpm_ask(struct cm_iwpm_request *req)
{
	long time = CM_IWPM_TIMEOUT * HZ, now, left;
	int ret, sent;

	ret = cm_iwpm_begin(req);
	if (ret)
		return ret;
	/* While the daemon does not read, the request may end here, too. */
	do {
		sent = cm_iwpm_send_request(req);
		req->sent = !sent;
		now = sent ? CM_IWPM_RETRY : time;
		left = -1;
		if (!sent || sent == -EAGAIN)
			left = wait_for_completion_killable_timeout(&req->done, now);
		time -= now;
	} while (!left && time > 0);
	ret = cm_iwpm_end(req, left);
	if (sent == -ECONNREFUSED && req->daemon.portid)
		cm_iwpm_lose(req->daemon.portid);
	return sent ? sent : ret;
}

static bool cm_iwpm_is_registered(void)
{
	unsigned long flags;
	bool registered;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	registered = cm_iwpm.registered;
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return registered;
}

/*
 * Asks the daemon for a mapping. Return: 0, or an error: @mapping is freed then. The daemon must
 * forget it, if it has it, or will have it when it reads the request.
 */
static int cm_iwpm_map(struct cm_mapping *mapping, u8 op, struct cm_dev *dev,
		       struct cm_listener *listener)
{
	struct cm_iwpm_request reg = {
		.op = RDMA_NL_IWPM_REG_PID, .dev = dev, .listener = listener,
	};
	struct cm_iwpm_request req = {
		.op = op, .dev = dev, .listener = listener, .mapping = mapping,
	};
	int ret = 0;

	if (!cm_iwpm_is_registered())
		ret = cm_iwpm_ask(&reg);
	if (!ret)
		ret = cm_iwpm_ask(&req);
	if (!ret)
		return 0;
	/* The request is off the list, so it does not change. */
	if (context_unsafe(req.mapped) ||
	    (req.sent && (ret == -ETIMEDOUT || ret == -EINTR || ret == -ECANCELED)))
		cm_iwpm_unmap(mapping);
	else
		kfree(mapping);
	return ret;
}

/**
 * cm_iwpm_cancel_dev - end the requests of a device, and all later ones
 * @dev: the device, which is being removed
 */
void cm_iwpm_cancel_dev(struct cm_dev *dev)
{
	struct cm_iwpm_request *req;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	dev->map_cancelled = true;
	list_for_each_entry(req, &cm_requests, item)
		if (req->dev == dev)
			cm_iwpm_finish(req, -ECANCELED);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

static void cm_iwpm_cancel_listener(struct cm_listener *l)
{
	struct cm_iwpm_request *req;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	l->map_cancelled = true;
	list_for_each_entry(req, &cm_requests, item)
		if (req->listener == l)
			cm_iwpm_finish(req, -ECANCELED);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/* --- who is mapped ---------------------------------------------------------- */

/* The daemon has the sockets of the first network namespace only. */
static bool cm_iwpm_is_there(struct cm_id *id)
{
	unsigned long flags;
	bool there;

	if (!net_eq(cm_net(id), &init_net) || !rdma_nl_chk_listeners(RDMA_NL_GROUP_IWPM))
		return false;
	spin_lock_irqsave(&cm_iwpm_lock, flags);
	there = cm_iwpm.own && !cm_iwpm.no_reply;
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return there;
}

static bool cm_iwpm_is_paused(const struct sockaddr *peer)
{
	unsigned long flags;
	bool paused = false;
	unsigned int i;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	for (i = 0; i < CM_IWPM_PEERS; i++)
		if (cm_iwpm_pauses(i) && cm_addr_same(&cm_paused_peers[i].addr.sa, peer))
			paused = true;
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return paused;
}

static bool cm_mapping_changes_port(const struct cm_mapping *mapping)
{
	return cm_addr_port(&mapping->addrs.local.sa) !=
	       cm_addr_port(&mapping->addrs.mapped_local.sa);
}

static int cm_mapped_listen(struct cm_listener *l)
{
	return l->dev->device->ops.iw_create_listen(&l->iw->mapped.iw, l->id->backlog);
}

/* Listens on the mapped port, too. */
static int cm_listener_set_mapping(struct cm_listener *l, struct cm_mapping *mapping)
{
	int ret = 0;

	lockdep_assert_held(&l->id->listen_mutex);
	/* Written under this mutex, too. */
	if (context_unsafe(l->map_cancelled))
		return -ECANCELED;
	if (cm_mapping_changes_port(mapping)) {
		l->iw->mapped.iw.local_addr = l->iw->own.iw.local_addr;
		l->iw->mapped.iw.m_local_addr = l->iw->own.iw.local_addr;
		cm_addr_set_port((struct sockaddr *)&l->iw->mapped.iw.m_local_addr,
				 cm_addr_port(&mapping->addrs.mapped_local.sa));
		l->iw->mapped.iw.tos = l->iw->own.iw.tos;
		l->iw->mapped.iw.tos_set = l->iw->own.iw.tos_set;
		l->iw->mapped.iw.afonly = l->iw->own.iw.afonly;
		ret = cm_listener_call(l, cm_mapped_listen);
	}
	if (!ret)
		l->iw->mapping = mapping;
	return ret;
}

static void cm_iwpm_map_work(struct work_struct *work)
{
	struct cm_listener *l = container_of(work, struct cm_iw_listener, map_work)->own.listener;
	struct cm_mapping *mapping;
	int ret;

	mapping = cm_mapping_new(l->id, l->dev->device,
				 (struct sockaddr *)&l->iw->own.iw.local_addr, NULL);
	if (mapping && !cm_iwpm_map(mapping, RDMA_NL_IWPM_ADD_MAPPING, l->dev, l)) {
		mutex_lock(&l->id->listen_mutex);
		ret = cm_listener_set_mapping(l, mapping);
		mutex_unlock(&l->id->listen_mutex);
		if (ret)
			cm_iwpm_unmap(mapping);
	}
	cm_listener_put(l);
}

/**
 * cm_iwpm_map_listener - map a listener, if there is a daemon; does not wait
 * @l: the listener, which listens on its own port
 */
void cm_iwpm_map_listener(struct cm_listener *l)
{
	if (!cm_iwpm_is_there(l->id))
		return;
	INIT_WORK(&l->iw->map_work, cm_iwpm_map_work);
	cm_listener_get(l);
	queue_work(cm_iwpm_wq, &l->iw->map_work);
}

/* The end of a listener: the mapped port is free again. */
void cm_iwpm_unmap_listener(struct cm_listener *l)
{
	struct cm_mapping *mapping = l->iw->mapping;

	lockdep_assert_held(&l->id->listen_mutex);
	cm_iwpm_cancel_listener(l);
	if (!mapping)
		return;
	if (cm_mapping_changes_port(mapping))
		l->dev->device->ops.iw_destroy_listen(&l->iw->mapped.iw);
	l->iw->mapping = NULL;
	cm_iwpm_unmap(mapping);
}

/**
 * cm_iwpm_map_connection - map an id that connects, and ask for the port of its peer
 * @id: the id, whose @iw has its addresses
 *
 * Waits for the daemon. Without a result the mapped addresses stay as they are.
 */
void cm_iwpm_map_connection(struct cm_id *id)
{
	struct cm_dev *dev = cm_dev_of(id);
	struct cm_mapping *mapping;

	if (!cm_iwpm_is_there(id) || cm_iwpm_is_paused(cm_dst(id)))
		return;
	mapping = cm_mapping_new(id, dev->device, cm_src(id), cm_dst(id));
	if (!mapping || cm_iwpm_map(mapping, RDMA_NL_IWPM_QUERY_MAPPING, dev, NULL))
		return;
	id->mapping = mapping;
	cm_addr_copy((struct sockaddr *)&id->iw->m_local_addr, &mapping->addrs.mapped_local.sa);
	cm_addr_copy((struct sockaddr *)&id->iw->m_remote_addr, &mapping->addrs.mapped_remote.sa);
}

/* --- events of the provider -------------------------------------------------- */

static u32 cm_remote_key(const union cm_inet *mapped)
{
	return cm_addr_port(&mapped->sa);
}

static void cm_remote_free(struct cm_remote_port *remote)
	__must_hold(&cm_iwpm_lock)
{
	lockdep_assert_held(&cm_iwpm_lock);
	hash_del(&remote->node);
	list_del(&remote->item);
	cm_number_of_remotes--;
	kfree(remote);
}

static struct cm_remote_port *cm_remote_find(const union cm_inet *local,
					     const union cm_inet *mapped)
	__must_hold(&cm_iwpm_lock)
{
	struct cm_remote_port *remote;

	lockdep_assert_held(&cm_iwpm_lock);
	hash_for_each_possible(cm_remotes, remote, node, cm_remote_key(mapped))
		if (cm_inet_same(&remote->mapped, mapped) &&
		    cm_addr_port(&remote->local.sa) == cm_addr_port(&local->sa) &&
		    (cm_addr_any(&remote->local.sa) ||
		     cm_addr_same(&remote->local.sa, &local->sa)))
			return remote;
	return NULL;
}

/* The peer may change its port only. The oldest ones that did not connect are forgotten. */
int cm_iwpm_remote_info(const struct cm_iwpm_addrs *addrs)
{
	struct cm_remote_port *remote, *old;
	unsigned long flags;

	if (!cm_addr_same(&addrs->remote.sa, &addrs->mapped_remote.sa) ||
	    addrs->local.sa.sa_family != addrs->mapped_local.sa.sa_family)
		return -EINVAL;
	/* Charged to the daemon, whose send this is. */
	remote = kzalloc(sizeof(*remote), GFP_KERNEL_ACCOUNT);
	if (!remote)
		return -ENOMEM;
	remote->local = addrs->mapped_local;
	remote->mapped = addrs->mapped_remote;
	remote->port = cm_addr_port(&addrs->remote.sa);
	remote->until = jiffies + CM_IWPM_REMOTE_LIFE * HZ;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	old = cm_remote_find(&remote->local, &remote->mapped);
	if (!old && cm_number_of_remotes == CM_IWPM_MAX_REMOTES)
		old = list_first_entry(&cm_remote_list, struct cm_remote_port, item);
	if (old)
		cm_remote_free(old);
	hash_add(cm_remotes, &remote->node, cm_remote_key(&remote->mapped));
	list_add_tail(&remote->item, &cm_remote_list);
	cm_number_of_remotes++;
	cm_iwpm_resume_peer(&remote->mapped);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return 0;
}

/*
 * Replaces the mapped ports of a connect request by the ports that the consumers know. In any
 * context. A peer that has not asked for the listener keeps its port.
 */
void cm_iwpm_unmap_request(struct cm_listener *l, struct iw_cm_event *event)
{
	union cm_inet *remote_addr = (union cm_inet *)&event->remote_addr;
	union cm_inet *local_addr = (union cm_inet *)&event->local_addr;
	struct cm_remote_port *remote;
	unsigned long flags;

	/* Most machines have no daemon. An announcement comes before the connection. */
	if (context_unsafe(READ_ONCE(cm_number_of_remotes))) {
		spin_lock_irqsave(&cm_iwpm_lock, flags);
		remote = cm_remote_find(local_addr, remote_addr);
		if (remote) {
			if (time_before(jiffies, remote->until))
				cm_addr_set_port(&remote_addr->sa, remote->port);
			cm_remote_free(remote);
		}
		spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	}
	cm_addr_set_port(&local_addr->sa,
			 cm_addr_port((struct sockaddr *)&l->iw->own.iw.local_addr));
}

/* The same for the reply to a connect. */
void cm_iwpm_unmap_reply(struct cm_id *id, struct iw_cm_event *event)
{
	const struct cm_mapping *mapping = id->mapping;

	if (!mapping)
		return;
	cm_addr_set_port((struct sockaddr *)&event->local_addr,
			 cm_addr_port(&mapping->addrs.local.sa));
	cm_addr_set_port((struct sockaddr *)&event->remote_addr,
			 cm_addr_port(&mapping->addrs.remote.sa));
}

/* --- debugfs ----------------------------------------------------------------- */

static void cm_mapping_show(struct seq_file *seq, const struct cm_mapping *mapping)
	__must_hold(&cm_iwpm_lock)
{
	const struct cm_iwpm_addrs *addrs = &mapping->addrs;

	lockdep_assert_held(&cm_iwpm_lock);
	if (addrs->remote.sa.sa_family)
		seq_printf(seq, "connection %pISpc - %pISpc mapped to ports %u - %u\n",
			   &addrs->local.sa, &addrs->remote.sa,
			   cm_addr_port(&addrs->mapped_local.sa),
			   cm_addr_port(&addrs->mapped_remote.sa));
	else
		seq_printf(seq, "listener %pISpc mapped to port %u\n", &addrs->local.sa,
			   cm_addr_port(&addrs->mapped_local.sa));
}

void cm_iwpm_show(struct seq_file *seq)
{
	const struct cm_iwpm_request *req;
	struct cm_mapping *mapping;
	unsigned int requests = 0;
	unsigned long flags;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	if (!cm_iwpm.own)
		seq_puts(seq, "daemon: used by iw_cm\n");
	else if (cm_iwpm.no_reply)
		seq_puts(seq, "daemon: does not answer\n");
	else if (!cm_iwpm.to.portid)
		seq_puts(seq, "daemon: none\n");
	else
		seq_printf(seq, "daemon: %u, version %u%s\n", cm_iwpm.to.portid,
			   cm_iwpm.to.version, cm_iwpm.registered ? ", registered" : "");
	list_for_each_entry(req, &cm_requests, item)
		requests++;
	seq_printf(seq, "requests: %u\nannounced connections: %u\n", requests,
		   cm_number_of_remotes);
	list_for_each_entry(mapping, &cm_mappings, item)
		cm_mapping_show(seq, mapping);
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
}

/* --- begin and end ----------------------------------------------------------- */

bool cm_iwpm_is_own(void)
{
	unsigned long flags;
	bool own;

	spin_lock_irqsave(&cm_iwpm_lock, flags);
	own = cm_iwpm.own;
	spin_unlock_irqrestore(&cm_iwpm_lock, flags);
	return own;
}

/* We are the client of ib_core from now on, or no more: then no answer will come. */
void cm_iwpm_mark_own(bool own)
{
	spin_lock_irq(&cm_iwpm_lock);
	cm_iwpm.own = own;
	if (!own) {
		cm_iwpm.registered = false;
		/* A daemon that has not answered REG_PID may still be there afterwards. */
		cm_iwpm_finish_all(0, -ECANCELED);
		cm_iwpm_finish_all(cm_iwpm.to.portid, -ECONNREFUSED);
	}
	spin_unlock_irq(&cm_iwpm_lock);
}

int cm_iwpm_start(void)
{
	cm_iwpm_wq = alloc_workqueue("t3_rdma_cm_iwpm", WQ_UNBOUND, 0);
	return cm_iwpm_wq ? 0 : -ENOMEM;
}

/* Frees what is left, after the last message. */
void cm_iwpm_stop(void)
{
	struct cm_mapping *mapping, *next_mapping;
	struct cm_remote_port *remote, *next;

	/* A daemon that does not read keeps the mappings: nothing here waits for it. */
	flush_delayed_work(&cm_iwpm_work);
	cancel_delayed_work_sync(&cm_iwpm_work);
	destroy_workqueue(cm_iwpm_wq);
	spin_lock_irq(&cm_iwpm_lock);
	list_for_each_entry_safe(mapping, next_mapping, &cm_unmapped, item) {
		list_del(&mapping->item);
		kfree(mapping);
	}
	list_for_each_entry_safe(remote, next, &cm_remote_list, item)
		cm_remote_free(remote);
	cm_iwpm.to.portid = 0;
	cm_iwpm.no_reply = false;
	spin_unlock_irq(&cm_iwpm_lock);
}
