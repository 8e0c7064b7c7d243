// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains, thread domains, and parent domains, which join one of each.
 *
 * A thread domain is a promise of the program: what was made in it is used by one thread at a time. The kernel knows
 * neither these nor parent domains; to it a parent domain is the protection domain whose handle it bears.
 */
#include "userspace/providers/cxgb3/domains.h"

#include <errno.h>
#include <stdlib.h>

static struct cxgb3_pd *to_pd(const struct ibv_pd *pd)
{
	return (struct cxgb3_pd *)pd;
}

static void hold(unsigned int *users)
{
	__atomic_fetch_add(users, 1, __ATOMIC_RELAXED);
}

static void release(unsigned int *users)
{
	__atomic_fetch_sub(users, 1, __ATOMIC_RELEASE);
}

static bool in_use(const unsigned int *users)
{
	return __atomic_load_n(users, __ATOMIC_ACQUIRE) != 0;
}

struct ibv_pd *cxgb3_alloc_pd(struct ibv_context *context)
{
	struct cxgb3_cmd_alloc_pd cmd;
	struct {
		uint8_t core[CXGB3_CORE_RESP_ALLOC_PD];
		struct t3_alloc_pd_resp drv;
	} resp = { 0 };
	struct cxgb3_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return NULL;
	err = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	return &pd->pd;
}

/* The kernel finds out with the first object in it whether another process has made it. */
struct ibv_pd *cxgb3_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct cxgb3_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

void cxgb3_unimport_pd(struct ibv_pd *pd)
{
	free(to_pd(pd));
}

/*
 * The kernel allocates the card's rings. So allocators of the program (IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) are
 * refused.
 */
struct ibv_pd *cxgb3_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct cxgb3_pd *parent, *real;

	if (!attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask & ~IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	real = to_pd(attr->pd);
	if (real->real || attr->pd->context != context || (attr->td && attr->td->context != context)) {
		errno = EINVAL;
		return NULL;
	}
	parent = calloc(1, sizeof(*parent));
	if (!parent)
		return NULL;
	parent->pd.context = context;
	parent->pd.handle = real->pd.handle;
	parent->real = real;
	hold(&real->users);
	if (attr->td) {
		parent->td = (struct cxgb3_td *)attr->td;
		hold(&parent->td->users);
	}
	return &parent->pd;
}

int cxgb3_dealloc_pd(struct ibv_pd *ibpd)
{
	struct cxgb3_pd *pd = to_pd(ibpd);

	if (in_use(&pd->users))
		return EBUSY;
	if (pd->real) {
		release(&pd->real->users);
		if (pd->td)
			release(&pd->td->users);
	} else {
		int err = ibv_cmd_dealloc_pd(ibpd);

		if (err)
			return err;
	}
	free(pd);
	return 0;
}

struct ibv_td *cxgb3_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct cxgb3_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = context;
	return &td->td;
}

int cxgb3_dealloc_td(struct ibv_td *ibtd)
{
	struct cxgb3_td *td = (struct cxgb3_td *)ibtd;

	if (in_use(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

bool cxgb3_is_parent_domain(const struct ibv_pd *pd)
{
	return to_pd(pd)->real;
}

bool cxgb3_has_thread_domain(const struct ibv_pd *pd)
{
	return to_pd(pd)->td;
}

void cxgb3_hold_pd(struct ibv_pd *pd)
{
	if (cxgb3_is_parent_domain(pd))
		hold(&to_pd(pd)->users);
}

void cxgb3_release_pd(struct ibv_pd *pd)
{
	if (cxgb3_is_parent_domain(pd))
		release(&to_pd(pd)->users);
}
