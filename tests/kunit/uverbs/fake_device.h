/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device of tests/fakes, with SRQs, address handles and multicast. It counts the objects,
 * injects errors and records the order of destructions.
 */
#ifndef T3_UVERBS_FAKE_DEVICE_H
#define T3_UVERBS_FAKE_DEVICE_H

#define FAKE_WATCHED
#include "../../fakes/fake_ib.h"

static const char fake_letters[FAKE_KINDS + 1] = "xprwcqsa";

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

static int fake_created(struct ib_device *ib, enum fake_kind kind, void *object,
			struct ib_udata *udata)
{
	struct fake_device *fake = fake_of(ib);
	int err = fake->fail_create[kind];

	switch (kind) {
	case FAKE_CTX:
		fake->context = object;
		break;
	case FAKE_CQ:
		fake->cq = object;
		fake->cq->cqe++;	/* more than requested, to see it in the response */
		break;
	case FAKE_QP:
		fake->qp = object;
		break;
	default:
		break;
	}
	fake->udata_in = udata ? udata->inlen : 0;
	fake->udata_out = udata ? udata->outlen : 0;
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

static int fake_destroyed(struct ib_device *ib, enum fake_kind kind)
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

/* --- driver functions ------------------------------------------------------------------ */

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

static struct ib_mr *fake_rereg_user_mr(struct ib_mr *mr, int flags, u64 start, u64 length,
					u64 virt, int access, struct ib_pd *pd,
					struct ib_udata *udata)
{
	return fake_of(pd->device)->rereg_returns_new ? fake_new_mr(pd->device) : NULL;
}

static int fake_posts_send(struct ib_qp *qp, const struct ib_send_wr *wr,
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

static int fake_posts_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
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
	return fake_created(srq->device, FAKE_SRQ, srq, udata);
}

static int fake_destroy_srq(struct ib_srq *srq, struct ib_udata *udata)
{
	return fake_destroyed(srq->device, FAKE_SRQ);
}

static int fake_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	return fake_created(ah->device, FAKE_AH, ah, udata);
}

static int fake_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return fake_destroyed(ah->device, FAKE_AH);
}

static const struct ib_device_ops fake_ops = {
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 5,
	.mmap = fake_mmap,
	.mmap_free = fake_mmap_free,
	.rereg_user_mr = fake_rereg_user_mr,
	.post_send = fake_posts_send,
	.post_recv = fake_posts_recv,
	.post_srq_recv = fake_post_srq_recv,
	.attach_mcast = fake_attach_mcast,
	.detach_mcast = fake_detach_mcast,
	.create_srq = fake_create_srq,
	.destroy_srq = fake_destroy_srq,
	.create_ah = fake_create_ah,
	.create_user_ah = fake_create_ah,
	.destroy_ah = fake_destroy_ah,
	.size_ib_ah = sizeof(struct ib_ah),
	.size_ib_srq = sizeof(struct ib_srq),
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
	err = fake_ib_register(&fake->ib, "fake%d");
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
