// SPDX-License-Identifier: GPL-2.0
/*
 * From completion entries to completions.
 */
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#include "cqe.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

/* hw/t3_cqe_decode.h defines the statuses by value. */
static_assert(IB_WC_SUCCESS == T3_WC_SUCCESS);
static_assert(IB_WC_LOC_LEN_ERR == T3_WC_LOC_LEN_ERR);
static_assert(IB_WC_LOC_PROT_ERR == T3_WC_LOC_PROT_ERR);
static_assert(IB_WC_WR_FLUSH_ERR == T3_WC_WR_FLUSH_ERR);
static_assert(IB_WC_MW_BIND_ERR == T3_WC_MW_BIND_ERR);
static_assert(IB_WC_LOC_ACCESS_ERR == T3_WC_LOC_ACCESS_ERR);
static_assert(IB_WC_FATAL_ERR == T3_WC_FATAL_ERR);
static_assert(IB_WC_GENERAL_ERR == T3_WC_GENERAL_ERR);

struct t3_status_row {
	const char *name;
	enum t3_ae_class class;
};

#define ROW(str, cl) { .name = (str), .class = T3_AE_##cl }

/*
 * Indexed by the 5-bit status. Codes without a row are QP fatal. An error is one of the device
 * only if no process and no peer can cause it (docs/hw/events.md 3.1): a process writes its own
 * slots, and must not end the programs of others.
 */
static const struct t3_status_row t3_statuses[32] = {
	[T3_STATUS_SUCCESS]	  = ROW("success", COMPLETION),
	[T3_STATUS_STAG]	  = ROW("invalid STag", ACCESS),
	[T3_STATUS_PDID]	  = ROW("PD mismatch", ACCESS),
	[T3_STATUS_QPID]	  = ROW("QP mismatch", ACCESS),
	[T3_STATUS_ACCESS]	  = ROW("access right missing", ACCESS),
	[T3_STATUS_WRAP]	  = ROW("address wraps", ACCESS),
	[T3_STATUS_BOUND]	  = ROW("base or bounds", ACCESS),
	[T3_STATUS_INV_SHARED_MR] = ROW("invalidate of a shared region", ACCESS),
	[T3_STATUS_INV_BOUND_MR]  = ROW("invalidate of a bound region", ACCESS),
	[T3_STATUS_ECC]		  = ROW("ECC", DEVICE),
	[T3_STATUS_ECC_PSTAG]	  = ROW("ECC in parent STag", DEVICE),
	[T3_STATUS_PBL_BOUND]	  = ROW("PBL out of bounds", FATAL),
	[T3_STATUS_FLUSH]	  = ROW("flushed", FATAL),
	[T3_STATUS_CRC]		  = ROW("MPA CRC", FATAL),
	[T3_STATUS_MARKER]	  = ROW("MPA marker", FATAL),
	[T3_STATUS_PDU_LEN]	  = ROW("PDU length", FATAL),
	[T3_STATUS_NO_RECV]	  = ROW("no receive posted", FATAL),
	[T3_STATUS_DDP_VERSION]	  = ROW("DDP version", FATAL),
	[T3_STATUS_RDMAP_VERSION] = ROW("RDMAP version", FATAL),
	[T3_STATUS_OPCODE]	  = ROW("RDMAP opcode", FATAL),
	[T3_STATUS_DDP_QUEUE]	  = ROW("DDP queue number", FATAL),
	[T3_STATUS_MSN]		  = ROW("MSN", FATAL),
	[T3_STATUS_TBIT]	  = ROW("tagged bit", FATAL),
	[T3_STATUS_MO]		  = ROW("message offset", FATAL),
	[T3_STATUS_MSN_GAP]	  = ROW("MSN gap", FATAL),
	[T3_STATUS_MSN_RANGE]	  = ROW("MSN range", FATAL),
	[T3_STATUS_IRD_OVERFLOW]  = ROW("IRD overflow", FATAL),
	[T3_STATUS_RQE_BOUND]	  = ROW("RQE out of bounds", FATAL),
	[T3_STATUS_INTERNAL]	  = ROW("internal", FATAL),	/* a malformed work request */
};

