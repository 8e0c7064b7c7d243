/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Decodes a completion entry, for
 * the kernel module and the user library alike. Plain C that is also C++; pure.
 *
 * All functions but t3_cqe_valid() take the header in host order, so that a
 * reader swaps it once.
 */
#ifndef T3_HW_CQE_DECODE_H
#define T3_HW_CQE_DECODE_H

#include "t3_cqe.h"
#include "t3_host.h"
#include "t3_wr.h"

static __always_inline __u32 t3_header_qpid(__u32 header)
{
	return (header & T3_CQE_QPID) >> 12;
}

static __always_inline __u8 t3_header_status(__u32 header)
{
	return (header & T3_CQE_STATUS) >> 5;
}

static __always_inline __u8 t3_header_opcode(__u32 header)
{
	return header & T3_CQE_OPCODE;
}

static __always_inline bool t3_header_is_sq(__u32 header)
{
	return header & T3_CQE_TYPE_SQ;
}

static __always_inline bool t3_header_gen(__u32 header)
{
	return header & T3_CQE_GEN;
}

/* Type and opcode together select the kind of an entry. */
enum t3_cqe_kind {
	/* completes no request: a TERMINATE, a refused request of the peer, an undefined opcode */
	T3_KIND_OTHER,
	/* a request of this side other than a completed read (a refused read too) */
	T3_KIND_SENT,
	T3_KIND_READ,		/* a read of ours; such an entry calls itself a receive */
	T3_KIND_MESSAGE,	/* a receive of ours */
	T3_KIND_MESSAGE_INV,	/* the same, and the card has invalidated an STag */
};

static __always_inline enum t3_cqe_kind t3_header_kind(__u32 header)
{
	/* Indexed by type and opcode; C++ has no designators for arrays. */
	static const __u8 kinds[32] = {
		/* receives: write, read request, read response, the four sends, terminate */
		T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_READ, T3_KIND_MESSAGE,
		T3_KIND_MESSAGE_INV, T3_KIND_MESSAGE, T3_KIND_MESSAGE_INV, T3_KIND_OTHER,
		T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER,
		T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER,
		/* sends: the same, then init, bind, fast register, local invalidate */
		T3_KIND_SENT, T3_KIND_SENT, T3_KIND_OTHER, T3_KIND_SENT,
		T3_KIND_SENT, T3_KIND_SENT, T3_KIND_SENT, T3_KIND_OTHER,
		T3_KIND_OTHER, T3_KIND_SENT, T3_KIND_SENT, T3_KIND_SENT,
		T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER, T3_KIND_OTHER,
	};

	return (enum t3_cqe_kind)kinds[header & (T3_CQE_TYPE_SQ | T3_CQE_OPCODE)];
}

static __always_inline bool t3_kind_is_message(enum t3_cqe_kind kind)
{
	return kind == T3_KIND_MESSAGE || kind == T3_KIND_MESSAGE_INV;
}

/* An entry is there if its generation is that of the consumer's lap. */
static __always_inline bool t3_cqe_valid(__be32 header, bool gen)
{
	return t3_header_gen(t3_from_be32(header)) == gen;
}

/*
 * Status of a received message. The card compares four bits of the message
 * sequence number; a gap would hand out the wrong buffer, so all of it is
 * compared here.
 */
static __always_inline __u8 t3_message_status(__u32 header, __u32 msn, __u32 expected_msn)
{
	__u8 status = t3_header_status(header);

	if (t3_unlikely(msn != expected_msn) && status == T3_STATUS_SUCCESS)
		return T3_STATUS_MSN;
	return status;
}

/* Work completion statuses that the card's become: ib_wc_status and ibv_wc_status by value. */
#define T3_WC_SUCCESS		0
#define T3_WC_LOC_LEN_ERR	1
#define T3_WC_LOC_PROT_ERR	4
#define T3_WC_WR_FLUSH_ERR	5
#define T3_WC_MW_BIND_ERR	6
#define T3_WC_LOC_ACCESS_ERR	8
#define T3_WC_FATAL_ERR		19
#define T3_WC_GENERAL_ERR	21

/* Codes without a row of their own are protocol errors. */
static __always_inline __u8 t3_status_to_wc(__u8 status)
{
	switch (status) {
	case T3_STATUS_SUCCESS:
		return T3_WC_SUCCESS;
	case T3_STATUS_STAG:
	case T3_STATUS_QPID:
	case T3_STATUS_ACCESS:
		return T3_WC_LOC_ACCESS_ERR;
	case T3_STATUS_PDID:
		return T3_WC_LOC_PROT_ERR;
	case T3_STATUS_WRAP:
		return T3_WC_GENERAL_ERR;
	case T3_STATUS_BOUND:
		return T3_WC_LOC_LEN_ERR;
	case T3_STATUS_INV_SHARED_MR:
	case T3_STATUS_INV_BOUND_MR:
		return T3_WC_MW_BIND_ERR;
	case T3_STATUS_FLUSH:
		return T3_WC_WR_FLUSH_ERR;
	default:
		return T3_WC_FATAL_ERR;
	}
}

#endif
