/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites of the user device, over a fake provider: a process with two open files, its commands,
 * and its memory, which may be slow or unmapped.
 */
#ifndef T3_KUNIT_UCM_PROCESS_H
#define T3_KUNIT_UCM_PROCESS_H

#include "../failing_alloc.h"

static bool has_write_event;

#define UCM_HAS_WRITE_EVENT	has_write_event
#include "fake_provider.h"

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/uaccess.h>

/* A function that runs during each copy, or only during copies to slow_memory; unmapped memory. */
static void (*during_copy)(void);
static const void *slow_memory, *unmapped_memory;

static unsigned long user_copy(void *to, const void *from, unsigned long len)
{
	if (during_copy && (!slow_memory || to == slow_memory))
		during_copy();
	if (to == unmapped_memory)
		return len;
	memcpy(to, from, len);
	return 0;
}

#undef copy_to_user
#undef copy_from_user
#define copy_to_user(to, from, len)	user_copy((void __force *)(to), from, len)
#define copy_from_user(to, from, len)	user_copy(to, (const void __force *)(from), len)

/* Instead of t3_copy.h. */
#define T3_COPY_H
#define t3_copy_in(to, size, from, len) \
	(WARN_ON_ONCE((len) > (size)) || copy_from_user(to, from, len) ? -EFAULT : 0)
#define t3_copy_out(to, from, size, len) \
	(WARN_ON_ONCE((len) > (size)) || copy_to_user(to, from, len) ? -EFAULT : 0)

/* The two files, by descriptor. */
static struct file *file_of(unsigned int fd);

#define fget(fd)	file_of(fd)
#define fput(file)	((void)(file))

#include "ucm_cmd.c"
/* A join stores over an entry that is allocated, so the store does not fail. */
#pragma push_macro("xa_store")
#undef xa_store
#include "ucm_group.c"
#pragma pop_macro("xa_store")
#include "ucm_query.c"
/* Entries of lists that were visited. */
static unsigned int visited;

#pragma push_macro("list_for_each_entry_safe")
#undef list_for_each_entry_safe
#define list_for_each_entry_safe(pos, n, head, member)				\
	for ((pos) = list_first_entry(head, typeof(*(pos)), member),		\
	     (n) = list_next_entry(pos, member);				\
	     !list_entry_is_head(pos, head, member) && ++visited;		\
	     (pos) = (n), (n) = list_next_entry(n, member))
#include "ucm_event.c"
#pragma pop_macro("list_for_each_entry_safe")
#include "ucm_context.c"
#include "ucm.c"

/* --- a process -------------------------------------------------------------- */

static struct file filp, other_filp;
static struct rdma_ucm_event_resp event;
static struct work_struct removal;
static bool device_removed;

static __maybe_unused struct ucm_file *ucm_of(struct file *of)
{
	return of->private_data;
}

static struct file *file_of(unsigned int fd)
{
	return fd ? &other_filp : &filp;
}

static int command_to(struct file *to, u32 number, const void *cmd, u16 len, u16 out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		u8 cmd[320];
	} words = { .hdr = { .cmd = number, .in = len, .out = out } };
	ssize_t ret;

	memcpy(words.cmd, cmd, len);
	ret = ucm_write(to, (const char __user __force *)&words, sizeof(words.hdr) + len, NULL);
	return ret < 0 ? ret : 0;
}

static int command(u32 number, const void *cmd, u16 len, u16 out)
{
	return command_to(&filp, number, cmd, len, out);
}

static int get_event_of(struct file *of)
{
	struct rdma_ucm_get_event cmd = { .response = (uintptr_t)&event };

	memset(&event, 0, sizeof(event));
	return command_to(of, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(event));
}

static int get_event(void)
{
	return get_event_of(&filp);
}

static u32 create(struct kunit *test)
{
	struct rdma_ucm_create_id_resp resp = {};
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};

	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			0);
	return resp.id;
}

static int destroy_of(struct file *of, u32 id, u32 *reported)
{
	struct rdma_ucm_destroy_id_resp resp = {};
	struct rdma_ucm_destroy_id cmd = { .id = id, .response = (uintptr_t)&resp };
	int ret;

	ret = command_to(of, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(resp));
	if (reported)
		*reported = resp.events_reported;
	return ret;
}

static int destroy(u32 id, u32 *reported)
{
	return destroy_of(&filp, id, reported);
}

/* MIGRATE_ID to the other file. */
static int migrate_reporting(u32 id, u32 *reported)
{
	struct rdma_ucm_migrate_resp resp = {};
	struct rdma_ucm_migrate_id cmd = { .id = id, .response = (uintptr_t)&resp, .fd = 0 };
	int ret;

	ret = command_to(&other_filp, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd),
			 sizeof(resp));
	*reported = resp.events_reported;
	return ret;
}

