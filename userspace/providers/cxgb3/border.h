/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Between the C side (glue.c: commands, mappings, objects) and the C++ side (the data path
 * and the core behind it). Objects are owned by the C side and carry an opaque pointer into the core.
 *
 * int functions return 0 or a positive errno, except cxgb3_poll_cq(), which returns a count. No C++ exception leaves them.
 */
#ifndef CXGB3_BORDER_H
#define CXGB3_BORDER_H

#include "include/uapi/t3_abi.h"
#include "userspace/providers/cxgb3/counters.h"
#include "userspace/providers/cxgb3/verbs_abi.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#define CXGB3_NOEXCEPT noexcept
#else
#define CXGB3_NOEXCEPT
#endif

struct cxgb3_context {
	struct verbs_context vctx;
	bool needs_locks; /* false: the program promised to use each object from one thread */
	struct cxgb3_counters *counters; /* NULL: nothing is counted */
};

struct cxgb3_mr {
	struct verbs_mr vmr;
	uint64_t hca_va;
	uint32_t pbl_addr; /* of the first page, 8-byte units */
	uint8_t page_code;
};

enum cxgb3_armed { CXGB3_NOT_ARMED, CXGB3_ARMED_SOLICITED, CXGB3_ARMED_ANY };

struct cxgb3_cq {
	struct verbs_cq vcq;
	void *core;
	struct ibv_wc current;	 /* of an extended CQ, between ibv_start_poll() and ibv_end_poll() */
	void *ring;
	size_t ring_bytes;
	struct ibv_pd *parent_domain; /* or NULL */
	pthread_mutex_t arm_lock;
	enum cxgb3_armed armed;	 /* armed, event not read yet */
	enum cxgb3_armed wanted; /* requested while it was armed */
};

/* Thread domain. */
struct cxgb3_td {
	struct ibv_td td;
	unsigned int users; /* parent domains */
};

/* A PD or a parent domain. A parent domain has the handle of its PD (real) and an optional thread domain. */
struct cxgb3_pd {
	struct ibv_pd pd;
	struct cxgb3_pd *real; /* of a parent domain; else NULL */
	struct cxgb3_td *td;
	unsigned int users; /* parent domains, and objects made in a parent domain */
};

struct cxgb3_qp {
	struct verbs_qp vqp;
	void *core;
	void *ring;
	size_t ring_bytes;
	volatile uint32_t *doorbell;
};

/* ---- life of core objects ---- */

/* First the core of a CQ, for the address of its counter. Then its ring, which the kernel's response describes. */
int cxgb3_core_create_cq(struct cxgb3_cq *cq, bool needs_locks, struct cxgb3_counters *counters) CXGB3_NOEXCEPT;
uint64_t cxgb3_core_cq_counter(const struct cxgb3_cq *cq) CXGB3_NOEXCEPT;
void cxgb3_core_cq_use_ring(struct cxgb3_cq *cq, const struct t3_create_cq_resp *resp) CXGB3_NOEXCEPT;
/* Before the kernel arms the CQ: how far it has been polled. */
void cxgb3_core_publish_consumed(struct cxgb3_cq *cq) CXGB3_NOEXCEPT;
void cxgb3_core_destroy_cq(struct cxgb3_cq *cq) CXGB3_NOEXCEPT;

int cxgb3_core_create_qp(struct cxgb3_qp *qp, const struct t3_create_qp_resp *resp, bool signal_all,
			 bool needs_locks, struct cxgb3_counters *counters, void (*abort)(void *qp)) CXGB3_NOEXCEPT;
void cxgb3_core_destroy_qp(struct cxgb3_qp *qp) CXGB3_NOEXCEPT;
void cxgb3_core_reset_qp(struct cxgb3_qp *qp) CXGB3_NOEXCEPT;
void cxgb3_core_stop_qp(struct cxgb3_qp *qp) CXGB3_NOEXCEPT;

/* ---- data path, as entries of the ops table ---- */
int cxgb3_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr) CXGB3_NOEXCEPT;
int cxgb3_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr) CXGB3_NOEXCEPT;
int cxgb3_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc) CXGB3_NOEXCEPT;
int cxgb3_post_send_counted(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr) CXGB3_NOEXCEPT;
int cxgb3_post_recv_counted(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr) CXGB3_NOEXCEPT;
int cxgb3_poll_cq_counted(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc) CXGB3_NOEXCEPT;
int cxgb3_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind) CXGB3_NOEXCEPT;

/* ---- the extended interfaces: fills in the functions, which are members of the object ---- */
int cxgb3_set_builders(struct cxgb3_qp *qp, bool counted) CXGB3_NOEXCEPT;
void cxgb3_set_readers(struct cxgb3_cq *cq, bool counted) CXGB3_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* CXGB3_BORDER_H */
