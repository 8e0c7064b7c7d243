// SPDX-License-Identifier: GPL-2.0
/* Queue pairs. */

#include <linux/slab.h>
#include <rdma/ib_mad.h>

#include "ah_attr.h"
#include "core_calls.h"
#include "rows.h"

struct uv_mcast_entry {
	struct list_head list;
	union ib_gid gid;
	u16 mlid;
};

static struct ib_uqp_object *uv_uqp_of(struct ib_uobject *uobj)
{
	return container_of(uobj, struct ib_uqp_object, ev.obj.base);
}

static void *uv_hw_object(struct ib_uobject *uobj)
{
	return uobj ? uobj->object : NULL;
}

static int uv_qp_check_type(struct ib_device *dev, u8 type)
{
	switch (type) {
	case IB_QPT_RAW_PACKET:
		return uv_core_raw_cap(dev) ? 0 : -EPERM;
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
	case IB_QPT_XRC_INI:
	case IB_QPT_DRIVER:
		return 0;
	default:
		/* Also XRC_TGT, which needs an XRC domain: there are none. */
		return -EINVAL;
	}
}

struct uv_create_qp {
	struct ib_uobject *qp, *pd, *send_cq, *recv_cq, *srq;
	struct uv_events *async;
	u64 user_handle;
	u32 flags, source_qpn;
	/* In the order of request and response: */
	u32 qp_num;			/* out */
	struct ib_uverbs_qp_cap cap;	/* also a result */
	u8 sq_sig_all, type;
};

static int uv_do_create_qp(struct uv_call *call, void *args)
{
	struct uv_create_qp *a = args;
	struct ib_uqp_object *uqp = uv_uqp_of(a->qp);
	bool initiator = a->type == IB_QPT_XRC_INI;
	struct ib_qp_init_attr attr = {
		.event_handler = uv_qp_event,
		.send_cq = uv_hw_object(a->send_cq),
		.recv_cq = initiator ? NULL : uv_hw_object(a->recv_cq),
		.srq = uv_hw_object(a->srq),
		.sq_sig_type = a->sq_sig_all || a->flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL ?
			       IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.qp_type = a->type,
		.create_flags = a->flags & ~IB_UVERBS_QP_CREATE_SQ_SIG_ALL,
		.source_qpn = a->source_qpn,
		.cap = {
			.max_send_wr = a->cap.max_send_wr,
			.max_recv_wr = initiator ? 0 : a->cap.max_recv_wr,
			.max_send_sge = a->cap.max_send_sge,
			.max_recv_sge = initiator ? 0 : a->cap.max_recv_sge,
			.max_inline_data = a->cap.max_inline_data,
		},
	};
	struct ib_qp *qp;
	int err;

	err = uv_qp_check_type(call->dev, a->type);
	if (err)
		return err;
	if (!a->pd || !attr.send_cq || (!initiator && !attr.recv_cq))
		return -ENOENT;
	if (attr.srq && (initiator || attr.srq->srq_type == IB_SRQT_XRC))
		return -EINVAL;
	if (a->flags & IB_QP_CREATE_SOURCE_QPN && !uv_core_raw_cap(call->dev))
		return -EPERM;

	mutex_init(&uqp->mcast_lock);
	context_unsafe(INIT_LIST_HEAD(&uqp->mcast)); /* not published yet */
	uv_uevent_init(&uqp->ev, a->async, a->user_handle);
	qp = uv_core_create_qp(a->pd->object, &attr, &call->attrs, uqp);
	if (IS_ERR(qp)) {
		uv_uevent_release(&uqp->ev);
		return PTR_ERR(qp);
	}
	ib_qp_usecnt_inc(qp);
	a->qp->object = qp;
	a->qp_num = qp->qp_num;
	a->cap.max_send_wr = attr.cap.max_send_wr;
	a->cap.max_recv_wr = attr.cap.max_recv_wr;
	a->cap.max_send_sge = attr.cap.max_send_sge;
	a->cap.max_recv_sge = attr.cap.max_recv_sge;
	a->cap.max_inline_data = attr.cap.max_inline_data;
	return 0;
}

static bool uv_qp_has_srq(const void *request)
{
	return ((const struct ib_uverbs_create_qp *)request)->is_srq;
}

static bool uv_qp_has_recv_cq(const void *request)
{
	return ((const struct ib_uverbs_create_qp *)request)->qp_type != IB_QPT_XRC_INI;
}

static bool uv_qp_ex_has_srq(const void *request)
{
	return ((const struct ib_uverbs_ex_create_qp *)request)->is_srq;
}