static const struct t3_status_row *t3_status_row_of(u8 status)
{
	static const struct t3_status_row unknown = ROW("undefined", FATAL);

	if (status >= 32 || !t3_statuses[status].name)
		return &unknown;
	return &t3_statuses[status];
}

enum ib_wc_status t3_wc_status(u8 status)
{
	return (enum ib_wc_status)t3_status_to_wc(status);
}

const char *t3_status_name(u8 status)
{
	return t3_status_row_of(status)->name;
}

static bool t3_opcode_is_send(u8 opcode)
{
	return opcode >= T3_RDMA_SEND && opcode <= T3_RDMA_SEND_SE_INV;
}

static bool t3_opcode_invalidates(u8 opcode)
{
	return opcode == T3_RDMA_SEND_INV || opcode == T3_RDMA_SEND_SE_INV;
}

/*
 * The request at ptr is done. The card processed earlier requests before it:
 * those that are unsignaled and not reads are done too, and are not reported.
 * Each read has an entry of its own.
 */
static void t3_sq_mark_done(struct t3_wq *wq, u32 ptr, u8 status)
{
	struct t3_sq_entry *e = t3_sq_at(wq, ptr);
	u32 i;

	e->status = status;
	e->done = true;
	for (i = wq->sq_rptr; i != ptr; i++) {
		e = t3_sq_at(wq, i);
		if (!e->done && !e->signaled && e->rdma_op != T3_RDMA_READ_REQ)
			e->done = true;
	}
}

/* Reads complete in posting order. Their entry does not identify the request. */
static enum t3_cqe_result t3_wq_apply_read(struct t3_wq *wq, const struct t3_cqe *cqe)
{
	u32 i;

	if (wq->rtr_expected && t3_cqe_is_rtr(cqe)) {
		wq->rtr_expected = false;
		return T3_CQE_RTR_DONE;
	}
	for (i = wq->sq_rptr; i != wq->sq_wptr; i++) {
		const struct t3_sq_entry *e = t3_sq_at(wq, i);

		if (e->rdma_op == T3_RDMA_READ_REQ && !e->done) {
			t3_sq_mark_done(wq, i, t3_cqe_status(cqe));
			return T3_CQE_SEND_DONE;
		}
	}
	return T3_CQE_STALE;
}

static bool t3_opcode_matches(u8 posted, u8 completed)
{
	/* The kinds of SEND are not distinguished here: the card reports the one it sent. */
	return posted == completed || (t3_opcode_is_send(posted) && t3_opcode_is_send(completed));
}

static enum t3_cqe_result t3_wq_apply_send(struct t3_wq *wq, const struct t3_cqe *cqe)
{
	u32 ptr = cqe->u.sq.wrid_hi;

	if (ptr - wq->sq_rptr >= wq->sq_wptr - wq->sq_rptr)
		return T3_CQE_STALE;
	if (t3_sq_at(wq, ptr)->done)
		return T3_CQE_STALE;
	if (!t3_opcode_matches(t3_sq_at(wq, ptr)->rdma_op, t3_cqe_opcode(cqe)))
		return T3_CQE_BAD;
	t3_sq_mark_done(wq, ptr, t3_cqe_status(cqe));
	return T3_CQE_SEND_DONE;
}

static enum t3_cqe_result t3_wq_apply_recv(struct t3_wq *wq, const struct t3_cqe *cqe)
{
	u32 header = be32_to_cpu(cqe->header);
	u32 len = be32_to_cpu(cqe->len);
	struct t3_rq_entry *e;

