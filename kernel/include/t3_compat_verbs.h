/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Verbs entry points whose signature differs between 6.1, 6.12 and 7.2. The
 * driver's functions have one signature; T3_DEFINE_*() defines functions with
 * the signature of the kernel.
 */
#ifndef T3_COMPAT_VERBS_H
#define T3_COMPAT_VERBS_H

#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* create_cq: the bundle of attributes instead of its driver part since 6.11. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define T3_DEFINE_CREATE_CQ(name, impl)						\
static int name(struct ib_cq *cq, const struct ib_cq_init_attr *attr,		\
		struct ib_udata *udata)						\
{										\
	return impl(cq, attr, udata);						\
}
#else
#define T3_DEFINE_CREATE_CQ(name, impl)						\
static int name(struct ib_cq *cq, const struct ib_cq_init_attr *attr,		\
		struct uverbs_attr_bundle *attrs)				\
{										\
	return impl(cq, attr, attrs ? &attrs->driver_udata : NULL);		\
}
#endif

/* reg_user_mr: a DMA handle since 6.17, which the T3 does not support. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define T3_DEFINE_REG_USER_MR(name, impl)					\
static struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 virt,	\
			  int access, struct ib_udata *udata)			\
{										\
	return impl(pd, start, length, virt, access, udata);			\
}
#else
#define T3_DEFINE_REG_USER_MR(name, impl)					\
static struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 virt,	\
			  int access, struct ib_dmah *dmah,			\
			  struct ib_udata *udata)				\
{										\
	if (dmah)								\
		return ERR_PTR(-EOPNOTSUPP);					\
	return impl(pd, start, length, virt, access, udata);			\
}
#endif

/* Since 6.14 ib_core reports the state of a port's net device itself. */
#define T3_CORE_REPORTS_PORTS (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0))

/* Check the driver part of a command that has none: it must be absent or zero. */
static inline int t3_udata_empty(struct ib_udata *udata)
{
	if (!udata || !udata->inlen)
		return 0;
	return ib_is_udata_cleared(udata, 0, udata->inlen) ? 0 : -EINVAL;
}

/* Write as much of the response as fits into the buffer of the caller. */
static inline int t3_udata_respond(struct ib_udata *udata, void *resp, size_t len)
{
	return ib_copy_to_udata(udata, resp, min(len, udata->outlen));
}

#endif