static bool uv_qp_ex_has_recv_cq(const void *request)
{
	return ((const struct ib_uverbs_ex_create_qp *)request)->qp_type != IB_QPT_XRC_INI;
}

#define UV_QP_CREATE_FLAGS \
	(IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_QP_CREATE_CROSS_CHANNEL | \
	 IB_QP_CREATE_MANAGED_SEND | IB_QP_CREATE_MANAGED_RECV | IB_QP_CREATE_SCATTER_FCS | \
	 IB_QP_CREATE_CVLAN_STRIPPING | IB_QP_CREATE_SOURCE_QPN | \
	 IB_QP_CREATE_PCI_WRITE_END_PADDING)

/* In the ioctl ABI the core checks which flags a type may have. In write() the driver does. */
static int uv_do_create_qp_ioctl(struct uv_call *call, void *args)
{
	struct uv_create_qp *a = args;
	u32 flags = a->flags & ~IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
	u32 raw_only = IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;

	if (flags && a->type != IB_QPT_DRIVER && a->type != IB_QPT_RAW_PACKET &&
	    (a->type != IB_QPT_UD || flags & raw_only))
		return -EINVAL;
	return uv_do_create_qp(call, args);
}

#define UV_QP_IOCTL_FLAGS \
	(IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS | \
	 IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING | \
	 IB_UVERBS_QP_CREATE_SQ_SIG_ALL)

static int uv_qp_check_ports(const struct ib_qp *qp, struct ib_uverbs_modify_qp *m)
{
	struct ib_device *dev = qp->device;
	u32 mask = m->attr_mask;

	if (mask & IB_QP_PORT && !rdma_is_port_valid(dev, m->port_num))
		return -EINVAL;
	if (mask & IB_QP_AV) {
		if (!rdma_is_port_valid(dev, m->dest.port_num))
			return -EINVAL;
		if (mask & IB_QP_STATE && m->qp_state == IB_QPS_RTR) {
			/* The port was set in the transition to INIT and cannot change here. */
			if (m->dest.port_num != qp->real_qp->port)
				return -EINVAL;
		} else if (mask & IB_QP_PORT) {
			if (m->port_num != m->dest.port_num)
				return -EINVAL;
		} else {
			/* The new path may use another port, which becomes the QP's port. */
			m->attr_mask |= IB_QP_PORT;
			m->port_num = m->dest.port_num;
		}
	}
	if (mask & IB_QP_ALT_PATH &&
	    (!rdma_is_port_valid(dev, m->alt_port_num) ||
	     !rdma_is_port_valid(dev, m->alt_dest.port_num) ||
	     m->alt_port_num != m->alt_dest.port_num))
		return -EINVAL;
	return 0;
}

