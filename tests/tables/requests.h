/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests and what they must be in a slot, headers and what they mean: the tables by which t3_wr_build.h and
 * t3_cqe_decode.h are tested (tests/unit/kernel/shared_test.cc). Plain C that is also C++.
 *
 * The words of the usual requests are those of docs/hw/test-vectors.md.
 */
#ifndef T3_TESTS_TABLES_REQUESTS_H
#define T3_TESTS_TABLES_REQUESTS_H

#include "hw/t3_cqe_decode.h"
#include "hw/t3_tpt.h"
#include "hw/t3_wr_build.h"

/* ---- building ---- */

enum t3_row_builder { ROW_SEND, ROW_WRITE, ROW_READ, ROW_LOCAL_INV, ROW_FASTREG, ROW_BIND, ROW_RECV, ROW_RECV_PAGES };

struct t3_request_row {
	const char *name;
	enum t3_row_builder builder;
	int flits;		/* of the whole request, or -errno */
	const char *words;	/* from flit 2 on, in hex; ".." is any byte */
	__u8 rdma_op;
	bool flag;		/* data is inline; of a read: invalidate the sink */
	__u32 stag;		/* to be invalidated, registered or bound */
	__u32 rkey;
	__u64 addr;		/* remote, or of a registration or a window */
	__u32 num_sge;
	struct t3_host_sge sge[T3_MAX_SGE + 1]; /* inline: addr is an offset into the text below */
};

static const char t3_row_text[] = "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";

#define HOST_A	0x00007f0012345ff8ULL
#define STAG_A	0x001234ff
#define NONE	{ { 0, 0, 0 } }

