/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What ib_core declares in private headers and both t3_uverbs and t3_rdma_cm use. The loader does
 * not compare these prototypes with the real ones. tests/layout/check-btf compares the structure
 * with the BTF of the kernel's ib_core.ko.
 */
#ifndef T3_IB_CORE_H
#define T3_IB_CORE_H

#include <linux/types.h>
#include <rdma/restrack.h>

struct device;
struct sk_buff;

/* The argument of ib_client.get_nl_info and get_global_nl_info. */
struct ib_client_nl_info {
	struct sk_buff *nl_msg;
	struct device *cdev;
	u32 port;
	u64 abi;
};

void rdma_restrack_new(struct rdma_restrack_entry *res, enum rdma_restrack_type type);
void rdma_restrack_set_name(struct rdma_restrack_entry *res, const char *caller);
void rdma_restrack_parent_name(struct rdma_restrack_entry *dst,
			       const struct rdma_restrack_entry *parent);
void rdma_restrack_add(struct rdma_restrack_entry *res);
void rdma_restrack_del(struct rdma_restrack_entry *res);

#endif
