/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libibverbs' private provider interface, as far as this provider uses it. No distribution packages the
 * headers that declare it, so it is declared here: plain C that is also C++, for the rdma-core release named
 * by T3_RDMA_CORE. The number in the provider's file name is no substitute: Debian 12 and 13 share it and
 * differ in struct ibv_qp_ex.
 *
 * What guards these declarations: the asserts below, the version node IBVERBS_PRIVATE_NN at load, and
 * self_check.c, which compares them with the running library before the provider registers.
 */
#ifndef CXGB3_VERBS_ABI_H
#define CXGB3_VERBS_ABI_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#if T3_RDMA_CORE == 44 || T3_RDMA_CORE == 56
#define T3_PABI 34
#elif T3_RDMA_CORE == 65
#define T3_PABI 65
#else
#error "unknown rdma-core release: add a row here and in CMakeLists.txt, and check the layouts anew"
#endif

/* ---- finding the device ---- */

enum verbs_match_kind {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_PCI = 1,
	VERBS_MATCH_MODALIAS = 2,
	VERBS_MATCH_DRIVER_ID = 3,
};

struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias;
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

struct verbs_sysfs_dev;
struct verbs_device;

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	void (*uninit_device)(struct verbs_device *device);
};

/* The library fills it in; an atomic there is a plain int here, since a provider leaves it alone. */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	int refcount;
	void *list_node[2];
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

/* ---- objects: always these as containers, since the library reads beyond the public part ---- */

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

#define VERBS_QP_EX 2U /* in comp_mask: ibv_qp_to_qp_ex() works */

struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask;
	void *xrcd;
};

/* ---- operations: sorted by name; what this provider never sets has no type ---- */

typedef void (*verbs_op)(void);

struct verbs_context_ops {
	verbs_op advise_mr;
#if T3_RDMA_CORE >= 64
	verbs_op alloc_buf;
#endif
	verbs_op alloc_dm;
#if T3_RDMA_CORE >= 59
	verbs_op alloc_dmah;
#endif
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	verbs_op alloc_null_mr;
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attr);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	verbs_op attach_counters_point_flow;
	verbs_op attach_mcast;
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	verbs_op close_xrcd;
	void (*cq_event)(struct ibv_cq *cq);
	verbs_op create_ah;
#if T3_RDMA_CORE >= 65
	verbs_op create_comp_cntr;
#endif
	verbs_op create_counters;
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				    int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	verbs_op create_flow;
	verbs_op create_flow_action_esp;
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	verbs_op create_rwq_ind_table;
	verbs_op create_srq;
	verbs_op create_srq_ex;
	verbs_op create_wq;
#if T3_RDMA_CORE >= 59
	verbs_op dealloc_dmah;
#endif
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	verbs_op destroy_ah;
#if T3_RDMA_CORE >= 65
	verbs_op destroy_comp_cntr;
#endif
	verbs_op destroy_counters;
	int (*destroy_cq)(struct ibv_cq *cq);
	verbs_op destroy_flow;
	verbs_op destroy_flow_action;
	int (*destroy_qp)(struct ibv_qp *qp);
	verbs_op destroy_rwq_ind_table;
	verbs_op destroy_srq;
	verbs_op destroy_wq;
	verbs_op detach_mcast;
#if T3_RDMA_CORE >= 62
	verbs_op dm_export_dmabuf_fd;
#endif
#if T3_RDMA_CORE >= 64
	verbs_op free_buf;
#endif
	void (*free_context)(struct ibv_context *context);
	verbs_op free_dm;
	verbs_op get_srq_num;
	verbs_op import_dm;
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
#if T3_RDMA_CORE >= 65
	verbs_op inc_comp_cntr;
	verbs_op inc_err_comp_cntr;
#endif
	verbs_op modify_cq;
	verbs_op modify_flow_action_esp;
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	verbs_op modify_qp_rate_limit;
	verbs_op modify_srq;
	verbs_op modify_wq;
	verbs_op open_qp;
	verbs_op open_xrcd;
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	verbs_op post_srq_ops;
	verbs_op post_srq_recv;
#if T3_RDMA_CORE >= 65
	verbs_op qp_attach_comp_cntr;
	verbs_op query_comp_cntr_caps;
#endif
	int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	verbs_op query_ece;
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
#if T3_RDMA_CORE >= 62
	verbs_op query_port_speed;
#endif
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	verbs_op query_qp_data_in_order;
	verbs_op query_rt_values;
	verbs_op query_srq;
#if T3_RDMA_CORE >= 65
	verbs_op read_comp_cntr;
#endif
	verbs_op read_counters;
#if T3_RDMA_CORE >= 65
	verbs_op read_err_comp_cntr;
#endif
	verbs_op reg_dm_mr;
	verbs_op reg_dmabuf_mr;
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
#if T3_RDMA_CORE >= 59
	verbs_op reg_mr_ex;
#endif
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
	verbs_op resize_cq;
#if T3_RDMA_CORE >= 65
	verbs_op set_comp_cntr;
#endif
	verbs_op set_ece;
#if T3_RDMA_CORE >= 65
	verbs_op set_err_comp_cntr;
#endif
	verbs_op unimport_dm;
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

/*
 * ---- commands: header, core request, driver part in one piece; the library fills header and core ----
 *
 * The core part is opaque here; only its size matters. Of a response only the driver part may be read: by ioctl
 * the core part does not arrive.
 */
struct cxgb3_cmd_get_context {
	uint8_t core[16];
} __attribute__((aligned(8)));
struct cxgb3_get_context_resp {
	uint8_t core[8];
} __attribute__((aligned(8)));

struct cxgb3_query_device_resp {
	uint64_t fw_ver; /* filled in: this command has no driver part */
	uint8_t core[296];
} __attribute__((aligned(8)));