/* Attributes that do not apply to the type are ignored, as the IB specification requires. */
static int uv_qp_relevant_mask(enum ib_qp_type type, int mask)
{
	if (type == IB_QPT_XRC_INI)
		mask &= ~(IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	return mask;
}

struct uv_modify_qp {
	struct ib_uobject *qp;
	struct ib_uverbs_ex_modify_qp attr;
};

static int uv_do_modify_qp(struct uv_call *call, void *args)
{
	struct uv_modify_qp *a = args;
	struct ib_uverbs_modify_qp *m = &a->attr.base;
	struct ib_qp *qp = a->qp->object;
	/* Only the members in the mask are used. */
	struct ib_qp_attr attr = {};
	u32 mask;
	int err;

	err = uv_qp_check_ports(qp, m);
	if (err)
		return err;
	mask = m->attr_mask;
	if ((mask & IB_QP_CUR_STATE && m->cur_qp_state > IB_QPS_ERR) ||
	    (mask & IB_QP_STATE && m->qp_state > IB_QPS_ERR))
		return -EINVAL;
	/* The high bit marks a privileged Q_Key. */
	if (mask & IB_QP_QKEY && m->qkey & IB_QP_SET_QKEY && !rdma_nl_get_privileged_qkey())
		return -EPERM;

	attr.qp_state = m->qp_state;
	attr.cur_qp_state = m->cur_qp_state;
	attr.path_mtu = m->path_mtu;
	attr.path_mig_state = m->path_mig_state;
	attr.qkey = m->qkey;
	attr.rq_psn = m->rq_psn;
	attr.sq_psn = m->sq_psn;
	attr.dest_qp_num = m->dest_qp_num;
	attr.qp_access_flags = m->qp_access_flags;
	attr.pkey_index = m->pkey_index;
	attr.en_sqd_async_notify = m->en_sqd_async_notify;
	attr.max_rd_atomic = m->max_rd_atomic;
	attr.max_dest_rd_atomic = m->max_dest_rd_atomic;
	attr.min_rnr_timer = m->min_rnr_timer;
	attr.port_num = m->port_num;
	attr.timeout = m->timeout;
	attr.retry_cnt = m->retry_cnt;
	attr.rnr_retry = m->rnr_retry;
	attr.rate_limit = a->attr.rate_limit;
	if (mask & IB_QP_ALT_PATH) {
		attr.alt_port_num = m->alt_port_num;
		attr.alt_timeout = m->alt_timeout;
		attr.alt_pkey_index = m->alt_pkey_index;
		uv_ah_from_qp_dest(&attr.alt_ah_attr, call->dev, &m->alt_dest);
	}
	if (mask & IB_QP_AV)
		uv_ah_from_qp_dest(&attr.ah_attr, call->dev, &m->dest);
	return ib_modify_qp_with_udata(qp, &attr, uv_qp_relevant_mask(qp->qp_type, mask),
				       uv_udata(call));
}

struct uv_query_qp {
	struct ib_uobject *qp;
	u32 mask;
	/* out: */
	struct ib_uverbs_query_qp_resp resp;
};

static int uv_do_query_qp(struct uv_call *call, void *args)
{
	struct uv_query_qp *a = args;
	struct {
		struct ib_qp_attr attr;
		struct ib_qp_init_attr init;
	} *q;
	int err;

	/* Zeroed: the driver need not set what is not in the mask. */
	q = kzalloc(sizeof(*q), GFP_KERNEL_ACCOUNT);
	if (!q)
		return -ENOMEM;
	err = ib_query_qp(a->qp->object, &q->attr, a->mask, &q->init);
	if (err)
		goto out;
	a->resp.qp_state = q->attr.qp_state;
	a->resp.cur_qp_state = q->attr.cur_qp_state;
	a->resp.path_mtu = q->attr.path_mtu;
	a->resp.path_mig_state = q->attr.path_mig_state;
	a->resp.qkey = q->attr.qkey;
	a->resp.rq_psn = q->attr.rq_psn;
	a->resp.sq_psn = q->attr.sq_psn;
	a->resp.dest_qp_num = q->attr.dest_qp_num;
	a->resp.qp_access_flags = q->attr.qp_access_flags;
	a->resp.pkey_index = q->attr.pkey_index;
	a->resp.alt_pkey_index = q->attr.alt_pkey_index;
	a->resp.sq_draining = q->attr.sq_draining;
	a->resp.max_rd_atomic = q->attr.max_rd_atomic;
	a->resp.max_dest_rd_atomic = q->attr.max_dest_rd_atomic;
	a->resp.min_rnr_timer = q->attr.min_rnr_timer;
	a->resp.port_num = q->attr.port_num;
	a->resp.timeout = q->attr.timeout;
	a->resp.retry_cnt = q->attr.retry_cnt;
	a->resp.rnr_retry = q->attr.rnr_retry;
	a->resp.alt_port_num = q->attr.alt_port_num;
	a->resp.alt_timeout = q->attr.alt_timeout;
	uv_ah_to_qp_dest(&a->resp.dest, &q->attr.ah_attr);
	uv_ah_to_qp_dest(&a->resp.alt_dest, &q->attr.alt_ah_attr);
	a->resp.max_send_wr = q->init.cap.max_send_wr;
	a->resp.max_recv_wr = q->init.cap.max_recv_wr;
	a->resp.max_send_sge = q->init.cap.max_send_sge;
	a->resp.max_recv_sge = q->init.cap.max_recv_sge;
	a->resp.max_inline_data = q->init.cap.max_inline_data;
	a->resp.sq_sig_all = q->init.sq_sig_type == IB_SIGNAL_ALL_WR;
out:
	kfree(q);
	return err;
}

/* The result of DESTROY_QP and DESTROY_SRQ. */
int uv_do_destroy_uevent(struct uv_call *call, void *args)
{
	struct uv_destroy_uevent *a = args;

	a->reported = uv_uevent_of(a->obj)->source.base.reported;
	return 0;
}

struct uv_mcast {
	struct ib_uobject *qp;
	u8 gid[16];
	u16 mlid;
};

static struct uv_mcast_entry *uv_qp_find_mcast(struct ib_uqp_object *uqp, const struct uv_mcast *a)
{
	struct uv_mcast_entry *entry;

	lockdep_assert_held(&uqp->mcast_lock);
	list_for_each_entry(entry, &uqp->mcast, list)
		if (entry->mlid == a->mlid && !memcmp(entry->gid.raw, a->gid, sizeof(a->gid)))
			return entry;
	return NULL;
}

static int uv_do_attach_mcast(struct uv_call *call, void *args)
{
	struct uv_mcast *a = args;
	struct ib_uqp_object *uqp = uv_uqp_of(a->qp);
	struct uv_mcast_entry *entry;
	int err = 0;

	mutex_lock(&uqp->mcast_lock);
	if (uv_qp_find_mcast(uqp, a))
		goto out;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry) {
		err = -ENOMEM;
		goto out;
	}
	entry->mlid = a->mlid;
	memcpy(entry->gid.raw, a->gid, sizeof(a->gid));
	err = ib_attach_mcast(a->qp->object, &entry->gid, a->mlid);
	if (err)
		kfree(entry);
	else
		list_add_tail(&entry->list, &uqp->mcast);
out:
	mutex_unlock(&uqp->mcast_lock);
	return err;
}