static int __maybe_unused migrate_id(u32 id)
{
	u32 reported;

	return migrate_reporting(id, &reported);
}

static int bind_to(u32 id, u32 addr, u16 port)
{
	struct sockaddr_storage to = fake_address(addr, port);
	struct rdma_ucm_bind_ip cmd = { .id = id };

	memcpy(&cmd.addr, &to, sizeof(struct sockaddr_in));
	return command(RDMA_USER_CM_CMD_BIND_IP, &cmd, sizeof(cmd), 0);
}

static int bind(u32 id, u32 addr)
{
	return bind_to(id, addr, 7000);
}

static int __maybe_unused resolve_ip(u32 id)
{
	struct sockaddr_storage to = fake_address(FAKE_REMOTE, 7000);
	struct rdma_ucm_resolve_ip cmd = { .id = id, .timeout_ms = 1000 };

	memcpy(&cmd.dst_addr, &to, sizeof(struct sockaddr_in));
	return command(RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd), 0);
}

static u32 __maybe_unused listener(struct kunit *test, u32 addr)
{
	struct rdma_ucm_listen cmd = { .id = create(test), .backlog = 4 };

	KUNIT_ASSERT_EQ(test, bind(cmd.id, addr), 0);
	KUNIT_ASSERT_EQ(test, command(RDMA_USER_CM_CMD_LISTEN, &cmd, sizeof(cmd), 0), 0);
	return cmd.id;
}

static int open_files(struct kunit *test)
{
	int ret;

	INIT_WORK(&removal, fake_remove_device);
	device_removed = false;
	reserve_tcp_ports = false;	/* the host does not have the addresses of the device */
	fake_uncharged = 0;
	fake_sleeping_charges = 0;
	ucm_close_wq = t3_unbound_wq;
	ucm_wake_wq = t3_unbound_wq;
	during_copy = NULL;
	slow_memory = NULL;
	unmapped_memory = NULL;
	memset(&filp, 0, sizeof(filp));
	filp.f_cred = current_cred();
	filp.f_flags = O_NONBLOCK;
	filp.f_op = &ucm_fops;
	memcpy(&other_filp, &filp, sizeof(filp));	/* 7.2: it has constant members */
	KUNIT_ASSERT_EQ(test, cm_ports_init(), 0);
	KUNIT_ASSERT_EQ(test, cm_roce_init(), 0);
	ret = cm_events_init();
	if (!ret)
		ret = ucm_open(NULL, &filp);
	if (!ret)
		ret = ucm_open(NULL, &other_filp);
	fake_add_devices(test, IN_PROCESS);
	return ret;
}

static void close_files(struct kunit *test)
{
	allocations_work();
	during_copy = NULL;
	flush_workqueue(cm_wq);
	ucm_release(NULL, &filp);
	ucm_release(NULL, &other_filp);
	if (!device_removed)
		queue_work(system_long_wq, &removal);
	flush_work(&removal);
	KUNIT_EXPECT_TRUE(test, list_empty(&cm_ids));
	KUNIT_EXPECT_TRUE(test, xa_empty(&ucm_contexts));
	KUNIT_EXPECT_TRUE(test, ports_are_free());
	KUNIT_EXPECT_FALSE(test, fake.used_after_removal);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake_memcg_refs), 0);
	if (!mem_cgroup_disabled())
		KUNIT_EXPECT_EQ_MSG(test, fake_uncharged, 0u,
				    "memory of a process that its cgroup is not charged for");
	KUNIT_EXPECT_EQ(test, fake_sleeping_charges, 0u);
	cm_cancel_updates();
	cm_events_exit();
	cm_roce_exit();
	cm_ports_exit();
}

/* --- what happens during a command or a copy ---------------------------------- */

static u32 __maybe_unused victim, victim_reported;
static int victim_result;

/* Runs a function during the copy of the next event, and fails the copy. */
static void __maybe_unused fail_the_copy(struct kunit *test, void (*meanwhile)(void))
{
	slow_memory = &event;
	unmapped_memory = &event;
	during_copy = meanwhile;
	KUNIT_EXPECT_EQ(test, get_event(), -EFAULT);
	KUNIT_EXPECT_EQ(test, victim_result, 0);
	unmapped_memory = NULL;
}

/* Removes the device. Returns when its last user has gone. */
static void __maybe_unused remove_device(void)
{
	during_copy = NULL;
	device_removed = true;
	queue_work(system_long_wq, &removal);
	flush_work(&removal);
}

/* A device belongs to no process; a worker that has no free memory allocates without a charge. */
static void __maybe_unused uncharged_by_design(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, fake_uncharged, 0u);
	fake_uncharged = 0;
}

#endif
