/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Marker PDU Aligned framing (RFC 5044) and its enhanced start-up (RFC 6581).
 */
#ifndef WIRE_MPA_H
#define WIRE_MPA_H

#include <linux/types.h>

#include "assert.h"

#define MPA_KEY_SIZE		16
#define MPA_KEY_REQUEST		"MPA ID Req Frame"
#define MPA_KEY_REPLY		"MPA ID Rep Frame"

#define MPA_FLAG_MARKERS	0x80	/* the sender of the frame requests markers */
#define MPA_FLAG_CRC		0x40
#define MPA_FLAG_REJECT		0x20	/* reply only */
#define MPA_FLAG_ENHANCED	0x10	/* revision 2: struct mpa_v2_params follows */

#define MPA_REVISION_1		1
#define MPA_REVISION_2		2
#define MPA_MAX_PRIVATE_DATA	512

/* Request and reply frame; private data follows. */
struct mpa_frame {
	__u8	key[MPA_KEY_SIZE];
	__u8	flags;
	__u8	revision;
	__be16	pd_length;
};

WIRE_ASSERT_SIZE(struct mpa_frame, 20);
WIRE_ASSERT_OFFSET(struct mpa_frame, flags, 16);
WIRE_ASSERT_OFFSET(struct mpa_frame, revision, 17);
WIRE_ASSERT_OFFSET(struct mpa_frame, pd_length, 18);

/* First part of the private data if MPA_FLAG_ENHANCED is set; counted in pd_length. */
struct mpa_v2_params {
	__be16	ird;
	__be16	ord;
};

WIRE_ASSERT_SIZE(struct mpa_v2_params, 4);

#define MPA_V2_DEPTH_MASK	0x3fff
#define MPA_V2_DEPTH_NONE	0x3fff	/* depth is not negotiated */
#define MPA_V2_IRD_PEER2PEER	0x8000	/* A */
#define MPA_V2_IRD_RTR_SEND	0x4000	/* B: a zero-length FPDU, that is, a send */
#define MPA_V2_ORD_RTR_WRITE	0x8000	/* C */
#define MPA_V2_ORD_RTR_READ	0x4000	/* D */

/*
 * An FPDU: length, ULPDU, zero padding to a multiple of 4, CRC32c. Markers, if used, stand at every
 * 512th byte of the stream and count neither in ulpdu_length nor for the padding.
 */
#define MPA_LENGTH_SIZE		2
#define MPA_CRC_SIZE		4
#define MPA_ALIGNMENT		4

struct mpa_marker {
	__be16	reserved;
	__be16	fpdu_offset;	/* back from the marker to the length field of its FPDU */
};

#define MPA_MARKER_SIZE		4
#define MPA_MARKER_SPACING	512
WIRE_ASSERT_SIZE(struct mpa_marker, MPA_MARKER_SIZE);

#endif /* WIRE_MPA_H */
