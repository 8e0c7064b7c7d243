/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CPL messages between host and T3 that concern connections.
 *
 * Egress messages start with the work request header of their carrier. Ingress
 * messages are shown as a handler gets them: behind the RSS header, with the
 * opcode in the top byte of the first word. CPL_RDMA_TERMINATE has no such word,
 * see there.
 */
#ifndef T3_HW_CPL_H
#define T3_HW_CPL_H

#include <linux/types.h>

#include "t3_wr.h"

/* Egress. */
#define T3_CPL_PASS_OPEN_REQ		0x01
#define T3_CPL_PASS_ACCEPT_RPL		0x02
#define T3_CPL_ACT_OPEN_REQ		0x03
#define T3_CPL_CLOSE_CON_REQ		0x08
#define T3_CPL_CLOSE_LISTSRV_REQ	0x09
#define T3_CPL_ABORT_REQ		0x0a
#define T3_CPL_ABORT_RPL		0x0b
#define T3_CPL_RX_DATA_ACK		0x0d
#define T3_CPL_TID_RELEASE		0x1a

/* Ingress. */
#define T3_CPL_CLOSE_LISTSRV_RPL	0x20
#define T3_CPL_PEER_CLOSE		0x26
#define T3_CPL_ABORT_REQ_RSS		0x30
#define T3_CPL_ABORT_RPL_RSS		0x31
#define T3_CPL_CLOSE_CON_RPL		0x32
#define T3_CPL_RX_DATA			0x39
#define T3_CPL_ACT_OPEN_RPL		0x40
#define T3_CPL_PASS_OPEN_RPL		0x41
#define T3_CPL_ACT_ESTABLISH		0x50
#define T3_CPL_PASS_ESTABLISH		0x51
#define T3_CPL_PASS_ACCEPT_REQ		0x70
#define T3_CPL_TX_DMA_ACK		0xa0
#define T3_CPL_RDMA_TERMINATE		0xa2
#define T3_CPL_RDMA_EC_STATUS		0xa5

/* First word: opcode and TID, ATID or STID. */
#define T3_CPL_OPCODE			0xff000000U
#define T3_CPL_ID			0x00ffffffU

/* tos_tid of the connection-opening ingress messages. */
#define T3_CPL_TOS			0xff000000U

/* Status of ACT_OPEN_RPL, PASS_OPEN_RPL, ABORT_REQ_RSS, ABORT_RPL_RSS. */
#define T3_CPL_ERR_NONE			0
#define T3_CPL_ERR_TCAM_PARITY		1
#define T3_CPL_ERR_TCAM_FULL		3
#define T3_CPL_ERR_CONN_RESET		20
#define T3_CPL_ERR_CONN_EXIST		22
#define T3_CPL_ERR_ARP_MISS		23
#define T3_CPL_ERR_BAD_SYN		24
#define T3_CPL_ERR_CONN_TIMEDOUT	30
#define T3_CPL_ERR_XMIT_TIMEDOUT	31
#define T3_CPL_ERR_PERSIST_TIMEDOUT	32
#define T3_CPL_ERR_FINWAIT2_TIMEDOUT	33
#define T3_CPL_ERR_KEEPALIVE_TIMEDOUT	34
#define T3_CPL_ERR_RTX_NEG_ADVICE	35 /* no abort: revalidate the next hop */
#define T3_CPL_ERR_PERSIST_NEG_ADVICE	36 /* likewise */
#define T3_CPL_ERR_ABORT_FAILED		42
#define T3_CPL_ERR_GENERAL		99

/* opt0h */
#define T3_OPT0H_DELACK			0x00000001U
#define T3_OPT0H_NO_CONG		0x00000002U
#define T3_OPT0H_L2T_IDX		0x00007ff0U
#define T3_OPT0H_TX_CHANNEL		0x00008000U
#define T3_OPT0H_TCAM_BYPASS		0x00010000U
#define T3_OPT0H_NAGLE			0x00020000U
#define T3_OPT0H_WND_SCALE		0x003c0000U
#define T3_OPT0H_KEEP_ALIVE		0x00400000U
#define T3_OPT0H_MSS_IDX		0xf0000000U