struct cxgb3_cmd_query_port {
	uint8_t core[24];
} __attribute__((aligned(8)));

struct cxgb3_cmd_alloc_pd {
	uint8_t core[16];
} __attribute__((aligned(8)));

struct cxgb3_cmd_reg_mr {
	uint8_t core[48];
} __attribute__((aligned(8)));

struct cxgb3_cmd_rereg_mr {
	uint8_t core[56];
} __attribute__((aligned(8)));

struct cxgb3_cmd_create_qp {
	uint8_t core[64];
} __attribute__((aligned(8)));

struct cxgb3_cmd_modify_qp {
	uint8_t core[120];
} __attribute__((aligned(8)));

struct cxgb3_cmd_query_qp {
	uint8_t core[24];
} __attribute__((aligned(8)));

struct cxgb3_cmd_alloc_mw {
	uint8_t core[24]; /* header 8, response 8, pd_handle 4, type 1, reserved 3 */
} __attribute__((aligned(8)));
struct cxgb3_alloc_mw_core_resp {
	uint32_t mw_handle;
	uint32_t rkey;
};

#define CXGB3_CORE_RESP_ALLOC_PD  4
#define CXGB3_CORE_RESP_REG_MR	  12
#define CXGB3_CORE_RESP_REREG_MR  8
#define CXGB3_CORE_CMD_CREATE_CQ  40
#define CXGB3_CORE_RESP_CREATE_CQ 8
#define CXGB3_CORE_RESP_CREATE_QP 32

/* ---- functions; command and response pointers are void here ---- */

#define VERBS_CONCAT_(a, b)	   a##b
#define VERBS_CONCAT(a, b)	   VERBS_CONCAT_(a, b)
#define verbs_register_driver_name VERBS_CONCAT(verbs_register_driver_, T3_PABI)

void verbs_register_driver_name(const struct verbs_device_ops *ops);
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);
void verbs_uninit_context(struct verbs_context *context);
void verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops);

#if T3_RDMA_CORE >= 57
int ibv_cmd_get_context(struct verbs_context *context, void *cmd, size_t cmd_size, void *fd_arr, void *resp,
			size_t resp_size);
#else
int ibv_cmd_get_context(struct verbs_context *context, void *cmd, size_t cmd_size, void *resp, size_t resp_size);
#endif
int ibv_cmd_query_context(struct ibv_context *context, void *driver_attributes);
int ibv_cmd_query_device_any(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size, void *resp, size_t *resp_size);
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, void *cmd,
		       size_t cmd_size);
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, void *cmd, size_t cmd_size, void *resp,
		     size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access, struct verbs_mr *vmr,
		   void *cmd, size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, void *cmd, size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_dereg_mr(struct verbs_mr *vmr);
int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t mr_handle);
int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw, void *cmd, size_t cmd_size,
		     void *resp, size_t resp_size);
int ibv_cmd_dealloc_mw(struct ibv_mw *mw);
int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
		      struct ibv_cq *cq, void *cmd, size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr, void *cmd,
		      size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, void *cmd, size_t cmd_size);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr,
		     void *cmd, size_t cmd_size);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);

/* ---- the layouts that were measured on the real libraries ---- */

#ifdef __cplusplus
#define VERBS_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define VERBS_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif
#if defined(__x86_64__) && defined(__LP64__)
VERBS_ABI_ASSERT(sizeof(struct verbs_match_ent) == 24);
VERBS_ABI_ASSERT(offsetof(struct verbs_match_ent, kind) == 20);
VERBS_ABI_ASSERT(sizeof(struct verbs_device_ops) == 72);
VERBS_ABI_ASSERT(offsetof(struct verbs_device_ops, match_table) == 16);
VERBS_ABI_ASSERT(offsetof(struct verbs_device_ops, alloc_context) == 40);
VERBS_ABI_ASSERT(sizeof(struct verbs_device) == 712);
VERBS_ABI_ASSERT(offsetof(struct verbs_device, sysfs) == 696);
VERBS_ABI_ASSERT(sizeof(struct verbs_mr) == 56);
VERBS_ABI_ASSERT(sizeof(struct verbs_cq) == 288);
#if T3_RDMA_CORE == 44
VERBS_ABI_ASSERT(sizeof(struct ibv_qp_ex) == 352);
VERBS_ABI_ASSERT(sizeof(struct verbs_qp) == 368);
#else
VERBS_ABI_ASSERT(sizeof(struct ibv_qp_ex) == 360);
VERBS_ABI_ASSERT(sizeof(struct verbs_qp) == 376);
#endif
#if T3_PABI == 34
VERBS_ABI_ASSERT(sizeof(struct verbs_context_ops) == 608);
VERBS_ABI_ASSERT(sizeof(struct verbs_context) == 648);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, alloc_parent_domain) == 32);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, alloc_td) == 48);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_cq_ex) == 128);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_qp) == 152);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_qp_ex) == 160);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, dealloc_td) == 216);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, free_context) == 312);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, post_send) == 440);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, req_notify_cq) == 552);
#else
VERBS_ABI_ASSERT(sizeof(struct verbs_context_ops) == 744);
VERBS_ABI_ASSERT(sizeof(struct verbs_context) == 696);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, alloc_parent_domain) == 48);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, alloc_td) == 64);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_cq_ex) == 152);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_qp) == 176);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, create_qp_ex) == 184);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, dealloc_td) == 248);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, free_context) == 368);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, post_send) == 512);
VERBS_ABI_ASSERT(offsetof(struct verbs_context_ops, req_notify_cq) == 672);
#endif
#endif
#undef VERBS_ABI_ASSERT

#ifdef __cplusplus
}
#endif

#endif /* CXGB3_VERBS_ABI_H */
