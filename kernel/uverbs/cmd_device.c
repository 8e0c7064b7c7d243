// SPDX-License-Identifier: GPL-2.0
/* The context, and queries of the device and its ports. */

#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_cache.h>
#include <rdma/opa_addr.h>

#include "core_calls.h"
#include "rows.h"

static void uv_context_free_new(struct ib_ucontext *context)
{
	rdma_restrack_put(&context->res);
	kfree(context);
}

/* Creates the context of a file. uv_context_finish() publishes it after the response. */
static int uv_context_new(struct uv_call *call)
{
	struct ib_device *dev = call->dev;
	struct ib_ucontext *context;
	int err;

	lockdep_assert_held(&call->file->base.ucontext_lock);
	context = rdma_zalloc_drv_obj_gfp(dev, ib_ucontext, GFP_KERNEL_ACCOUNT);
	if (!context)
		return -ENOMEM;
	context->device = dev;
	context->ufile = &call->file->base;
	/* Drivers enter their mappings, through the core, which passes GFP_KERNEL. */
	xa_init_flags(&context->mmap_xa, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	rdma_restrack_new(&context->res, RDMA_RESTRACK_CTX);
	rdma_restrack_set_name(&context->res, NULL);
	/* Drivers get it from the udata. */
	call->attrs.context = context;

	err = uv_charge(&context->cg_obj, dev, RDMACG_RESOURCE_HCA_HANDLE);
	if (err)
		goto err_free;
	err = dev->ops.alloc_ucontext(context, uv_udata(call));
	if (err)
		goto err_uncharge;
	call->new_context = context;
	return 0;

err_uncharge:
	uv_uncharge(&context->cg_obj, dev, RDMACG_RESOURCE_HCA_HANDLE);
err_free:
	call->attrs.context = NULL;
	uv_context_free_new(context);
	return err;
}

/* Publishes the new context or, after an error, frees it. Unlocks ucontext_lock. */
void uv_context_finish(struct uv_call *call, int err)
{
	struct ib_ucontext *context = call->new_context;
	struct ib_device *dev = call->dev;

	lockdep_assert_held(&call->file->base.ucontext_lock);
	if (err) {
		uv_uncharge(&context->cg_obj, dev, RDMACG_RESOURCE_HCA_HANDLE);
		dev->ops.dealloc_ucontext(context);
		uv_context_free_new(context);
	} else {
		rdma_restrack_add(&context->res);
		/* Read without the lock. */
		smp_store_release(&call->file->base.ucontext, context);
	}
	mutex_unlock(&call->file->base.ucontext_lock);
}

struct uv_get_context {
	struct uv_events *async;	/* ioctl: NULL, ASYNC_EVENT_ALLOC creates it */
	/* out: */
	u32 num_comp_vectors;
	u64 core_support;
};

static int uv_do_get_context(struct uv_call *call, void *args)
	__context_unsafe(/* uv_context_finish() releases the lock */)
{
	struct uv_get_context *a = args;
	int err;

	if (!call->dev)
		return -EIO;
	/* Held until the response was written: of two calls only one writes a response. */
	mutex_lock(&call->file->base.ucontext_lock);
	err = call->file->base.ucontext ? -EINVAL : uv_context_new(call);
	if (err) {
		mutex_unlock(&call->file->base.ucontext_lock);
		return err;
	}
	a->num_comp_vectors = call->file->base.device->num_comp_vectors;
	a->core_support = uv_core_support(call->dev);
	return 0;
}

struct uv_async_event_alloc {
	struct uv_events *events;
};

static int uv_do_query_context(struct uv_call *call, void *args)
{
	struct uv_get_context *a = args;

	if (!call->dev->ops.query_ucontext)
		return -EOPNOTSUPP;
	a->num_comp_vectors = call->file->base.device->num_comp_vectors;
	a->core_support = uv_core_support(call->dev);
	return call->dev->ops.query_ucontext(call->attrs.context, &call->attrs);
}

static void uv_device_attr_to_user(struct ib_uverbs_query_device_resp *to,
				   const struct ib_device *dev,
				   const struct ib_device_attr *from)
{
	to->fw_ver = from->fw_ver;
	to->node_guid = dev->node_guid;
	to->sys_image_guid = from->sys_image_guid;
	to->max_mr_size = from->max_mr_size;
	to->page_size_cap = from->page_size_cap;
	to->vendor_id = from->vendor_id;
	to->vendor_part_id = from->vendor_part_id;
	to->hw_ver = from->hw_ver;
	to->max_qp = from->max_qp;
	to->max_qp_wr = from->max_qp_wr;
	to->device_cap_flags = lower_32_bits(from->device_cap_flags);
	to->max_sge = min(from->max_send_sge, from->max_recv_sge);
	to->max_sge_rd = from->max_sge_rd;
	to->max_cq = from->max_cq;
	to->max_cqe = from->max_cqe;
	to->max_mr = from->max_mr;
	to->max_pd = from->max_pd;
	to->max_qp_rd_atom = from->max_qp_rd_atom;
	to->max_ee_rd_atom = from->max_ee_rd_atom;
	to->max_res_rd_atom = from->max_res_rd_atom;
	to->max_qp_init_rd_atom = from->max_qp_init_rd_atom;
	to->max_ee_init_rd_atom = from->max_ee_init_rd_atom;
	to->atomic_cap = from->atomic_cap;
	to->max_ee = from->max_ee;
	to->max_rdd = from->max_rdd;
	to->max_mw = from->max_mw;
	to->max_raw_ipv6_qp = from->max_raw_ipv6_qp;
	to->max_raw_ethy_qp = from->max_raw_ethy_qp;
	to->max_mcast_grp = from->max_mcast_grp;
	to->max_mcast_qp_attach = from->max_mcast_qp_attach;
	to->max_total_mcast_qp_attach = from->max_total_mcast_qp_attach;
	to->max_ah = from->max_ah;
	to->max_srq = from->max_srq;
	to->max_srq_wr = from->max_srq_wr;
	to->max_srq_sge = from->max_srq_sge;
	to->max_pkeys = from->max_pkeys;
	to->local_ca_ack_delay = from->local_ca_ack_delay;
	to->phys_port_cnt = min_t(u32, dev->phys_port_cnt, U8_MAX);
}

struct uv_query_device {
	/* out: */
	struct ib_uverbs_ex_query_device_resp resp;
};

static int uv_do_query_device(struct uv_call *call, void *args)
{
	struct uv_query_device *a = args;

	uv_device_attr_to_user(&a->resp.base, call->dev, &call->dev->attrs);
	return 0;
}

static int uv_do_query_device_ex(struct uv_call *call, void *args)
{
	struct uv_query_device *a = args;
	struct ib_uverbs_ex_query_device_resp *to = &a->resp;
	struct ib_device_attr *from;
	int err;

	from = kzalloc(sizeof(*from), GFP_KERNEL_ACCOUNT);
	if (!from)
		return -ENOMEM;
	err = call->dev->ops.query_device(call->dev, from, uv_udata(call));
	if (err)
		goto out;
	uv_device_attr_to_user(&to->base, call->dev, from);
	to->odp_caps.general_caps = from->odp_caps.general_caps;
	to->odp_caps.per_transport_caps.rc_odp_caps =
		from->odp_caps.per_transport_caps.rc_odp_caps;
	to->odp_caps.per_transport_caps.uc_odp_caps =
		from->odp_caps.per_transport_caps.uc_odp_caps;
	to->odp_caps.per_transport_caps.ud_odp_caps =
		from->odp_caps.per_transport_caps.ud_odp_caps;
	to->xrc_odp_caps = from->odp_caps.per_transport_caps.xrc_odp_caps;
	to->timestamp_mask = from->timestamp_mask;
	to->hca_core_clock = from->hca_core_clock;
	to->device_cap_flags_ex = from->device_cap_flags;
	to->rss_caps.supported_qpts = from->rss_caps.supported_qpts;
	to->rss_caps.max_rwq_indirection_tables = from->rss_caps.max_rwq_indirection_tables;
	to->rss_caps.max_rwq_indirection_table_size =
		from->rss_caps.max_rwq_indirection_table_size;
	to->max_wq_type_rq = from->max_wq_type_rq;
	to->raw_packet_caps = from->raw_packet_caps;
	to->tm_caps.max_rndv_hdr_size = from->tm_caps.max_rndv_hdr_size;
	to->tm_caps.max_num_tags = from->tm_caps.max_num_tags;
	to->tm_caps.max_ops = from->tm_caps.max_ops;
	to->tm_caps.max_sge = from->tm_caps.max_sge;
	to->tm_caps.flags = from->tm_caps.flags;
	to->cq_moderation_caps.max_cq_moderation_count = from->cq_caps.max_cq_moderation_count;
	to->cq_moderation_caps.max_cq_moderation_period = from->cq_caps.max_cq_moderation_period;
	to->max_dm_size = from->max_dm_size;
out:
	kfree(from);
	return err;
}

static u16 uv_lid_to_user(struct ib_device *dev, u32 port, u32 lid)
{
	return rdma_cap_opa_ah(dev, port) ? OPA_TO_IB_UCAST_LID(lid) : ib_lid_cpu16(lid);
}

struct uv_query_port {
	u8 port;
	/* out: */
	struct ib_uverbs_query_port_resp_ex resp;
};

static int uv_do_query_port(struct uv_call *call, void *args)
{
	struct uv_query_port *a = args;
	struct ib_uverbs_query_port_resp *to = &a->resp.legacy_resp;
	struct ib_device *dev = call->dev;
	struct ib_port_attr from = {};
	int err;

	err = ib_query_port(dev, a->port, &from);
	if (err)
		return err;
	to->state = from.state;
	to->max_mtu = from.max_mtu;
	to->active_mtu = from.active_mtu;
	to->gid_tbl_len = from.gid_tbl_len;
	/* In this ABI bit 26 is IB_UVERBS_PCF_IP_BASED_GIDS. */
	to->port_cap_flags = from.port_cap_flags & ~(u32)IB_UVERBS_PCF_IP_BASED_GIDS;
	if (from.ip_gids)
		to->port_cap_flags |= IB_UVERBS_PCF_IP_BASED_GIDS;
	to->max_msg_sz = from.max_msg_sz;
	to->bad_pkey_cntr = from.bad_pkey_cntr;
	to->qkey_viol_cntr = from.qkey_viol_cntr;
	to->pkey_tbl_len = from.pkey_tbl_len;
	if (rdma_is_grh_required(dev, a->port))
		to->flags |= IB_UVERBS_QPF_GRH_REQUIRED;
	to->lid = uv_lid_to_user(dev, a->port, from.lid);
	to->sm_lid = uv_lid_to_user(dev, a->port, from.sm_lid);
	to->lmc = from.lmc;
	to->max_vl_num = from.max_vl_num;
	to->sm_sl = from.sm_sl;
	to->subnet_timeout = from.subnet_timeout;
	to->init_type_reply = from.init_type_reply;
	to->active_width = from.active_width;
	/* 8 bits. Since 7.2 active_speed_ex has higher speeds. */
	to->active_speed = min_t(u16, from.active_speed, IB_SPEED_NDR);
	to->phys_state = from.phys_state;
	to->link_layer = rdma_port_get_link_layer(dev, a->port);
	a->resp.port_cap_flags2 = from.port_cap_flags2;
	uv_core_port_speed(&a->resp, &from);
	return 0;
}

struct uv_query_gid_table {
	u64 entry_size;
	u32 flags;
	struct uv_buf entries;
	/* out: */
	u64 count;
};

static int uv_do_query_gid_table(struct uv_call *call, void *args)
{
	struct uv_query_gid_table *a = args;
	struct ib_uverbs_gid_entry *entries;
	void __user *to = a->entries.ptr;
	size_t known = min_t(u64, a->entry_size, sizeof(*entries));
	ssize_t count;
	u64 max, i;
	int err = 0;

	if (!a->entry_size || a->entries.len % a->entry_size)
		return -EINVAL;
	max = a->entries.len / a->entry_size;
	if (!max)
		return -EINVAL;
	entries = kvcalloc(max, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	if (!entries)
		return -ENOMEM;
	count = rdma_query_gid_table(call->dev, entries, max);
	if (count < 0) {
		err = -EINVAL;
		goto out;
	}
	/* An entry of the caller may be shorter or longer than struct ib_uverbs_gid_entry. */
	for (i = 0; i < count; i++, to += a->entry_size) {
		if (copy_to_user(to, &entries[i], known) ||
		    clear_user(to + known, a->entry_size - known)) {
			err = -EFAULT;
			goto out;
		}
	}
	a->count = count;
out:
	kvfree(entries);
	return err;
}

struct uv_query_gid_entry {
	u32 port;
	u32 index;
	u32 flags;
	/* out: */
	struct ib_uverbs_gid_entry entry;
};

static int uv_do_query_gid_entry(struct uv_call *call, void *args)
{
	struct uv_query_gid_entry *a = args;
	const struct ib_gid_attr *gid;
	struct net_device *ndev;
	int err = 0;

	if (!rdma_is_port_valid(call->dev, a->port))
		return -EINVAL;
	gid = rdma_get_gid_attr(call->dev, a->port, a->index);
	if (IS_ERR(gid))
		return PTR_ERR(gid);
	memcpy(a->entry.gid, &gid->gid, sizeof(gid->gid));
	a->entry.gid_index = gid->index;
	a->entry.port_num = gid->port_num;
	a->entry.gid_type = gid->gid_type;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(gid);
	if (!IS_ERR(ndev))
		a->entry.netdev_ifindex = ndev->ifindex;
	else if (PTR_ERR(ndev) != -ENODEV)
		err = PTR_ERR(ndev);
	rcu_read_unlock();
	rdma_put_gid_attr(gid);
	return err;
}

struct uv_info_handles {
	u16 type;
	struct uv_buf list;
	/* out: */
	u32 total;
};

static int uv_do_info_handles(struct uv_call *call, void *args)
{
	struct uv_info_handles *a = args;
	u32 max = a->list.len / sizeof(u32);
	u32 *handles;
	int err = 0;

	if (a->type > UVERBS_OBJECT_ASYNC_EVENT)
		return -ENOENT;
	if (!max || a->list.len % sizeof(u32))
		return -EINVAL;
	handles = kcalloc(max, sizeof(*handles), GFP_KERNEL_ACCOUNT);
	if (!handles)
		return -ENOMEM;
	a->total = uv_objects_list(call->file, a->type, handles, max);
	if (copy_to_user(a->list.ptr, handles, a->total * sizeof(*handles)))
		err = -EFAULT;
	kfree(handles);
	return err;
}

struct uv_row uv_device_rows[] __ro_after_init = { {
	.name = "get_context",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_GET_CONTEXT),
	.flags = UV_DRIVER_DATA,
	.handler = uv_do_get_context,
	UV_WRITE_FIELDS(uv_get_context, ib_uverbs_get_context, ib_uverbs_get_context_resp,
			W_FD_NEW(UV_ASYNC, async_fd, async),
			W_OUT(num_comp_vectors, num_comp_vectors)),
}, {
	.name = "get_context",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT),
	.flags = UV_DRIVER_DATA,
	.handler = uv_do_get_context,
	UV_IOCTL_FIELDS(uv_get_context,
			A_OUT(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, num_comp_vectors,
			      UV_OPTIONAL),
			A_OUT(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, core_support, UV_OPTIONAL)),
}, {
	.name = "query_context",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT),
	.flags = UV_CONTEXT,
	.handler = uv_do_query_context,
	UV_IOCTL_FIELDS(uv_get_context,
			A_OUT(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, num_comp_vectors,
			      UV_OPTIONAL),
			A_OUT(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, core_support, UV_OPTIONAL)),
}, {
	/* There is no handler: the dispatcher creates the event file. */
	.name = "async_event_alloc",
	UV_IOCTL_METHOD(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC),
	.flags = UV_CONTEXT,
	UV_IOCTL_FIELDS(uv_async_event_alloc,
			A_FD_NEW(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, events, UV_ASYNC)),
}, {
	.name = "query_device",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_QUERY_DEVICE),
	.flags = UV_CONTEXT,
	.handler = uv_do_query_device,
	UV_WRITE_FIELDS(uv_query_device, ib_uverbs_query_device, ib_uverbs_query_device_resp,
			W_OUT_ALL(resp.base)),
}, {
	.name = "query_device",
	UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_QUERY_DEVICE),
	.flags = UV_CONTEXT | UV_DRIVER_DATA,
	UV_NEEDS_FN(query_device),
	.handler = uv_do_query_device_ex,
	UV_WRITE_FIELDS(uv_query_device, ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp,
			W_ZERO(comp_mask),
			W_ZERO(reserved),
			W_OUT_ALL(resp),
			W_OUT_LEN(response_length)),
}, {
	.name = "query_port",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_QUERY_PORT),
	.flags = UV_CONTEXT,
	UV_NEEDS_FN(query_port),
	.handler = uv_do_query_port,
	UV_WRITE_FIELDS(uv_query_port, ib_uverbs_query_port, ib_uverbs_query_port_resp,
			W_IN(port_num, port),
			W_OUT_ALL(resp.legacy_resp)),
}, {
	.name = "query_port",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT),
	.flags = UV_CONTEXT,
	UV_NEEDS_FN(query_port),
	.handler = uv_do_query_port,
	UV_IOCTL_FIELDS(uv_query_port,
			A_CONST(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port),
			A_OUT(UVERBS_ATTR_QUERY_PORT_RESP, resp, UV_EXTENSIBLE)),
}, {
	.name = "query_gid_table",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE),
	.flags = UV_CONTEXT,
	.handler = uv_do_query_gid_table,
	UV_IOCTL_FIELDS(uv_query_gid_table,
			A_CONST(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, entry_size),
			A_FLAGS(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0, flags, UV_OPTIONAL),
			A_BUF(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0, entries, UV_BUF_OUT),
			A_OUT(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count)),
}, {
	.name = "query_gid_entry",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY),
	.flags = UV_CONTEXT,
	.handler = uv_do_query_gid_entry,
	UV_IOCTL_FIELDS(uv_query_gid_entry,
			A_CONST(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port),
			A_CONST(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index),
			A_FLAGS(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0, flags),
			A_OUT(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry, UV_EXTENSIBLE)),
}, {
	.name = "info_handles",
	UV_IOCTL_METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES),
	.handler = uv_do_info_handles,
	UV_IOCTL_FIELDS(uv_info_handles,
			A_CONST(UVERBS_ATTR_INFO_OBJECT_ID, type),
			A_OUT(UVERBS_ATTR_INFO_TOTAL_HANDLES, total, UV_OPTIONAL),
			A_BUF(UVERBS_ATTR_INFO_HANDLES_LIST, sizeof(u32), list,
			      UV_BUF_OUT | UV_OPTIONAL)),
}, {
	/* the end */
} };