static const struct t3_request_row t3_request_rows[] = {
	{ "send", ROW_SEND, 6, "03000000 00000000 00000064 00000001 001234ff 00000064 00007f00 12345ff8",
	  T3_RDMA_SEND, false, 0, 0, 0, 1, { { HOST_A, 100, STAG_A } } },
	{ "solicited send", ROW_SEND, 6, "05000000 00000000 00000064 00000001 001234ff 00000064 00007f00 12345ff8",
	  T3_RDMA_SEND_SE, false, 0, 0, 0, 1, { { HOST_A, 100, STAG_A } } },
	{ "send with invalidate", ROW_SEND, 6, "04000000 000099ff 00000064 00000001 001234ff 00000064 00007f00 12345ff8",
	  T3_RDMA_SEND_INV, false, 0x99ff, 0, 0, 1, { { HOST_A, 100, STAG_A } } },
	{ "solicited, with invalidate, of nothing", ROW_SEND, 4, "06000000 fedcba98 00000000 00000000",
	  T3_RDMA_SEND_SE_INV, false, 0xfedcba98, 0, 0, 0, NONE },
	{ "send of one empty element", ROW_SEND, 4, "03000000 00000000 00000000 00000000",
	  T3_RDMA_SEND, false, 0, 0, 0, 1, { { 0, 0, 0 } } },
	{ "send of four", ROW_SEND, 12,
	  "03000000 00000000 0000000a 00000004 00000011 00000001 00000000 00001000 00000012 00000002 00000000 00002000 "
	  "00000013 00000003 00000000 00003000 00000014 00000004 ffffffff ffff4000",
	  T3_RDMA_SEND, false, 0, 0, 0, 4,
	  { { 0x1000, 1, 0x11 }, { 0x2000, 2, 0x12 }, { 0x3000, 3, 0x13 }, { 0xffffffffffff4000ULL, 4, 0x14 } } },
	{ "send of four, two of them empty", ROW_SEND, 8,
	  "03000000 00000000 00000005 00000002 00000012 00000002 00000000 00002000 00000014 00000003 00000000 00004000",
	  T3_RDMA_SEND, false, 0, 0, 0, 4,
	  { { 0x1000, 0, 0 }, { 0x2000, 2, 0x12 }, { 0x3000, 0, 0 }, { 0x4000, 3, 0x14 } } },
	{ "send of five", ROW_SEND, -EINVAL, "", T3_RDMA_SEND, false, 0, 0, 0, 5, NONE },
	{ "send of -1", ROW_SEND, -EINVAL, "", T3_RDMA_SEND, false, 0, 0, 0, ~0U, NONE },
	{ "lengths that wrap", ROW_SEND, -EMSGSIZE, "",
	  T3_RDMA_SEND, false, 0, 0, 0, 2, { { 0x1000, 0xfffffff0, 1 }, { 0x2000, 0x20, 1 } } },
	{ "inline, one byte", ROW_SEND, 5, "03000000 00000000 00000001 00000000 30...... ........",
	  T3_RDMA_SEND, true, 0, 0, 0, 1, { { 0, 1, 0 } } },
	{ "inline, no byte", ROW_SEND, 4, "03000000 00000000 00000000 00000000",
	  T3_RDMA_SEND, true, 0, 0, 0, 1, { { 0, 0, 0 } } },
	{ "inline of two pieces", ROW_SEND, 6, "03000000 00000000 0000000d 00000000 30313233 34353637 38396162 63......",
	  T3_RDMA_SEND, true, 0, 0, 0, 2, { { 0, 10, 0 }, { 10, 3, 0 } } },
	{ "inline, 64 bytes", ROW_SEND, 12,
	  "03000000 00000000 00000040 00000000 30313233 34353637 38396162 63646566 6768696a 6b6c6d6e 6f707172 73747576 "
	  "7778797a 30313233 34353637 38396162 63646566 6768696a 6b6c6d6e 6f707172",
	  T3_RDMA_SEND, true, 0, 0, 0, 1, { { 0, 64, 0 } } },
	{ "inline, 65 bytes", ROW_SEND, -EMSGSIZE, "", T3_RDMA_SEND, true, 0, 0, 0, 1, { { 0, 65, 0 } } },
	{ "inline, 32 and 33 bytes", ROW_SEND, -EMSGSIZE, "",
	  T3_RDMA_SEND, true, 0, 0, 0, 2, { { 0, 32, 0 }, { 0, 33, 0 } } },
	{ "inline, lengths that wrap", ROW_SEND, -EMSGSIZE, "",
	  T3_RDMA_SEND, true, 0, 0, 0, 2, { { 0, 16, 0 }, { 0, 0xfffffff0, 0 } } },

	{ "write", ROW_WRITE, 7,
	  "00000000 002345ff 00005500 aabbc100 00000029 00000001 001234ff 00000029 00007f00 12345678",
	  T3_RDMA_WRITE, false, 0, 0x002345ff, 0x00005500aabbc100ULL, 1, { { 0x00007f0012345678ULL, 41, STAG_A } } },
	{ "write, inline", ROW_WRITE, 8,
	  "00000000 002345ff 00005500 aabbc100 00000014 00000000 30313233 34353637 38396162 63646566 6768696a ........",
	  T3_RDMA_WRITE, true, 0, 0x002345ff, 0x00005500aabbc100ULL, 1, { { 0, 20, 0 } } },
	{ "write of no data to no region", ROW_WRITE, 5, "00000000 00000002 00000000 00000000 00000000 00000000",
	  T3_RDMA_WRITE, false, 0, 0, 0, 0, NONE },
	{ "write of nothing", ROW_WRITE, 5, "00000000 002345ff 00000000 00000007 00000000 00000000",
	  T3_RDMA_WRITE, false, 0, 0x002345ff, 7, 0, NONE },
	{ "write to STag 0", ROW_WRITE, 7, "00000000 00000000 00000000 00000000 00000001 00000001 001234ff 00000001 00000000 00001000",
	  T3_RDMA_WRITE, false, 0, 0, 0, 1, { { 0x1000, 1, STAG_A } } },

	{ "read", ROW_READ, 6, "01000000 002345ff 00005500 aabbc140 001234ff 00000032 00007f00 123456b8",
	  0, false, 0, 0x002345ff, 0x00005500aabbc140ULL, 1, { { 0x00007f00123456b8ULL, 50, STAG_A } } },
	{ "read, sink invalidated", ROW_READ, 6, "01010000 002345ff 00005500 aabbc140 001234ff 00000032 00007f00 123456b8",
	  0, true, 0, 0x002345ff, 0x00005500aabbc140ULL, 1, { { 0x00007f00123456b8ULL, 50, STAG_A } } },
	{ "read of nothing", ROW_READ, 6, "01000000 00000002 00000000 00000000 00000002 00000000 00000000 00000000",
	  0, false, 0, 0x002345ff, 0x1000, 0, NONE },
	{ "read of one empty element", ROW_READ, 6, "01000000 00000002 00000000 00000000 00000002 00000000 00000000 00000000",
	  0, false, 0, 0, 0, 1, { { 0x1000, 0, STAG_A } } },
	{ "read into two", ROW_READ, -EINVAL, "", 0, false, 0, 1, 0, 2, { { 0x1000, 1, 1 }, { 0x2000, 1, 1 } } },

	{ "local invalidate", ROW_LOCAL_INV, 3, "00123456 00000000", 0, false, 0x00123456, 0, 0, 0, NONE },

	/* num_sge: pages, whose addresses stand in the list; the length is that of the last page plus one. */
	{ "fast register", ROW_FASTREG, 7, "00123456 00001800 00007f00 12345800 0200010a 00000000 00000001 00aa0000 00000001 00bb1000",
	  0, false, 0x00123456, 0x1800, 0x00007f0012345800ULL, 2, { { 0x100aa0000ULL, 0, 0 }, { 0x100bb1000ULL, 0, 0 } } },
	{ "fast register of no page", ROW_FASTREG, -EINVAL, "", 0, false, 0x00123456, 0, 0, 0, NONE },

	{ "bind", ROW_BIND, 6, "0000010. 001234ff 00777701 00003000 00007f00 12345678 00000021 ........",
	  0, false, 0x00777701, 0x3000, 0x00007f0012345678ULL, 1, { { 0x21, 0, STAG_A } } },

	{ "receive", ROW_RECV, 13,
	  "00000000 00000001 002345ff 00000100 00005500 aabbc040 00000000 00000000 00000000 00000000 00000000 00000000 "
	  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
	  0, false, 0, 0, 0, 1, { { 0x00005500aabbc040ULL, 256, 0x002345ff } } },
	{ "receive of nothing", ROW_RECV, 13,
	  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
	  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
	  0, false, 0, 0, 0, 0, NONE },
	{ "receive of two, the first empty", ROW_RECV, 13,
	  "00000000 00000001 00000012 00000002 00000000 00002000 00000000 00000000 00000000 00000000 00000000 00000000 "
	  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
	  0, false, 0, 0, 0, 2, { { 0x1000, 0, 0x11 }, { 0x2000, 2, 0x12 } } },
	{ "receive of pages", ROW_RECV_PAGES, 13,
	  "00000000 00000001 002345ff 00000100 00000000 00000040 00000000 00000000 00000000 00000000 00000000 00000000 "
	  "00000000 00000000 00000000 00000000 00000000 00000000 00000040 00000000 00000000 00000000",
	  0, false, 0, 0, 0, 1, { { 0x40, 256, 0x002345ff } } },
	{ "receive of five", ROW_RECV, -EINVAL, "", 0, false, 0, 0, 0, 5, NONE },
};

