// SPDX-License-Identifier: GPL-2.0
/*
 * Load and unload of the module: each step of the load fails once, and nothing stays registered.
 * And the file with all ids in debugfs, which holds a reference on the id that it is at.
 */
#include <linux/debugfs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sysctl.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#include "../failing_alloc.h"

/* What the module has registered; whether its client had no device or no worker at some time. */
static struct {
	int workqueues, devices, clients, notifiers, sysctls;
	bool client_alone;
	bool no_sysctl;			/* it cannot be registered */
} load;

static struct workqueue_struct *load_alloc_workqueue(const char *name, unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("%s", flags, 0, name);

	load.workqueues += !!wq;
	return wq;
}

static void load_destroy_workqueue(struct workqueue_struct *wq)
{
	load.workqueues--;
	destroy_workqueue(wq);
}

static int load_register(int *count, int error)
{
	*count += !error;
	return error;
}

static void load_unregister(int *count)
{
	--*count;
}

static int load_register_client(struct ib_client *client)
{
	int err = alloc_fails(0, __func__) ? -ENOMEM : 0;

	load.client_alone |= !load.workqueues || !load.devices;
	return load_register(&load.clients, err);
}

/* This removes all devices, which posts events to their ids. */
static void load_unregister_client(struct ib_client *client)
{
	load.client_alone |= !load.workqueues || !load.devices;
	load_unregister(&load.clients);
}

static struct ctl_table_header *load_register_sysctl(void)
{
	static struct ctl_table_header header;

	return load_register(&load.sysctls, load.no_sysctl) ? NULL : &header;
}

#undef alloc_workqueue
#undef register_net_sysctl
#define alloc_workqueue(name, flags, max)	load_alloc_workqueue(name, flags)
#define destroy_workqueue			load_destroy_workqueue
#define ib_register_client			load_register_client
#define ib_unregister_client			load_unregister_client
#define register_netdevice_notifier(block) \
	((void)(block), load_register(&load.notifiers, alloc_fails(0, __func__) ? -ENOMEM : 0))
#define unregister_netdevice_notifier(block)	load_unregister(&load.notifiers)
#define misc_register(misc) \
	((void)(misc), load_register(&load.devices, alloc_fails(0, __func__) ? -EBUSY : 0))
#define misc_deregister(misc)			load_unregister(&load.devices)
#define register_net_sysctl(net, path, table)	((void)(table), load_register_sysctl())
#define unregister_net_sysctl_table(header)	load_unregister(&load.sysctls)
#define kasprintf(gfp, ...) \
	(alloc_fails(gfp, __func__) ? NULL : kasprintf(gfp, __VA_ARGS__))

#define FAKE_WITH_LOAD
#include "fake_provider.h"

/* main.c has functions for the load and the unload of the module: this one has others. */
#pragma push_macro("module_init")
#pragma push_macro("module_exit")
#undef module_init
#undef module_exit
#undef __init
#undef __exit
#define __init
#define __exit
#define module_init(function)
#define module_exit(function)

#include "ucm_cmd.c"
#include "ucm_group.c"
#include "ucm_query.c"
#include "ucm_event.c"
#include "ucm_context.c"
#include "ucm.c"
#include "debugfs.c"
#include "main.c"

#pragma pop_macro("module_exit")
#pragma pop_macro("module_init")

/* --- load and unload ------------------------------------------------------------- */

struct name {
	const char *name;
	int sysctls;
};

static const struct name names[] = {
	{ "rdma_cm", 1 },
	{ "t3_rdma_cm", 0 },	/* beside the in-tree module, which has the sysctl */
};

