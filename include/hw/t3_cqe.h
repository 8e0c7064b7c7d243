/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * T3 completion queue entries, the commands on a completion queue, and the
 * async event that carries a copy of an entry.
 */
#ifndef T3_HW_CQE_H
#define T3_HW_CQE_H

#include <linux/types.h>

#define T3_CQE_SHIFT		4
#define T3_CQE_BYTES		16
#define T3_MAX_CQ_ENTRIES	32768 /* the size has 16 bits: 65536 would switch the CQ off */

/*
 * The last two words depend on the type of the entry. Send queue: the WR id as
 * posted, raw. Receive queue and read response: STag and MSN, big endian.
 */
struct t3_cqe {
	__be32 header;
	__be32 len; /* only meaningful for a received message */
	union {
		struct {
			__u32 wrid_hi; /* raw */
			__u32 wrid_lo; /* raw */
		} sq;
		struct {
			__be32 stag;
			__be32 msn;
		} rq;
	} u;
};

#define T3_CQE_OOO		0x80000000U
#define T3_CQE_QPID		0x7ffff000U
#define T3_CQE_SW		0x00000800U /* never set by the card */
#define T3_CQE_GEN		0x00000400U
#define T3_CQE_STATUS		0x000003e0U
#define T3_CQE_TYPE_SQ		0x00000010U
#define T3_CQE_OPCODE		0x0000000fU

/* Values of T3_CQE_STATUS. */
#define T3_STATUS_SUCCESS		0x00
#define T3_STATUS_STAG			0x01
#define T3_STATUS_PDID			0x02
#define T3_STATUS_QPID			0x03
#define T3_STATUS_ACCESS		0x04
#define T3_STATUS_WRAP			0x05
#define T3_STATUS_BOUND			0x06
#define T3_STATUS_INV_SHARED_MR		0x07
#define T3_STATUS_INV_BOUND_MR		0x08
#define T3_STATUS_ECC			0x09
#define T3_STATUS_ECC_PSTAG		0x0a
#define T3_STATUS_PBL_BOUND		0x0b
#define T3_STATUS_FLUSH			0x0c /* made by software only */
#define T3_STATUS_CRC			0x10
#define T3_STATUS_MARKER		0x11
#define T3_STATUS_PDU_LEN		0x12
#define T3_STATUS_NO_RECV		0x13
#define T3_STATUS_DDP_VERSION		0x14
#define T3_STATUS_RDMAP_VERSION		0x15
#define T3_STATUS_OPCODE		0x16
#define T3_STATUS_DDP_QUEUE		0x17
#define T3_STATUS_MSN			0x18
#define T3_STATUS_TBIT			0x19
#define T3_STATUS_MO			0x1a
#define T3_STATUS_MSN_GAP		0x1b
#define T3_STATUS_MSN_RANGE		0x1c
#define T3_STATUS_IRD_OVERFLOW		0x1d
#define T3_STATUS_RQE_BOUND		0x1e
#define T3_STATUS_INTERNAL		0x1f

/* Commands on a CQ (request RDMA_CQ_OP of the NIC driver). */
#define T3_CQ_OP_ARM_ANY	2
#define T3_CQ_OP_ARM_SOLICITED	6
#define T3_CQ_OP_CREDITS	7

/* STag with which the zero-byte "ready to receive" read is posted. */
#define T3_RTR_STAG		1

/*
 * Async event as the NIC driver hands it over: the first 32 bytes of a
 * response descriptor, with byte 0 replaced by the pseudo opcode 0x80.
 */
struct t3_async_event {
	__be32 flags; /* T3_AE_* */
	__be32 cq; /* T3_AE_CQ_INDEX, T3_AE_CQ_ID */
	__be32 rsp_flags;
	__be32 rsp_len;
	struct t3_cqe cqe;
};

#define T3_CPL_ASYNC_NOTIFY	0x80

#define T3_AE_CREDIT_THRESHOLD	0x00400000U
#define T3_AE_CQ_BRANCH		0x00200000U
#define T3_AE_NOTIFY		0x00100000U
#define T3_AE_SOLICITED		0x00080000U
#define T3_AE_ASYNC		0x00040000U
#define T3_AE_OVERFLOW		0x00020000U
#define T3_AE_GEN		0x00010000U
#define T3_AE_CQ_INDEX		0xffff0000U
#define T3_AE_CQ_ID		0x0000ffffU

#endif
