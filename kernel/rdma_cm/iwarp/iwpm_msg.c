// SPDX-License-Identifier: GPL-2.0
/*
 * The messages of the port mapper: <rdma/rdma_netlink.h>.
 *
 * Only a process with CAP_NET_ADMIN can send them to us (RDMA_NL_ADMIN_PERM); in-tree iw_cm takes
 * them from any process. The sender is known by its netlink port, not by what it writes into the
 * header. Each attribute is checked; a message that is not well-formed is EINVAL and has no effect.
 *
 * ib_core handles messages of this client as dumps. A callback runs inside the daemon's send, so it
 * must not wait for the daemon. Netlink calls it later, from the daemon's receive, if the receive
 * buffer is full; the unload of the module does not wait for that, as with iw_cm.
 */
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/sock.h>

#include <t3_race_point.h>

#include "iwpm.h"

/* Any message fits: four addresses, three numbers, three names. */
#define CM_IWPM_MSG_SIZE	1024

/* --- to the daemon --------------------------------------------------------- */

static struct sk_buff *cm_iwpm_msg_new(unsigned int size)
{
	return alloc_skb(nlmsg_total_size(size), GFP_KERNEL_ACCOUNT);
}

static struct nlmsghdr *cm_iwpm_msg_put(struct sk_buff *skb, u32 seq, u8 op)
{
	return nlmsg_put(skb, 0, seq, RDMA_NL_GET_TYPE(RDMA_NL_IWCM, op), 0, NLM_F_REQUEST);
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

/* It has the attributes of @req. */
static bool cm_iwpm_fill(struct sk_buff *skb, const struct cm_iwpm_request *req)
{
	struct nlmsghdr *nlh = cm_iwpm_msg_put(skb, req->seq, req->op);
	int err;

	if (!nlh)
		return false;
	switch (req->op) {
	case RDMA_NL_IWPM_REG_PID:
		err = cm_iwpm_put_register(skb, req);
		break;
	case RDMA_NL_IWPM_ADD_MAPPING:
		err = cm_iwpm_put_add(skb, req);
		break;
	default:
		err = cm_iwpm_put_query(skb, req);
	}
	if (err)
		return false;
	nlmsg_end(skb, nlh);
	return true;
}

/**
 * cm_iwpm_send_request - send a request; REG_PID to the multicast group
 * @req: the request
 *
 * Return: 0; -ECONNREFUSED if the daemon is gone; -EAGAIN while its receive buffer is full; -ENOMEM
 */
int cm_iwpm_send_request(const struct cm_iwpm_request *req)
{
	struct sk_buff *skb = cm_iwpm_msg_new(CM_IWPM_MSG_SIZE);

	if (!skb)
		return -ENOMEM;
	if (!cm_iwpm_fill(skb, req)) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	if (req->op == RDMA_NL_IWPM_REG_PID)
		return rdma_nl_multicast(&init_net, skb, RDMA_NL_GROUP_IWPM, GFP_KERNEL);
	return rdma_nl_unicast(&init_net, skb, req->daemon.portid);
}

/* The daemon forgets a mapping. It does not answer. Return: as cm_iwpm_send_request(). */
int cm_iwpm_send_remove(const struct cm_iwpm_daemon *daemon, u32 seq, const union cm_inet *local)
{
	struct sk_buff *skb = cm_iwpm_msg_new(CM_IWPM_MSG_SIZE);
	struct nlmsghdr *nlh;

	if (!skb)
		return -ENOMEM;
	nlh = cm_iwpm_msg_put(skb, seq, RDMA_NL_IWPM_REMOVE_MAPPING);
	if (!nlh || nla_put_u32(skb, IWPM_NLA_MANAGE_MAPPING_SEQ, daemon->echo) ||
	    cm_iwpm_put_addr(skb, IWPM_NLA_MANAGE_ADDR, local)) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, nlh);
	return rdma_nl_unicast(&init_net, skb, daemon->portid);
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
	struct sk_buff *skb = cm_iwpm_msg_new(CM_IWPM_MSG_SIZE);
	struct nlmsghdr *nlh;

