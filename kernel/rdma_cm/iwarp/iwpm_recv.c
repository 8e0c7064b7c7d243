// SPDX-License-Identifier: GPL-2.0
/*
 * The port mapper: messages from the daemon, of <rdma/rdma_netlink.h>, and the client that gets
 * them.
 *
 * Only a process with CAP_NET_ADMIN can send them to us (RDMA_NL_ADMIN_PERM); in-tree iw_cm takes
 * them from any process. The sender is known by its netlink port, not by what it writes into the
 * header. Each attribute is checked; a message that is not well-formed is EINVAL and has no effect.
 *
 * ib_core handles messages of this client as dumps. A callback runs inside the daemon's send, so it
 * must not wait for the daemon. Netlink calls it later, from the daemon's receive, if the receive
 * buffer is full; the unload of the module does not wait for that, as with iw_cm.
 *
 * The in-tree iw_cm is the same client of ib_core, and only one can be registered. While it
 * is loaded, by its name, nothing is mapped here.
 */
#include <linux/module.h>
#include <net/net_namespace.h>
#include <net/netlink.h>

#include "iwpm.h"

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

/* The daemon reports how many mappings it has taken over. Refused ones stay in use. */
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

static const struct rdma_nl_cbs cm_iwpm_callbacks[RDMA_NL_IWPM_NUM_OPS] = {
	[RDMA_NL_IWPM_REG_PID]		= CM_IWPM_OP(cm_iwpm_recv_register),
	[RDMA_NL_IWPM_ADD_MAPPING]	= CM_IWPM_OP(cm_iwpm_recv_add),
	[RDMA_NL_IWPM_QUERY_MAPPING]	= CM_IWPM_OP(cm_iwpm_recv_query),
	[RDMA_NL_IWPM_REMOTE_INFO]	= CM_IWPM_OP(cm_iwpm_recv_remote_info),
	[RDMA_NL_IWPM_HANDLE_ERR]	= CM_IWPM_OP(cm_iwpm_recv_error),
	[RDMA_NL_IWPM_MAPINFO]		= CM_IWPM_OP(cm_iwpm_recv_mapinfo),
	[RDMA_NL_IWPM_MAPINFO_NUM]	= CM_IWPM_OP(cm_iwpm_recv_mapinfo_num),
	[RDMA_NL_IWPM_HELLO]		= CM_IWPM_OP(cm_iwpm_recv_hello),
};

/* --- beside iw_cm ------------------------------------------------------------ */

/* Registers as the client of ib_core, or unregisters; the mutex orders load and unload of iw_cm. */
static DEFINE_MUTEX(cm_iwpm_client_mutex);

static void cm_iwpm_set_own(bool own)
{
	bool changes;

	mutex_lock(&cm_iwpm_client_mutex);
	changes = cm_iwpm_is_own() != own;
	if (changes && own)
		rdma_nl_register(RDMA_NL_IWCM, cm_iwpm_callbacks);
	cm_iwpm_mark_own(own);
	/* Waits for messages that are being handled. */
	if (changes && !own)
		rdma_nl_unregister(RDMA_NL_IWCM);
	mutex_unlock(&cm_iwpm_client_mutex);
}

/* ib_core warns about a second client, so iw_cm must find none, in its init function. */
static int cm_iwpm_module_event(struct notifier_block *self, unsigned long event, void *ptr)
{
	const struct module *module = ptr;

	if (strcmp(module->name, "iw_cm"))
		return NOTIFY_DONE;
	if (event == MODULE_STATE_COMING)
		cm_iwpm_set_own(false);
	else if (event == MODULE_STATE_GOING)
		cm_iwpm_set_own(true);
	return NOTIFY_DONE;
}

static struct notifier_block cm_iwpm_module_notifier = { .notifier_call = cm_iwpm_module_event };

static bool cm_iwpm_iw_cm_is_loaded(void)
{
	struct kobject *found;

	if (IS_BUILTIN(CONFIG_INFINIBAND))
		return true;
	found = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, "iw_cm");
	kobject_put(found);
	return found;
}

static int cm_iwpm_netlink_event(struct notifier_block *self, unsigned long event, void *ptr)
{
	const struct netlink_notify *closed = ptr;

	if (event == NETLINK_URELEASE && closed->protocol == NETLINK_RDMA &&
	    net_eq(closed->net, &init_net) && closed->portid)
		cm_iwpm_lose(closed->portid);
	return NOTIFY_DONE;
}

static struct notifier_block cm_iwpm_netlink_notifier = { .notifier_call = cm_iwpm_netlink_event };

/* --- the module -------------------------------------------------------------- */

int cm_iwpm_init(void)
{
	int ret;

	ret = cm_iwpm_start();
	if (ret)
		return ret;
	ret = netlink_register_notifier(&cm_iwpm_netlink_notifier);
	if (ret)
		goto work;
	ret = register_module_notifier(&cm_iwpm_module_notifier);
	if (ret)
		goto netlink;
	if (!cm_iwpm_iw_cm_is_loaded())
		cm_iwpm_set_own(true);
	return 0;

netlink:
	netlink_unregister_notifier(&cm_iwpm_netlink_notifier);
work:
	cm_iwpm_stop();
	return ret;
}

void cm_iwpm_exit(void)
{
	unregister_module_notifier(&cm_iwpm_module_notifier);
	cm_iwpm_set_own(false);
	netlink_unregister_notifier(&cm_iwpm_netlink_notifier);
	cm_iwpm_stop();
}