/* opt0l; the status is for PASS_ACCEPT_RPL only */
#define T3_OPT0L_STATUS			0x000000ffU
#define T3_OPT0L_RCV_BUFSIZ		0x03fff000U /* KB */
#define T3_OPT0L_TOS			0xfc000000U /* DSCP */

/* opt1 */
#define T3_OPT1_CONN_POLICY		0x00180000U
#define T3_CONN_POLICY_ASK		1

/* opt2 */
#define T3_OPT2_RX_COALESCE_VALID	0x00000400U
#define T3_OPT2_CONG_FLAVOR		0x00001800U
#define T3_CONG_TAHOE			1
#define T3_OPT2_FLAVORS_VALID		0x00008000U

/* tcp_opt of the ESTABLISH messages */
#define T3_TCP_OPT_TIMESTAMPS		0x0080U
#define T3_TCP_OPT_MSS_IDX		0xf000U

struct t3_cpl_act_open_req {
	struct t3_wr_hdr wr;
	__be32 ot;		/* ATID */
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;
	__be32 peer_ip;
	__be32 opt0h;
	__be32 opt0l;
	__be32 params;
	__be32 opt2;
};

struct t3_cpl_pass_open_req {
	struct t3_wr_hdr wr;
	__be32 ot;		/* STID */
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;	/* 0: any */
	__be32 peer_ip;
	__be32 opt0h;
	__be32 opt0l;
	__be32 peer_netmask;
	__be32 opt1;
};

struct t3_cpl_pass_accept_rpl {
	struct t3_wr_hdr wr;
	__be32 ot;
	__be32 opt2;
	__be32 opt2_copy;	/* the card misreads opt2 without it */
	__be32 peer_ip;
	__be32 opt0h;
	__be32 opt0l_status;
};

struct t3_cpl_close_listsrv_req {
	struct t3_wr_hdr wr;
	__be32 ot;		/* STID */
	__u8 rsvd0;
	__u8 cpu_idx;
	__be16 rsvd1;
};

struct t3_cpl_close_con_req {
	struct t3_wr_hdr wr;
	__be32 ot;
	__be32 snd_nxt;		/* behind the last byte written */
};

/* ABORT_REQ and ABORT_RPL. */
struct t3_cpl_abort {
	struct t3_wr_hdr wr;
	__be32 ot;
	__be32 snd_nxt;		/* request only */
	__u8 no_tx_data;	/* request only: 1 if no TX_DATA was ever sent */
	__u8 cmd;
	__u8 rsvd[6];
};

#define T3_ABORT_SEND_RST		0
#define T3_ABORT_NO_RST			1

struct t3_cpl_rx_data_ack {
	struct t3_wr_hdr wr;
	__be32 ot;
	__be32 credit_dack;
};

#define T3_RX_CREDITS			0x07ffffffU
#define T3_RX_FORCE_ACK			0x10000000U

struct t3_cpl_tid_release {
	struct t3_wr_hdr wr;
	__be32 ot;
	__be32 rsvd;
};

/* Firmware work request that carries bytes of a connection in streaming mode. */
struct t3_wr_tx_data {
	struct t3_wr_hdr wr;
	__be32 len;
	__be32 flags;
	__be32 sndseq;
	__be32 param;
};

#define T3_TX_INIT			0x00040000U /* first one of the connection */
#define T3_TX_PORT			0x00000007U
#define T3_TX_SNDBUF			0xffff0000U /* 32 KB, with INIT */

/*
 * Longest work request that cxgb3 puts into a descriptor. A longer one takes its
 * scatter/gather path, which sends the wrong bytes (6.1 to 7.2, docs/upstream).
 */
#define T3_WR_IMM_MAX			120
#define T3_TX_DATA_IMM_MAX		(T3_WR_IMM_MAX - 24)

/* Bytes of a piece of a stream. A build against a cxgb3 that is mended may have more. */
#ifndef T3_STREAM_PIECE_MAX
#define T3_STREAM_PIECE_MAX		T3_TX_DATA_IMM_MAX
#endif

struct t3_cpl_act_open_rpl {
	__be32 ot;		/* TID, unless the status is 3, 22 or 23 */
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;
	__be32 peer_ip;
	__be32 atid;
	__u8 rsvd[3];
	__u8 status;
};

