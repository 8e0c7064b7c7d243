// SPDX-License-Identifier: GPL-2.0
/*
 * MPA Request and Reply Frames: conversion between bytes and struct mpa_startup.
 *
 *	 0               16      17    18          20
 *	+---------------+-------+-----+-----------+-------------------------+
 *	| key           | flags | rev | PD_Length | PD_Length bytes of data |
 *	+---------------+-------+-----+-----------+-------------------------+
 *
 * In a revision 2 frame with the S flag the data starts with two big-endian 16-bit
 * words, {A, B, IRD} and {C, D, ORD}. PD_Length includes them, but they are not part of
 * the consumer's private data.
 */
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "mpa.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

#define FLAGS_AT	offsetof(struct mpa_frame, flags)
#define REVISION_AT	offsetof(struct mpa_frame, revision)
#define PD_LENGTH_AT	offsetof(struct mpa_frame, pd_length)

static const char mpa_key[][MPA_KEY_SIZE + 1] = {
	[MPA_REQUEST]	= MPA_KEY_REQUEST,
	[MPA_REPLY]	= MPA_KEY_REPLY,
};

static void mpa_put_u16(u8 *at, u16 value)
{
	at[0] = value >> 8;
	at[1] = value & 0xff;
}

static u16 mpa_get_u16(const u8 *at)
{
	return at[0] << 8 | at[1];
}

static void mpa_put_enhanced(u8 *at, const struct mpa_startup *frame)
{
	u16 ird = frame->ird & MPA_V2_DEPTH_MASK;
	u16 ord = frame->ord & MPA_V2_DEPTH_MASK;

	if (frame->peer_to_peer)
		ird |= MPA_V2_IRD_PEER2PEER;
	if (frame->rtr & MPA_RTR_SEND)
		ird |= MPA_V2_IRD_RTR_SEND;
	if (frame->rtr & MPA_RTR_WRITE)
		ord |= MPA_V2_ORD_RTR_WRITE;
	if (frame->rtr & MPA_RTR_READ)
		ord |= MPA_V2_ORD_RTR_READ;
	mpa_put_u16(at, ird);
	mpa_put_u16(at + 2, ord);
}

static void mpa_get_enhanced(const u8 *at, struct mpa_startup *frame)
{
	u16 ird = mpa_get_u16(at);
	u16 ord = mpa_get_u16(at + 2);

	frame->ird = ird & MPA_V2_DEPTH_MASK;
	frame->ord = ord & MPA_V2_DEPTH_MASK;
	frame->peer_to_peer = ird & MPA_V2_IRD_PEER2PEER;
	if (ird & MPA_V2_IRD_RTR_SEND)
		frame->rtr |= MPA_RTR_SEND;
	if (ord & MPA_V2_ORD_RTR_WRITE)
		frame->rtr |= MPA_RTR_WRITE;
	if (ord & MPA_V2_ORD_RTR_READ)
		frame->rtr |= MPA_RTR_READ;
}

/**
 * mpa_build - build a frame
 * @buf: buffer for it
 * @size: size of @buf; MPA_MAX_FRAME_LEN is always sufficient
 * @frame: contents
 *
 * Return: the length of the frame; -EINVAL if the revision of @frame cannot express its
 * contents, or if it has too much private data; -ENOSPC if it does not fit into @buf.
 */
int mpa_build(u8 *buf, size_t size, const struct mpa_startup *frame)
{
	unsigned int extra = frame->enhanced ? MPA_ENHANCED_LEN : 0;
	unsigned int pd_len = extra + frame->pdata_len;
	u8 flags = 0;

	if (frame->pdata_len > MPA_MAX_CONSUMER_PD)
		return -EINVAL;
	if (frame->enhanced && frame->rev != MPA_REVISION_2)
		return -EINVAL;
	if (frame->reject && frame->kind != MPA_REPLY)
		return -EINVAL;
	if (MPA_HDR_LEN + pd_len > size)
		return -ENOSPC;

	if (frame->markers)
		flags |= MPA_FLAG_MARKERS;
	if (frame->crc)
		flags |= MPA_FLAG_CRC;
	if (frame->reject)
		flags |= MPA_FLAG_REJECT;
	if (frame->enhanced)
		flags |= MPA_FLAG_ENHANCED;

	memcpy(buf, mpa_key[frame->kind], MPA_KEY_SIZE);
	buf[FLAGS_AT] = flags;
	buf[REVISION_AT] = frame->rev;
	mpa_put_u16(buf + PD_LENGTH_AT, pd_len);
	if (frame->enhanced)
		mpa_put_enhanced(buf + MPA_HDR_LEN, frame);
	if (frame->pdata_len)
		memcpy(buf + MPA_HDR_LEN + extra, frame->pdata, frame->pdata_len);
	return MPA_HDR_LEN + pd_len;
}