	if (!skb)
		return -ENOMEM;
	nlh = cm_iwpm_msg_put(skb, 0, RDMA_NL_IWPM_MAPINFO_NUM);
	if (!nlh || nla_put_u32(skb, IWPM_NLA_MAPINFO_SEQ, 0) ||
	    nla_put_u32(skb, IWPM_NLA_MAPINFO_SEND_NUM, number)) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, nlh);
	return rdma_nl_unicast(&init_net, skb, daemon->portid);
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
	T3_RACE_POINT(cm_iwpm_mapinfo);
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
static int cm_iwpm_send_hello(u32 portid, u16 version)
{
	struct sk_buff *skb = cm_iwpm_msg_new(CM_IWPM_MSG_SIZE);
	struct nlmsghdr *nlh;

	if (!skb)
		return -ENOMEM;
	nlh = cm_iwpm_msg_put(skb, 0, RDMA_NL_IWPM_HELLO);
	if (!nlh || nla_put_u16(skb, IWPM_NLA_HELLO_ABI_VERSION, version)) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, nlh);
	return rdma_nl_unicast(&init_net, skb, portid);
}

/* --- from the daemon -------------------------------------------------------- */

#define POLICY_ADDR	NLA_POLICY_EXACT_LEN(sizeof(struct sockaddr_storage))
#define POLICY_NAME	{ .type = NLA_NUL_STRING, .len = IWPM_ULIBNAME_SIZE - 1 }

static const struct nla_policy cm_register_policy[IWPM_NLA_RREG_PID_MAX] = {
	[IWPM_NLA_RREG_PID_SEQ]		= { .type = NLA_U32 },
	[IWPM_NLA_RREG_IBDEV_NAME]	= POLICY_NAME,
	[IWPM_NLA_RREG_ULIB_NAME]	= POLICY_NAME,
	[IWPM_NLA_RREG_ULIB_VER]	= { .type = NLA_U16 },
	[IWPM_NLA_RREG_PID_ERR]		= { .type = NLA_U16 },
};

static const struct nla_policy cm_add_policy[IWPM_NLA_RMANAGE_MAPPING_MAX] = {
	[IWPM_NLA_RMANAGE_MAPPING_SEQ]	= { .type = NLA_U32 },
	[IWPM_NLA_RMANAGE_ADDR]		= POLICY_ADDR,
	[IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR] = POLICY_ADDR,
	[IWPM_NLA_RMANAGE_MAPPING_ERR]	= { .type = NLA_U16 },
};

static const struct nla_policy cm_query_policy[IWPM_NLA_RQUERY_MAPPING_MAX] = {
	[IWPM_NLA_RQUERY_MAPPING_SEQ]	= { .type = NLA_U32 },
	[IWPM_NLA_RQUERY_LOCAL_ADDR]	= POLICY_ADDR,
	[IWPM_NLA_RQUERY_REMOTE_ADDR]	= POLICY_ADDR,
	[IWPM_NLA_RQUERY_MAPPED_LOC_ADDR] = POLICY_ADDR,
	[IWPM_NLA_RQUERY_MAPPED_REM_ADDR] = POLICY_ADDR,
	[IWPM_NLA_RQUERY_MAPPING_ERR]	= { .type = NLA_U16 },
};

static const struct nla_policy cm_mapinfo_policy[IWPM_NLA_MAPINFO_REQ_MAX] = {
	[IWPM_NLA_MAPINFO_ULIB_NAME]	= POLICY_NAME,
	[IWPM_NLA_MAPINFO_ULIB_VER]	= { .type = NLA_U16 },
};

static const struct nla_policy cm_error_policy[IWPM_NLA_ERR_MAX] = {
	[IWPM_NLA_ERR_SEQ]		= { .type = NLA_U32 },
	[IWPM_NLA_ERR_CODE]		= { .type = NLA_U16 },
};

static const struct nla_policy cm_hello_policy[IWPM_NLA_HELLO_MAX] = {
	[IWPM_NLA_HELLO_ABI_VERSION]	= { .type = NLA_U16 },
};

/*
 * Parses a message that must have all attributes of a policy. Attributes of newer daemons are
 * ignored.
 */
