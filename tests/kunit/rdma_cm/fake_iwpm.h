/* SPDX-License-Identifier: GPL-2.0 */
/*
 * There is no daemon of the port mapper. Registrations are counted; they fail as allocations do in
 * the suite that has these.
 */
#ifndef T3_FAKE_IWPM_H
#define T3_FAKE_IWPM_H

#include <linux/module.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <rdma/rdma_netlink.h>

#include "iwpm.h"

static int fake_iwpm_registrations;

static int fake_iwpm_register(const char *what)
{
#ifdef T3_KUNIT_FAILING_ALLOC_H
	if (alloc_fails(0, what))
		return -ENOMEM;
#endif
	fake_iwpm_registrations++;
	return 0;
}

#define rdma_nl_chk_listeners(group)		false
#define rdma_nl_register(index, callbacks)	((void)(callbacks), fake_iwpm_registrations++)
#define rdma_nl_unregister(index)		(fake_iwpm_registrations--)
#define rdma_nl_multicast(net, skb, group, gfp)	(kfree_skb(skb), -ESRCH)
#define rdma_nl_unicast(net, skb, portid)	(kfree_skb(skb), -ECONNREFUSED)
#define rdma_nl_unicast_wait			rdma_nl_unicast
#define netlink_register_notifier(block)	((void)(block), fake_iwpm_register(__func__))
#define netlink_unregister_notifier(block)	((void)(block), fake_iwpm_registrations--)
/* Suites run before the module is in sysfs. */
#define kset_find_obj(kset, name)		((struct kobject *)NULL)
#undef register_module_notifier
#undef unregister_module_notifier
#define register_module_notifier(block)		((void)(block), fake_iwpm_register(__func__))
#define unregister_module_notifier(block)	((void)(block), fake_iwpm_registrations--)

#endif