static int uv_do_detach_mcast(struct uv_call *call, void *args)
{
	struct uv_mcast *a = args;
	struct ib_uqp_object *uqp = uv_uqp_of(a->qp);
	struct uv_mcast_entry *entry;
	int err = -EINVAL;

	mutex_lock(&uqp->mcast_lock);
	entry = uv_qp_find_mcast(uqp, a);
	if (entry) {
		list_del(&entry->list);
		err = ib_detach_mcast(a->qp->object, &entry->gid, a->mlid);
		kfree(entry);
	}
	mutex_unlock(&uqp->mcast_lock);
	return err;
}

static int uv_qp_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
	__context_unsafe(/* the object is held exclusively: no command uses it */)
{
	struct ib_uqp_object *uqp = uv_uqp_of(uobj);
	struct ib_qp *qp = uobj->object;
	struct uv_mcast_entry *entry, *next;
	int err;

	/* Groups have no handles: the teardown of a file leaves them here. */
	if (why == RDMA_REMOVE_DESTROY && !list_empty(&uqp->mcast))
		return -EBUSY;
	list_for_each_entry_safe(entry, next, &uqp->mcast, list) {
		ib_detach_mcast(qp, &entry->gid, entry->mlid);
		list_del(&entry->list);
		kfree(entry);
	}
	err = ib_destroy_qp_user(qp, &attrs->driver_udata);
	if (err)
		return err;
	uv_uevent_release(&uqp->ev);
	return 0;
}

const struct uv_type uv_qp = {
	.name = "qp",
	.id = UVERBS_OBJECT_QP,
	.size = UV_SIZE(struct ib_uqp_object),
	.destroy = uv_qp_destroy,
};

