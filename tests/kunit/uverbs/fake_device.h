/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A device without hardware, registered with the real ib_core. It counts the
 * objects, injects errors and records the order of destructions.
 */
#ifndef T3_UVERBS_FAKE_DEVICE_H
#define T3_UVERBS_FAKE_DEVICE_H

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

#include "t3_compat_verbs.h"

enum fake_kind {
	FAKE_CTX, FAKE_PD, FAKE_MR, FAKE_MW, FAKE_CQ, FAKE_QP, FAKE_SRQ, FAKE_AH, FAKE_KINDS
};

static const char fake_letters[FAKE_KINDS + 1] = "xprwcqsa";

struct fake_pd { struct ib_pd ib; };
struct fake_cq { struct ib_cq ib; };
struct fake_qp { struct ib_qp ib; };
struct fake_srq { struct ib_srq ib; };
struct fake_ah { struct ib_ah ib; };
struct fake_mw { struct ib_mw ib; };
struct fake_ucontext { struct ib_ucontext ib; };

/* A point at which a test stops a thread. */
struct fake_hold {
	bool armed;
	struct completion reached, release;
};

struct fake_device {
	struct ib_device ib;
	bool registered;
	struct fake_hold hold_removal;	/* in the first destruction, by the removal */
	struct fake_hold hold_others;	/* in a destruction by another thread */
	struct task_struct *remover;	/* the thread of the removal */
	int live[FAKE_KINDS];		/* created and not destroyed */
	int fail_create[FAKE_KINDS];	/* errno of the next creation, once */
	int fail_destroy[FAKE_KINDS];	/* errno of the next destruction, once */
	bool refuses;			/* to destroy any object */
	char order[64];			/* fake_letters of the destroyed objects */
	struct ib_cq *cq;		/* created last */
	struct ib_qp *qp;
	struct ib_srq *srq;
	struct ib_pd *mr_pd;
	unsigned int posted, multicast;
	bool rereg_returns_new;
	struct page *page;		/* the device memory that mmap() maps at offset 0 */
	struct ib_ucontext *context;	/* created last */
	struct rdma_user_mmap_entry entry; /* for a mapping that has one */
	unsigned int entries_freed;
	size_t udata_in, udata_out;	/* lengths in the last creation */
};

static inline struct fake_device *fake_of(struct ib_device *ib)
{
	return container_of(ib, struct fake_device, ib);
}

static inline int fake_create(struct ib_device *ib, enum fake_kind kind)
{
	struct fake_device *fake = fake_of(ib);
	int err = fake->fail_create[kind];

	fake->fail_create[kind] = 0;
	if (!err)
		fake->live[kind]++;
	return err;
}

static inline void fake_hold_init(struct fake_hold *hold)
{
	hold->armed = true;
	init_completion(&hold->reached);
	init_completion(&hold->release);
}

static inline void fake_hold_here(struct fake_hold *hold)
{
	complete(&hold->reached);
	wait_for_completion(&hold->release);
}

static inline void fake_hold(struct fake_device *fake)
{
	if (fake->hold_removal.armed && !fake->remover) {
		fake->remover = current;
		fake_hold_here(&fake->hold_removal);
	} else if (fake->hold_others.armed && current != fake->remover) {
		fake_hold_here(&fake->hold_others);
	}
}

static inline int fake_destroy(struct ib_device *ib, enum fake_kind kind)
{
	struct fake_device *fake = fake_of(ib);
	int err = fake->fail_destroy[kind];
	size_t length;

	fake_hold(fake);
	length = strlen(fake->order);
	fake->fail_destroy[kind] = 0;
	if (fake->refuses && kind != FAKE_CTX)
		err = -EBUSY;
	if (err)
		return err;
	fake->live[kind]--;
	if (length < sizeof(fake->order) - 1)
		fake->order[length] = fake_letters[kind];
	return 0;
}

static inline int fake_live(const struct fake_device *fake)
{
	int kind, sum = 0;

	for (kind = 0; kind < FAKE_KINDS; kind++)
		sum += fake->live[kind];
	return sum;
}

static inline void fake_udata(struct ib_device *ib, struct ib_udata *udata)
{
	fake_of(ib)->udata_in = udata ? udata->inlen : 0;
	fake_of(ib)->udata_out = udata ? udata->outlen : 0;
}

/* --- driver functions ------------------------------------------------------------------ */

static int fake_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_qp = 1234;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	return 0;
}

static int fake_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = 4321;
	return 0;
}