/* Builds a row's request in a slot. */
static inline int t3_build_row(const struct t3_request_row *row, union t3_wr_slot *slot)
{
	static const struct t3_recv_pages pages = { { 0, 0, 0, 0 }, { 0x40, 0, 0, 0 } };
	struct t3_host_sge sge[T3_MAX_SGE + 1];
	__u64 page[T3_MAX_SGE + 1];
	struct t3_fastreg fr;
	struct t3_request req;
	struct t3_bind bind;
	unsigned int i;

	memset(&req, 0, sizeof(req));
	memset(&fr, 0, sizeof(fr));
	memset(&bind, 0, sizeof(bind));
	for (i = 0; i <= T3_MAX_SGE; i++) {
		sge[i] = row->sge[i];
		page[i] = row->sge[i].addr;
		if (row->flag && row->builder != ROW_READ)
			sge[i].addr += (unsigned long)t3_row_text;
	}
	req.rdma_op = row->rdma_op;
	req.is_inline = row->flag && row->builder != ROW_READ;
	req.local_inv = row->flag && row->builder == ROW_READ;
	req.inv_stag = row->stag;
	req.rkey = row->rkey;
	req.remote_addr = row->addr;
	req.num_sge = row->num_sge;
	req.sge = sge;
	switch (row->builder) {
	case ROW_SEND:
		return t3_build_send(&slot->send, &req);
	case ROW_WRITE:
		return t3_build_write(&slot->write, &req);
	case ROW_READ:
		return t3_build_read(&slot->read, &req);
	case ROW_LOCAL_INV:
		return t3_build_local_inv(&slot->local_inv, &req);
	case ROW_FASTREG:
		fr.stag = row->stag;
		fr.len = row->rkey;
		fr.va = row->addr;
		fr.perms = T3_PERM_LOCAL_READ | T3_PERM_REMOTE_READ;
		fr.npages = (__u8)row->num_sge;
		fr.pages = page;
		return t3_build_fastreg(&slot->fastreg, &fr);
	case ROW_BIND:
		bind.mr_stag = row->sge[0].stag;
		bind.mw_stag = row->stag;
		bind.addr = row->addr;
		bind.len = row->rkey;
		bind.perms = T3_PERM_REMOTE_WRITE;
		bind.pbl_index = (__u32)row->sge[0].addr;
		return t3_build_bind_mw(&slot->bind_mw, &bind);
	case ROW_RECV:
		return t3_build_recv(&slot->recv, sge, row->num_sge, NULL);
	case ROW_RECV_PAGES:
		return t3_build_recv(&slot->recv, sge, row->num_sge, &pages);
	}
	return 0;
}