struct uv_row uv_qp_rows[] __ro_after_init = { {
	.name = "create_qp",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_QP),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_qp),
	.handler = uv_do_create_qp,
	UV_WRITE_FIELDS(uv_create_qp, ib_uverbs_create_qp, ib_uverbs_create_qp_resp,
			W_NEW(qp, qp_handle, qp),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_OBJ(cq, UV_READ, send_cq_handle, send_cq),
			W_OBJ_WHEN(uv_qp_has_recv_cq, cq, UV_READ, recv_cq_handle, recv_cq),
			W_OBJ_WHEN(uv_qp_has_srq, srq, UV_READ, srq_handle, srq),
			W_IN(user_handle, user_handle),
			W_IN_SPAN(max_send_wr, qp_type, cap, type),
			W_OUT_SPAN(qpn, max_inline_data, qp_num, cap)),
}, {
	.name = "create_qp",
	UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_CREATE_QP),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(create_qp),
	.handler = uv_do_create_qp,
	UV_WRITE_FIELDS(uv_create_qp, ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp,
			/* The only bit, IB_UVERBS_CREATE_QP_MASK_IND_TABLE, is not supported. */
			W_ZERO(comp_mask),
			W_ZERO_BYTE(reserved),
			W_BITS(create_flags, UV_QP_CREATE_FLAGS, EINVAL),
			W_NEW(qp, base.qp_handle, qp),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_OBJ(cq, UV_READ, send_cq_handle, send_cq),
			W_OBJ_WHEN(uv_qp_ex_has_recv_cq, cq, UV_READ, recv_cq_handle, recv_cq),
			W_OBJ_WHEN(uv_qp_ex_has_srq, srq, UV_READ, srq_handle, srq),
			W_IN(user_handle, user_handle),
			W_IN(create_flags, flags),
			W_IN(source_qpn, source_qpn),
			W_IN_SPAN(max_send_wr, qp_type, cap, type),
			W_OUT_SPAN(base.qpn, base.max_inline_data, qp_num, cap),
			W_OUT_LEN(response_length)),
}, {
	.name = "create_qp",
	UV_IOCTL_METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN2(create_qp, destroy_qp),
	.handler = uv_do_create_qp_ioctl,
	UV_IOCTL_FIELDS(uv_create_qp,
			A_NEW(qp, UVERBS_ATTR_CREATE_QP_HANDLE, qp),
			A_OBJ(pd, UV_READ, UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd, UV_OPTIONAL),
			A_OBJ(srq, UV_READ, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq, UV_OPTIONAL),
			A_OBJ(cq, UV_READ, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, send_cq,
			      UV_OPTIONAL),
			A_OBJ(cq, UV_READ, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, recv_cq,
			      UV_OPTIONAL),
			A_IN(UVERBS_ATTR_CREATE_QP_USER_HANDLE, user_handle),
			A_IN(UVERBS_ATTR_CREATE_QP_CAP, cap, UV_EXTENSIBLE),
			A_CONST(UVERBS_ATTR_CREATE_QP_TYPE, type),
			A_FLAGS(UVERBS_ATTR_CREATE_QP_FLAGS, UV_QP_IOCTL_FLAGS, flags, UV_OPTIONAL),
			A_FD(UVERBS_ATTR_CREATE_QP_EVENT_FD, async, UV_OPTIONAL | UV_ASYNC),
			A_OUT(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap, UV_EXTENSIBLE),
			A_OUT(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp_num)),
}, {
	.name = "modify_qp",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_MODIFY_QP),
	UV_NEEDS_FN(modify_qp),
	.handler = uv_do_modify_qp,
	UV_WRITE_FIELDS(uv_modify_qp, ib_uverbs_modify_qp, uv_none,
			W_BITS(attr_mask, IB_QP_ATTR_STANDARD_BITS, EOPNOTSUPP),
			W_OBJ(qp, UV_READ, qp_handle, qp),
			W_IN_ALL(attr.base)),
}, {
	.name = "modify_qp",
	UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_MODIFY_QP),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN(modify_qp),
	.handler = uv_do_modify_qp,
	UV_WRITE_FIELDS(uv_modify_qp, ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp,
			W_BITS(base.attr_mask, IB_QP_ATTR_STANDARD_BITS | IB_QP_RATE_LIMIT,
			       EOPNOTSUPP),
			W_OBJ(qp, UV_READ, base.qp_handle, qp),
			W_IN_ALL(attr),
			W_OUT_LEN(response_length)),
}, {
	.name = "query_qp",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_QUERY_QP),
	UV_NEEDS_FN(query_qp),
	.handler = uv_do_query_qp,
	UV_WRITE_FIELDS(uv_query_qp, ib_uverbs_query_qp, ib_uverbs_query_qp_resp,
			W_OBJ(qp, UV_READ, qp_handle, qp),
			W_IN(attr_mask, mask),
			W_OUT_ALL(resp)),
}, {
	.name = "destroy_qp",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DESTROY_QP),
	UV_NEEDS_FN(destroy_qp),
	.handler = uv_do_destroy_uevent,
	UV_WRITE_FIELDS(uv_destroy_uevent, ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp,
			W_OBJ(qp, UV_DESTROY, qp_handle, obj),
			W_OUT(events_reported, reported)),
}, {
	.name = "destroy_qp",
	UV_IOCTL_METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY),
	UV_NEEDS_FN(destroy_qp),
	.handler = uv_do_destroy_uevent,
	UV_IOCTL_FIELDS(uv_destroy_uevent,
			A_OBJ(qp, UV_DESTROY, UVERBS_ATTR_DESTROY_QP_HANDLE, obj),
			A_OUT(UVERBS_ATTR_DESTROY_QP_RESP, reported)),
}, {
	.name = "attach_mcast",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_ATTACH_MCAST),
	UV_NEEDS_FN2(attach_mcast, detach_mcast),
	.handler = uv_do_attach_mcast,
	UV_WRITE_FIELDS(uv_mcast, ib_uverbs_attach_mcast, uv_none,
			W_OBJ(qp, UV_READ, qp_handle, qp),
			W_IN(gid, gid),
			W_IN(mlid, mlid)),
}, {
	.name = "detach_mcast",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DETACH_MCAST),
	UV_NEEDS_FN(detach_mcast),
	.handler = uv_do_detach_mcast,
	UV_WRITE_FIELDS(uv_mcast, ib_uverbs_detach_mcast, uv_none,
			W_OBJ(qp, UV_READ, qp_handle, qp),
			W_IN(gid, gid),
			W_IN(mlid, mlid)),
}, {
	/* the end */
} };