	if (wq->rq_done == wq->rq_wptr)
		return T3_CQE_BAD;
	e = t3_rq_at(wq, wq->rq_done);
	e->rdma_op = t3_cqe_opcode(cqe);
	e->status = t3_message_status(header, be32_to_cpu(cqe->u.rq.msn), wq->rq_done + 1);
	e->done = true;
	/* A consumer takes the length for that of valid data in its buffers. */
	if (e->status == T3_STATUS_SUCCESS && len > e->len) {
		e->status = T3_STATUS_RQE_BOUND;
		wq->rq_done++;
		return T3_CQE_BAD;
	}
	if (e->status == T3_STATUS_SUCCESS) {
		e->len = len;
		if (t3_header_kind(header) == T3_KIND_MESSAGE_INV)
			e->inv_stag = be32_to_cpu(cqe->u.rq.stag);
	}
	wq->rq_done++;
	return e->status == T3_STATUS_MSN ? T3_CQE_BAD : T3_CQE_RECV_DONE;
}

enum t3_cqe_result t3_wq_apply(struct t3_wq *wq, const struct t3_cqe *cqe)
{
	switch (t3_header_kind(be32_to_cpu(cqe->header))) {
	case T3_KIND_SENT:
		return t3_wq_apply_send(wq, cqe);
	case T3_KIND_READ:
		return t3_wq_apply_read(wq, cqe);
	case T3_KIND_MESSAGE:
	case T3_KIND_MESSAGE_INV:
		return t3_wq_apply_recv(wq, cqe);
	default:
		return T3_CQE_BAD;
	}
}

void t3_wq_record_error(struct t3_wq *wq, const struct t3_cqe *cqe)
{
	u32 ptr = cqe->u.sq.wrid_hi;

	if (!t3_cqe_is_sq(cqe) || t3_cqe_status(cqe) == T3_STATUS_SUCCESS)
		return;
	if (t3_cqe_opcode(cqe) == T3_RDMA_TERMINATE || t3_cqe_opcode(cqe) == T3_RDMA_READ_RESP)
		return;
	if (ptr - wq->sq_rptr >= wq->sq_wptr - wq->sq_rptr || t3_sq_at(wq, ptr)->done)
		return;
	if (t3_opcode_matches(t3_sq_at(wq, ptr)->rdma_op, t3_cqe_opcode(cqe)))
		t3_sq_mark_done(wq, ptr, t3_cqe_status(cqe));
}

void t3_wq_flush(struct t3_wq *wq)
{
	u32 i;

	wq->rtr_expected = false;
	for (i = wq->sq_rptr; i != wq->sq_wptr; i++) {
		struct t3_sq_entry *e = t3_sq_at(wq, i);

		if (e->done)
			continue;
		e->status = T3_STATUS_FLUSH;
		e->done = true;
	}
	for (; wq->rq_done != wq->rq_wptr; wq->rq_done++) {
		struct t3_rq_entry *e = t3_rq_at(wq, wq->rq_done);

		e->rdma_op = T3_RDMA_SEND;
		e->status = T3_STATUS_FLUSH;
		e->done = true;
	}
}

static bool t3_sq_entry_unreported(const struct t3_sq_entry *e)
{
	return !e->signaled && e->status == T3_STATUS_SUCCESS;
}

bool t3_sq_has_completion(const struct t3_wq *wq)
{
	u32 i;

	for (i = wq->sq_rptr; i != wq->sq_wptr && t3_sq_at(wq, i)->done; i++)
		if (!t3_sq_entry_unreported(t3_sq_at(wq, i)))
			return true;
	return false;
}

bool t3_rq_has_completion(const struct t3_wq *wq)
{
	return wq->rq_rptr != wq->rq_done;
}

bool t3_sq_next_completion(struct t3_wq *wq, struct t3_completion *out)
{
	while (wq->sq_rptr != wq->sq_wptr) {
		const struct t3_sq_entry *e = t3_sq_at(wq, wq->sq_rptr);

		if (!e->done)
			return false;
		wq->sq_rptr++;
		if (t3_sq_entry_unreported(e))
			continue;
		memset(out, 0, sizeof(*out));
		out->wr_id = e->wr_id;
		out->status = e->status;
		out->rdma_op = e->rdma_op;
		out->len = e->status == T3_STATUS_SUCCESS ? e->read_len : 0;
		return true;
	}
	return false;
}

