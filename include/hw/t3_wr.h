/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * T3 RDMA work requests in the slots of a queue.
 *
 * A slot is 128 bytes, 16 flits of 8 bytes. Flit 0 is the header, flit 1 the
 * work request id, flit 15 a second copy of the generation bit. Both copies
 * must be written for every work request, however short.
 *
 * Masks are plain constants, for FIELD_PREP() in the kernel. Fields marked raw
 * are copied by the card unseen, so they carry host order.
 */
#ifndef T3_HW_WR_H
#define T3_HW_WR_H

#include <linux/types.h>

#define T3_WR_SLOT_SHIFT	7
#define T3_WR_SLOT_BYTES	128
#define T3_WR_FLITS		16
#define T3_WR_GEN2_FLIT		15

/* Header word 0. */
#define T3_WR_OPCODE		0xff000000U
#define T3_WR_SOP		0x00800000U
#define T3_WR_EOP		0x00400000U
#define T3_WR_COMPL		0x00200000U /* streaming WRs only: ask for CPL_TX_DMA_ACK */
#define T3_WR_FLAGS		0x00001f00U /* T3_WR_F_*; bits above 12 must be 0 */

/* Values of T3_WR_FLAGS. */
#define T3_WR_F_COMPLETION	0x01 /* make a CQE on success */
#define T3_WR_F_NOTIFY		0x02 /* completion as async event on response queue 0 */
#define T3_WR_F_SOLICITED	0x04
#define T3_WR_F_READ_FENCE	0x08
#define T3_WR_F_LOCAL_FENCE	0x10

/* Header word 1. */
#define T3_WR_GEN		0x80000000U
#define T3_WR_TID		0x0fffff00U
#define T3_WR_LEN		0x000000ffU /* flits used, header included */

/* Values of T3_WR_OPCODE: streaming and control. */
#define T3_WR_OP_FORWARD		0x01
#define T3_WR_OP_OFLD_CLOSE_CON		0x09
#define T3_WR_OP_OFLD_ABORT_REQ		0x0b
#define T3_WR_OP_OFLD_TX_DATA		0x0d
#define T3_WR_OP_OFLD_ABORT_RPL		0x0f
/* RDMA. */
#define T3_WR_OP_RDMA_INIT		0x10
#define T3_WR_OP_WRITE			0x11
#define T3_WR_OP_SEND			0x14
#define T3_WR_OP_READ			0x16
#define T3_WR_OP_RECV			0x17
#define T3_WR_OP_BIND_MW		0x18
#define T3_WR_OP_FASTREG		0x19
#define T3_WR_OP_LOCAL_INV		0x1a
#define T3_WR_OP_MODIFY_QP		0x1b
#define T3_WR_OP_BYPASS			0x1c

/* RDMA opcodes: byte 16 of a WR, low bits of a CQE header. 0..7 are RDMAP's. */
#define T3_RDMA_WRITE			0
#define T3_RDMA_READ_REQ		1
#define T3_RDMA_READ_RESP		2
#define T3_RDMA_SEND			3
#define T3_RDMA_SEND_INV		4
#define T3_RDMA_SEND_SE			5
#define T3_RDMA_SEND_SE_INV		6
#define T3_RDMA_TERMINATE		7
#define T3_RDMA_INIT			8
#define T3_RDMA_BIND_MW			9
#define T3_RDMA_FASTREG			10
#define T3_RDMA_LOCAL_INV		11
#define T3_RDMA_MODIFY_QP		12
#define T3_RDMA_BYPASS			13

/* Limits of the hardware and its firmware. */
#define T3_MAX_SGE		4
#define T3_MAX_READ_SGE		1
#define T3_MAX_INLINE		64
#define T3_MAX_FASTREG_PAGES	10 /* what fits one slot; the two-slot form is not for firmware 7 */
#define T3_MIN_RQ_ENTRIES	16
#define T3_MAX_RQ_ENTRIES	1024 /* 10-bit write pointer; one entry stays unused */
#define T3_RQE_SHIFT		6 /* receive descriptor in adapter memory */

