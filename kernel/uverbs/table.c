// SPDX-License-Identifier: GPL-2.0
/*
 * The table of commands. To add one: its arguments in args.h, a handler in a
 * cmd_*.c, and here its fields and its row for each ABI. docs/uverbs.md has an
 * example.
 */

#include <linux/cache.h>

#include "args.h"
#include "core_calls.h"

/*
 * Fields of write(). The build checks that a value has the same size in the
 * request and in the arguments, and that a handle has 32 bits.
 */
#define SAME_SIZE(wire, member, args, field) \
	BUILD_BUG_ON_ZERO(sizeof_field(wire, member) != sizeof_field(struct args, field))
#define IS_HANDLE(wire, member) BUILD_BUG_ON_ZERO(sizeof_field(wire, member) != sizeof(u32))

#define W_IN(wire, member, args, field) { .kind = UV_IN, \
	.at = offsetof(wire, member), .arg = offsetof(struct args, field), \
	.len = sizeof_field(wire, member) + SAME_SIZE(wire, member, args, field) }
#define W_OUT(wire, member, args, field) { .kind = UV_OUT, \
	.at = offsetof(wire, member), .arg = offsetof(struct args, field), \
	.len = sizeof_field(wire, member) + SAME_SIZE(wire, member, args, field) }
/* Consecutive members that have the same order in the arguments. */
#define W_IN_SPAN(wire, member, last, args, field) { .kind = UV_IN, \
	.at = offsetof(wire, member), .arg = offsetof(struct args, field), \
	.len = offsetofend(wire, last) - offsetof(wire, member) }
#define W_OUT_SPAN(wire, member, last, args, field) { .kind = UV_OUT, \
	.at = offsetof(wire, member), .arg = offsetof(struct args, field), \
	.len = offsetofend(wire, last) - offsetof(wire, member) }
#define W_IN_ALL(wire, args, field) { .kind = UV_IN, .len = sizeof(wire), \
	.arg = offsetof(struct args, field) }
#define W_OUT_ALL(wire, args, field) { .kind = UV_OUT, .len = sizeof(wire), \
	.arg = offsetof(struct args, field) }
#define W_BITS(wire, member, bits, err) { .kind = UV_BITS, .allowed = bits, .error = -(err), \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member), .len = sizeof(u32) }
#define W_ZERO_BYTE(wire, member) { .kind = UV_BITS, .error = -EINVAL, \
	.at = offsetof(wire, member), .len = sizeof_field(wire, member) + \
	BUILD_BUG_ON_ZERO(sizeof_field(wire, member) != sizeof(u8)) }
#define W_ZERO(wire, member) W_BITS(wire, member, 0, EINVAL)
#define W_OUT_LEN(wire, member) { .kind = UV_OUT_LEN, .len = sizeof(u32), \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member) }
#define W_OBJ(of, how, wire, member, args, field) { .kind = UV_OBJ, .type = &uv_##of, \
	.access = how, .at = offsetof(wire, member) + IS_HANDLE(wire, member), \
	.len = sizeof(u32), .arg = offsetof(struct args, field) }
#define W_OBJ_WHEN(cond, of, how, wire, member, args, field) { .kind = UV_OBJ, \
	.type = &uv_##of, .access = how, .when = cond, .len = sizeof(u32), \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member), \
	.arg = offsetof(struct args, field) }
#define W_NEW(of, wire, member, args, field) { .kind = UV_NEW, .type = &uv_##of, \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member), .len = sizeof(u32), \
	.arg = offsetof(struct args, field) }
#define W_FD_OR_NONE(wire, member, args, field) { .kind = UV_FD, .flags = UV_OPTIONAL, \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member), .len = sizeof(u32), \
	.arg = offsetof(struct args, field) }
#define W_FD_NEW(async, wire, member, args, field) { .kind = UV_FD_NEW, .flags = async, \
	.at = offsetof(wire, member) + IS_HANDLE(wire, member), .len = sizeof(u32), \
	.arg = offsetof(struct args, field) }

/* Fields of the ioctl: attributes. */
#define A_FIELD(how, attr, args, field, ...) { .kind = how, .at = UVERBS_ATTR_##attr, \
	.min = sizeof_field(struct args, field), .len = sizeof_field(struct args, field), \
	.arg = offsetof(struct args, field), ##__VA_ARGS__ }
#define A_IN(attr, args, field, ...) A_FIELD(UV_IN, attr, args, field, ##__VA_ARGS__)
#define A_OUT(attr, args, field, ...) A_FIELD(UV_OUT, attr, args, field, ##__VA_ARGS__)
#define A_CONST(attr, args, field) A_FIELD(UV_CONST, attr, args, field)
#define A_FLAGS(attr, bits, args, field, ...) \
	A_FIELD(UV_FLAGS, attr, args, field, .allowed = bits, ##__VA_ARGS__)
#define A_BUF(attr, min_len, args, field, ...) { .kind = UV_BUF, .at = UVERBS_ATTR_##attr, \
	.min = min_len, .arg = offsetof(struct args, field), .flags = __VA_ARGS__ }