bool t3_rq_next_completion(struct t3_wq *wq, struct t3_completion *out)
{
	const struct t3_rq_entry *e;

	if (wq->rq_rptr == wq->rq_done)
		return false;
	e = t3_rq_at(wq, wq->rq_rptr++);
	memset(out, 0, sizeof(*out));
	out->wr_id = e->wr_id;
	out->status = e->status;
	out->rdma_op = e->rdma_op;
	out->len = e->status == T3_STATUS_SUCCESS ? e->len : 0;
	out->inv_stag = e->inv_stag;
	out->scratch = e->pbl_addr;
	return true;
}

enum t3_ae_class t3_ae_classify(const struct t3_cqe *cqe)
{
	u8 opcode = t3_cqe_opcode(cqe);
	u8 status = t3_cqe_status(cqe);
	bool sq = t3_cqe_is_sq(cqe);

	if (opcode == T3_RDMA_TERMINATE && status == T3_STATUS_SUCCESS)
		return sq ? T3_AE_TERM_SENT : T3_AE_TERM_RCVD;
	if (status == T3_STATUS_SUCCESS)
		return T3_AE_COMPLETION;
	if ((sq && opcode == T3_RDMA_READ_RESP) || (!sq && opcode == T3_RDMA_WRITE))
		return T3_AE_REQUEST;
	return t3_status_row_of(status)->class;
}

/*
 * TERMINATE control words by status. The layer that checks an STag reports its
 * errors (RFC 5040 7, RFC 5041 7.1): DDP checks the STag of a tagged message,
 * RDMAP the STag of a read request or of a SEND with invalidate. RDMAP checks
 * access rights in all of them. The peer has no knowledge of our buffers and work
 * requests: their errors are reported to it as local catastrophic errors.
 */
enum t3_term_kind {
	T3_TERM_TAGGED,		/* a tagged message of the peer */
	T3_TERM_READ,		/* a read request of the peer */
	T3_TERM_INV,		/* a SEND with invalidate of the peer */
	T3_TERM_OTHER,
	T3_TERM_KINDS
};

#define TERM(layer, etype, ecode) {						\
	.layer_type = RDMAP_TERM_LAYER_##layer << RDMAP_TERM_LAYER_SHIFT | (etype),	\
	.code = (ecode),							\
}

#define RDMAP_PROT(ecode)	TERM(RDMAP, RDMAP_ETYPE_PROTECTION, RDMAP_PROT_##ecode)
#define RDMAP_OP(ecode)		TERM(RDMAP, RDMAP_ETYPE_OPERATION, RDMAP_OP_##ecode)
#define DDP_TAGGED(ecode)	TERM(DDP, DDP_ETYPE_TAGGED, DDP_TAGGED_##ecode)
#define DDP_UNTAGGED(ecode)	TERM(DDP, DDP_ETYPE_UNTAGGED, DDP_UNTAGGED_##ecode)
#define TERM_MPA(ecode)		TERM(LLP, MPA_ETYPE_MPA, MPA_ERR_##ecode)
#define TERM_LOCAL		TERM(RDMAP, RDMAP_ETYPE_CATASTROPHIC, 0)
#define TERM_ALL(term)		{ term, term, term, term }

