// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Private layouts change without a new version number, and a wrong one would call the wrong function or write
 * over a neighbour. So before registering, the provider checks the layouts against the loaded library. No device is
 * needed: the context here has no file, and its one ioctl fails harmlessly.
 */
#include "userspace/providers/cxgb3/self_check.h"

#include <stdlib.h>

static const char *check_qp_layout(void)
{
	static struct verbs_qp qp;

	qp.comp_mask = 0;
	if (ibv_qp_to_qp_ex(&qp.qp))
		return "verbs_qp.comp_mask offset";
	qp.comp_mask = VERBS_QP_EX;
	if (ibv_qp_to_qp_ex(&qp.qp) != &qp.qp_ex)
		return "verbs_qp.comp_mask offset";
	return NULL;
}

/* The library copies most operations into public fields: each must be found in the field of its name. */
static const char *check_context_ops(const struct verbs_context *vctx, const struct verbs_context_ops *ops)
{
	const struct ibv_context_ops *pub = &vctx->context.ops;
	const struct {
		const char *name;
		verbs_op set;
		verbs_op copy;
	} rows[] = {
#define PUBLIC(op) { "verbs_context_ops." #op, (verbs_op)ops->op, (verbs_op)pub->op }
#define EXTENDED(op) { "verbs_context_ops." #op, (verbs_op)ops->op, (verbs_op)vctx->op }
#define COMPAT(op) { "verbs_context_ops." #op, (verbs_op)ops->op, (verbs_op)pub->_compat_##op }
		PUBLIC(alloc_mw),	PUBLIC(bind_mw),	PUBLIC(dealloc_mw),    PUBLIC(poll_cq),
		PUBLIC(post_recv),	PUBLIC(post_send),	PUBLIC(req_notify_cq), COMPAT(alloc_pd),
		COMPAT(async_event),	COMPAT(cq_event),	COMPAT(create_cq),	COMPAT(create_qp),     COMPAT(dealloc_pd),
		COMPAT(dereg_mr),	COMPAT(destroy_cq),	COMPAT(destroy_qp),    COMPAT(modify_qp),
		COMPAT(query_qp),	COMPAT(reg_mr),		COMPAT(rereg_mr),
		EXTENDED(alloc_parent_domain), EXTENDED(alloc_td), EXTENDED(create_qp_ex), EXTENDED(dealloc_td),
		EXTENDED(query_device_ex),
#undef PUBLIC
#undef COMPAT
#undef EXTENDED
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].set != rows[i].copy)
			return rows[i].name;
	}
	return NULL;
}

const char *cxgb3_self_check(const struct verbs_context_ops *ops)
{
	static const struct verbs_device_ops no_ops;
	static struct verbs_device device;
	struct verbs_context *vctx;
	const char *mismatch;

	mismatch = check_qp_layout();
	if (mismatch)
		return mismatch;

	device.refcount = 1;
	device.ops = &no_ops;
	vctx = _verbs_init_and_alloc_context(&device.device, -1, sizeof(*vctx), NULL, 0);
	if (!vctx)
		return "no memory";
	if (device.refcount != 2)
		mismatch = "verbs_device.refcount offset";
	else if (vctx->sz != sizeof(*vctx))
		mismatch = "verbs_context size";
	if (!mismatch) {
		verbs_set_ops(vctx, ops);
		mismatch = check_context_ops(vctx, ops);
	}
	verbs_uninit_context(vctx);
	free(vctx);
	if (!mismatch && device.refcount != 1)
		mismatch = "verbs_device.refcount offset";
	return mismatch;
}