static void name_of(const struct name *name, char *description)
{
	strscpy(description, name->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(name, names, name_of);

static bool has_directory(void)
{
	struct dentry *dentry = debugfs_lookup("t3_rdma_cm", NULL);

	dput(dentry);
	return dentry;
}

static void expect_registered(struct kunit *test, bool loaded, int sysctls)
{
	const char *what = alloc_that_failed();

	KUNIT_EXPECT_EQ_MSG(test, load.workqueues, loaded ? 4 : 0, "%s", what);
	/* With the in-tree iw_cm, the port mapper is its own. */
	KUNIT_EXPECT_EQ_MSG(test, fake_iwpm_registrations, loaded ? 2 + cm_iwpm.own : 0, "%s",
			    what);
	KUNIT_EXPECT_EQ_MSG(test, load.devices, loaded, "%s", what);
	KUNIT_EXPECT_EQ_MSG(test, load.clients, loaded, "%s", what);
	KUNIT_EXPECT_EQ_MSG(test, load.notifiers, loaded, "%s", what);
	KUNIT_EXPECT_EQ_MSG(test, load.sysctls, loaded ? sysctls : 0, "%s", what);
	KUNIT_EXPECT_EQ_MSG(test, has_directory(), loaded, "%s", what);
}

/* A name of the device that is left is found as leaked memory. */
static void load_and_unload(struct kunit *test)
{
	const struct name *name = test->param_value;
	int err;

	memset(&load, 0, offsetof(typeof(load), no_sysctl));
	ucm_sysctl = NULL;	/* as at each load */
	device_name = (char *)name->name;
	allocations_fail();
	err = t3_rdma_cm_init();
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, !err, !failing.where, "%s", alloc_that_failed());
	expect_registered(test, !err, load.no_sysctl ? 0 : name->sysctls);
	if (!err)
		t3_rdma_cm_exit();
	expect_registered(test, false, 0);
	KUNIT_EXPECT_FALSE(test, load.client_alone);
}

static void a_load_that_fails_leaves_nothing(struct kunit *test)
{
	load.no_sysctl = false;
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, load_and_unload), 5u);
}

static void a_load_without_the_sysctl(struct kunit *test)
{
	load.no_sysctl = true;
	failing.nth = 0;
	failing.where = NULL;
	load_and_unload(test);
}

static struct kunit_case load_cases[] = {
	KUNIT_CASE_PARAM(a_load_that_fails_leaves_nothing, name_gen_params),
	KUNIT_CASE_PARAM(a_load_without_the_sysctl, name_gen_params),
	{}
};

static struct kunit_suite load_suite = {
	.name = "t3_rdma_cm_load",
	.test_cases = load_cases,
};

/* --- the file with all ids --------------------------------------------------------- */

static char text[4096];

/* A process that reads this many bytes, and closes the file. */
static ssize_t read_ids(struct kunit *test, size_t size)
{
	struct inode *inode = kunit_kzalloc(test, sizeof(*inode), GFP_KERNEL);
	struct file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	struct kvec memory = { text, size };
	struct iov_iter to;
	struct kiocb call;
	ssize_t ret;

	KUNIT_ASSERT_NOT_NULL(test, inode);
	KUNIT_ASSERT_NOT_NULL(test, file);
	KUNIT_ASSERT_EQ(test, cm_ids_open(inode, file), 0);
	init_sync_kiocb(&call, file);
	iov_iter_kvec(&to, READ, &memory, 1, size);
	ret = seq_read_iter(&call, &to);
	seq_release(inode, file);
	return ret;
}

static void a_reader_of_the_ids_keeps_no_id(struct kunit *test)
{
	static const size_t sizes[] = { 1, sizeof(text) - 1 };
	struct cm_id *ids[3];
	char line[16];
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = cm_id_alloc(&init_net, NULL, NULL, RDMA_PS_TCP, IB_QPT_RC, NULL,
				     GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, ids[i]);
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(text, 0, sizeof(text));
		KUNIT_EXPECT_GT(test, read_ids(test, sizes[i]), 0);
		for (j = 0; j < ARRAY_SIZE(ids); j++)
			KUNIT_EXPECT_EQ_MSG(test, kref_read(&ids[j]->ref), 1u,
					    "id %u, after %zu bytes", j, sizes[i]);
	}
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(line, sizeof(line), "id %u: ", ids[i]->number);
		KUNIT_EXPECT_NOT_NULL(test, strstr(text, line));
		cm_id_put(ids[i]);
	}
	KUNIT_EXPECT_EQ(test, number_of_ids(), 0u);
}

static struct kunit_case ids_cases[] = {
	KUNIT_CASE(a_reader_of_the_ids_keeps_no_id),
	{}
};

static struct kunit_suite ids_suite = {
	.name = "t3_rdma_cm_ids",
	.test_cases = ids_cases,
};

kunit_test_suites(&load_suite, &ids_suite);