static inline int t3_hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The number of bytes that a row's words stand for, or -1 - n if byte n is another one. */
static inline int t3_row_compare(const char *words, const __u8 *bytes)
{
	int n = 0;

	for (; *words; words++) {
		int high, low;

		if (*words == ' ')
			continue;
		high = t3_hex_digit(words[0]);
		low = t3_hex_digit(words[1]);
		if ((high >= 0 && high != bytes[n] >> 4) || (low >= 0 && low != (bytes[n] & 15)))
			return -1 - n;
		n++;
		words++;
	}
	return n;
}

/* ---- headers ---- */

struct t3_header_row {
	const char *name;
	__u8 opcode, flags;
	__u32 flits, tid;
	bool gen;
	const char *words;
};

static const struct t3_header_row t3_header_rows[] = {
	{ "send", T3_WR_OP_SEND, T3_WR_F_COMPLETION, 6, 0, true, "14c00100 80000006" },
	{ "solicited", T3_WR_OP_SEND, T3_WR_F_COMPLETION | T3_WR_F_SOLICITED, 6, 0, true, "14c00500 80000006" },
	{ "fenced write, next lap", T3_WR_OP_WRITE, T3_WR_F_READ_FENCE, 7, 0, false, "11c00800 00000007" },
	{ "read", T3_WR_OP_READ, 0, 6, 0, true, "16c00000 80000006" },
	{ "local invalidate", T3_WR_OP_LOCAL_INV, T3_WR_F_COMPLETION | T3_WR_F_LOCAL_FENCE, 3, 0, true, "1ac01100 80000003" },
	{ "receive", T3_WR_OP_RECV, T3_WR_F_COMPLETION, 13, 0, true, "17c00100 8000000d" },
	{ "control queue", T3_WR_OP_BYPASS, T3_WR_F_COMPLETION, 7, 0xfff7, true, "1cc00100 80fff707" },
};

/* ---- completions ---- */

struct t3_entry_row {
	const char *name;
	__u32 header;
	__u32 qpid;
	__u8 status, opcode;
	bool sq, gen;
	enum t3_cqe_kind kind;
};

