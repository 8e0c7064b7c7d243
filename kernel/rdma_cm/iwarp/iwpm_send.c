// SPDX-License-Identifier: GPL-2.0
/* The port mapper: messages to the daemon, of <rdma/rdma_netlink.h>. */
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/sock.h>

#include "iwpm.h"

/* Any message fits: four addresses, three numbers, three names. */
#define CM_IWPM_MSG_SIZE	1024

static struct sk_buff *cm_iwpm_msg_new(unsigned int size)
{
	return alloc_skb(nlmsg_total_size(size), GFP_KERNEL_ACCOUNT);
}

static struct nlmsghdr *cm_iwpm_msg_put(struct sk_buff *skb, u32 seq, u8 op)
{
	return nlmsg_put(skb, 0, seq, RDMA_NL_GET_TYPE(RDMA_NL_IWCM, op), 0, NLM_F_REQUEST);
}

/* A message without attributes yet. Return: NULL without memory. */
static struct sk_buff *cm_iwpm_msg_begin(u32 seq, u8 op)
{
	struct sk_buff *skb = cm_iwpm_msg_new(CM_IWPM_MSG_SIZE);

	if (skb)
		cm_iwpm_msg_put(skb, seq, op);
	return skb;
}

/* Send it with its attributes. @err: not 0 if one of them did not fit. */
static int cm_iwpm_msg_send(struct sk_buff *skb, int err, u32 portid)
{
	if (err) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, nlmsg_hdr(skb));
	return rdma_nl_unicast(&init_net, skb, portid);
}

/* The daemon copies whole struct sockaddr_storage. */
static int cm_iwpm_put_addr(struct sk_buff *skb, int type, const union cm_inet *addr)
{
	struct sockaddr_storage storage = {};

	memcpy(&storage, addr, sizeof(*addr));
	return nla_put(skb, type, sizeof(storage), &storage);
}

/* The daemon copies buffers of a fixed size. */
static int cm_iwpm_put_name(struct sk_buff *skb, int type, const char *name, size_t size)
{
	char buffer[IWPM_DEVNAME_SIZE] = {};

	strscpy(buffer, name, min(size, sizeof(buffer)));
	return nla_put(skb, type, size, buffer);
}

static int cm_iwpm_put_register(struct sk_buff *skb, const struct cm_iwpm_request *req)
{
	struct ib_device *device = req->dev->device;

	return nla_put_u32(skb, IWPM_NLA_REG_PID_SEQ, req->daemon.echo) ||
	       cm_iwpm_put_name(skb, IWPM_NLA_REG_IF_NAME, device->iw_ifname, IWPM_IFNAME_SIZE) ||
	       cm_iwpm_put_name(skb, IWPM_NLA_REG_IBDEV_NAME, dev_name(&device->dev),
				IWPM_DEVNAME_SIZE) ||
	       cm_iwpm_put_name(skb, IWPM_NLA_REG_ULIB_NAME, CM_IWPM_LIBRARY, IWPM_ULIBNAME_SIZE);
}

static int cm_iwpm_put_add(struct sk_buff *skb, const struct cm_iwpm_request *req)
{
	return nla_put_u32(skb, IWPM_NLA_MANAGE_MAPPING_SEQ, req->daemon.echo) ||
	       cm_iwpm_put_addr(skb, IWPM_NLA_MANAGE_ADDR, &req->mapping->addrs.local) ||
	       (req->daemon.version > IWPM_UABI_VERSION_MIN &&
		nla_put_u32(skb, IWPM_NLA_MANAGE_FLAGS, req->mapping->flags));
}

static int cm_iwpm_put_query(struct sk_buff *skb, const struct cm_iwpm_request *req)
{
	const struct cm_iwpm_addrs *addrs = &req->mapping->addrs;

	return nla_put_u32(skb, IWPM_NLA_QUERY_MAPPING_SEQ, req->daemon.echo) ||
	       cm_iwpm_put_addr(skb, IWPM_NLA_QUERY_LOCAL_ADDR, &addrs->local) ||
	       cm_iwpm_put_addr(skb, IWPM_NLA_QUERY_REMOTE_ADDR, &addrs->remote) ||
	       (req->daemon.version > IWPM_UABI_VERSION_MIN &&
		nla_put_u32(skb, IWPM_NLA_QUERY_FLAGS, req->mapping->flags));
}

static int cm_iwpm_put_attrs(struct sk_buff *skb, const struct cm_iwpm_request *req)
{
	switch (req->op) {
	case RDMA_NL_IWPM_REG_PID:
		return cm_iwpm_put_register(skb, req);
	case RDMA_NL_IWPM_ADD_MAPPING:
		return cm_iwpm_put_add(skb, req);
	default:
		return cm_iwpm_put_query(skb, req);
	}
}

/**
 * cm_iwpm_send_request - send a request; REG_PID to the multicast group
 * @req: the request
 *
 * Return: 0; -ECONNREFUSED if the daemon is gone; -EAGAIN while its receive buffer is full; -ENOMEM
 */