static int cm_iwpm_parse(const struct nlmsghdr *nlh, struct nlattr **attr,
			 const struct nla_policy *policy, int number)
{
	int ret, i;

	ret = __nlmsg_parse(nlh, 0, attr, number - 1, policy,
			    NL_VALIDATE_TRAILING | NL_VALIDATE_STRICT_ATTRS, NULL);
	for (i = 1; !ret && i < number; i++)
		if (!attr[i])
			ret = -EINVAL;
	return ret;
}

#define cm_iwpm_parse_all(cb, attr, policy) \
	cm_iwpm_parse((cb)->nlh, attr, policy, ARRAY_SIZE(policy))

static u32 cm_iwpm_sender(const struct netlink_callback *cb)
{
	return NETLINK_CB(cb->skb).portid;
}

/* Return: false for an address that is not of IPv4 or IPv6. */
static bool cm_iwpm_get_addr(union cm_inet *addr, const struct nlattr *attr)
{
	memcpy(addr, nla_data(attr), sizeof(*addr));
	return addr->sa.sa_family == AF_INET || addr->sa.sa_family == AF_INET6;
}

static bool cm_iwpm_is_library(const struct nlattr *name)
{
	return !strcmp(nla_data(name), CM_IWPM_LIBRARY);
}

static int cm_iwpm_recv_register(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_RREG_PID_MAX];
	u16 version;

	if (cm_iwpm_parse_all(cb, attr, cm_register_policy))
		return -EINVAL;
	version = nla_get_u16(attr[IWPM_NLA_RREG_ULIB_VER]);
	if (version < IWPM_UABI_VERSION_MIN || nla_get_u16(attr[IWPM_NLA_RREG_PID_ERR]) ||
	    !cm_iwpm_is_library(attr[IWPM_NLA_RREG_ULIB_NAME]))
		return -EINVAL;
	cm_iwpm_registered(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq, version,
			   nla_get_u32(attr[IWPM_NLA_RREG_PID_SEQ]),
			   nla_data(attr[IWPM_NLA_RREG_IBDEV_NAME]));
	return 0;
}

static int cm_iwpm_recv_add(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_RMANAGE_MAPPING_MAX];
	struct cm_iwpm_addrs addrs = {};

	if (cm_iwpm_parse_all(cb, attr, cm_add_policy) ||
	    !cm_iwpm_get_addr(&addrs.local, attr[IWPM_NLA_RMANAGE_ADDR]) ||
	    !cm_iwpm_get_addr(&addrs.mapped_local, attr[IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR]) ||
	    !cm_iwpm_from_daemon(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq))
		return -EINVAL;
	cm_iwpm_answer(RDMA_NL_IWPM_ADD_MAPPING, nla_get_u32(attr[IWPM_NLA_RMANAGE_MAPPING_SEQ]),
		       nla_get_u16(attr[IWPM_NLA_RMANAGE_MAPPING_ERR]), &addrs);
	return 0;
}

static bool cm_iwpm_parse_query(struct netlink_callback *cb, struct nlattr **attr,
				struct cm_iwpm_addrs *addrs)
{
	return !cm_iwpm_parse_all(cb, attr, cm_query_policy) &&
	       cm_iwpm_get_addr(&addrs->local, attr[IWPM_NLA_RQUERY_LOCAL_ADDR]) &&
	       cm_iwpm_get_addr(&addrs->remote, attr[IWPM_NLA_RQUERY_REMOTE_ADDR]) &&
	       cm_iwpm_get_addr(&addrs->mapped_local, attr[IWPM_NLA_RQUERY_MAPPED_LOC_ADDR]) &&
	       cm_iwpm_get_addr(&addrs->mapped_remote, attr[IWPM_NLA_RQUERY_MAPPED_REM_ADDR]) &&
	       cm_iwpm_from_daemon(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq);
}