static const struct t3_entry_row t3_entry_rows[] = {
	{ "receive", 0x00040403, 0x40, 0, T3_RDMA_SEND, false, true, T3_KIND_MESSAGE },
	{ "receive that invalidates", 0x00040404, 0x40, 0, T3_RDMA_SEND_INV, false, true, T3_KIND_MESSAGE_INV },
	{ "send", 0x00021413, 0x21, 0, T3_RDMA_SEND, true, true, T3_KIND_SENT },
	{ "write", 0x00021410, 0x21, 0, T3_RDMA_WRITE, true, true, T3_KIND_SENT },
	{ "read", 0x00021402, 0x21, 0, T3_RDMA_READ_RESP, false, true, T3_KIND_READ },
	{ "refused write of the peer", 0x00020080, 0x20, T3_STATUS_ACCESS, T3_RDMA_WRITE, false, false, T3_KIND_OTHER },
	{ "terminate", 0x00021407, 0x21, 0, T3_RDMA_TERMINATE, false, true, T3_KIND_OTHER },
	{ "our terminate", 0x00021417, 0x21, 0, T3_RDMA_TERMINATE, true, true, T3_KIND_OTHER },
	{ "control queue", 0x0fff701d, 0xfff7, 0, T3_RDMA_BYPASS, true, false, T3_KIND_OTHER },
	{ "all bits", 0xffffffff, 0x7ffff, 0x1f, 0xf, true, true, T3_KIND_OTHER },
	{ "no bit", 0, 0, 0, T3_RDMA_WRITE, false, false, T3_KIND_OTHER },
};

/* Opcodes that mean something, of the 16, as a bit each. */
#define T3_MEANS(op) (1U << (op))
#define T3_SENT_OPCODES                                                                                              \
	(T3_MEANS(T3_RDMA_WRITE) | T3_MEANS(T3_RDMA_READ_REQ) | T3_MEANS(T3_RDMA_SEND) | T3_MEANS(T3_RDMA_SEND_INV) | \
	 T3_MEANS(T3_RDMA_SEND_SE) | T3_MEANS(T3_RDMA_SEND_SE_INV) | T3_MEANS(T3_RDMA_BIND_MW) |                      \
	 T3_MEANS(T3_RDMA_FASTREG) | T3_MEANS(T3_RDMA_LOCAL_INV))
#define T3_MESSAGE_OPCODES                                                                                           \
	(T3_MEANS(T3_RDMA_SEND) | T3_MEANS(T3_RDMA_SEND_INV) | T3_MEANS(T3_RDMA_SEND_SE) | T3_MEANS(T3_RDMA_SEND_SE_INV))

struct t3_status_row {
	__u8 status, wc;
};

/* All others are T3_WC_FATAL_ERR. */
static const struct t3_status_row t3_status_rows[] = {
	{ T3_STATUS_SUCCESS, T3_WC_SUCCESS },
	{ T3_STATUS_STAG, T3_WC_LOC_ACCESS_ERR },
	{ T3_STATUS_PDID, T3_WC_LOC_PROT_ERR },
	{ T3_STATUS_QPID, T3_WC_LOC_ACCESS_ERR },
	{ T3_STATUS_ACCESS, T3_WC_LOC_ACCESS_ERR },
	{ T3_STATUS_WRAP, T3_WC_GENERAL_ERR },
	{ T3_STATUS_BOUND, T3_WC_LOC_LEN_ERR },
	{ T3_STATUS_INV_SHARED_MR, T3_WC_MW_BIND_ERR },
	{ T3_STATUS_INV_BOUND_MR, T3_WC_MW_BIND_ERR },
	{ T3_STATUS_FLUSH, T3_WC_WR_FLUSH_ERR },
};

struct t3_msn_row {
	__u8 status;
	__u32 msn, expected;
	__u8 result;
};

static const struct t3_msn_row t3_msn_rows[] = {
	{ T3_STATUS_SUCCESS, 6, 6, T3_STATUS_SUCCESS },
	{ T3_STATUS_SUCCESS, 22, 6, T3_STATUS_MSN }, /* the card compares four bits only */
	{ T3_STATUS_SUCCESS, 0, 0, T3_STATUS_SUCCESS },
	{ T3_STATUS_BOUND, 7, 6, T3_STATUS_BOUND }, /* the status of the card comes first */
};

#undef NONE
#undef STAG_A
#undef HOST_A

#endif