static int fake_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	/* Not iWARP, for which ib_core needs a network interface. */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_RAW_PACKET;
	immutable->gid_tbl_len = 1;
	return 0;
}

static int fake_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0x42, sizeof(*gid));
	return 0;
}

static int fake_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	fake_udata(context->device, udata);
	fake_of(context->device)->context = context;
	return fake_create(context->device, FAKE_CTX);
}

static void fake_dealloc_ucontext(struct ib_ucontext *context)
{
	fake_destroy(context->device, FAKE_CTX);
}

static void fake_disassociate_ucontext(struct ib_ucontext *context)
{
}

/* As a driver does whose page may only be read. */
static inline void fake_make_read_only(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags &= ~VM_MAYWRITE;
#else
	vm_flags_clear(vma, VM_MAYWRITE);
#endif
}

/*
 * There is no memory at the highest address: the mapping of an entry must not be accessed before
 * the removal. User Mode Linux cannot map pages of its memory in this way.
 */
static int fake_mmap_entry(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(context, vma);
	int err;

	if (!entry)
		return -EINVAL;
	if (!(vma->vm_flags & VM_WRITE))
		fake_make_read_only(vma);
	err = rdma_user_mmap_io(context, vma, (1UL << 30) - 1, PAGE_SIZE, vma->vm_page_prot, entry);
	rdma_user_mmap_entry_put(entry);
	return err;
}

static int fake_mmap(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff)
		return fake_mmap_entry(context, vma);
	return rdma_user_mmap_io(context, vma, page_to_pfn(fake_of(context->device)->page),
				 vma->vm_end - vma->vm_start, vma->vm_page_prot, NULL);
}

static void fake_mmap_free(struct rdma_user_mmap_entry *entry)
{
	fake_of(entry->ucontext->device)->entries_freed++;
}

static inline int fake_insert_entry(struct fake_device *fake)
{
	return rdma_user_mmap_entry_insert_range(fake->context, &fake->entry, PAGE_SIZE, 1, 1000);
}

static int fake_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	fake_udata(pd->device, udata);
	return fake_create(pd->device, FAKE_PD);
}

static int fake_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return fake_destroy(pd->device, FAKE_PD);
}

static struct ib_mr *fake_new_mr(struct ib_device *ib)
{
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	int err = mr ? fake_create(ib, FAKE_MR) : -ENOMEM;

	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	mr->lkey = 0x1700 + fake_of(ib)->live[FAKE_MR];
	mr->rkey = mr->lkey;
	return mr;
}

static struct ib_mr *fake_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
				      struct ib_udata *udata)
{
	return fake_new_mr(pd->device);
}

T3_DEFINE_REG_USER_MR(fake_ops_reg_user_mr, fake_reg_user_mr)

static struct ib_mr *fake_rereg_user_mr(struct ib_mr *mr, int flags, u64 start, u64 length,
					u64 virt,
					int access, struct ib_pd *pd, struct ib_udata *udata)
{
	fake_of(pd->device)->mr_pd = pd;
	return fake_of(pd->device)->rereg_returns_new ? fake_new_mr(pd->device) : NULL;
}

static struct ib_mr *fake_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int fake_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	int err = fake_destroy(mr->device, FAKE_MR);

	if (!err)
		kfree(mr);
	return err;
}

static int fake_alloc_mw(struct ib_mw *mw, struct ib_udata *udata)
{
	mw->rkey = 0x2700;
	return fake_create(mw->device, FAKE_MW);
}

static int fake_dealloc_mw(struct ib_mw *mw)
{
	return fake_destroy(mw->device, FAKE_MW);
}

static int fake_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
{
	fake_of(cq->device)->cq = cq;
	fake_udata(cq->device, udata);
	cq->cqe = attr->cqe + 1;	/* more than requested, to see it in the response */
	return fake_create(cq->device, FAKE_CQ);
}

T3_DEFINE_CREATE_CQ(fake_ops_create_cq, fake_create_cq)

static int fake_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return fake_destroy(cq->device, FAKE_CQ);
}

static int fake_poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	return 0;
}

static int fake_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int fake_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	fake_of(qp->device)->qp = qp;
	qp->qp_num = 0x37;
	attr->cap.max_send_wr++;
	return fake_create(qp->device, FAKE_QP);
}

static int fake_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	return 0;
}

static int fake_query_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			 struct ib_qp_init_attr *init)
{
	attr->qp_state = IB_QPS_RTS;
	return 0;
}

static int fake_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return fake_destroy(qp->device, FAKE_QP);
}

