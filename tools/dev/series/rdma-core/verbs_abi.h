/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The interface of libibverbs for providers. Its headers are C only, and the data path is C++: there the three objects
 * that the library reads beyond their public part are declared again.
 */
#ifndef CXGB3_VERBS_ABI_H
#define CXGB3_VERBS_ABI_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus

enum verbs_mr_type { VERBS_MR_IMPORTED = 2 };

struct verbs_mr {
	struct ibv_mr ibv_mr;
	int mr_type;
	int access;
};

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

#define VERBS_QP_EX 2U

struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask;
	void *xrcd;
};

#else

#include <infiniband/driver.h>
#include <infiniband/kern-abi.h>

/* As in C++. */
static_assert(offsetof(struct verbs_mr, access) == sizeof(struct ibv_mr) + 4, "layout of verbs_mr");
static_assert(IBV_MR_TYPE_IMPORTED_MR == 2, "types of verbs_mr");
static_assert(sizeof(struct verbs_cq) == sizeof(struct ibv_cq_ex), "layout of verbs_cq");
static_assert(offsetof(struct verbs_qp, comp_mask) == sizeof(struct ibv_qp_ex), "layout of verbs_qp");
static_assert(VERBS_QP_EX == 2, "mask of verbs_qp");

/* Commands without a driver part. */
#define cxgb3_cmd_alloc_mw ibv_alloc_mw
#define cxgb3_cmd_alloc_pd ibv_alloc_pd
#define cxgb3_cmd_create_qp ibv_create_qp
#define cxgb3_cmd_get_context ibv_get_context
#define cxgb3_cmd_modify_qp ibv_modify_qp
#define cxgb3_cmd_query_port ibv_query_port
#define cxgb3_cmd_query_qp ibv_query_qp
#define cxgb3_cmd_reg_mr ibv_reg_mr
#define cxgb3_cmd_rereg_mr ibv_rereg_mr
#define cxgb3_alloc_mw_core_resp ib_uverbs_alloc_mw_resp
#define cxgb3_get_context_resp ib_uverbs_get_context_resp
#define cxgb3_query_device_resp ib_uverbs_ex_query_device_resp

/* Bytes in front of a driver part. */
#define CXGB3_CORE_RESP_ALLOC_PD sizeof(struct ib_uverbs_alloc_pd_resp)
#define CXGB3_CORE_RESP_REG_MR sizeof(struct ib_uverbs_reg_mr_resp)
#define CXGB3_CORE_RESP_REREG_MR sizeof(struct ib_uverbs_rereg_mr_resp)
#define CXGB3_CORE_CMD_CREATE_CQ sizeof(struct ibv_create_cq)
#define CXGB3_CORE_RESP_CREATE_CQ sizeof(struct ib_uverbs_create_cq_resp)
#define CXGB3_CORE_RESP_CREATE_QP sizeof(struct ib_uverbs_create_qp_resp)

#endif

#endif /* CXGB3_VERBS_ABI_H */