#define A_OBJ(of, how, attr, args, field, ...) \
	A_FIELD(UV_OBJ, attr, args, field, .type = &uv_##of, .access = how, ##__VA_ARGS__)
#define A_NEW(of, attr, args, field) A_FIELD(UV_NEW, attr, args, field, .type = &uv_##of)
#define A_FD(attr, args, field, how) A_FIELD(UV_FD, attr, args, field, .flags = how)
#define OPTIONAL .flags = UV_OPTIONAL

/* ---- device and context ---------------------------------------------------- */

static const struct uv_field get_context_write[] = {
	W_FD_NEW(UV_ASYNC, struct ib_uverbs_get_context_resp, async_fd, uv_get_context, async),
	W_OUT(struct ib_uverbs_get_context_resp, num_comp_vectors, uv_get_context,
	      num_comp_vectors),
};

static const struct uv_field get_context_ioctl[] = {
	A_OUT(GET_CONTEXT_NUM_COMP_VECTORS, uv_get_context, num_comp_vectors, OPTIONAL),
	A_OUT(GET_CONTEXT_CORE_SUPPORT, uv_get_context, core_support, OPTIONAL),
};

static const struct uv_field query_context_ioctl[] = {
	A_OUT(QUERY_CONTEXT_NUM_COMP_VECTORS, uv_get_context, num_comp_vectors, OPTIONAL),
	A_OUT(QUERY_CONTEXT_CORE_SUPPORT, uv_get_context, core_support, OPTIONAL),
};

static const struct uv_field async_event_alloc_ioctl[] = {
	{
		.kind = UV_FD_NEW,
		.at = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
		.flags = UV_ASYNC,
		.arg = offsetof(struct uv_async_event_alloc, events),
	},
};

static const struct uv_field query_device_write[] = {
	W_OUT_ALL(struct ib_uverbs_query_device_resp, uv_query_device, resp),
};

static const struct uv_field query_device_ex[] = {
	W_ZERO(struct ib_uverbs_ex_query_device, comp_mask),
	W_ZERO(struct ib_uverbs_ex_query_device, reserved),
	W_OUT_ALL(struct ib_uverbs_ex_query_device_resp, uv_query_device, resp),
	W_OUT_LEN(struct ib_uverbs_ex_query_device_resp, response_length),
};

static const struct uv_field query_port_write[] = {
	W_IN(struct ib_uverbs_query_port, port_num, uv_query_port, port),
	W_OUT_ALL(struct ib_uverbs_query_port_resp, uv_query_port, resp.legacy_resp),
};

static const struct uv_field query_port_ioctl[] = {
	A_CONST(QUERY_PORT_PORT_NUM, uv_query_port, port),
	A_OUT(QUERY_PORT_RESP, uv_query_port, resp, .flags = UV_EXTENSIBLE),
};

static const struct uv_field query_gid_table_ioctl[] = {
	A_CONST(QUERY_GID_TABLE_ENTRY_SIZE, uv_query_gid_table, entry_size),
	A_FLAGS(QUERY_GID_TABLE_FLAGS, 0, uv_query_gid_table, flags, OPTIONAL),
	A_BUF(QUERY_GID_TABLE_RESP_ENTRIES, 0, uv_query_gid_table, entries, UV_BUF_OUT),
	A_OUT(QUERY_GID_TABLE_RESP_NUM_ENTRIES, uv_query_gid_table, count),
};

static const struct uv_field query_gid_entry_ioctl[] = {
	A_CONST(QUERY_GID_ENTRY_PORT, uv_query_gid_entry, port),
	A_CONST(QUERY_GID_ENTRY_GID_INDEX, uv_query_gid_entry, index),
	A_FLAGS(QUERY_GID_ENTRY_FLAGS, 0, uv_query_gid_entry, flags),
	A_OUT(QUERY_GID_ENTRY_RESP_ENTRY, uv_query_gid_entry, entry, .flags = UV_EXTENSIBLE),
};

static const struct uv_field info_handles_ioctl[] = {
	A_CONST(INFO_OBJECT_ID, uv_info_handles, type),
	A_OUT(INFO_TOTAL_HANDLES, uv_info_handles, total, OPTIONAL),
	A_BUF(INFO_HANDLES_LIST, sizeof(u32), uv_info_handles, list, UV_BUF_OUT | UV_OPTIONAL),
};

static const struct uv_field invoke_write_ioctl[] = {
	A_BUF(CORE_IN, sizeof(u32), uv_invoke_write, in, UV_OPTIONAL),
	A_BUF(CORE_OUT, 0, uv_invoke_write, out, UV_BUF_OUT | UV_OPTIONAL),
	A_CONST(WRITE_CMD, uv_invoke_write, command),
};

/* ---- protection domains, regions, windows ---------------------------------- */

static const struct uv_field alloc_pd_write[] = {
	W_NEW(pd, struct ib_uverbs_alloc_pd_resp, pd_handle, uv_alloc_pd, pd),
};

static const struct uv_field dealloc_pd_write[] = {
	W_OBJ(pd, UV_DESTROY, struct ib_uverbs_dealloc_pd, pd_handle, uv_destroy, obj),
};

static const struct uv_field dealloc_pd_ioctl[] = {
	A_OBJ(pd, UV_DESTROY, DESTROY_PD_HANDLE, uv_destroy, obj),
};

static const struct uv_field reg_mr_write[] = {
	W_NEW(mr, struct ib_uverbs_reg_mr_resp, mr_handle, uv_reg_mr, mr),
	W_OBJ(pd, UV_READ, struct ib_uverbs_reg_mr, pd_handle, uv_reg_mr, pd),
	W_IN(struct ib_uverbs_reg_mr, start, uv_reg_mr, start),
	W_IN(struct ib_uverbs_reg_mr, length, uv_reg_mr, length),
	W_IN(struct ib_uverbs_reg_mr, hca_va, uv_reg_mr, virt),
	W_IN(struct ib_uverbs_reg_mr, access_flags, uv_reg_mr, access),
	W_OUT(struct ib_uverbs_reg_mr_resp, lkey, uv_reg_mr, lkey),
	W_OUT(struct ib_uverbs_reg_mr_resp, rkey, uv_reg_mr, rkey),
};

static bool uv_rereg_has_pd(const void *request)
{
	return ((const struct ib_uverbs_rereg_mr *)request)->flags & IB_MR_REREG_PD;
}

static const struct uv_field rereg_mr_write[] = {
	W_BITS(struct ib_uverbs_rereg_mr, flags, IB_MR_REREG_SUPPORTED, EOPNOTSUPP),
	W_OBJ(mr, UV_WRITE, struct ib_uverbs_rereg_mr, mr_handle, uv_rereg_mr, mr),
	W_OBJ_WHEN(uv_rereg_has_pd, pd, UV_READ, struct ib_uverbs_rereg_mr, pd_handle, uv_rereg_mr,
		   pd),
	W_IN(struct ib_uverbs_rereg_mr, flags, uv_rereg_mr, flags),
	W_IN(struct ib_uverbs_rereg_mr, start, uv_rereg_mr, start),
	W_IN(struct ib_uverbs_rereg_mr, length, uv_rereg_mr, length),
	W_IN(struct ib_uverbs_rereg_mr, hca_va, uv_rereg_mr, virt),
	W_IN(struct ib_uverbs_rereg_mr, access_flags, uv_rereg_mr, access),
	W_OUT(struct ib_uverbs_rereg_mr_resp, lkey, uv_rereg_mr, lkey),
	W_OUT(struct ib_uverbs_rereg_mr_resp, rkey, uv_rereg_mr, rkey),
};

static const struct uv_field dereg_mr_write[] = {
	W_OBJ(mr, UV_DESTROY, struct ib_uverbs_dereg_mr, mr_handle, uv_destroy, obj),
};

static const struct uv_field dereg_mr_ioctl[] = {
	A_OBJ(mr, UV_DESTROY, DESTROY_MR_HANDLE, uv_destroy, obj),
};

static const struct uv_field query_mr_ioctl[] = {
	A_OBJ(mr, UV_READ, QUERY_MR_HANDLE, uv_query_mr, mr),
	A_OUT(QUERY_MR_RESP_LKEY, uv_query_mr, lkey),
	A_OUT(QUERY_MR_RESP_RKEY, uv_query_mr, rkey),
	A_OUT(QUERY_MR_RESP_LENGTH, uv_query_mr, length),
	A_OUT(QUERY_MR_RESP_IOVA, uv_query_mr, iova, OPTIONAL),
};

static const struct uv_field alloc_mw_write[] = {
	W_NEW(mw, struct ib_uverbs_alloc_mw_resp, mw_handle, uv_alloc_mw, mw),
	W_OBJ(pd, UV_READ, struct ib_uverbs_alloc_mw, pd_handle, uv_alloc_mw, pd),
	W_IN(struct ib_uverbs_alloc_mw, mw_type, uv_alloc_mw, type),
	W_OUT(struct ib_uverbs_alloc_mw_resp, rkey, uv_alloc_mw, rkey),
};

static const struct uv_field dealloc_mw_write[] = {
	W_OBJ(mw, UV_DESTROY, struct ib_uverbs_dealloc_mw, mw_handle, uv_destroy, obj),
};

static const struct uv_field dealloc_mw_ioctl[] = {
	A_OBJ(mw, UV_DESTROY, DESTROY_MW_HANDLE, uv_destroy, obj),
};

/* ---- completion queues ----------------------------------------------------- */

static const struct uv_field comp_channel_write[] = {
	W_FD_NEW(0, struct ib_uverbs_create_comp_channel_resp, fd, uv_comp_channel, channel),
};

static const struct uv_field create_cq_write[] = {
	W_NEW(cq, struct ib_uverbs_create_cq_resp, cq_handle, uv_create_cq, cq),
	W_FD_OR_NONE(struct ib_uverbs_create_cq, comp_channel, uv_create_cq, channel),
	W_IN(struct ib_uverbs_create_cq, user_handle, uv_create_cq, user_handle),
	W_IN(struct ib_uverbs_create_cq, cqe, uv_create_cq, cqe),
	W_IN(struct ib_uverbs_create_cq, comp_vector, uv_create_cq, comp_vector),
	W_OUT(struct ib_uverbs_create_cq_resp, cqe, uv_create_cq, cqe),
};

static const struct uv_field create_cq_ex[] = {
	W_ZERO(struct ib_uverbs_ex_create_cq, comp_mask),
	W_ZERO(struct ib_uverbs_ex_create_cq, reserved),
	W_NEW(cq, struct ib_uverbs_ex_create_cq_resp, base.cq_handle, uv_create_cq, cq),
	W_FD_OR_NONE(struct ib_uverbs_ex_create_cq, comp_channel, uv_create_cq, channel),
	W_IN(struct ib_uverbs_ex_create_cq, user_handle, uv_create_cq, user_handle),
	W_IN(struct ib_uverbs_ex_create_cq, cqe, uv_create_cq, cqe),
	W_IN(struct ib_uverbs_ex_create_cq, comp_vector, uv_create_cq, comp_vector),
	W_IN(struct ib_uverbs_ex_create_cq, flags, uv_create_cq, flags),
	W_OUT(struct ib_uverbs_ex_create_cq_resp, base.cqe, uv_create_cq, cqe),
	W_OUT_LEN(struct ib_uverbs_ex_create_cq_resp, response_length),
};

static const struct uv_field create_cq_ioctl[] = {
	A_NEW(cq, CREATE_CQ_HANDLE, uv_create_cq, cq),
	A_IN(CREATE_CQ_CQE, uv_create_cq, cqe),
	A_IN(CREATE_CQ_USER_HANDLE, uv_create_cq, user_handle),
	A_FD(CREATE_CQ_COMP_CHANNEL, uv_create_cq, channel, UV_OPTIONAL),
	A_IN(CREATE_CQ_COMP_VECTOR, uv_create_cq, comp_vector),
	A_FLAGS(CREATE_CQ_FLAGS, IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
		IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN, uv_create_cq, flags, OPTIONAL),
	A_OUT(CREATE_CQ_RESP_CQE, uv_create_cq, cqe),
	A_FD(CREATE_CQ_EVENT_FD, uv_create_cq, async, UV_OPTIONAL | UV_ASYNC),
};

static const struct uv_field resize_cq_write[] = {
	W_OBJ(cq, UV_READ, struct ib_uverbs_resize_cq, cq_handle, uv_resize_cq, cq),
	W_IN(struct ib_uverbs_resize_cq, cqe, uv_resize_cq, cqe),
	W_OUT(struct ib_uverbs_resize_cq_resp, cqe, uv_resize_cq, cqe),
};

static const struct uv_field modify_cq_ex[] = {
	W_ZERO(struct ib_uverbs_ex_modify_cq, reserved),
	W_BITS(struct ib_uverbs_ex_modify_cq, attr_mask, IB_CQ_MODERATE, EOPNOTSUPP),
	W_OBJ(cq, UV_READ, struct ib_uverbs_ex_modify_cq, cq_handle, uv_modify_cq, cq),
	W_IN(struct ib_uverbs_ex_modify_cq, attr_mask, uv_modify_cq, mask),
	W_IN(struct ib_uverbs_ex_modify_cq, attr, uv_modify_cq, moderation),
};

static const struct uv_field poll_cq_write[] = {
	W_OBJ(cq, UV_READ, struct ib_uverbs_poll_cq, cq_handle, uv_poll_cq, cq),
	W_IN(struct ib_uverbs_poll_cq, ne, uv_poll_cq, entries),
};

static const struct uv_field notify_cq_write[] = {
	W_OBJ(cq, UV_READ, struct ib_uverbs_req_notify_cq, cq_handle, uv_notify_cq, cq),
	W_IN(struct ib_uverbs_req_notify_cq, solicited_only, uv_notify_cq, solicited_only),
};

static const struct uv_field destroy_cq_write[] = {
	W_OBJ(cq, UV_DESTROY, struct ib_uverbs_destroy_cq, cq_handle, uv_destroy_cq, cq),
	W_OUT_ALL(struct ib_uverbs_destroy_cq_resp, uv_destroy_cq, resp),
};

static const struct uv_field destroy_cq_ioctl[] = {
	A_OBJ(cq, UV_DESTROY, DESTROY_CQ_HANDLE, uv_destroy_cq, cq),
	A_OUT(DESTROY_CQ_RESP, uv_destroy_cq, resp),
};

/* ---- queue pairs ----------------------------------------------------------- */

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

static const struct uv_field create_qp_write[] = {
	W_NEW(qp, struct ib_uverbs_create_qp_resp, qp_handle, uv_create_qp, qp),
	W_OBJ(pd, UV_READ, struct ib_uverbs_create_qp, pd_handle, uv_create_qp, pd),
	W_OBJ(cq, UV_READ, struct ib_uverbs_create_qp, send_cq_handle, uv_create_qp, send_cq),
	W_OBJ_WHEN(uv_qp_has_recv_cq, cq, UV_READ, struct ib_uverbs_create_qp, recv_cq_handle,
		   uv_create_qp, recv_cq),
	W_OBJ_WHEN(uv_qp_has_srq, srq, UV_READ, struct ib_uverbs_create_qp, srq_handle,
		   uv_create_qp,
		   srq),
	W_IN(struct ib_uverbs_create_qp, user_handle, uv_create_qp, user_handle),
	W_IN(struct ib_uverbs_create_qp, sq_sig_all, uv_create_qp, sq_sig_all),
	W_IN(struct ib_uverbs_create_qp, qp_type, uv_create_qp, type),
	W_IN_SPAN(struct ib_uverbs_create_qp, max_send_wr, max_inline_data, uv_create_qp, cap),
	W_OUT(struct ib_uverbs_create_qp_resp, qpn, uv_create_qp, qp_num),
	W_OUT_SPAN(struct ib_uverbs_create_qp_resp, max_send_wr, max_inline_data, uv_create_qp,
		   cap),
};

#define QP_CREATE_FLAGS \
	(IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_QP_CREATE_CROSS_CHANNEL | \
	 IB_QP_CREATE_MANAGED_SEND | IB_QP_CREATE_MANAGED_RECV | IB_QP_CREATE_SCATTER_FCS | \
	 IB_QP_CREATE_CVLAN_STRIPPING | IB_QP_CREATE_SOURCE_QPN | \
	 IB_QP_CREATE_PCI_WRITE_END_PADDING)

static const struct uv_field create_qp_ex[] = {
	/* The only bit is for a table of receive work queues, which are not supported. */
	W_ZERO(struct ib_uverbs_ex_create_qp, comp_mask),
	W_ZERO_BYTE(struct ib_uverbs_ex_create_qp, reserved),
	W_BITS(struct ib_uverbs_ex_create_qp, create_flags, QP_CREATE_FLAGS, EINVAL),
	W_NEW(qp, struct ib_uverbs_ex_create_qp_resp, base.qp_handle, uv_create_qp, qp),
	W_OBJ(pd, UV_READ, struct ib_uverbs_ex_create_qp, pd_handle, uv_create_qp, pd),
	W_OBJ(cq, UV_READ, struct ib_uverbs_ex_create_qp, send_cq_handle, uv_create_qp, send_cq),
	W_OBJ_WHEN(uv_qp_ex_has_recv_cq, cq, UV_READ, struct ib_uverbs_ex_create_qp, recv_cq_handle,
		   uv_create_qp, recv_cq),
	W_OBJ_WHEN(uv_qp_ex_has_srq, srq, UV_READ, struct ib_uverbs_ex_create_qp, srq_handle,
		   uv_create_qp, srq),
	W_IN(struct ib_uverbs_ex_create_qp, user_handle, uv_create_qp, user_handle),
	W_IN(struct ib_uverbs_ex_create_qp, sq_sig_all, uv_create_qp, sq_sig_all),
	W_IN(struct ib_uverbs_ex_create_qp, qp_type, uv_create_qp, type),
	W_IN(struct ib_uverbs_ex_create_qp, create_flags, uv_create_qp, flags),
	W_IN(struct ib_uverbs_ex_create_qp, source_qpn, uv_create_qp, source_qpn),
	W_IN_SPAN(struct ib_uverbs_ex_create_qp, max_send_wr, max_inline_data, uv_create_qp, cap),
	W_OUT(struct ib_uverbs_ex_create_qp_resp, base.qpn, uv_create_qp, qp_num),
	W_OUT_SPAN(struct ib_uverbs_ex_create_qp_resp, base.max_send_wr, base.max_inline_data,
		   uv_create_qp, cap),
	W_OUT_LEN(struct ib_uverbs_ex_create_qp_resp, response_length),
};

static const struct uv_field create_qp_ioctl[] = {
	A_NEW(qp, CREATE_QP_HANDLE, uv_create_qp, qp),
	A_OBJ(pd, UV_READ, CREATE_QP_PD_HANDLE, uv_create_qp, pd, OPTIONAL),
	A_OBJ(srq, UV_READ, CREATE_QP_SRQ_HANDLE, uv_create_qp, srq, OPTIONAL),
	A_OBJ(cq, UV_READ, CREATE_QP_SEND_CQ_HANDLE, uv_create_qp, send_cq, OPTIONAL),
	A_OBJ(cq, UV_READ, CREATE_QP_RECV_CQ_HANDLE, uv_create_qp, recv_cq, OPTIONAL),
	A_IN(CREATE_QP_USER_HANDLE, uv_create_qp, user_handle),
	A_IN(CREATE_QP_CAP, uv_create_qp, cap, .flags = UV_EXTENSIBLE),
	A_CONST(CREATE_QP_TYPE, uv_create_qp, type),
	A_FLAGS(CREATE_QP_FLAGS, IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK |
		IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING |
		IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING | IB_UVERBS_QP_CREATE_SQ_SIG_ALL,
		uv_create_qp, flags, OPTIONAL),
	A_FD(CREATE_QP_EVENT_FD, uv_create_qp, async, UV_OPTIONAL | UV_ASYNC),
	A_OUT(CREATE_QP_RESP_CAP, uv_create_qp, cap, .flags = UV_EXTENSIBLE),
	A_OUT(CREATE_QP_RESP_QP_NUM, uv_create_qp, qp_num),
};

static const struct uv_field modify_qp_write[] = {
	W_BITS(struct ib_uverbs_modify_qp, attr_mask, IB_QP_ATTR_STANDARD_BITS, EOPNOTSUPP),
	W_OBJ(qp, UV_READ, struct ib_uverbs_modify_qp, qp_handle, uv_modify_qp, qp),
	W_IN_ALL(struct ib_uverbs_modify_qp, uv_modify_qp, attr.base),
};

static const struct uv_field modify_qp_ex[] = {
	W_BITS(struct ib_uverbs_ex_modify_qp, base.attr_mask,
	       IB_QP_ATTR_STANDARD_BITS | IB_QP_RATE_LIMIT, EOPNOTSUPP),
	W_OBJ(qp, UV_READ, struct ib_uverbs_ex_modify_qp, base.qp_handle, uv_modify_qp, qp),
	W_IN_ALL(struct ib_uverbs_ex_modify_qp, uv_modify_qp, attr),
	W_OUT_LEN(struct ib_uverbs_ex_modify_qp_resp, response_length),
};

static const struct uv_field query_qp_write[] = {
	W_OBJ(qp, UV_READ, struct ib_uverbs_query_qp, qp_handle, uv_query_qp, qp),
	W_IN(struct ib_uverbs_query_qp, attr_mask, uv_query_qp, mask),
	W_OUT_ALL(struct ib_uverbs_query_qp_resp, uv_query_qp, resp),
};

static const struct uv_field destroy_qp_write[] = {
	W_OBJ(qp, UV_DESTROY, struct ib_uverbs_destroy_qp, qp_handle, uv_destroy_evented, obj),
	W_OUT(struct ib_uverbs_destroy_qp_resp, events_reported, uv_destroy_evented, reported),
};

static const struct uv_field destroy_qp_ioctl[] = {
	A_OBJ(qp, UV_DESTROY, DESTROY_QP_HANDLE, uv_destroy_evented, obj),
	A_OUT(DESTROY_QP_RESP, uv_destroy_evented, reported),
};

static const struct uv_field mcast_write[] = {
	W_OBJ(qp, UV_READ, struct ib_uverbs_attach_mcast, qp_handle, uv_mcast, qp),
	W_IN(struct ib_uverbs_attach_mcast, gid, uv_mcast, gid),
	W_IN(struct ib_uverbs_attach_mcast, mlid, uv_mcast, mlid),
};

static const struct uv_field post_send_write[] = {
	W_OBJ(qp, UV_READ, struct ib_uverbs_post_send, qp_handle, uv_post, obj),
	W_IN_SPAN(struct ib_uverbs_post_send, wr_count, wqe_size, uv_post, wr_count),
	W_OUT(struct ib_uverbs_post_send_resp, bad_wr, uv_post, bad_wr),
};

static const struct uv_field post_recv_write[] = {
	W_OBJ(qp, UV_READ, struct ib_uverbs_post_recv, qp_handle, uv_post, obj),
	W_IN_SPAN(struct ib_uverbs_post_recv, wr_count, wqe_size, uv_post, wr_count),
	W_OUT(struct ib_uverbs_post_recv_resp, bad_wr, uv_post, bad_wr),
};

/* ---- shared receive queues ------------------------------------------------- */

static const struct uv_field create_srq_write[] = {
	W_NEW(srq, struct ib_uverbs_create_srq_resp, srq_handle, uv_create_srq, srq),
	W_OBJ(pd, UV_READ, struct ib_uverbs_create_srq, pd_handle, uv_create_srq, pd),
	W_IN(struct ib_uverbs_create_srq, user_handle, uv_create_srq, user_handle),
	W_IN_SPAN(struct ib_uverbs_create_srq, max_wr, srq_limit, uv_create_srq, max_wr),
	W_OUT_SPAN(struct ib_uverbs_create_srq_resp, max_wr, max_sge, uv_create_srq, max_wr),
};

static const struct uv_field create_xsrq_write[] = {
	W_NEW(srq, struct ib_uverbs_create_srq_resp, srq_handle, uv_create_srq, srq),
	W_OBJ(pd, UV_READ, struct ib_uverbs_create_xsrq, pd_handle, uv_create_srq, pd),
	W_IN(struct ib_uverbs_create_xsrq, user_handle, uv_create_srq, user_handle),
	W_IN(struct ib_uverbs_create_xsrq, srq_type, uv_create_srq, type),
	W_IN_SPAN(struct ib_uverbs_create_xsrq, max_wr, srq_limit, uv_create_srq, max_wr),
	W_OUT_SPAN(struct ib_uverbs_create_srq_resp, max_wr, max_sge, uv_create_srq, max_wr),
};

static const struct uv_field create_srq_ioctl[] = {
	A_NEW(srq, CREATE_SRQ_HANDLE, uv_create_srq, srq),
	A_OBJ(pd, UV_READ, CREATE_SRQ_PD_HANDLE, uv_create_srq, pd),
	A_IN(CREATE_SRQ_USER_HANDLE, uv_create_srq, user_handle),
	A_IN(CREATE_SRQ_MAX_WR, uv_create_srq, max_wr),
	A_IN(CREATE_SRQ_MAX_SGE, uv_create_srq, max_sge),
	A_IN(CREATE_SRQ_LIMIT, uv_create_srq, limit),
	A_CONST(CREATE_SRQ_TYPE, uv_create_srq, type),
	A_FD(CREATE_SRQ_EVENT_FD, uv_create_srq, async, UV_OPTIONAL | UV_ASYNC),
	A_OUT(CREATE_SRQ_RESP_MAX_WR, uv_create_srq, max_wr),
	A_OUT(CREATE_SRQ_RESP_MAX_SGE, uv_create_srq, max_sge),
};

static const struct uv_field modify_srq_write[] = {
	W_OBJ(srq, UV_READ, struct ib_uverbs_modify_srq, srq_handle, uv_modify_srq, srq),
	W_IN_SPAN(struct ib_uverbs_modify_srq, attr_mask, srq_limit, uv_modify_srq, mask),
};

static const struct uv_field query_srq_write[] = {
	W_OBJ(srq, UV_READ, struct ib_uverbs_query_srq, srq_handle, uv_query_srq, srq),
	W_OUT_ALL(struct ib_uverbs_query_srq_resp, uv_query_srq, resp),
};

static const struct uv_field destroy_srq_write[] = {
	W_OBJ(srq, UV_DESTROY, struct ib_uverbs_destroy_srq, srq_handle, uv_destroy_evented, obj),
	W_OUT(struct ib_uverbs_destroy_srq_resp, events_reported, uv_destroy_evented, reported),
};

static const struct uv_field destroy_srq_ioctl[] = {
	A_OBJ(srq, UV_DESTROY, DESTROY_SRQ_HANDLE, uv_destroy_evented, obj),
	A_OUT(DESTROY_SRQ_RESP, uv_destroy_evented, reported),
};

static const struct uv_field post_srq_recv_write[] = {
	W_OBJ(srq, UV_READ, struct ib_uverbs_post_srq_recv, srq_handle, uv_post, obj),
	W_IN_SPAN(struct ib_uverbs_post_srq_recv, wr_count, wqe_size, uv_post, wr_count),
	W_OUT(struct ib_uverbs_post_srq_recv_resp, bad_wr, uv_post, bad_wr),
};

/* ---- address handles ------------------------------------------------------- */

static const struct uv_field create_ah_write[] = {
	W_NEW(ah, struct ib_uverbs_create_ah_resp, ah_handle, uv_create_ah, ah),
	W_OBJ(pd, UV_READ, struct ib_uverbs_create_ah, pd_handle, uv_create_ah, pd),
	W_IN(struct ib_uverbs_create_ah, user_handle, uv_create_ah, user_handle),
	W_IN(struct ib_uverbs_create_ah, attr, uv_create_ah, attr),
};

static const struct uv_field destroy_ah_write[] = {
	W_OBJ(ah, UV_DESTROY, struct ib_uverbs_destroy_ah, ah_handle, uv_destroy, obj),
};

static const struct uv_field destroy_ah_ioctl[] = {
	A_OBJ(ah, UV_DESTROY, DESTROY_AH_HANDLE, uv_destroy, obj),
};

/* ---- rows ------------------------------------------------------------------ */

/* A larger number would use the entry of another command in the index. */
#define NUMBER(number, end) ((number) + BUILD_BUG_ON_ZERO((number) >= (end)))
#define COMMAND(number) NUMBER((number) & IB_USER_VERBS_CMD_COMMAND_MASK, UV_WRITE_COMMANDS)
#define BY_WRITE(cmd) .abi = UV_ABI_WRITE, .method = COMMAND(IB_USER_VERBS_CMD_##cmd)
#define BY_WRITE_EX(cmd) .abi = UV_ABI_WRITE_EX, .method = COMMAND(IB_USER_VERBS_EX_CMD_##cmd)
#define BY_IOCTL(obj, cmd) .abi = UV_ABI_IOCTL, \
	.object = NUMBER(UVERBS_OBJECT_##obj, UV_IOCTL_OBJECTS), \
	.method = NUMBER(UVERBS_METHOD_##cmd, UV_IOCTL_METHODS)
#define NEEDS_FN(fn) .op = { offsetof(struct ib_device_ops, fn) }
#define NEEDS_FN2(fn, fn2) .op = { offsetof(struct ib_device_ops, fn), \
	offsetof(struct ib_device_ops, fn2) }
#define REQUEST(wire) .request = sizeof(wire), .request_min = sizeof(wire)
#define RESPONSE(wire) .response = sizeof(wire), .response_min = sizeof(wire)
/* An extended command: a short request is padded with zeros, a short response is truncated. */
#define EX_REQUEST(wire) .request = sizeof(wire)
#define EX_RESPONSE(wire) .response = sizeof(wire)
#define FIELDS(list, of) .fields = list, .nfields = ARRAY_SIZE(list), .args = sizeof(struct of)
#define HANDLER(fn) .handler = uv_do_##fn
#define FLAGS(bits) .flags = bits
#define UNSUPPORTED(title, ...) { .name = title, __VA_ARGS__, .unsupported = true }

struct uv_row uv_rows[] __ro_after_init = {
	{ .name = "get_context", BY_WRITE(GET_CONTEXT), FLAGS(UV_DRIVER_DATA),
	  REQUEST(struct ib_uverbs_get_context), RESPONSE(struct ib_uverbs_get_context_resp),
	  FIELDS(get_context_write, uv_get_context), HANDLER(get_context) },
	{ .name = "get_context", BY_IOCTL(DEVICE, GET_CONTEXT), FLAGS(UV_DRIVER_DATA),
	  FIELDS(get_context_ioctl, uv_get_context), HANDLER(get_context) },
	{ .name = "query_context", BY_IOCTL(DEVICE, QUERY_CONTEXT), FLAGS(UV_CONTEXT),
	  FIELDS(query_context_ioctl, uv_get_context), HANDLER(query_context) },
	{ .name = "async_event_alloc", BY_IOCTL(ASYNC_EVENT, ASYNC_EVENT_ALLOC), FLAGS(UV_CONTEXT),
	  FIELDS(async_event_alloc_ioctl, uv_async_event_alloc), HANDLER(async_event_alloc) },

	{ .name = "query_device", BY_WRITE(QUERY_DEVICE), FLAGS(UV_CONTEXT),
	  REQUEST(struct ib_uverbs_query_device), RESPONSE(struct ib_uverbs_query_device_resp),
	  FIELDS(query_device_write, uv_query_device), HANDLER(query_device) },
	{ .name = "query_device_ex", BY_WRITE_EX(QUERY_DEVICE), FLAGS(UV_CONTEXT | UV_DRIVER_DATA),
	  NEEDS_FN(query_device),
	  EX_REQUEST(struct ib_uverbs_ex_query_device),
	  EX_RESPONSE(struct ib_uverbs_ex_query_device_resp),
	  FIELDS(query_device_ex, uv_query_device), HANDLER(query_device_ex) },
	{ .name = "query_port", BY_WRITE(QUERY_PORT), FLAGS(UV_CONTEXT), NEEDS_FN(query_port),
	  REQUEST(struct ib_uverbs_query_port), RESPONSE(struct ib_uverbs_query_port_resp),
	  FIELDS(query_port_write, uv_query_port), HANDLER(query_port) },
	{ .name = "query_port", BY_IOCTL(DEVICE, QUERY_PORT), FLAGS(UV_CONTEXT),
	  NEEDS_FN(query_port),
	  FIELDS(query_port_ioctl, uv_query_port), HANDLER(query_port) },
	{ .name = "query_gid_table", BY_IOCTL(DEVICE, QUERY_GID_TABLE), FLAGS(UV_CONTEXT),
	  FIELDS(query_gid_table_ioctl, uv_query_gid_table), HANDLER(query_gid_table) },
	{ .name = "query_gid_entry", BY_IOCTL(DEVICE, QUERY_GID_ENTRY), FLAGS(UV_CONTEXT),
	  FIELDS(query_gid_entry_ioctl, uv_query_gid_entry), HANDLER(query_gid_entry) },
	{ .name = "info_handles", BY_IOCTL(DEVICE, INFO_HANDLES),
	  FIELDS(info_handles_ioctl, uv_info_handles), HANDLER(info_handles) },
	{ .name = "invoke_write", BY_IOCTL(DEVICE, INVOKE_WRITE), FLAGS(UV_DRIVER_DATA),
	  FIELDS(invoke_write_ioctl, uv_invoke_write), HANDLER(invoke_write) },

	{ .name = "alloc_pd", BY_WRITE(ALLOC_PD), FLAGS(UV_DRIVER_DATA), NEEDS_FN(alloc_pd),
	  REQUEST(struct ib_uverbs_alloc_pd), RESPONSE(struct ib_uverbs_alloc_pd_resp),
	  FIELDS(alloc_pd_write, uv_alloc_pd), HANDLER(alloc_pd) },
	{ .name = "dealloc_pd", BY_WRITE(DEALLOC_PD), NEEDS_FN(dealloc_pd),
	  REQUEST(struct ib_uverbs_dealloc_pd), FIELDS(dealloc_pd_write, uv_destroy) },
	{ .name = "dealloc_pd", BY_IOCTL(PD, PD_DESTROY), NEEDS_FN(dealloc_pd),
	  FIELDS(dealloc_pd_ioctl, uv_destroy) },

	{ .name = "reg_mr", BY_WRITE(REG_MR), FLAGS(UV_DRIVER_DATA), NEEDS_FN(reg_user_mr),
	  REQUEST(struct ib_uverbs_reg_mr), RESPONSE(struct ib_uverbs_reg_mr_resp),
	  FIELDS(reg_mr_write, uv_reg_mr), HANDLER(reg_mr) },
	{ .name = "rereg_mr", BY_WRITE(REREG_MR), FLAGS(UV_DRIVER_DATA), NEEDS_FN(rereg_user_mr),
	  REQUEST(struct ib_uverbs_rereg_mr), RESPONSE(struct ib_uverbs_rereg_mr_resp),
	  FIELDS(rereg_mr_write, uv_rereg_mr), HANDLER(rereg_mr) },
	{ .name = "dereg_mr", BY_WRITE(DEREG_MR), NEEDS_FN(dereg_mr),
	  REQUEST(struct ib_uverbs_dereg_mr), FIELDS(dereg_mr_write, uv_destroy) },
	{ .name = "dereg_mr", BY_IOCTL(MR, MR_DESTROY), NEEDS_FN(dereg_mr),
	  FIELDS(dereg_mr_ioctl, uv_destroy) },
	{ .name = "query_mr", BY_IOCTL(MR, QUERY_MR),
	  FIELDS(query_mr_ioctl, uv_query_mr), HANDLER(query_mr) },
	UNSUPPORTED("advise_mr", BY_IOCTL(MR, ADVISE_MR)),
	UNSUPPORTED("reg_dmabuf_mr", BY_IOCTL(MR, REG_DMABUF_MR)),

	{ .name = "alloc_mw", BY_WRITE(ALLOC_MW), FLAGS(UV_DRIVER_DATA), NEEDS_FN(alloc_mw),
	  REQUEST(struct ib_uverbs_alloc_mw), RESPONSE(struct ib_uverbs_alloc_mw_resp),
	  FIELDS(alloc_mw_write, uv_alloc_mw), HANDLER(alloc_mw) },
	{ .name = "dealloc_mw", BY_WRITE(DEALLOC_MW), NEEDS_FN(dealloc_mw),
	  REQUEST(struct ib_uverbs_dealloc_mw), FIELDS(dealloc_mw_write, uv_destroy) },
	{ .name = "dealloc_mw", BY_IOCTL(MW, MW_DESTROY), NEEDS_FN(dealloc_mw),
	  FIELDS(dealloc_mw_ioctl, uv_destroy) },

	{ .name = "create_comp_channel", BY_WRITE(CREATE_COMP_CHANNEL), FLAGS(UV_CONTEXT),
	  REQUEST(struct ib_uverbs_create_comp_channel),
	  RESPONSE(struct ib_uverbs_create_comp_channel_resp),
	  FIELDS(comp_channel_write, uv_comp_channel) },
	{ .name = "create_cq", BY_WRITE(CREATE_CQ), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_cq),
	  REQUEST(struct ib_uverbs_create_cq), RESPONSE(struct ib_uverbs_create_cq_resp),
	  FIELDS(create_cq_write, uv_create_cq), HANDLER(create_cq) },
	{ .name = "create_cq", BY_WRITE_EX(CREATE_CQ), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_cq),
	  EX_REQUEST(struct ib_uverbs_ex_create_cq),
	  EX_RESPONSE(struct ib_uverbs_ex_create_cq_resp),
	  FIELDS(create_cq_ex, uv_create_cq), HANDLER(create_cq) },
	{ .name = "create_cq", BY_IOCTL(CQ, CQ_CREATE), FLAGS(UV_DRIVER_DATA),
	  NEEDS_FN2(create_cq, destroy_cq),
	  FIELDS(create_cq_ioctl, uv_create_cq), HANDLER(create_cq) },
	{ .name = "resize_cq", BY_WRITE(RESIZE_CQ), FLAGS(UV_DRIVER_DATA),
	  NEEDS_FN(UV_OP_RESIZE_CQ),
	  REQUEST(struct ib_uverbs_resize_cq), RESPONSE(struct ib_uverbs_resize_cq_resp),
	  FIELDS(resize_cq_write, uv_resize_cq), HANDLER(resize_cq) },
	{ .name = "modify_cq", BY_WRITE_EX(MODIFY_CQ), NEEDS_FN(modify_cq),
	  EX_REQUEST(struct ib_uverbs_ex_modify_cq),
	  FIELDS(modify_cq_ex, uv_modify_cq), HANDLER(modify_cq) },
	{ .name = "poll_cq", BY_WRITE(POLL_CQ), FLAGS(UV_OWN_RESPONSE), NEEDS_FN(poll_cq),
	  REQUEST(struct ib_uverbs_poll_cq), RESPONSE(struct ib_uverbs_poll_cq_resp),
	  FIELDS(poll_cq_write, uv_poll_cq), HANDLER(poll_cq) },
	{ .name = "req_notify_cq", BY_WRITE(REQ_NOTIFY_CQ), NEEDS_FN(req_notify_cq),
	  REQUEST(struct ib_uverbs_req_notify_cq),
	  FIELDS(notify_cq_write, uv_notify_cq), HANDLER(notify_cq) },
	{ .name = "destroy_cq", BY_WRITE(DESTROY_CQ), NEEDS_FN(destroy_cq),
	  REQUEST(struct ib_uverbs_destroy_cq), RESPONSE(struct ib_uverbs_destroy_cq_resp),
	  FIELDS(destroy_cq_write, uv_destroy_cq), HANDLER(destroy_cq) },
	{ .name = "destroy_cq", BY_IOCTL(CQ, CQ_DESTROY), NEEDS_FN(destroy_cq),
	  FIELDS(destroy_cq_ioctl, uv_destroy_cq), HANDLER(destroy_cq) },

	{ .name = "create_qp", BY_WRITE(CREATE_QP), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_qp),
	  REQUEST(struct ib_uverbs_create_qp), RESPONSE(struct ib_uverbs_create_qp_resp),
	  FIELDS(create_qp_write, uv_create_qp), HANDLER(create_qp) },
	{ .name = "create_qp", BY_WRITE_EX(CREATE_QP), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_qp),
	  EX_REQUEST(struct ib_uverbs_ex_create_qp),
	  EX_RESPONSE(struct ib_uverbs_ex_create_qp_resp),
	  FIELDS(create_qp_ex, uv_create_qp), HANDLER(create_qp) },
	{ .name = "create_qp", BY_IOCTL(QP, QP_CREATE), FLAGS(UV_DRIVER_DATA),
	  NEEDS_FN2(create_qp, destroy_qp),
	  FIELDS(create_qp_ioctl, uv_create_qp), HANDLER(create_qp_ioctl) },
	{ .name = "modify_qp", BY_WRITE(MODIFY_QP), NEEDS_FN(modify_qp),
	  REQUEST(struct ib_uverbs_modify_qp),
	  FIELDS(modify_qp_write, uv_modify_qp), HANDLER(modify_qp) },
	{ .name = "modify_qp", BY_WRITE_EX(MODIFY_QP), FLAGS(UV_DRIVER_DATA), NEEDS_FN(modify_qp),
	  EX_REQUEST(struct ib_uverbs_ex_modify_qp),
	  EX_RESPONSE(struct ib_uverbs_ex_modify_qp_resp),
	  FIELDS(modify_qp_ex, uv_modify_qp), HANDLER(modify_qp) },
	{ .name = "query_qp", BY_WRITE(QUERY_QP), NEEDS_FN(query_qp),
	  REQUEST(struct ib_uverbs_query_qp), RESPONSE(struct ib_uverbs_query_qp_resp),
	  FIELDS(query_qp_write, uv_query_qp), HANDLER(query_qp) },
	{ .name = "destroy_qp", BY_WRITE(DESTROY_QP), NEEDS_FN(destroy_qp),
	  REQUEST(struct ib_uverbs_destroy_qp), RESPONSE(struct ib_uverbs_destroy_qp_resp),
	  FIELDS(destroy_qp_write, uv_destroy_evented), HANDLER(destroy_evented) },
	{ .name = "destroy_qp", BY_IOCTL(QP, QP_DESTROY), NEEDS_FN(destroy_qp),
	  FIELDS(destroy_qp_ioctl, uv_destroy_evented), HANDLER(destroy_evented) },
	{ .name = "attach_mcast", BY_WRITE(ATTACH_MCAST), NEEDS_FN2(attach_mcast, detach_mcast),
	  REQUEST(struct ib_uverbs_attach_mcast),
	  FIELDS(mcast_write, uv_mcast), HANDLER(attach_mcast) },
	{ .name = "detach_mcast", BY_WRITE(DETACH_MCAST), NEEDS_FN(detach_mcast),
	  REQUEST(struct ib_uverbs_detach_mcast),
	  FIELDS(mcast_write, uv_mcast), HANDLER(detach_mcast) },
	{ .name = "post_send", BY_WRITE(POST_SEND), FLAGS(UV_TAIL), NEEDS_FN(post_send),
	  REQUEST(struct ib_uverbs_post_send), RESPONSE(struct ib_uverbs_post_send_resp),
	  FIELDS(post_send_write, uv_post), HANDLER(post_send) },
	{ .name = "post_recv", BY_WRITE(POST_RECV), FLAGS(UV_TAIL), NEEDS_FN(post_recv),
	  REQUEST(struct ib_uverbs_post_recv), RESPONSE(struct ib_uverbs_post_recv_resp),
	  FIELDS(post_recv_write, uv_post), HANDLER(post_recv) },

	{ .name = "create_srq", BY_WRITE(CREATE_SRQ), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_srq),
	  REQUEST(struct ib_uverbs_create_srq), RESPONSE(struct ib_uverbs_create_srq_resp),
	  FIELDS(create_srq_write, uv_create_srq), HANDLER(create_srq) },
	{ .name = "create_xsrq", BY_WRITE(CREATE_XSRQ), FLAGS(UV_DRIVER_DATA), NEEDS_FN(create_srq),
	  REQUEST(struct ib_uverbs_create_xsrq), RESPONSE(struct ib_uverbs_create_srq_resp),
	  FIELDS(create_xsrq_write, uv_create_srq), HANDLER(create_srq) },
	{ .name = "create_srq", BY_IOCTL(SRQ, SRQ_CREATE), FLAGS(UV_DRIVER_DATA),
	  NEEDS_FN2(create_srq, destroy_srq),
	  FIELDS(create_srq_ioctl, uv_create_srq), HANDLER(create_srq) },
	{ .name = "modify_srq", BY_WRITE(MODIFY_SRQ), FLAGS(UV_DRIVER_DATA), NEEDS_FN(modify_srq),
	  REQUEST(struct ib_uverbs_modify_srq),
	  FIELDS(modify_srq_write, uv_modify_srq), HANDLER(modify_srq) },
	{ .name = "query_srq", BY_WRITE(QUERY_SRQ), NEEDS_FN(query_srq),
	  REQUEST(struct ib_uverbs_query_srq), RESPONSE(struct ib_uverbs_query_srq_resp),
	  FIELDS(query_srq_write, uv_query_srq), HANDLER(query_srq) },
	{ .name = "destroy_srq", BY_WRITE(DESTROY_SRQ), NEEDS_FN(destroy_srq),
	  REQUEST(struct ib_uverbs_destroy_srq), RESPONSE(struct ib_uverbs_destroy_srq_resp),
	  FIELDS(destroy_srq_write, uv_destroy_evented), HANDLER(destroy_evented) },
	{ .name = "destroy_srq", BY_IOCTL(SRQ, SRQ_DESTROY), NEEDS_FN(destroy_srq),
	  FIELDS(destroy_srq_ioctl, uv_destroy_evented), HANDLER(destroy_evented) },
	{ .name = "post_srq_recv", BY_WRITE(POST_SRQ_RECV), FLAGS(UV_TAIL), NEEDS_FN(post_srq_recv),
	  REQUEST(struct ib_uverbs_post_srq_recv), RESPONSE(struct ib_uverbs_post_srq_recv_resp),
	  FIELDS(post_srq_recv_write, uv_post), HANDLER(post_srq_recv) },

	{ .name = "create_ah", BY_WRITE(CREATE_AH), FLAGS(UV_DRIVER_DATA),
	  NEEDS_FN2(create_user_ah, destroy_ah),
	  REQUEST(struct ib_uverbs_create_ah), RESPONSE(struct ib_uverbs_create_ah_resp),
	  FIELDS(create_ah_write, uv_create_ah), HANDLER(create_ah) },
	{ .name = "destroy_ah", BY_WRITE(DESTROY_AH), NEEDS_FN2(create_user_ah, destroy_ah),
	  REQUEST(struct ib_uverbs_destroy_ah), FIELDS(destroy_ah_write, uv_destroy) },
	{ .name = "destroy_ah", BY_IOCTL(AH, AH_DESTROY), NEEDS_FN2(create_user_ah, destroy_ah),
	  FIELDS(destroy_ah_ioctl, uv_destroy) },

	/* XRC domains, receive work queues and flows: no device that is served has them. */
	UNSUPPORTED("open_xrcd", BY_WRITE(OPEN_XRCD)),
	UNSUPPORTED("close_xrcd", BY_WRITE(CLOSE_XRCD)),
	UNSUPPORTED("open_qp", BY_WRITE(OPEN_QP)),
	UNSUPPORTED("create_flow", BY_WRITE_EX(CREATE_FLOW)),
	UNSUPPORTED("destroy_flow", BY_WRITE_EX(DESTROY_FLOW)),
	UNSUPPORTED("create_wq", BY_WRITE_EX(CREATE_WQ)),
	UNSUPPORTED("modify_wq", BY_WRITE_EX(MODIFY_WQ)),
	UNSUPPORTED("destroy_wq", BY_WRITE_EX(DESTROY_WQ)),
	UNSUPPORTED("create_rwq_ind_tbl", BY_WRITE_EX(CREATE_RWQ_IND_TBL)),
	UNSUPPORTED("destroy_rwq_ind_tbl", BY_WRITE_EX(DESTROY_RWQ_IND_TBL)),
};