/**
 * mpa_build_terminate - build a Terminate message of layer LLP
 * @buf: buffer for it
 * @size: size of @buf, at least MPA_TERMINATE_LEN
 * @code: MPA_ERR_*
 *
 * The message is the first and only FPDU of a stream that does not enter RDMA mode. So
 * its MSN is 1, and the host computes its CRC.
 *
 * Return: its length, or -ENOSPC.
 */
int mpa_build_terminate(u8 *buf, size_t size, u8 code)
{
	struct ddp_untagged_hdr *ddp = (void *)(buf + MPA_LENGTH_SIZE);
	struct rdmap_terminate *term = (void *)(ddp + 1);
	u32 crc;
	int i;

	if (size < MPA_TERMINATE_LEN)
		return -ENOSPC;
	memset(buf, 0, MPA_TERMINATE_LEN);
	mpa_put_u16(buf, sizeof(*ddp) + sizeof(*term));
	ddp->ddp_ctrl = DDP_CTRL_LAST | DDP_VERSION;
	ddp->rdmap_ctrl = RDMAP_VERSION << RDMAP_CTRL_VERSION_SHIFT | RDMAP_TERMINATE;
	ddp->qn = cpu_to_be32(RDMAP_QN_TERMINATE);
	ddp->msn = cpu_to_be32(1);
	term->layer_etype = RDMAP_TERM_LAYER_LLP << RDMAP_TERM_LAYER_SHIFT | MPA_ETYPE_MPA;
	term->ecode = code;

	crc = ~crc32c(~0, buf, MPA_TERMINATE_LEN - MPA_CRC_SIZE);
	for (i = 0; i < MPA_CRC_SIZE; i++)
		buf[MPA_TERMINATE_LEN - MPA_CRC_SIZE + i] = crc >> 8 * i;
	return MPA_TERMINATE_LEN;
}

/**
 * mpa_parse - parse a frame
 * @kind: the kind that is expected
 * @buf: all bytes of the stream so far
 * @len: bytes in @buf
 * @frame: filled if the return value is MPA_COMPLETE
 *
 * A wrong byte is an error at once, not only in a complete frame, so a stream that is not
 * MPA fails before the timeout. Reserved flags are ignored, as RFC 5044 requires, and R in
 * a request. The S flag is defined in revision 2 only.
 */
enum mpa_status mpa_parse(enum mpa_kind kind, const u8 *buf, size_t len, struct mpa_startup *frame)
{
	size_t key_len = len < MPA_KEY_SIZE ? len : MPA_KEY_SIZE;
	unsigned int pd_len, extra;
	bool enhanced;
	u8 flags, rev;

	if (memcmp(buf, mpa_key[kind], key_len))
		return MPA_BAD_KEY;
	if (len < MPA_HDR_LEN)
		return MPA_INCOMPLETE;

	flags = buf[FLAGS_AT];
	rev = buf[REVISION_AT];
	if (rev != MPA_REVISION_1 && rev != MPA_REVISION_2)
		return MPA_BAD_REV;

	enhanced = rev == MPA_REVISION_2 && flags & MPA_FLAG_ENHANCED;
	extra = enhanced ? MPA_ENHANCED_LEN : 0;
	pd_len = mpa_get_u16(buf + PD_LENGTH_AT);
	if (pd_len > extra + MPA_MAX_CONSUMER_PD)
		return MPA_PD_TOO_LONG;
	if (pd_len < extra)
		return MPA_BAD_ENHANCED;
	if (len > MPA_HDR_LEN + pd_len)
		return MPA_EXCESS;
	if (len < MPA_HDR_LEN + pd_len)
		return MPA_INCOMPLETE;

	memset(frame, 0, sizeof(*frame));
	frame->kind = kind;
	frame->rev = rev;
	frame->markers = flags & MPA_FLAG_MARKERS;
	frame->crc = flags & MPA_FLAG_CRC;
	frame->reject = kind == MPA_REPLY && flags & MPA_FLAG_REJECT;
	frame->enhanced = enhanced;
	frame->ird = MPA_V2_DEPTH_NONE;
	frame->ord = MPA_V2_DEPTH_NONE;
	if (enhanced)
		mpa_get_enhanced(buf + MPA_HDR_LEN, frame);
	frame->pdata = buf + MPA_HDR_LEN + extra;
	frame->pdata_len = pd_len - extra;
	return MPA_COMPLETE;
}

const char *mpa_status_name(enum mpa_status status)
{
	switch (status) {
	case MPA_COMPLETE:
		return "complete";
	case MPA_INCOMPLETE:
		return "incomplete";
	case MPA_BAD_KEY:
		return "wrong key";
	case MPA_BAD_REV:
		return "unknown revision";
	case MPA_PD_TOO_LONG:
		return "too much private data";
	case MPA_BAD_ENHANCED:
		return "enhanced header missing";
	case MPA_EXCESS:
		return "bytes after the frame";
	}
	return "?";
}
