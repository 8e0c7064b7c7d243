/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CXGB3_DOMAINS_H
#define CXGB3_DOMAINS_H

#include "userspace/providers/cxgb3/border.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd *cxgb3_alloc_pd(struct ibv_context *context);
struct ibv_pd *cxgb3_import_pd(struct ibv_context *context, uint32_t handle);
void cxgb3_unimport_pd(struct ibv_pd *pd);
struct ibv_pd *cxgb3_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int cxgb3_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *cxgb3_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int cxgb3_dealloc_td(struct ibv_td *td);

bool cxgb3_is_parent_domain(const struct ibv_pd *pd);
/* Objects made in this domain are used by one thread at a time: they need no locks. */
bool cxgb3_has_thread_domain(const struct ibv_pd *pd);

/* Count the objects of a parent domain. The kernel knows only its PD and would let the parent be freed under them. */
void cxgb3_hold_pd(struct ibv_pd *pd);
void cxgb3_release_pd(struct ibv_pd *pd);

#ifdef __cplusplus
}
#endif

#endif /* CXGB3_DOMAINS_H */
