/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of an id that `rdma resource show cm_id` reads.
 *
 * ib_core finds the id of a restrack entry with the layout of struct rdma_id_private, which is
 * private to the in-tree rdma_cm. struct cm_base has that layout as far as ib_core reads it; the
 * unused_ members have the real types, so that their sizes follow the kernel's configuration. The
 * offsets are asserted against Debian's kernels. Between these the layout has changed, so there
 * show_ids is off by default.
 */
#ifndef T3_RDMA_CM_RESTRACK_H
#define T3_RDMA_CM_RESTRACK_H

#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/version.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>

#include <t3_ib_core.h>

#include "cm_fsm.h"

/* Values for user space: enum rdma_cm_state of the in-tree rdma_cm. */
enum cm_res_state {
	CM_RES_IDLE,
	CM_RES_ADDR_QUERY,
	CM_RES_ADDR_RESOLVED,
	CM_RES_ROUTE_QUERY,
	CM_RES_ROUTE_RESOLVED,
	CM_RES_CONNECT,
	CM_RES_DISCONNECT,
	CM_RES_ADDR_BOUND,
	CM_RES_LISTEN,
	CM_RES_DEVICE_REMOVAL,
	CM_RES_DESTROYING,
};

/**
 * struct cm_base - the embedded rdma_cm_id and its restrack entry
 * @id: what consumers and providers see
 * @state: state for user space
 * @qp_num: number of the QP
 * @res: the entry
 */
struct cm_base {
	struct rdma_cm_id id;
	void *unused_bind_list;
	struct hlist_node unused_node;
	struct list_head unused_items[3];
	void *unused_dev;
	struct list_head unused_mc_list;
	int unused_internal_id;
	enum cm_res_state state;
	spinlock_t unused_lock;
	struct mutex unused_qp_mutex;
	struct completion unused_comp;
	refcount_t unused_refcount;
	struct mutex unused_handler_mutex;
	int unused_backlog;
	int unused_timeout_ms;
	void *unused_query;
	int unused_query_id;
	void *unused_cm_id;
	u32 unused_seq_num;
	u32 unused_qkey;
	u32 qp_num;
	u32 unused_options;
	u8 unused_bytes[9];
	enum ib_gid_type unused_gid_type;
	struct rdma_restrack_entry res;
	struct rdma_ucm_ece unused_ece;
};

#define CM_RES_LAYOUT_IS_CHECKED \
	(LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0) || \
	 LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0))

#if defined(CONFIG_X86_64) && !defined(CONFIG_DEBUG_SPINLOCK) && !defined(CONFIG_DEBUG_LOCK_ALLOC)
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static_assert(offsetof(struct cm_base, state) == 604);
static_assert(offsetof(struct cm_base, qp_num) == 760);
static_assert(offsetof(struct cm_base, res) == 784);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
static_assert(offsetof(struct cm_base, state) == 612);
static_assert(offsetof(struct cm_base, qp_num) == 752);
static_assert(offsetof(struct cm_base, res) == 776);
#endif
#endif

void cm_res_init(struct cm_base *base, const char *caller, const struct cm_base *parent);
void cm_res_add(struct cm_base *base);
void cm_res_del(struct cm_base *base);
enum cm_res_state cm_res_state(enum cm_state state);

#endif