/* Statuses without a row are local catastrophic errors, which are all zeroes. */
static const struct t3_term t3_terms[32][T3_TERM_KINDS] = {
	[T3_STATUS_STAG]	= { DDP_TAGGED(INVALID_STAG), RDMAP_PROT(INVALID_STAG),
				    RDMAP_OP(CANNOT_INVALIDATE), TERM_LOCAL },
	[T3_STATUS_PDID]	= { DDP_TAGGED(NOT_ASSOCIATED), RDMAP_PROT(NOT_ASSOCIATED),
				    RDMAP_PROT(CANNOT_INVALIDATE), TERM_LOCAL },
	[T3_STATUS_QPID]	= { DDP_TAGGED(NOT_ASSOCIATED), RDMAP_PROT(NOT_ASSOCIATED),
				    RDMAP_PROT(CANNOT_INVALIDATE), TERM_LOCAL },
	[T3_STATUS_ACCESS]	= { RDMAP_PROT(ACCESS), RDMAP_PROT(ACCESS),
				    RDMAP_OP(CANNOT_INVALIDATE), TERM_LOCAL },
	[T3_STATUS_WRAP]	= { DDP_TAGGED(TO_WRAP), RDMAP_PROT(TO_WRAP), TERM_LOCAL,
				    TERM_LOCAL },
	[T3_STATUS_BOUND]	= { DDP_TAGGED(BASE_BOUNDS), RDMAP_PROT(BASE_BOUNDS), TERM_LOCAL,
				    TERM_LOCAL },
	[T3_STATUS_PBL_BOUND]	= { DDP_TAGGED(BASE_BOUNDS), RDMAP_PROT(BASE_BOUNDS), TERM_LOCAL,
				    TERM_LOCAL },
	[T3_STATUS_INV_SHARED_MR] = TERM_ALL(RDMAP_OP(CANNOT_INVALIDATE)),
	[T3_STATUS_INV_BOUND_MR] = TERM_ALL(RDMAP_OP(CANNOT_INVALIDATE)),
	[T3_STATUS_CRC]		= TERM_ALL(TERM_MPA(CRC)),
	[T3_STATUS_MARKER]	= TERM_ALL(TERM_MPA(MARKER)),
	[T3_STATUS_PDU_LEN]	= TERM_ALL(DDP_UNTAGGED(TOO_LONG)),
	[T3_STATUS_NO_RECV]	= TERM_ALL(DDP_UNTAGGED(NO_BUFFER)),
	[T3_STATUS_DDP_VERSION]	= { DDP_TAGGED(VERSION), DDP_UNTAGGED(VERSION),
				    DDP_UNTAGGED(VERSION), DDP_UNTAGGED(VERSION) },
	[T3_STATUS_RDMAP_VERSION] = TERM_ALL(RDMAP_OP(VERSION)),
	[T3_STATUS_OPCODE]	= TERM_ALL(RDMAP_OP(UNEXPECTED_OPCODE)),
	[T3_STATUS_DDP_QUEUE]	= TERM_ALL(DDP_UNTAGGED(INVALID_QN)),
	[T3_STATUS_MSN]		= TERM_ALL(DDP_UNTAGGED(MSN_RANGE)),
	[T3_STATUS_MSN_GAP]	= TERM_ALL(DDP_UNTAGGED(MSN_RANGE)),
	[T3_STATUS_MSN_RANGE]	= TERM_ALL(DDP_UNTAGGED(MSN_RANGE)),
	[T3_STATUS_IRD_OVERFLOW] = TERM_ALL(DDP_UNTAGGED(MSN_RANGE)),
	[T3_STATUS_TBIT]	= TERM_ALL(TERM(DDP, DDP_ETYPE_CATASTROPHIC, 0)),
	[T3_STATUS_MO]		= TERM_ALL(DDP_UNTAGGED(INVALID_MO)),
};

static enum t3_term_kind t3_term_kind(u8 opcode, bool is_sq)
{
	if (!is_sq && (opcode == T3_RDMA_WRITE || opcode == T3_RDMA_READ_RESP))
		return T3_TERM_TAGGED;
	if (opcode == (is_sq ? T3_RDMA_READ_RESP : T3_RDMA_READ_REQ))
		return T3_TERM_READ;
	if (!is_sq && t3_opcode_invalidates(opcode))
		return T3_TERM_INV;
	return T3_TERM_OTHER;
}

struct t3_term t3_term_for(u8 status, u8 opcode, bool is_sq)
{
	static const struct t3_term local = TERM_LOCAL;

	if (status >= ARRAY_SIZE(t3_terms))
		return local;
	return t3_terms[status][t3_term_kind(opcode, is_sq)];
}