const unsigned int uv_row_count = ARRAY_SIZE(uv_rows);

/* ---- lookup --------------------------------------------------------- */

struct uv_index uv_index __ro_after_init;

/* Whether the driver has the functions of the command. A removed device (NULL) supports all. */
bool uv_row_supported(const struct uv_row *row, const struct ib_device *dev)
{
	int i;

	if (row->unsupported)
		return false;
	if (!dev)
		return true;
	if (row->abi == UV_ABI_WRITE && !(dev->uverbs_cmd_mask & BIT_ULL(row->method)))
		return false;
	for (i = 0; i < ARRAY_SIZE(row->op); i++)
		if (row->op[i] && !*(void * const *)((const void *)&dev->ops + row->op[i]))
			return false;
	return true;
}

/* The set of rows that the device supports. */
void uv_rows_supported(unsigned long *rows, const struct ib_device *dev)
{
	unsigned int i;

	for (i = 0; i < uv_row_count; i++)
		if (uv_row_supported(&uv_rows[i], dev))
			__set_bit(i, rows);
}

/* Sets the members that follow from the fields. */
static void uv_row_derive(struct uv_row *row)
{
	unsigned int i;

	row->number = row - uv_rows;
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = &row->fields[i];

		if (row->abi == UV_ABI_IOCTL)
			row->field_of_attr[field->at] = i + 1;
		if (!(field->flags & UV_OPTIONAL))
			row->mandatory |= BIT(i);
		if (field->kind == UV_OUT || field->kind == UV_NEW || field->kind == UV_FD_NEW ||
		    (field->kind == UV_BUF && field->flags & UV_BUF_OUT))
			row->outputs |= BIT(i);
		if (!uv_field_is_result(field))
			row->ninputs = i + 1;
	}
}