static int fake_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		if (wr->wr_id == 13) {
			*bad = wr;
			return -ENOMEM;
		}
		fake_of(qp->device)->posted += 1 + wr->num_sge;
	}
	return 0;
}

static int fake_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	for (; wr; wr = wr->next)
		fake_of(qp->device)->posted += 1 + wr->num_sge;
	return 0;
}

static int fake_post_srq_recv(struct ib_srq *srq, const struct ib_recv_wr *wr,
			      const struct ib_recv_wr **bad)
{
	for (; wr; wr = wr->next)
		fake_of(srq->device)->posted += 1 + wr->num_sge;
	return 0;
}

static int fake_attach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid)
{
	fake_of(qp->device)->multicast++;
	return 0;
}

static int fake_detach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid)
{
	fake_of(qp->device)->multicast--;
	return 0;
}

static int fake_create_srq(struct ib_srq *srq, struct ib_srq_init_attr *attr,
			   struct ib_udata *udata)
{
	fake_of(srq->device)->srq = srq;
	return fake_create(srq->device, FAKE_SRQ);
}

static int fake_destroy_srq(struct ib_srq *srq, struct ib_udata *udata)
{
	return fake_destroy(srq->device, FAKE_SRQ);
}

static int fake_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	return fake_create(ah->device, FAKE_AH);
}

static int fake_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return fake_destroy(ah->device, FAKE_AH);
}

static const struct ib_device_ops fake_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 5,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.get_port_immutable = fake_port_immutable,
	.query_gid = fake_query_gid,
	.alloc_ucontext = fake_alloc_ucontext,
	.dealloc_ucontext = fake_dealloc_ucontext,
	.mmap = fake_mmap,
	.mmap_free = fake_mmap_free,
	.alloc_pd = fake_alloc_pd,
	.dealloc_pd = fake_dealloc_pd,
	.get_dma_mr = fake_get_dma_mr,
	.reg_user_mr = fake_ops_reg_user_mr,
	.rereg_user_mr = fake_rereg_user_mr,
	.dereg_mr = fake_dereg_mr,
	.alloc_mw = fake_alloc_mw,
	.dealloc_mw = fake_dealloc_mw,
	.create_cq = fake_ops_create_cq,
	.destroy_cq = fake_destroy_cq,
	.poll_cq = fake_poll_cq,
	.req_notify_cq = fake_req_notify_cq,
	.create_qp = fake_create_qp,
	.modify_qp = fake_modify_qp,
	.query_qp = fake_query_qp,
	.destroy_qp = fake_destroy_qp,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.post_srq_recv = fake_post_srq_recv,
	.attach_mcast = fake_attach_mcast,
	.detach_mcast = fake_detach_mcast,
	.create_srq = fake_create_srq,
	.destroy_srq = fake_destroy_srq,
	.create_ah = fake_create_ah,
	.create_user_ah = fake_create_ah,
	.destroy_ah = fake_destroy_ah,
	INIT_RDMA_OBJ_SIZE(ib_ah, fake_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, fake_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, fake_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, fake_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, fake_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, fake_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, fake_ucontext, ib),
};

/* With it removal does not wait for open files. */
static const struct ib_device_ops fake_removable_ops = {
	.disassociate_ucontext = fake_disassociate_ucontext,
};

/* --- registration ------------------------------------------------------------------------- */

static inline struct fake_device *fake_device_new(bool removable)
{
	struct fake_device *fake = ib_alloc_device(fake_device, ib);
	int err;

	if (!fake)
		return ERR_PTR(-ENOMEM);
	fake->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!fake->page) {
		err = -ENOMEM;
		goto err_device;
	}
	ib_set_device_ops(&fake->ib, &fake_ops);
	if (removable)
		ib_set_device_ops(&fake->ib, &fake_removable_ops);
	fake->ib.node_type = RDMA_NODE_RNIC;
	fake->ib.phys_port_cnt = 1;
	fake->ib.num_comp_vectors = 2;
	fake->ib.uverbs_cmd_mask = ~0ULL;
	err = ib_register_device(&fake->ib, "fake%d", NULL);
	if (err)
		goto err_page;
	fake->registered = true;
	return fake;

err_page:
	__free_page(fake->page);
err_device:
	ib_dealloc_device(&fake->ib);
	return ERR_PTR(err);
}

static inline void fake_device_remove(struct fake_device *fake)
{
	if (fake->registered)
		ib_unregister_device(&fake->ib);
	fake->registered = false;
}

static inline void fake_device_free(struct fake_device *fake)
{
	fake_device_remove(fake);
	__free_page(fake->page);
	ib_dealloc_device(&fake->ib);
}

#endif
