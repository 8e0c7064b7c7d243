/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failing allocations of the driver, one in each run of a scenario: the first allocation, then the
 * second one, and so on until a run has fewer. Allocations of all threads and contexts count,
 * since a scenario also runs work items and softirqs.
 *
 * Include after the kernel's headers and before the driver's .c files. The suite's own allocations
 * use sure_*(), or are outside of allocations_fail() and allocations_work(). Allocations with
 * __GFP_NOFAIL do not fail.
 */
#ifndef T3_KUNIT_FAILING_ALLOC_H
#define T3_KUNIT_FAILING_ALLOC_H

#include <linux/atomic.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "suite.h"

static struct {
	unsigned int nth;		/* the allocation of a run that fails */
	atomic_t to_go;			/* allocations until then; 0: none fails */
	const char *where;		/* the function whose allocation failed */
	atomic_t uncharged;		/* allocations that no memory cgroup was charged for */
} failing;

static bool __maybe_unused alloc_fails(gfp_t gfp, const char *where)
{
	if (!(gfp & __GFP_ACCOUNT))
		atomic_inc(&failing.uncharged);
	if (gfp & __GFP_NOFAIL || atomic_dec_if_positive(&failing.to_go))
		return false;
	WRITE_ONCE(failing.where, where);
	return true;
}

static void __maybe_unused allocations_fail(void)
{
	atomic_set(&failing.to_go, failing.nth);
}

static void __maybe_unused allocations_work(void)
{
	atomic_set(&failing.to_go, 0);
}

/* Allocations that no memory cgroup is charged for are counted from here on. */
static void __maybe_unused count_uncharged(void)
{
	atomic_set(&failing.uncharged, 0);
}

static int __maybe_unused uncharged(void)
{
	return atomic_read(&failing.uncharged);
}

/* For messages. */
static __maybe_unused const char *alloc_that_failed(void)
{
	return failing.where ? failing.where : "no allocation";
}

/**
 * fail_each_allocation - run a scenario with each of its allocations failing once
 * @test: the test
 * @scenario: calls allocations_fail() and allocations_work(), and checks for leaks
 *
 * No allocation fails in the last run. Return: the number of failed allocations.
 */
static unsigned int __maybe_unused fail_each_allocation(struct kunit *test,
							void (*scenario)(struct kunit *))
{
	for (failing.nth = 1; failing.nth <= 100; failing.nth++) {
		failing.where = NULL;
		scenario(test);
		allocations_work();
		if (!failing.where)
			return failing.nth - 1;
	}
	KUNIT_FAIL(test, "more than 100 allocations");
	return 0;
}

static inline void *sure_kzalloc(size_t size, gfp_t gfp)
{
	return kzalloc(size, gfp);
}

static inline void *sure_kvzalloc(size_t size, gfp_t gfp)
{
	return kvzalloc(size, gfp);
}

static inline struct sk_buff *sure_skb(unsigned int size, gfp_t gfp)
{
	return alloc_skb(size, gfp);
}

#undef kzalloc
#undef kvzalloc
#undef alloc_skb
#define kzalloc(size, gfp) \
	(alloc_fails(gfp, __func__) ? NULL : sure_kzalloc(size, gfp))
#define kvzalloc(size, gfp) \
	(alloc_fails(gfp, __func__) ? NULL : sure_kvzalloc(size, gfp))
#define alloc_skb(size, gfp) \
	(alloc_fails(gfp, __func__) ? NULL : sure_skb(size, gfp))
#define xa_alloc(xa, id, entry, limit, gfp) \
	(alloc_fails(gfp, __func__) ? -ENOMEM : (xa_alloc)(xa, id, entry, limit, gfp))
#define xa_alloc_cyclic_bh(xa, id, entry, limit, next, gfp) \
	(alloc_fails(gfp, __func__) ? -ENOMEM : \
				      (xa_alloc_cyclic_bh)(xa, id, entry, limit, next, gfp))
#define xa_store(xa, index, entry, gfp) \
	(alloc_fails(gfp, __func__) ? (void *)XA_ERROR(-ENOMEM) : \
				      (xa_store)(xa, index, entry, gfp))
/* A suite may count workqueues, which kmemleak does not report: the kernel has a list of them. */
#ifndef made_workqueue
#define made_workqueue(wq) (wq)
#endif
#ifdef alloc_workqueue
#undef alloc_workqueue
#define alloc_workqueue(...)			\
	(alloc_fails(GFP_KERNEL, __func__) ?	\
		NULL : made_workqueue(alloc_workqueue_noprof(__VA_ARGS__)))
#else
#define alloc_workqueue(...)			\
	(alloc_fails(GFP_KERNEL, __func__) ?	\
		NULL : made_workqueue((alloc_workqueue)(__VA_ARGS__)))
#endif

#endif