/* Returns the description of an error in the row, or NULL. */
static const char *uv_row_check(const struct uv_row *row)
{
	const struct uv_field *field;
	unsigned int held = 0, created = 0, results = 0;

	if (row->abi == UV_ABI_IOCTL ?
	    row->object >= UV_IOCTL_OBJECTS || row->method >= UV_IOCTL_METHODS :
	    row->method >= UV_WRITE_COMMANDS)
		return "number out of range";
	if (row->request > UV_MAX_WIRE || row->response > UV_MAX_WIRE)
		return "request or response too long";
	if (row->args > UV_MAX_ARGS || row->nfields > UV_MAX_FIELDS)
		return "too many arguments";
	for (field = row->fields; field < row->fields + row->nfields; field++) {
		u16 size = row->request;

		switch (field->kind) {
		case UV_OBJ:
		case UV_FD:
			held++;
			break;
		case UV_NEW:
		case UV_FD_NEW:
			created++;
			size = row->response;
			break;
		case UV_OUT:
		case UV_OUT_LEN:
			size = row->response;
			break;
		}
		if (uv_field_is_result(field))
			results++;
		else if (results && row->abi != UV_ABI_IOCTL)
			return "input after a result";
		if (row->abi == UV_ABI_IOCTL && field->at >= UV_MAX_ATTRS)
			return "attribute id out of range";
		if (row->abi != UV_ABI_IOCTL && field->at + field->len > size)
			return "field outside of the request or response";
		if (field->kind <= UV_FLAGS && field->arg + field->len > row->args)
			return "value outside of the arguments";
		if (field->kind == UV_OUT && field->arg + field->len > row->args)
			return "result outside of the arguments";
		if ((field->kind == UV_OBJ || field->kind == UV_NEW) && !field->type)
			return "object without a type";
	}
	if (held > UV_MAX_HELD || created > 1)
		return "too many objects";
	return NULL;
}

int uv_table_init(void)
{
	const struct uv_row **entry;
	const char *error;
	struct uv_row *row;

	BUILD_BUG_ON(ARRAY_SIZE(uv_rows) > UV_MAX_ROWS);
	for (row = uv_rows; row < uv_rows + uv_row_count; row++) {
		error = uv_row_check(row);
		if (!error) {
			if (row->abi == UV_ABI_IOCTL)
				entry = &uv_index.ioctl[row->object][row->method];
			else
				entry = &uv_index.write[row->abi == UV_ABI_WRITE_EX][row->method];
			if (*entry)
				error = "duplicate";
		}
		if (error) {
			pr_err("row %s: %s\n", row->name, error);
			return -EINVAL;
		}
		uv_row_derive(row);
		*entry = row;
	}
	return 0;
}
