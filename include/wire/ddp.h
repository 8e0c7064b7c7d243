/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Direct Data Placement over reliable transports (RFC 5041). A ULPDU starts with one of these
 * headers; their second byte belongs to the upper layer (rdmap.h).
 */
#ifndef WIRE_DDP_H
#define WIRE_DDP_H

#include <linux/types.h>

#include "assert.h"

#define DDP_CTRL_TAGGED		0x80
#define DDP_CTRL_LAST		0x40
#define DDP_CTRL_VERSION_MASK	0x03
#define DDP_VERSION		1

/* The 64-bit offset is not aligned to 8 bytes. */
struct ddp_tagged_hdr {
	__u8	ddp_ctrl;
	__u8	rdmap_ctrl;
	__be32	stag;
	__be64	to;
} __attribute__((packed));

WIRE_ASSERT_SIZE(struct ddp_tagged_hdr, 14);
WIRE_ASSERT_OFFSET(struct ddp_tagged_hdr, stag, 2);
WIRE_ASSERT_OFFSET(struct ddp_tagged_hdr, to, 6);

struct ddp_untagged_hdr {
	__u8	ddp_ctrl;
	__u8	rdmap_ctrl;
	__be32	ulp;		/* RDMAP: STag to invalidate, or reserved */
	__be32	qn;
	__be32	msn;
	__be32	mo;
} __attribute__((packed));

WIRE_ASSERT_SIZE(struct ddp_untagged_hdr, 18);
WIRE_ASSERT_OFFSET(struct ddp_untagged_hdr, ulp, 2);
WIRE_ASSERT_OFFSET(struct ddp_untagged_hdr, qn, 6);
WIRE_ASSERT_OFFSET(struct ddp_untagged_hdr, msn, 10);
WIRE_ASSERT_OFFSET(struct ddp_untagged_hdr, mo, 14);

/* Error codes of a Terminate message whose layer is DDP. */
#define DDP_ETYPE_CATASTROPHIC	0x0
#define DDP_ETYPE_TAGGED	0x1
#define DDP_ETYPE_UNTAGGED	0x2

#define DDP_TAGGED_INVALID_STAG		0x00
#define DDP_TAGGED_BASE_BOUNDS		0x01
#define DDP_TAGGED_NOT_ASSOCIATED	0x02
#define DDP_TAGGED_TO_WRAP		0x03
#define DDP_TAGGED_VERSION		0x04

#define DDP_UNTAGGED_INVALID_QN		0x01
#define DDP_UNTAGGED_NO_BUFFER		0x02
#define DDP_UNTAGGED_MSN_RANGE		0x03
#define DDP_UNTAGGED_INVALID_MO		0x04
#define DDP_UNTAGGED_TOO_LONG		0x05
#define DDP_UNTAGGED_VERSION		0x06

#endif /* WIRE_DDP_H */
