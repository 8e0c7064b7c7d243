/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The port mapper of iWARP. The daemon iwpmd maps the port of a listener, or of the active end of a
 * connection, to a port of the host's TCP, which it holds with a socket. It asks the peer's iwpmd
 * for the port of the peer's listener. We ask it over netlink, as the client RDMA_NL_IWCM.
 *
 * iwpm.c: who is mapped, and who waits for the daemon; iwpm_send.c, iwpm_recv.c: the messages.
 *
 * A mapping never decides whether a call succeeds. Without a daemon, or if that refuses or does
 * not answer, the ports are the unmapped ones.
 *
 *  - A listener listens on its own port, and is mapped by a work item. When the mapping is there,
 *    it listens on the mapped port, too (cm_iw_listener.mapped). So a peer without iwpmd still
 *    reaches it, and a listen does not wait for the daemon.
 *  - A connect waits for the answer, in the context of the caller, at most CM_IWPM_TIMEOUT. It
 *    holds no lock of ours then, but what the caller holds.
 *
 * Lifetimes
 *
 * A request (struct cm_iwpm_request) is on the stack of the thread that waits for its answer, and
 * in the list of pending requests. The answer, the end of the daemon, of the listener, or of the
 * device complete it under cm_iwpm_lock. The waiter takes it off the list under that lock.
 *
 * A mapping (struct cm_mapping) belongs to its listener or its id. cm_iwpm_unmap() hands it to a
 * work item, which notifies the daemon and frees it. One work item does this for all mappings, and
 * sends a new daemon the existing ones: so a new daemon does not learn a mapping after its end.
 */
#ifndef T3_RDMA_CM_IWPM_H
#define T3_RDMA_CM_IWPM_H

#include <linux/completion.h>
#include <linux/in6.h>
#include <linux/list.h>
#include <linux/netlink.h>
#include <linux/spinlock.h>
#include <rdma/iw_portmap.h>
#include <rdma/rdma_netlink.h>

#include "iwarp.h"

struct seq_file;
struct sk_buff;

/* As long as iwpmd repeats its question to a peer, in seconds. */
#define CM_IWPM_TIMEOUT		10
/* While the daemon's receive buffer is full, a message is tried again after this time. */
#define CM_IWPM_RETRY		(HZ / 10)
/* Requests of one user at the same time; those above are not mapped. */
#define CM_IWPM_MAX_PENDING	128

#define CM_IWPM_LIBRARY		"iWarpPortMapperUser"

/**
 * union cm_inet - an address of IPv4 or IPv6
 * @sa: the family
 * @sin: IPv4
 * @sin6: IPv6
 */
union cm_inet {
	struct sockaddr sa;
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;
};

/**
 * struct cm_iwpm_addrs - two ends, and their mapped addresses
 * @local: the local end
 * @remote: the peer; no family for a listener
 * @mapped_local: what the wire has for @local
 * @mapped_remote: what the wire has for @remote
 */
struct cm_iwpm_addrs {
	union cm_inet local;
	union cm_inet remote;
	union cm_inet mapped_local;
	union cm_inet mapped_remote;
};

/**
 * struct cm_mapping - a mapped listener, or the active end of a mapped connection
 * @item: in the list of mappings, or of those to be removed
 * @seq: increases with each mapping, so that a walk of the list can drop the lock
 * @addrs: addresses; the mapped ones are set by the answer of the daemon
 * @flags: for the daemon: IWPM_FLAGS_*
 */
struct cm_mapping {
	struct list_head item __guarded_by(&cm_iwpm_lock);
	u64 seq __guarded_by(&cm_iwpm_lock);
	struct cm_iwpm_addrs addrs;
	u32 flags;
};

/**
 * struct cm_iwpm_daemon - what a message to the daemon needs
 * @portid: its netlink port, or 0
 * @echo: number of its last message
 * @version: of the messages, 3 or 4
 */
