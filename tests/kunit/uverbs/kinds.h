/* SPDX-License-Identifier: GPL-2.0 */
/* Creation and destruction of each type of object that has a handle, by both ABIs. */
#ifndef T3_UVERBS_KINDS_H
#define T3_UVERBS_KINDS_H

#include "user.h"

static u32 pd, cq;	/* that the other objects use */

struct object_kind {
	const char *name;
	enum fake_kind kind;
	int (*create)(struct file *filp, u32 *handle);
	int (*destroy)(struct file *filp, u32 handle);
	u16 object, method;		/* of the destroy ioctl */
	u16 response;			/* its size */
};

static int create_pd(struct file *filp, u32 *handle)
{
	return user_alloc_pd(filp, handle);
}

static int create_mr(struct file *filp, u32 *handle)
{
	return user_reg_mr(filp, pd, handle);
}

static int create_mw(struct file *filp, u32 *handle)
{
	return user_alloc_mw(filp, pd, handle);
}

static int create_cq(struct file *filp, u32 *handle)
{
	return user_create_cq(filp, -1, handle);
}

static int destroy_cq(struct file *filp, u32 handle)
{
	return user_destroy_cq(filp, handle, NULL);
}

static int create_qp(struct file *filp, u32 *handle)
{
	return user_create_qp(filp, pd, cq, -1, handle);
}

static int destroy_qp(struct file *filp, u32 handle)
{
	return user_destroy_qp(filp, handle, NULL);
}

static int create_srq(struct file *filp, u32 *handle)
{
	return user_create_srq(filp, pd, handle);
}

static int destroy_srq(struct file *filp, u32 handle)
{
	return user_destroy_srq(filp, handle, NULL);
}

static int create_ah(struct file *filp, u32 *handle)
{
	return user_create_ah(filp, pd, handle);
}

static const struct object_kind kinds[] = {
	{ "pd", FAKE_PD, create_pd, user_dealloc_pd, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY },
	{ "mr", FAKE_MR, create_mr, user_dereg_mr, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY },
	{ "mw", FAKE_MW, create_mw, user_dealloc_mw, UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY },
	{ "cq", FAKE_CQ, create_cq, destroy_cq, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY,
	  sizeof(struct ib_uverbs_destroy_cq_resp) },
	{ "qp", FAKE_QP, create_qp, destroy_qp, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY,
	  sizeof(struct ib_uverbs_destroy_qp_resp) },
	{ "srq", FAKE_SRQ, create_srq, destroy_srq, UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY,
	  sizeof(struct ib_uverbs_destroy_srq_resp) },
	{ "ah", FAKE_AH, create_ah, user_destroy_ah, UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY },
};

static void kind_name(const struct object_kind *kind, char *name)
{
	strscpy(name, kind->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_name);

#endif
