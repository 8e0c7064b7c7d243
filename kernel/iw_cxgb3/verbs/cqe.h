/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completion entries. Pure logic: no card, no locks, no memory of its own.
 *
 * An entry is applied to the work queue it belongs to, which marks requests as
 * done. Requests that are done at the head of the queue complete to the consumer,
 * in posting order. A flush marks the remaining requests as done. So there is no
 * list of software completions that could overflow, and no count to maintain.
 */
#ifndef T3_CQE_H
#define T3_CQE_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "hw/t3_cqe.h"
#include "hw/t3_cqe_decode.h"
#include "wq.h"

/* The fields of an entry in memory; hw/t3_cqe_decode.h decodes its header. */
static inline u32 t3_cqe_qpid(const struct t3_cqe *cqe)
{
	return t3_header_qpid(be32_to_cpu(cqe->header));
}

static inline u8 t3_cqe_status(const struct t3_cqe *cqe)
{
	return t3_header_status(be32_to_cpu(cqe->header));
}

static inline u8 t3_cqe_opcode(const struct t3_cqe *cqe)
{
	return t3_header_opcode(be32_to_cpu(cqe->header));
}

static inline bool t3_cqe_is_sq(const struct t3_cqe *cqe)
{
	return t3_header_is_sq(be32_to_cpu(cqe->header));
}

/* True for the response to the driver's own RTR read. */
static inline bool t3_cqe_is_rtr(const struct t3_cqe *cqe)
{
	return t3_cqe_opcode(cqe) == T3_RDMA_READ_RESP &&
	       be32_to_cpu(cqe->u.rq.stag) == T3_RTR_STAG;
}

enum t3_cqe_result {
	T3_CQE_SEND_DONE,	/* the head of the send queue may have completed */
	T3_CQE_RECV_DONE,	/* the head of the receive queue has completed */
	T3_CQE_RTR_DONE,	/* response to our zero-length RTR read */
	T3_CQE_STALE,		/* matches no outstanding request */
	T3_CQE_BAD,		/* contradicts the queue: the QP must end */
};

enum t3_cqe_result t3_wq_apply(struct t3_wq *wq, const struct t3_cqe *cqe);

/*
 * Record the status of a send-side request that an async event reports as failed,
 * so that the following flush does not replace it.
 */
void t3_wq_record_error(struct t3_wq *wq, const struct t3_cqe *cqe);

/* Mark all outstanding requests as done, with status flushed. */
void t3_wq_flush(struct t3_wq *wq);

/* A completed request. */
struct t3_completion {
	u64 wr_id;
	u32 len;
	u32 inv_stag;
	u32 scratch;		/* PBL memory to free, 0 if none */
	u8 status;		/* T3_STATUS_* */
	u8 rdma_op;		/* T3_RDMA_* */
};

bool t3_sq_next_completion(struct t3_wq *wq, struct t3_completion *out);
bool t3_rq_next_completion(struct t3_wq *wq, struct t3_completion *out);

/* True if the next call of the functions above returns a completion. */
bool t3_sq_has_completion(const struct t3_wq *wq);
bool t3_rq_has_completion(const struct t3_wq *wq);

enum ib_wc_status t3_wc_status(u8 status);

/* Classes of async events, by the reaction that they require. */
enum t3_ae_class {
	T3_AE_COMPLETION,
	T3_AE_ACCESS,		/* QP access error */
	T3_AE_REQUEST,		/* QP request error: inbound read or write refused */
	T3_AE_FATAL,		/* QP fatal */
	T3_AE_DEVICE,		/* device fatal */
	T3_AE_TERM_SENT,
	T3_AE_TERM_RCVD,
};

enum t3_ae_class t3_ae_classify(const struct t3_cqe *cqe);

/* TERMINATE control word for an error detected here. */
struct t3_term {
	u8 layer_type;
	u8 code;
};

struct t3_term t3_term_for(u8 status, u8 opcode, bool is_sq);

const char *t3_status_name(u8 status);

#endif
