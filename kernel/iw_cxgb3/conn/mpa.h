/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA Request and Reply Frames in revision 1 (RFC 5044) and revision 2 (RFC 6581): build
 * and parse.
 *
 * Pure: no locks, no allocations, no clock. The same code runs in the driver, in
 * user-space tests and in a fuzzer.
 */
#ifndef IW_CXGB3_MPA_H
#define IW_CXGB3_MPA_H

#include <linux/types.h>

#include "wire/mpa.h"

#define MPA_HDR_LEN		sizeof(struct mpa_frame)
#define MPA_ENHANCED_LEN	sizeof(struct mpa_v2_params)

/*
 * struct iw_cm_event has eight bits for the length of the private data. Longer private
 * data are legal on the wire, but cannot be delivered to a consumer. The limit applies in
 * both directions.
 */
#define MPA_MAX_CONSUMER_PD	255
#define MPA_MAX_FRAME_LEN	(MPA_HDR_LEN + MPA_ENHANCED_LEN + MPA_MAX_CONSUMER_PD)

enum mpa_kind {
	MPA_REQUEST,
	MPA_REPLY,
};

/* Zero-length RTR messages (ready to receive; RFC 6581, section 9). */
enum mpa_rtr {
	MPA_RTR_SEND	= 1 << 0,
	MPA_RTR_WRITE	= 1 << 1,
	MPA_RTR_READ	= 1 << 2,
};

/**
 * struct mpa_startup - contents of an MPA Request or Reply Frame
 * @kind: request or reply
 * @rev: revision, MPA_REVISION_1 or MPA_REVISION_2
 * @markers: the sender of the frame requires markers in the stream that it receives
 * @crc: the sender requests CRCs in both directions
 * @reject: connection refused (replies only)
 * @enhanced: the four fields below are on the wire (revision 2 only)
 * @peer_to_peer: the initiator sends an RTR message
 * @rtr: set of enum mpa_rtr that the sender supports
 * @ird: inbound RDMA reads that the sender accepts at a time, or MPA_V2_DEPTH_NONE
 * @ord: outbound RDMA reads that the sender issues at a time, or MPA_V2_DEPTH_NONE
 * @pdata: the consumer's private data; mpa_parse() lets it point into the parsed buffer
 * @pdata_len: its length
 */
struct mpa_startup {
	enum mpa_kind kind;
	u8 rev;
	bool markers;
	bool crc;
	bool reject;
	bool enhanced;
	bool peer_to_peer;
	u8 rtr;
	u16 ird;
	u16 ord;
	const u8 *pdata;
	u16 pdata_len;
};

enum mpa_status {
	MPA_COMPLETE,		/* the buffer holds exactly one valid frame */
	MPA_INCOMPLETE,		/* valid so far; more bytes are needed */
	MPA_BAD_KEY,		/* not MPA, or the other kind of frame */
	MPA_BAD_REV,		/* unsupported revision */
	MPA_PD_TOO_LONG,	/* more private data than can be delivered */
	MPA_BAD_ENHANCED,	/* S flag without the two words that it announces */
	MPA_EXCESS,		/* bytes after the frame: an FPDU that is too early */
};

/* Terminate message of an initiator that cannot accept a reply (RFC 6581). */
#define MPA_TERMINATE_LEN	28

int mpa_build(u8 *buf, size_t size, const struct mpa_startup *frame);
int mpa_build_terminate(u8 *buf, size_t size, u8 code);
enum mpa_status mpa_parse(enum mpa_kind kind, const u8 *buf, size_t len, struct mpa_startup *frame);
const char *mpa_status_name(enum mpa_status status);

#endif /* IW_CXGB3_MPA_H */