struct t3_wr_hdr {
	__be32 hi;
	__be32 lo;
};

/* Flit 1. The card copies both words into the CQE as they are. */
struct t3_wr_id {
	__u32 hi; /* raw: sq_wptr on a QP */
	__u32 lo; /* raw: producer counter on the control QP */
};

struct t3_sge {
	__be32 stag;
	__be32 len;
	__be64 to;
};

struct t3_wr_send {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__u8 rdma_op;
	__u8 rsvd[3];
	__be32 inv_stag;
	__be32 plen;
	__be32 num_sge; /* 0: inline data (or none) from offset 32 */
	struct t3_sge sge[T3_MAX_SGE];
};

struct t3_wr_write {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__u8 rdma_op;
	__u8 rsvd[3];
	__be32 sink_stag;
	__be64 sink_to;
	__be32 plen;
	__be32 num_sge; /* 0: inline data (or none) from offset 40 */
	struct t3_sge sge[T3_MAX_SGE];
};

/* Flags must be 0; a read always completes. */
struct t3_wr_read {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__u8 rdma_op;
	__u8 local_inv; /* 1: invalidate the local STag when the data is in */
	__u8 rsvd[2];
	__be32 rem_stag;
	__be64 rem_to;
	__be32 local_stag;
	__be32 local_len;
	__be64 local_to;
};

/* Always 13 flits, whatever num_sge is. */
struct t3_wr_recv {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__u8 pagesz[T3_MAX_SGE];
	__be32 num_sge;
	struct t3_sge sge[T3_MAX_SGE];
	__be32 pbl_addr[T3_MAX_SGE]; /* 8-byte units from the PBL base */
};

struct t3_wr_bind_mw {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__u8 rsvd0[2];
	__u8 type; /* 1 VA based, 0 zero based */
	__u8 perms; /* remote T3_PERM_* only */
	__be32 mr_stag;
	__be32 mw_stag;
	__be32 mw_len;
	__be64 mw_va;
	__be32 mr_pbl_addr; /* first page of the window, 8-byte units */
	__u8 rsvd1[3];
	__u8 mr_pagesz;
};

struct t3_wr_local_inv {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__be32 stag;
	__be32 rsvd;
};

struct t3_wr_fastreg {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__be32 stag; /* with the new key */
	__be32 len;
	__be32 va_hi;
	__be32 va_lo_fbo;
	__be32 page_type_perms; /* T3_FASTREG_* */
	__be32 rsvd;
	__be64 page[T3_MAX_FASTREG_PAGES];
};

#define T3_FASTREG_PAGES	0xff000000U
#define T3_FASTREG_PAGE_CODE	0x001f0000U
#define T3_FASTREG_VA_BASED	0x00000100U
#define T3_FASTREG_PERMS	0x000000ffU /* T3_PERM_*, bind enable stays bit 4 */

/* On the control queue; only "write egress context" is used. */
struct t3_wr_modify_qp {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__be32 flags;
	__be32 quiesce;
	__be32 max_ird;
	__be32 max_ord;
	__be64 sge_cmd;
	__be64 ctx1;
	__be64 ctx0;
};

#define T3_MODQP_WRITE_EC	0x8U

/* Egress context words inside ctx0 (low, high) and ctx1 (low, high). */
#define T3_EC0_CREDITS		0x00007fffU
#define T3_EC0_GTS		0x00008000U
#define T3_EC0_CIDX		0xffff0000U
#define T3_EC1_SIZE		0x0000ffffU
#define T3_EC1_BASE_LO		0xffff0000U /* address bits 27:12 */
#define T3_EC3_BASE_HI		0x0000000fU /* address bits 63:60 */
#define T3_EC3_RSPQ		0x00000070U
#define T3_EC3_TYPE		0x00000380U /* 0 = RDMA */
#define T3_EC3_GEN		0x00000400U
#define T3_EC3_TOKEN		0x3ffff800U
#define T3_EC3_VALID		0x80000000U