struct cm_iwpm_daemon {
	u32 portid;
	u32 echo;
	u16 version;
};

/**
 * struct cm_iwpm_mapinfo - a daemon has started, and does not know our mappings
 * @request: number of its request
 * @wanted: not all of them are sent yet
 * @after: number of the last mapping that is sent
 * @number: how many are sent
 */
struct cm_iwpm_mapinfo {
	u32 request;
	bool wanted;
	u64 after;
	unsigned int number;
};

/**
 * struct cm_iwpm_request - a request to the daemon
 * @item: in the list of pending requests
 * @done: it is answered, or is given up
 * @dev: the device; its removal ends the request
 * @listener: the listener, whose end ends the request; or NULL
 * @mapping: what the request is about; NULL: REG_PID
 * @daemon: to which it was sent
 * @user: who connects or listens
 * @seq: its number
 * @op: RDMA_NL_IWPM_*
 * @status: result
 * @sent: the daemon may have it
 * @finished: @status is set
 * @mapped: the daemon has a mapping for it, though it did not succeed
 */
struct cm_iwpm_request {
	struct list_head item __guarded_by(&cm_iwpm_lock);
	struct completion done;
	struct cm_dev *dev;
	struct cm_listener *listener;
	struct cm_mapping *mapping;
	struct cm_iwpm_daemon daemon;
	unsigned long user;
	u32 seq;
	u8 op;
	int status __guarded_by(&cm_iwpm_lock);
	bool sent;
	bool finished __guarded_by(&cm_iwpm_lock);
	bool mapped __guarded_by(&cm_iwpm_lock);
};

/**
 * struct cm_remote_port - the port of a peer that has asked for a listener, and will connect
 * @node: in the table, by @mapped
 * @item: in the list of all, oldest first
 * @local: mapped address of our listener
 * @mapped: mapped address of the peer: the source of its connection
 * @port: its port
 * @until: time when this is forgotten
 */
struct cm_remote_port {
	struct hlist_node node __guarded_by(&cm_iwpm_lock);
	struct list_head item __guarded_by(&cm_iwpm_lock);
	union cm_inet local;
	union cm_inet mapped;
	u16 port;
	unsigned long until;
};

/* iwpm.c: for iwpm_recv.c. @portid is that of the sender, which may be any privileged process. */
bool cm_iwpm_from_daemon(u32 portid, u32 echo);
void cm_iwpm_hello(u32 portid, u32 echo, u16 version);
void cm_iwpm_mapinfo_wanted(u32 portid, u32 echo, u16 version);
void cm_iwpm_registered(u32 portid, u32 echo, u16 version, u32 seq, const char *device);
void cm_iwpm_answer(u8 op, u32 seq, int status, const struct cm_iwpm_addrs *addrs);
void cm_iwpm_error(u32 seq, u16 code);
int cm_iwpm_remote_info(const struct cm_iwpm_addrs *addrs);
unsigned int cm_iwpm_next_mappings(u64 *after, struct sk_buff *skb, u16 version);
void cm_iwpm_lose(u32 portid);
bool cm_iwpm_is_own(void);
void cm_iwpm_mark_own(bool own);
int cm_iwpm_start(void);
void cm_iwpm_stop(void);

/* iwpm_send.c */
int cm_iwpm_send_hello(u32 portid, u16 version);
int cm_iwpm_send_request(const struct cm_iwpm_request *req);
int cm_iwpm_send_remove(const struct cm_iwpm_daemon *daemon, u32 seq, const union cm_inet *local);
int cm_iwpm_send_mapinfo(const struct cm_iwpm_daemon *daemon, struct cm_iwpm_mapinfo *info);
bool cm_iwpm_put_mapping(struct sk_buff *skb, const struct cm_mapping *mapping, u16 version);

/* For debugfs.c. */
void cm_iwpm_show(struct seq_file *seq);

#endif
