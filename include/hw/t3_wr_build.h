/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Builds the bytes of a slot from a request in host terms, for the kernel
 * module and the user library alike. Plain C that is
 * also C++; pure: no card, no locks, no memory of its own.
 *
 * A builder writes everything from flit 2 on and returns the flits of the
 * whole request, or -errno with the slot untouched by the card: its generation
 * bits are not written here. The caller adds flit 1 and header word 0, and
 * publishes the slot with header word 1 and flit 15, in the order that its
 * memory model requires.
 *
 * Builders refuse requests for which the card would end the connection.
 */
#ifndef T3_HW_WR_BUILD_H
#define T3_HW_WR_BUILD_H

#include "t3_host.h"
#include "t3_wr.h"

/* Laid out as ib_sge and ibv_sge are, so that a consumer's list is used in place. */
struct t3_host_sge {
	__u64 addr;
	__u32 len;
	__u32 stag;
} __attribute__((may_alias));

/*
 * STag of a request that moves no data. The peer does not look it up, but 0
 * makes it terminate the connection, and T3_RTR_STAG (1) is the mark of the
 * kernel's own "ready to receive" read.
 */
#define T3_NO_DATA_STAG		2

/* Flits of a request without its scatter list. */
#define T3_SEND_FLITS		4
#define T3_WRITE_FLITS		5
#define T3_READ_FLITS		6
#define T3_LOCAL_INV_FLITS	3
#define T3_BIND_MW_FLITS	6
#define T3_FASTREG_FLITS	5
#define T3_RECV_FLITS		13
#define T3_SGE_FLITS		2

/* ---- header ---- */

t3_constant_fn __be32 t3_wr_hi(__u8 op, __u8 flags)
{
	return t3_to_be32(((__u32)op << 24) | T3_WR_SOP | T3_WR_EOP | ((__u32)flags << 8));
}

t3_constant_fn __be32 t3_wr_lo(__u32 flits, __u32 tid, bool gen)
{
	return t3_to_be32((gen ? T3_WR_GEN : 0) | (tid << 8) | flits);
}

t3_constant_fn __be64 t3_wr_gen2(bool gen)
{
	return t3_to_be64(gen);
}

/* Generation of a running counter: 1 on the first lap of the ring, then 0, ... */
t3_constant_fn bool t3_gen(__u32 counter, unsigned int log2)
{
	return !((counter >> log2) & 1);
}

/* ---- data ---- */

/* Parts of a slot by their size, whatever the fields in them. */
typedef __be64 __attribute__((may_alias)) t3_flit;
typedef __u32 __attribute__((may_alias)) t3_half_flit;

/* Two loads, two swaps, two stores. */
static __always_inline void t3_put_sge(void *dst, const struct t3_host_sge *src)
{
	t3_flit *flit = (t3_flit *)dst;

	flit[0] = t3_to_be64((__u64)src->stag << 32 | src->len);
	flit[1] = t3_to_be64(src->addr);
}

/* What a scatter/gather list or inline data became. */
struct t3_data {
	int error;	/* -errno or 0 */
	__u32 bytes;
	__u32 entries;	/* 0: inline, or nothing */
	__u32 flits;
};

/* Entries without bytes are left out: their STag would be checked for nothing. */
static __always_inline struct t3_data t3_put_sgl(struct t3_sge *dst, const struct t3_host_sge *sge,
						 __u32 num)
{
	struct t3_data data = { 0, 0, 0, 0 };
	__u64 bytes = 0;
	__u32 i;

	if (t3_likely(num == 1)) {
		data.bytes = sge->len;
		if (t3_likely(data.bytes)) {
			t3_put_sge(dst, sge);
			data.entries = 1;
			data.flits = T3_SGE_FLITS;
		}
		return data;
	}
	if (num > T3_MAX_SGE) {
		data.error = -EINVAL;
		return data;
	}
	for (i = 0; i < num; i++) {
		if (!sge[i].len)
			continue;
		t3_put_sge(&dst[data.entries++], &sge[i]);
		bytes += sge[i].len;
	}
	if (bytes > 0xffffffffU)
		data.error = -EMSGSIZE;
	data.bytes = (__u32)bytes;
	data.flits = T3_SGE_FLITS * data.entries;
	return data;
}

/*
 * Up to T3_MAX_INLINE bytes in pieces of a size that the compiler knows: a call
 * of memcpy() would cost more than the copy. From the front and from the back,
 * so that the pieces overlap.
 */