int cm_iwpm_send_request(const struct cm_iwpm_request *req)
{
	struct sk_buff *skb = cm_iwpm_msg_begin(req->seq, req->op);
	int ret;

	if (!skb)
		return -ENOMEM;
	ret = cm_iwpm_put_attrs(skb, req);
	if (ret || req->op != RDMA_NL_IWPM_REG_PID)
		return cm_iwpm_msg_send(skb, ret, req->daemon.portid);
	nlmsg_end(skb, nlmsg_hdr(skb));
	ret = rdma_nl_multicast(&init_net, skb, RDMA_NL_GROUP_IWPM, GFP_KERNEL);
	/* From 6.12 any process can join the group, and not read. The daemon may have it. */
	return ret == -ENOBUFS ? 0 : ret;
}

/* The daemon forgets a mapping. It does not answer. Return: as cm_iwpm_send_request(). */
int cm_iwpm_send_remove(const struct cm_iwpm_daemon *daemon, u32 seq, const union cm_inet *local)
{
	struct sk_buff *skb = cm_iwpm_msg_begin(seq, RDMA_NL_IWPM_REMOVE_MAPPING);

	if (!skb)
		return -ENOMEM;
	return cm_iwpm_msg_send(skb, nla_put_u32(skb, IWPM_NLA_MANAGE_MAPPING_SEQ, daemon->echo) ||
				     cm_iwpm_put_addr(skb, IWPM_NLA_MANAGE_ADDR, local),
				daemon->portid);
}

/* Does not sleep. Return: false if @skb is full. */
bool cm_iwpm_put_mapping(struct sk_buff *skb, const struct cm_mapping *mapping, u16 version)
{
	struct nlmsghdr *nlh = cm_iwpm_msg_put(skb, 0, RDMA_NL_IWPM_MAPINFO);

	if (!nlh)
		return false;
	if (cm_iwpm_put_addr(skb, IWPM_NLA_MAPINFO_LOCAL_ADDR, &mapping->addrs.local) ||
	    cm_iwpm_put_addr(skb, IWPM_NLA_MAPINFO_MAPPED_ADDR, &mapping->addrs.mapped_local) ||
	    (version > IWPM_UABI_VERSION_MIN &&
	     nla_put_u32(skb, IWPM_NLA_MAPINFO_FLAGS, mapping->flags))) {
		nlmsg_cancel(skb, nlh);
		return false;
	}
	nlmsg_end(skb, nlh);
	return true;
}

static int cm_iwpm_send_mapinfo_num(const struct cm_iwpm_daemon *daemon, u32 number)
{
	struct sk_buff *skb = cm_iwpm_msg_begin(0, RDMA_NL_IWPM_MAPINFO_NUM);

	if (!skb)
		return -ENOMEM;
	return cm_iwpm_msg_send(skb, nla_put_u32(skb, IWPM_NLA_MAPINFO_SEQ, 0) ||
				     nla_put_u32(skb, IWPM_NLA_MAPINFO_SEND_NUM, number),
				daemon->portid);
}

/*
 * Sends a new daemon the next mappings. iwpmd reads at most 4 KB at a time. Return: how many, or an
 * error, as cm_iwpm_send_request().
 */
static int cm_iwpm_send_mappings(const struct cm_iwpm_daemon *daemon, u64 *after)
{
	struct sk_buff *skb = cm_iwpm_msg_new(3 * CM_IWPM_MSG_SIZE);
	u64 last = *after;
	int number, ret;

	if (!skb)
		return -ENOMEM;
	number = cm_iwpm_next_mappings(&last, skb, daemon->version);
	if (!number) {
		kfree_skb(skb);
		return 0;
	}
	ret = rdma_nl_unicast(&init_net, skb, daemon->portid);
	if (ret)
		return ret;
	*after = last;
	return number;
}

/**
 * cm_iwpm_send_mapinfo - send a new daemon the next mappings, or after the last ones their number
 * @daemon: the daemon
 * @info: what is sent already; receives what is sent now
 *
 * Nothing is sent if there is no mapping.
 *
 * Return: 0, or an error, as cm_iwpm_send_request().
 */
int cm_iwpm_send_mapinfo(const struct cm_iwpm_daemon *daemon, struct cm_iwpm_mapinfo *info)
{
	int ret = cm_iwpm_send_mappings(daemon, &info->after);

	if (ret > 0) {
		info->number += ret;
		return 0;
	}
	if (!ret && info->number)
		ret = cm_iwpm_send_mapinfo_num(daemon, info->number);
	info->wanted = ret == -EAGAIN;
	return ret;
}

/* In the daemon's own send, so this does not wait. */
int cm_iwpm_send_hello(u32 portid, u16 version)
{
	struct sk_buff *skb = cm_iwpm_msg_begin(0, RDMA_NL_IWPM_HELLO);

	if (!skb)
		return -ENOMEM;
	return cm_iwpm_msg_send(skb, nla_put_u16(skb, IWPM_NLA_HELLO_ABI_VERSION, version), portid);
}
