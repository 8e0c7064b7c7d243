// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of a device's memory. The driver decides what an offset means and
 * maps it; this file keeps track of the I/O pages, which ib_core's
 * rdma_user_mmap_io() registers in file->umaps, so that they can be taken away
 * when the device goes: they would be somebody else's by then.
 *
 * A mapping copied by fork() or split is registered again (umap_open()). After
 * a removal an access finds a page of zeros instead of the device, so that a
 * library that polls or rings a doorbell at that moment survives.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <t3_race_point.h>

#include "core_calls.h"
#include "uverbs.h"

static struct uv_file *file_of(const struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

static void umap_open(struct vm_area_struct *vma)
{
	struct uv_file *file = file_of(vma);
	struct srcu_struct *srcu = &file->base.device->disassociate_srcu;
	struct rdma_umap_priv *from = vma->vm_private_data;
	struct rdma_umap_priv *priv = NULL;
	int idx;

	if (!from)
		return;
	idx = srcu_read_lock(srcu);
	T3_RACE_POINT(uverbs_umap_open);
	/* Removal waits for us if it has not begun, and finds the new one then. */
	if (uv_file_device(file))
		priv = kzalloc(sizeof(*priv), GFP_KERNEL_ACCOUNT);
	vma->vm_private_data = priv;
	if (priv)
		rdma_umap_priv_init(priv, vma, from->entry);
	else
		uv_zap_vma(vma);	/* cannot be refused here, and must not stay untracked */
	srcu_read_unlock(srcu, idx);
}

static void umap_close(struct vm_area_struct *vma)
{
	struct uv_file *file = file_of(vma);
	struct rdma_umap_priv *priv = vma->vm_private_data;

	if (!priv)
		return;
	T3_RACE_POINT(uverbs_umap_close);
	mutex_lock(&file->base.umap_lock);
	if (priv->entry)
		rdma_user_mmap_entry_put(priv->entry);
	list_del(&priv->list);
	mutex_unlock(&file->base.umap_lock);
	kfree(priv);
}

static vm_fault_t umap_fault(struct vm_fault *vmf)
{
	struct uv_file *file = file_of(vmf->vma);
	struct page **page = &file->base.disassociate_page;
	vm_fault_t ret = 0;

	T3_RACE_POINT(uverbs_umap_fault);
	if (!vmf->vma->vm_private_data)
		return VM_FAULT_SIGBUS;
	if (!(vmf->vma->vm_flags & (VM_WRITE | VM_MAYWRITE))) {
		vmf->page = ZERO_PAGE(vmf->address);
		get_page(vmf->page);
		return 0;
	}
	/* Shared by all of the file's mappings: they are all dead. */
	mutex_lock(&file->base.umap_lock);
	if (!*page)
		*page = alloc_pages(vmf->gfp_mask | __GFP_ZERO | __GFP_ACCOUNT, 0);
	if (*page) {
		vmf->page = *page;
		get_page(vmf->page);
	} else {
		ret = VM_FAULT_SIGBUS;
	}
	mutex_unlock(&file->base.umap_lock);
	return ret;
}

static const struct vm_operations_struct umap_ops = {
	.open = umap_open,
	.close = umap_close,
	.fault = umap_fault,
};

int uv_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct uv_file *file = filp->private_data;
	struct srcu_struct *srcu = &file->base.device->disassociate_srcu;
	struct ib_ucontext *context;
	int idx, ret;

	idx = srcu_read_lock(srcu);
	/* Pairs with the release in make_context(). */
	context = smp_load_acquire(&file->base.ucontext);
	if (!uv_file_device(file)) {
		ret = -EIO;
	} else if (!context) {
		ret = -EINVAL;
	} else {
		vma->vm_ops = &umap_ops;
		T3_RACE_POINT(uverbs_mmap_entered);
		ret = context->device->ops.mmap(context, vma);
		T3_RACE_POINT(uverbs_mmap_mapped);
	}
	srcu_read_unlock(srcu, idx);
	return ret;
}

/* Needs umap_lock. */
static void forget(struct uv_file *file, struct rdma_umap_priv *priv)
{
	lockdep_assert_held(&file->base.umap_lock);
	list_del_init(&priv->list);
	if (priv->entry)
		rdma_user_mmap_entry_put(priv->entry);
	priv->entry = NULL;
}

/* An mm that has mappings here, with a reference; mappings of dying ones are forgotten. */
static struct mm_struct *next_mm(struct uv_file *file)
{
	struct rdma_umap_priv *priv, *next;
	struct mm_struct *mm = NULL;

	mutex_lock(&file->base.umap_lock);
	list_for_each_entry_safe(priv, next, &file->base.umaps, list) {
		if (mmget_not_zero(priv->vma->vm_mm)) {
			mm = priv->vma->vm_mm;
			break;
		}
		/* exit_mmap() is at it and calls umap_close() soon: with nothing left to put. */
		forget(file, priv);
	}
	mutex_unlock(&file->base.umap_lock);
	return mm;
}

/*
 * Takes all I/O pages away. One mm at a time, because its mmap_lock comes
 * before umap_lock and the list is known only under the latter.
 */
void uv_mmap_disassociate(struct uv_file *file)
{
	struct rdma_umap_priv *priv, *next;
	struct mm_struct *mm;

	/* Or two teardowns could take mappings of one file away at the same time. */
	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	while ((mm = next_mm(file))) {
		T3_RACE_POINT(uverbs_umap_take_away);
		mmap_read_lock(mm);
		mutex_lock(&file->base.umap_lock);
		list_for_each_entry_safe(priv, next, &file->base.umaps, list) {
			if (priv->vma->vm_mm != mm)
				continue;
			uv_zap_vma(priv->vma);
			forget(file, priv);
		}
		mutex_unlock(&file->base.umap_lock);
		mmap_read_unlock(mm);
		mmput(mm);
	}
}