static __always_inline void t3_copy_inline(__u8 *dst, const __u8 *src, __u32 len)
{
	if (len > 32) {
		memcpy(dst, src, 16);
		memcpy(dst + 16, src + 16, 16);
		memcpy(dst + len - 32, src + len - 32, 16);
		memcpy(dst + len - 16, src + len - 16, 16);
	} else if (len >= 16) {
		memcpy(dst, src, 16);
		memcpy(dst + len - 16, src + len - 16, 16);
	} else if (len >= 8) {
		memcpy(dst, src, 8);
		memcpy(dst + len - 8, src + len - 8, 8);
	} else if (len >= 4) {
		memcpy(dst, src, 4);
		memcpy(dst + len - 4, src + len - 4, 4);
	} else if (len) {
		dst[0] = src[0];
		dst[len / 2] = src[len / 2];
		dst[len - 1] = src[len - 1];
	}
}

static __always_inline const __u8 *t3_sge_bytes(const struct t3_host_sge *sge)
{
	return (const __u8 *)(unsigned long)sge->addr;
}

/* One entry after the other, as one run of bytes. */
static __always_inline struct t3_data t3_put_inline(__u8 *dst, const struct t3_host_sge *sge,
						    __u32 num)
{
	struct t3_data data = { 0, 0, 0, 0 };
	__u32 i;

	if (num > T3_MAX_SGE) {
		data.error = -EINVAL;
		return data;
	}
	for (i = 0; i < num; i++) {
		__u32 len = sge[i].len;

		if (len > T3_MAX_INLINE - data.bytes) { /* a sum could wrap */
			data.error = -EMSGSIZE;
			return data;
		}
		t3_copy_inline(dst + data.bytes, t3_sge_bytes(&sge[i]), len);
		data.bytes += len;
	}
	data.flits = (data.bytes + 7) / 8;
	return data;
}

/* ---- requests ---- */

/* A send-side request of any opcode, not yet checked against the limits of the card. */
struct t3_request {
	__u8 rdma_op;	/* T3_RDMA_* */
	bool local_inv;	/* READ: invalidate the sink afterwards */
	bool is_inline;	/* sge[].addr is a host pointer */
	__u32 inv_stag;	/* SEND with invalidate: at the peer; LOCAL_INV: here */
	__u32 rkey;
	__u64 remote_addr;
	__u32 num_sge;
	const struct t3_host_sge *sge;
};

static __always_inline struct t3_data t3_put_data(struct t3_sge *dst, const struct t3_request *req)
{
	return req->is_inline ? t3_put_inline((__u8 *)dst, req->sge, req->num_sge) :
				t3_put_sgl(dst, req->sge, req->num_sge);
}

/* First half of flit 2: the RDMA opcode, a flag of a read, two reserved bytes. */
static __always_inline void t3_put_rdma_op(__u8 *at, __u8 op, __u8 flag)
{
	*(t3_half_flit *)at = t3_two_bytes(op, flag);
}

/* The same for a SEND with the other half in one store, since most invalidate nothing. */
static __always_inline void t3_put_send_op(struct t3_wr_send *wr, const struct t3_request *req)
{
	__u32 stag = (__force __u32)t3_to_be32(req->inv_stag);

	*(t3_flit *)&wr->rdma_op =
		(__force __be64)t3_two_words(t3_two_bytes(req->rdma_op, 0), stag);
}

static __always_inline int t3_build_send(struct t3_wr_send *wr, const struct t3_request *req)
{
	struct t3_data data;

	t3_put_send_op(wr, req);
	data = t3_put_data(wr->sge, req);
	if (data.error)
		return data.error;
	wr->plen = t3_to_be32(data.bytes);
	wr->num_sge = t3_to_be32(data.entries);
	return T3_SEND_FLITS + (int)data.flits;
}

static __always_inline int t3_build_write(struct t3_wr_write *wr, const struct t3_request *req)
{
	struct t3_data data;

	t3_put_rdma_op(&wr->rdma_op, T3_RDMA_WRITE, 0);
	wr->sink_to = t3_to_be64(req->remote_addr);
	data = t3_put_data(wr->sge, req);
	if (data.error)
		return data.error;
	wr->sink_stag = t3_to_be32(data.bytes || req->rkey ? req->rkey : T3_NO_DATA_STAG);
	wr->plen = t3_to_be32(data.bytes);
	wr->num_sge = t3_to_be32(data.entries);
	return T3_WRITE_FLITS + (int)data.flits;
}

static __always_inline int t3_build_read(struct t3_wr_read *wr, const struct t3_request *req)
{
	__u32 bytes = req->num_sge ? req->sge->len : 0;

	if (t3_unlikely(req->num_sge > T3_MAX_READ_SGE))
		return -EINVAL;
	t3_put_rdma_op(&wr->rdma_op, T3_RDMA_READ_REQ, req->local_inv);
	if (t3_unlikely(!bytes)) {
		wr->rem_stag = t3_to_be32(T3_NO_DATA_STAG);
		wr->rem_to = 0;
		wr->local_stag = t3_to_be32(T3_NO_DATA_STAG);
		wr->local_len = 0;
		wr->local_to = 0;
		return T3_READ_FLITS;
	}
	wr->rem_stag = t3_to_be32(req->rkey);
	wr->rem_to = t3_to_be64(req->remote_addr);
	t3_put_sge(&wr->local_stag, req->sge);
	return T3_READ_FLITS;
}