static int cm_iwpm_recv_query(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_RQUERY_MAPPING_MAX];
	struct cm_iwpm_addrs addrs;

	if (!cm_iwpm_parse_query(cb, attr, &addrs))
		return -EINVAL;
	cm_iwpm_answer(RDMA_NL_IWPM_QUERY_MAPPING, nla_get_u32(attr[IWPM_NLA_RQUERY_MAPPING_SEQ]),
		       nla_get_u16(attr[IWPM_NLA_RQUERY_MAPPING_ERR]), &addrs);
	return 0;
}

/* A peer has asked for a listener of ours, and will connect. */
static int cm_iwpm_recv_remote_info(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_RQUERY_MAPPING_MAX];
	struct cm_iwpm_addrs addrs;

	if (!cm_iwpm_parse_query(cb, attr, &addrs))
		return -EINVAL;
	return cm_iwpm_remote_info(&addrs);
}

static int cm_iwpm_recv_error(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_ERR_MAX];

	if (cm_iwpm_parse_all(cb, attr, cm_error_policy) ||
	    !cm_iwpm_from_daemon(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq))
		return -EINVAL;
	cm_iwpm_error(nla_get_u32(attr[IWPM_NLA_ERR_SEQ]), nla_get_u16(attr[IWPM_NLA_ERR_CODE]));
	return 0;
}

/* A daemon has started, and wants to know our mappings. */
static int cm_iwpm_recv_mapinfo(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_MAPINFO_REQ_MAX];
	u16 version;

	if (cm_iwpm_parse_all(cb, attr, cm_mapinfo_policy))
		return -EINVAL;
	version = nla_get_u16(attr[IWPM_NLA_MAPINFO_ULIB_VER]);
	if (version < IWPM_UABI_VERSION_MIN ||
	    !cm_iwpm_is_library(attr[IWPM_NLA_MAPINFO_ULIB_NAME]))
		return -EINVAL;
	cm_iwpm_mapinfo_wanted(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq, version);
	return 0;
}

/* The daemon reports how many mappings it has taken over. What it refused is as before: in use. */
static int cm_iwpm_recv_mapinfo_num(struct sk_buff *skb, struct netlink_callback *cb)
{
	return cm_iwpm_from_daemon(cm_iwpm_sender(cb), cb->nlh->nlmsg_seq) ? 0 : -EINVAL;
}

/* A daemon of version 4 has started. */
static int cm_iwpm_recv_hello(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr[IWPM_NLA_HELLO_MAX];
	u32 portid = cm_iwpm_sender(cb);
	u16 version;

	if (cm_iwpm_parse_all(cb, attr, cm_hello_policy))
		return -EINVAL;
	version = nla_get_u16(attr[IWPM_NLA_HELLO_ABI_VERSION]);
	if (version < IWPM_UABI_VERSION_MIN)
		return -EINVAL;
	version = min_t(u16, version, IWPM_UABI_VERSION);
	cm_iwpm_hello(portid, cb->nlh->nlmsg_seq, version);
	return cm_iwpm_send_hello(portid, version);
}

#define CM_IWPM_OP(function)	{ .dump = function, .flags = RDMA_NL_ADMIN_PERM }

const struct rdma_nl_cbs cm_iwpm_callbacks[RDMA_NL_IWPM_NUM_OPS] = {
	[RDMA_NL_IWPM_REG_PID]		= CM_IWPM_OP(cm_iwpm_recv_register),
	[RDMA_NL_IWPM_ADD_MAPPING]	= CM_IWPM_OP(cm_iwpm_recv_add),
	[RDMA_NL_IWPM_QUERY_MAPPING]	= CM_IWPM_OP(cm_iwpm_recv_query),
	[RDMA_NL_IWPM_REMOTE_INFO]	= CM_IWPM_OP(cm_iwpm_recv_remote_info),
	[RDMA_NL_IWPM_HANDLE_ERR]	= CM_IWPM_OP(cm_iwpm_recv_error),
	[RDMA_NL_IWPM_MAPINFO]		= CM_IWPM_OP(cm_iwpm_recv_mapinfo),
	[RDMA_NL_IWPM_MAPINFO_NUM]	= CM_IWPM_OP(cm_iwpm_recv_mapinfo_num),
	[RDMA_NL_IWPM_HELLO]		= CM_IWPM_OP(cm_iwpm_recv_hello),
};
