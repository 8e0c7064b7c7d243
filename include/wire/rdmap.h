/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Remote Direct Memory Access Protocol (RFC 5040): the second header byte and the bodies of the
 * two messages that RDMAP itself writes.
 */
#ifndef WIRE_RDMAP_H
#define WIRE_RDMAP_H

#include <linux/types.h>

#include "assert.h"

#define RDMAP_CTRL_VERSION_SHIFT	6
#define RDMAP_CTRL_OPCODE_MASK		0x0f
#define RDMAP_VERSION			1

enum rdmap_opcode {
	RDMAP_WRITE		= 0,
	RDMAP_READ_REQUEST	= 1,
	RDMAP_READ_RESPONSE	= 2,
	RDMAP_SEND		= 3,
	RDMAP_SEND_INV		= 4,
	RDMAP_SEND_SE		= 5,
	RDMAP_SEND_SE_INV	= 6,
	RDMAP_TERMINATE		= 7,
};

/* DDP queues of untagged messages. */
enum rdmap_queue {
	RDMAP_QN_SEND		= 0,
	RDMAP_QN_READ_REQUEST	= 1,
	RDMAP_QN_TERMINATE	= 2,
};

struct rdmap_read_request {
	__be32	sink_stag;
	__be64	sink_to;
	__be32	size;
	__be32	source_stag;
	__be64	source_to;
} __attribute__((packed));

WIRE_ASSERT_SIZE(struct rdmap_read_request, 28);
WIRE_ASSERT_OFFSET(struct rdmap_read_request, sink_to, 4);
WIRE_ASSERT_OFFSET(struct rdmap_read_request, size, 12);
WIRE_ASSERT_OFFSET(struct rdmap_read_request, source_stag, 16);
WIRE_ASSERT_OFFSET(struct rdmap_read_request, source_to, 20);

/* First four bytes of a Terminate message. */
struct rdmap_terminate {
	__u8	layer_etype;	/* layer in 7:4, error type in 3:0 */
	__u8	ecode;
	__u8	hdrct;		/* what of the offending message follows */
	__u8	reserved;
};

WIRE_ASSERT_SIZE(struct rdmap_terminate, 4);

#define RDMAP_TERM_LAYER_SHIFT		4
#define RDMAP_TERM_ETYPE_MASK		0x0f
#define RDMAP_TERM_HDRCT_LENGTH		0x80	/* M: the DDP segment length is there */
#define RDMAP_TERM_HDRCT_DDP		0x40	/* D: the DDP header is there */
#define RDMAP_TERM_HDRCT_RDMAP		0x20	/* R: the RDMAP header is there */

#define RDMAP_TERM_LAYER_RDMAP		0
#define RDMAP_TERM_LAYER_DDP		1
#define RDMAP_TERM_LAYER_LLP		2	/* MPA */

#define RDMAP_ETYPE_CATASTROPHIC	0x0
#define RDMAP_ETYPE_PROTECTION		0x1
#define RDMAP_ETYPE_OPERATION		0x2

#define RDMAP_PROT_INVALID_STAG		0x00
#define RDMAP_PROT_BASE_BOUNDS		0x01
#define RDMAP_PROT_ACCESS		0x02
#define RDMAP_PROT_NOT_ASSOCIATED	0x03
#define RDMAP_PROT_TO_WRAP		0x04
#define RDMAP_PROT_CANNOT_INVALIDATE	0x09
#define RDMAP_PROT_UNSPECIFIED		0xff

#define RDMAP_OP_VERSION		0x05
#define RDMAP_OP_UNEXPECTED_OPCODE	0x06
#define RDMAP_OP_STREAM_CATASTROPHIC	0x07
#define RDMAP_OP_GLOBAL_CATASTROPHIC	0x08
#define RDMAP_OP_CANNOT_INVALIDATE	0x09
#define RDMAP_OP_UNSPECIFIED		0xff

/* Layer LLP, RFC 5044 and RFC 6581. */
#define MPA_ETYPE_MPA			0x0
#define MPA_ERR_TCP_LOST		0x01
#define MPA_ERR_CRC			0x02
#define MPA_ERR_MARKER			0x03
#define MPA_ERR_IRD			0x06
#define MPA_ERR_RTR			0x07

#endif /* WIRE_RDMAP_H */
