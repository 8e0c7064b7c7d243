/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arguments of each handler, which are the same for both ABIs. The members
 * after the line "out:" are results.
 */
#ifndef T3_UVERBS_ARGS_H
#define T3_UVERBS_ARGS_H

#include "call.h"

struct uv_get_context {
	struct uv_events *async;	/* ioctl: NULL, ASYNC_EVENT_ALLOC creates it */
	/* out: */
	u32 num_comp_vectors;
	u64 core_support;
};

struct uv_async_event_alloc {
	struct uv_events *events;
};

struct uv_query_device {
	/* out: */
	struct ib_uverbs_ex_query_device_resp resp;
};

struct uv_query_port {
	u8 port;
	/* out: */
	struct ib_uverbs_query_port_resp_ex resp;
};

struct uv_query_gid_table {
	u64 entry_size;
	u32 flags;
	struct uv_buf entries;
	/* out: */
	u64 count;
};

struct uv_query_gid_entry {
	u32 port;
	u32 index;
	u32 flags;
	/* out: */
	struct ib_uverbs_gid_entry entry;
};

struct uv_info_handles {
	u16 type;
	struct uv_buf list;
	/* out: */
	u32 total;
};

struct uv_invoke_write {
	u32 command;
	struct uv_buf in, out;
};

struct uv_alloc_pd {
	struct ib_uobject *pd;
};

struct uv_reg_mr {
	struct ib_uobject *mr, *pd;
	u64 start, length, virt;
	u32 access;
	/* out: */
	u32 lkey, rkey;
};

struct uv_rereg_mr {
	struct ib_uobject *mr, *pd;
	u32 flags;
	u64 start, length, virt;
	u32 access;
	/* out: */
	u32 lkey, rkey;
};

struct uv_query_mr {
	struct ib_uobject *mr;
	/* out: */
	u32 lkey, rkey;
	u64 length, iova;
};

struct uv_alloc_mw {
	struct ib_uobject *mw, *pd;
	u8 type;
	/* out: */
	u32 rkey;
};

struct uv_comp_channel {
	struct uv_events *channel;
};

struct uv_create_cq {
	struct ib_uobject *cq;
	struct uv_events *channel, *async;
	u64 user_handle;
	u32 cqe, comp_vector, flags;
};

struct uv_resize_cq {
	struct ib_uobject *cq;
	u32 cqe;	/* also a result */
};

struct uv_modify_cq {
	struct ib_uobject *cq;
	u32 mask;
	struct ib_uverbs_cq_moderation moderation;
};

struct uv_poll_cq {
	struct ib_uobject *cq;
	u32 entries;
};

struct uv_notify_cq {
	struct ib_uobject *cq;
	u32 solicited_only;
};

struct uv_destroy_cq {
	struct ib_uobject *cq;
	/* out: */
	struct ib_uverbs_destroy_cq_resp resp;
};

struct uv_create_qp {
	struct ib_uobject *qp, *pd, *send_cq, *recv_cq, *srq;
	struct uv_events *async;
	u64 user_handle;
	u32 flags, source_qpn;
	u8 type, sq_sig_all;
	struct ib_uverbs_qp_cap cap;	/* also a result */
	/* out: */
	u32 qp_num;
};

struct uv_modify_qp {
	struct ib_uobject *qp;
	struct ib_uverbs_ex_modify_qp attr;
};

struct uv_query_qp {
	struct ib_uobject *qp;
	u32 mask;
	/* out: */
	struct ib_uverbs_query_qp_resp resp;
};

/* DESTROY_QP and DESTROY_SRQ. */
struct uv_destroy_evented {
	struct ib_uobject *obj;
	/* out: */
	u32 reported;
};

struct uv_mcast {
	struct ib_uobject *qp;
	u8 gid[16];
	u16 mlid;
};

struct uv_post {
	struct ib_uobject *obj;
	u32 wr_count, sge_count, wqe_size;
	/* out: */
	u32 bad_wr;
};

struct uv_create_srq {
	struct ib_uobject *srq, *pd, *cq;
	struct uv_events *async;
	u64 user_handle;
	u32 max_wr, max_sge, limit;	/* max_wr and max_sge are also results */
	u32 type, tags;
	/* out: */
	u32 srq_num;
};

struct uv_modify_srq {
	struct ib_uobject *srq;
	u32 mask, max_wr, limit;
};

struct uv_query_srq {
	struct ib_uobject *srq;
	/* out: */
	struct ib_uverbs_query_srq_resp resp;
};

struct uv_create_ah {
	struct ib_uobject *ah, *pd;
	u64 user_handle;
	struct ib_uverbs_ah_attr attr;
};

struct uv_destroy {
	struct ib_uobject *obj;
};

int uv_do_get_context(struct uv_call *call, void *args);
int uv_do_async_event_alloc(struct uv_call *call, void *args);
int uv_do_query_context(struct uv_call *call, void *args);
int uv_do_query_device(struct uv_call *call, void *args);
int uv_do_query_device_ex(struct uv_call *call, void *args);
int uv_do_query_port(struct uv_call *call, void *args);
int uv_do_query_gid_table(struct uv_call *call, void *args);
int uv_do_query_gid_entry(struct uv_call *call, void *args);
int uv_do_info_handles(struct uv_call *call, void *args);
int uv_do_invoke_write(struct uv_call *call, void *args);
int uv_do_alloc_pd(struct uv_call *call, void *args);
int uv_do_reg_mr(struct uv_call *call, void *args);
int uv_do_rereg_mr(struct uv_call *call, void *args);
int uv_do_query_mr(struct uv_call *call, void *args);
int uv_do_alloc_mw(struct uv_call *call, void *args);
int uv_do_create_cq(struct uv_call *call, void *args);
int uv_do_resize_cq(struct uv_call *call, void *args);
int uv_do_modify_cq(struct uv_call *call, void *args);
int uv_do_poll_cq(struct uv_call *call, void *args);
int uv_do_notify_cq(struct uv_call *call, void *args);
int uv_do_destroy_cq(struct uv_call *call, void *args);
int uv_do_create_qp(struct uv_call *call, void *args);
int uv_do_create_qp_ioctl(struct uv_call *call, void *args);
int uv_do_modify_qp(struct uv_call *call, void *args);
int uv_do_query_qp(struct uv_call *call, void *args);
int uv_do_destroy_evented(struct uv_call *call, void *args);
int uv_do_attach_mcast(struct uv_call *call, void *args);
int uv_do_detach_mcast(struct uv_call *call, void *args);
int uv_do_post_send(struct uv_call *call, void *args);
int uv_do_post_recv(struct uv_call *call, void *args);
int uv_do_post_srq_recv(struct uv_call *call, void *args);
int uv_do_create_srq(struct uv_call *call, void *args);
int uv_do_modify_srq(struct uv_call *call, void *args);
int uv_do_query_srq(struct uv_call *call, void *args);
int uv_do_create_ah(struct uv_call *call, void *args);

#endif