/* ACT_ESTABLISH and PASS_ESTABLISH. */
struct t3_cpl_establish {
	__be32 ot;
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;
	__be32 peer_ip;
	__be32 tos_tid;		/* ATID or STID */
	__be16 l2t_idx;
	__be16 tcp_opt;
	__be32 snd_isn;		/* of the first data byte */
	__be32 rcv_isn;		/* of the first data byte */
};

struct t3_cpl_pass_open_rpl {
	__be32 ot;		/* STID */
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;
	__be32 peer_ip;
	__u8 rsvd[7];
	__u8 status;
};

struct t3_cpl_pass_accept_req {
	__be32 ot;		/* the new TID */
	__be16 local_port;
	__be16 peer_port;
	__be32 local_ip;
	__be32 peer_ip;
	__be32 tos_tid;		/* STID */
	__be16 mss;
	__u8 wsf;
	__u8 flags;
	__u8 dst_mac[6];
	__be16 vlan_tag;
	__u8 src_mac[6];
	__u8 match;
	__u8 rsvd0;
	__be32 rcv_isn;		/* of the SYN itself */
	__be32 rsvd1;
};

struct t3_cpl_peer_close {
	__be32 ot;
	__be32 rcv_nxt;
};

struct t3_cpl_close_con_rpl {
	__be32 ot;
	__u8 rsvd[3];
	__u8 status;
	__be32 snd_nxt;
	__be32 rcv_nxt;
};

/* CLOSE_LISTSRV_RPL and RDMA_EC_STATUS. */
struct t3_cpl_status {
	__be32 ot;
	__u8 rsvd[3];
	__u8 status;
};

/* ABORT_REQ_RSS and ABORT_RPL_RSS; the card sends each of them twice. */
struct t3_cpl_abort_rss {
	__be32 ot;
	__be32 rsvd0;
	__u8 rsvd1;
	__u8 status;
	__u8 rsvd2[6];
};

struct t3_cpl_wr_ack {
	__be32 ot;
	__be16 credits;		/* 0 is possible and means nothing */
	__be16 rsvd;
	__be32 snd_nxt;
	__be32 snd_una;
};

struct t3_cpl_rx_data {
	__be32 ot;
	__be16 rsvd;
	__be16 len;
	__be32 seq;
	__be16 urg;
	__u8 flags;
	__u8 status;
	/* payload follows */
};

/*
 * CPL_RDMA_TERMINATE: the RSS header's second word holds TID and length instead
 * of a hash; the payload, from the terminate control word on, follows.
 */
struct t3_cpl_rdma_terminate {
	__be32 msn;
	__be32 mo;
};

#define T3_TERM_TID			0x0fffff00U
#define T3_TERM_FLITS			0x000000ffU
#define T3_TERM_MAX_PAYLOAD		52

#ifdef __cplusplus
#define T3_CPL_ASSERT(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#else
#define T3_CPL_ASSERT(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#endif

T3_CPL_ASSERT(struct t3_cpl_act_open_req, 40);
T3_CPL_ASSERT(struct t3_cpl_pass_open_req, 40);
T3_CPL_ASSERT(struct t3_cpl_pass_accept_rpl, 32);
T3_CPL_ASSERT(struct t3_cpl_close_listsrv_req, 16);
T3_CPL_ASSERT(struct t3_cpl_close_con_req, 16);
T3_CPL_ASSERT(struct t3_cpl_abort, 24);
T3_CPL_ASSERT(struct t3_cpl_rx_data_ack, 16);
T3_CPL_ASSERT(struct t3_cpl_tid_release, 16);
T3_CPL_ASSERT(struct t3_wr_tx_data, 24);
T3_CPL_ASSERT(struct t3_cpl_act_open_rpl, 24);
T3_CPL_ASSERT(struct t3_cpl_establish, 32);
T3_CPL_ASSERT(struct t3_cpl_pass_open_rpl, 24);
T3_CPL_ASSERT(struct t3_cpl_pass_accept_req, 48);
T3_CPL_ASSERT(struct t3_cpl_peer_close, 8);
T3_CPL_ASSERT(struct t3_cpl_close_con_rpl, 16);
T3_CPL_ASSERT(struct t3_cpl_status, 8);
T3_CPL_ASSERT(struct t3_cpl_abort_rss, 16);
T3_CPL_ASSERT(struct t3_cpl_wr_ack, 16);
T3_CPL_ASSERT(struct t3_cpl_rx_data, 16);

#endif