/* On the control QP: a memory write of 1..3 units of 32 bytes. */
#define T3_MEM_UNIT		32
#define T3_BYPASS_MAX_UNITS	3
#define T3_BYPASS_MAX_DATA	96

struct t3_wr_bypass {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__be32 cmd_addr; /* T3_MEM_CMD, T3_MEM_ADDR */
	__be32 cmd_len; /* T3_MEM_UNITS, T3_MEM_FLITS */
	__u8 data[T3_BYPASS_MAX_DATA];
};

#define T3_MEM_CMD		0xf0000000U
#define T3_MEM_CMD_WRITE	3
#define T3_MEM_ADDR		0x07ffffffU /* absolute PM-RX byte address / 32 */
#define T3_MEM_UNITS		0xf0000000U
#define T3_MEM_FLITS		0x000000ffU

/* On the offload queue: switches a connection to RDMA and creates the QP's context. */
struct t3_wr_rdma_init {
	struct t3_wr_hdr hdr;
	struct t3_wr_id id;
	__be32 qpid;
	__be32 pdid;
	__be32 scqid;
	__be32 rcqid;
	__be32 rq_addr; /* bytes from the RQT base */
	__be32 rq_size;
	__u8 mpa_attrs; /* T3_MPA_* */
	__u8 qp_caps; /* T3_QPCAP_* */
	__be16 ulpdu_size;
	__be16 flags_rtr_type; /* T3_INIT_* */
	__be16 rqe_count; /* receives already posted */
	__be32 ord;
	__be32 ird;
	__be64 qp_dma_addr;
	__be32 qp_dma_size; /* slots */
	__be32 irs;
};

#define T3_MPA_RX_MARKERS	0x1
#define T3_MPA_TX_MARKERS	0x2
#define T3_MPA_CRC		0x4
#define T3_MPA_IETF		0x8

#define T3_QPCAP_RDMA_READ	0x01
#define T3_QPCAP_RDMA_WRITE	0x02
#define T3_QPCAP_BIND		0x04
#define T3_QPCAP_FASTREG	0x08
#define T3_QPCAP_STAG0		0x10 /* bus addresses: never for user space */

#define T3_INIT_INITIATOR	0x0001
#define T3_INIT_PRIVILEGED	0x0002
#define T3_INIT_RTR_TYPE	0x000c
#define T3_INIT_CHANNEL		0x0030

#define T3_RTR_NONE		0
#define T3_RTR_READ		1
#define T3_RTR_WRITE		2
#define T3_RTR_SEND		3

/* Any slot, for code that moves whole slots. */
union t3_wr_slot {
	struct t3_wr_hdr hdr;
	struct t3_wr_send send;
	struct t3_wr_write write;
	struct t3_wr_read read;
	struct t3_wr_recv recv;
	struct t3_wr_bind_mw bind_mw;
	struct t3_wr_local_inv local_inv;
	struct t3_wr_fastreg fastreg;
	struct t3_wr_bypass bypass;
	__be64 flit[T3_WR_FLITS];
};

/*
 * Doorbells. The kernel's is BAR 0 + 4 and takes any context number; a user
 * page of BAR 2 takes the QP id. Neither carries an index.
 */
#define T3_SG_CONTROL		0x0
#define T3_SG_GLOBALENABLE	0x1U		/* cxgb3 has started the card's DMA engine */
#define T3_KDOORBELL		0x4
#define T3_KDOORBELL_EGRESS	0x80000000U

/* Contexts and ids with a fixed meaning. */
#define T3_CTRL_QP_CONTEXT	65527U /* 0xfff7 */
#define T3_CTRL_QP_TOKEN	65552U
#define T3_CTRL_QUEUE_CONTEXT	65528U /* 0xfff8: QP id in the AE of a MODIFY_QP */
#define T3_CTRL_CQ_ID		0
#define T3_MIN_QP_ID		16
#define T3_MAX_ID		32767 /* QPs, CQs, PDs; the old library has tables of 32768 */

#endif
