/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA start-up frames, revision 1 (RFC 5044) and revision 2 (RFC 6581), both ways.
 *
 * Pure: works on bytes and takes no lock, no memory and no time, so that the
 * same code runs in the driver, in user-space tests and under a fuzzer.
 */
#ifndef IW_CXGB3_MPA_H
#define IW_CXGB3_MPA_H

#include <linux/types.h>

#include "wire/mpa.h"

#define MPA_HDR_LEN		sizeof(struct mpa_frame)
#define MPA_ENHANCED_LEN	sizeof(struct mpa_v2_params)

/*
 * struct iw_cm_event carries the length of the private data in eight bits, so a
 * longer piece, although legal on the wire, could not be handed to a consumer.
 * One limit for both directions.
 */
#define MPA_MAX_CONSUMER_PD	255
#define MPA_MAX_FRAME_LEN	(MPA_HDR_LEN + MPA_ENHANCED_LEN + MPA_MAX_CONSUMER_PD)

enum mpa_kind {
	MPA_REQUEST,
	MPA_REPLY,
};

/* Zero-length messages that can serve as "ready to receive" (RFC 6581, section 9). */
enum mpa_rtr {
	MPA_RTR_SEND	= 1 << 0,
	MPA_RTR_WRITE	= 1 << 1,
	MPA_RTR_READ	= 1 << 2,
};

/**
 * struct mpa_startup - what a start-up frame says
 * @kind: request or reply
 * @rev: revision, MPA_REVISION_1 or MPA_REVISION_2
 * @markers: the sender of the frame wants markers in what it receives
 * @crc: the sender wants CRCs in both directions
 * @reject: connection refused (replies only)
 * @enhanced: the four fields below are on the wire (revision 2 only)
 * @peer_to_peer: the initiator will send a ready-to-receive message
 * @rtr: set of enum mpa_rtr that the sender can generate or accept
 * @ird: reads that the sender accepts, or MPA_V2_DEPTH_NONE
 * @ord: reads that the sender will have outstanding, or MPA_V2_DEPTH_NONE
 * @pdata: the consumer's data; after mpa_parse() it points into the parsed buffer
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
	MPA_COMPLETE,		/* the buffer holds exactly one good frame */
	MPA_INCOMPLETE,		/* good so far; more bytes are needed */
	MPA_BAD_KEY,		/* not MPA, or a reply where a request is due */
	MPA_BAD_REV,		/* a revision that we do not speak */
	MPA_PD_TOO_LONG,	/* more private data than can be delivered */
	MPA_BAD_ENHANCED,	/* the S flag without the four bytes that it promises */
	MPA_EXCESS,		/* bytes behind the frame: an FPDU before its time */
};

/* RFC 6581: what an initiator sends that cannot live with a reply. */
#define MPA_TERMINATE_LEN	28

int mpa_build(u8 *buf, size_t size, const struct mpa_startup *frame);
int mpa_build_terminate(u8 *buf, size_t size, u8 code);
enum mpa_status mpa_parse(enum mpa_kind kind, const u8 *buf, size_t len, struct mpa_startup *frame);
const char *mpa_status_name(enum mpa_status status);

#endif /* IW_CXGB3_MPA_H */