static __always_inline int t3_build_local_inv(struct t3_wr_local_inv *wr,
					      const struct t3_request *req)
{
	wr->stag = t3_to_be32(req->inv_stag);
	wr->rsvd = 0;
	return T3_LOCAL_INV_FLITS;
}

/* Registers a list of pages with an STag that exists. For the kernel's consumers. */
struct t3_fastreg {
	__u32 stag;		/* with the new key */
	__u32 len;
	__u64 va;
	__u8 page_code;
	__u8 perms;		/* T3_PERM_* */
	__u8 npages;
	const __u64 *pages;
};

static __always_inline int t3_build_fastreg(struct t3_wr_fastreg *wr, const struct t3_fastreg *fr)
{
	__u32 i;

	if (!fr->npages || fr->npages > T3_MAX_FASTREG_PAGES)
		return -EINVAL;
	wr->stag = t3_to_be32(fr->stag);
	wr->len = t3_to_be32(fr->len);
	wr->va_hi = t3_to_be32((__u32)(fr->va >> 32));
	wr->va_lo_fbo = t3_to_be32((__u32)fr->va);
	wr->page_type_perms = t3_to_be32(((__u32)fr->npages << 24) | ((__u32)fr->page_code << 16) |
					 T3_FASTREG_VA_BASED | fr->perms);
	wr->rsvd = 0;
	for (i = 0; i < fr->npages; i++)
		wr->page[i] = t3_to_be64(fr->pages[i]);
	return T3_FASTREG_FLITS + fr->npages;
}

/* Binds a window of type 1. For user space; the kernel has no such verb. */
struct t3_bind {
	__u32 mr_stag;
	__u32 mw_stag;
	__u64 addr;
	__u32 len;
	__u8 perms;		/* T3_PERM_REMOTE_* */
	__u8 page_code;
	__u32 pbl_index;	/* of the page that holds addr, 8-byte units */
};

static __always_inline int t3_build_bind_mw(struct t3_wr_bind_mw *wr, const struct t3_bind *bind)
{
	wr->rsvd0[0] = 0;
	wr->rsvd0[1] = 0;
	wr->type = 1; /* addressed by VA */
	wr->perms = bind->perms;
	wr->mr_stag = t3_to_be32(bind->mr_stag);
	wr->mw_stag = t3_to_be32(bind->mw_stag);
	wr->mw_len = t3_to_be32(bind->len);
	wr->mw_va = t3_to_be64(bind->addr);
	wr->mr_pbl_addr = t3_to_be32(bind->pbl_index);
	memset(wr->rsvd1, 0, sizeof(wr->rsvd1));
	wr->mr_pagesz = bind->page_code;
	return T3_BIND_MW_FLITS;
}

/* How the entries of a receive name their pages, where they do not name a virtual address. */
struct t3_recv_pages {
	__u8 code[T3_MAX_SGE];
	__u32 pbl_index[T3_MAX_SGE];	/* 8-byte units from the PBL base */
};

/*
 * pages NULL: entries with full virtual addresses, which the card translates.
 * A receive is always 13 flits long, so what is not used must be 0.
 */
static __always_inline int t3_build_recv(struct t3_wr_recv *wr, const struct t3_host_sge *sge,
					 __u32 num, const struct t3_recv_pages *pages)
{
	struct t3_data data;
	__u32 i;

	memset(&wr->sge[1], 0, (T3_MAX_SGE - 1) * sizeof(wr->sge[0]));
	memset(wr->pbl_addr, 0, sizeof(wr->pbl_addr));
	if (t3_unlikely(num != 1 || !sge->len))
		memset(&wr->sge[0], 0, sizeof(wr->sge[0]));
	data = t3_put_sgl(wr->sge, sge, num);
	if (data.error)
		return data.error;
	wr->num_sge = t3_to_be32(data.entries);
	memset(wr->pagesz, 0, sizeof(wr->pagesz));
	if (!pages)
		return T3_RECV_FLITS;

	data.entries = 0;
	for (i = 0; i < num; i++) {
		if (!sge[i].len)
			continue;
		wr->pagesz[data.entries] = pages->code[i];
		wr->pbl_addr[data.entries++] = t3_to_be32(pages->pbl_index[i]);
	}
	return T3_RECV_FLITS;
}

#endif
