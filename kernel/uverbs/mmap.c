// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of device memory. The driver interprets the offset and maps the pages.
 * ib_core's rdma_user_mmap_io() registers each mapping of I/O pages in
 * file->umaps. This file unmaps them when the device is removed, because the pages
 * may then belong to another device.
 *
 * uv_umap_open() registers the copy of a mapping for fork(), mremap() or a split. After
 * removal an access faults, and the fault maps a page of zeros, so that a library
 * that polls a queue or writes a doorbell at that time does not get SIGBUS.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "core_calls.h"
#include "uverbs.h"

static struct uv_file *uv_vma_file(const struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

/* Removes a mapping from the list. */
static void uv_umap_untrack(struct uv_file *file, struct rdma_umap_priv *priv)
	__must_hold(&file->base.umap_lock)
{
	lockdep_assert_held(&file->base.umap_lock);
	list_del_init(&priv->list);
	if (priv->entry)
		rdma_user_mmap_entry_put(priv->entry);
	priv->entry = NULL;
}

/*
 * Tracks the copy of a mapping. mremap(), and fork() on 6.12 and later, call this before they move
 * or copy the page tables, so to unmap the copy here would be too early: it would get the I/O
 * pages afterwards. So the copy is on the list if its source is, whatever the state of the device.
 * Removal unmaps each mapping on the list under mmap_lock, which the caller of this function holds
 * until the page tables are complete. A source that is off the list has no I/O pages.
 *
 * The copy cannot be refused, so the allocation must not fail: it is charged to the memory cgroup
 * also above the limit. There is one for each VMA, and the kernel limits their number.
 */
static void uv_umap_open(struct vm_area_struct *vma)
{
	struct uv_file *file = uv_vma_file(vma);
	struct rdma_umap_priv *from = vma->vm_private_data;
	struct rdma_umap_priv *priv;

	if (!from)
		return;
	priv = kzalloc(sizeof(*priv), GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
	priv->vma = vma;
	INIT_LIST_HEAD(&priv->list);
	vma->vm_private_data = priv;
	mutex_lock(&file->base.umap_lock);
	/* The caller's mmap_lock keeps the source. */
	if (!list_empty(&from->list)) {
		priv->entry = from->entry;
		if (priv->entry)
			kref_get(&priv->entry->ref);
		list_add(&priv->list, &file->base.umaps);
	}
	mutex_unlock(&file->base.umap_lock);
}

static void uv_umap_close(struct vm_area_struct *vma)
{
	struct uv_file *file = uv_vma_file(vma);
	struct rdma_umap_priv *priv = vma->vm_private_data;

	if (!priv)
		return;
	mutex_lock(&file->base.umap_lock);
	uv_umap_untrack(file, priv);
	mutex_unlock(&file->base.umap_lock);
	kfree(priv);
}

/* One page for all mappings of the file: its device is gone. Returns NULL without memory. */
static struct page *uv_umap_page(struct uv_file *file, gfp_t gfp)
	__must_hold(&file->base.umap_lock)
{
	lockdep_assert_held(&file->base.umap_lock);
	if (!file->base.disassociate_page)
		file->base.disassociate_page = alloc_pages(gfp | __GFP_ZERO | __GFP_ACCOUNT, 0);
	return file->base.disassociate_page;
}

static vm_fault_t uv_umap_fault(struct vm_fault *vmf)
{
	struct uv_file *file = uv_vma_file(vmf->vma);
	vm_fault_t ret = 0;

	if (!vmf->vma->vm_private_data)
		return VM_FAULT_SIGBUS;
	if (!(vmf->vma->vm_flags & (VM_WRITE | VM_MAYWRITE))) {
		vmf->page = ZERO_PAGE(vmf->address);
		get_page(vmf->page);
		return 0;
	}
	mutex_lock(&file->base.umap_lock);
	vmf->page = uv_umap_page(file, vmf->gfp_mask);
	if (vmf->page)
		get_page(vmf->page);
	else
		ret = VM_FAULT_SIGBUS;
	mutex_unlock(&file->base.umap_lock);
	return ret;
}

static const struct vm_operations_struct uv_umap_ops = {
	.open = uv_umap_open,
	.close = uv_umap_close,
	.fault = uv_umap_fault,
};

int uv_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct uv_file *file = filp->private_data;
	struct srcu_struct *srcu = &file->base.device->disassociate_srcu;
	struct ib_ucontext *context;
	int idx, ret;

	idx = srcu_read_lock(srcu);
	/* Pairs with the release in uv_context_finish(). */
	context = smp_load_acquire(&file->base.ucontext);
	if (!uv_file_ibdev(file)) {
		ret = -EIO;
	} else if (!context) {
		ret = -EINVAL;
	} else {
		vma->vm_ops = &uv_umap_ops;
		ret = context->device->ops.mmap(context, vma);
	}
	srcu_read_unlock(srcu, idx);
	return ret;
}

/*
 * Gets an mm that has a mapping on the list. Mappings of an exiting mm are removed from the list.
 */
static struct mm_struct *uv_umap_next_mm(struct uv_file *file)
{
	struct rdma_umap_priv *priv, *next;
	struct mm_struct *mm = NULL;

	mutex_lock(&file->base.umap_lock);
	list_for_each_entry_safe(priv, next, &file->base.umaps, list) {
		if (mmget_not_zero(priv->vma->vm_mm)) {
			mm = priv->vma->vm_mm;
			break;
		}
		/*
		 * exit_mmap() unmaps it and calls uv_umap_close(), which has no entry left to put.
		 */
		uv_umap_untrack(file, priv);
	}
	mutex_unlock(&file->base.umap_lock);
	return mm;
}

/*
 * Unmaps all I/O pages, one mm at a time: mmap_lock must be taken before umap_lock,
 * which protects the list.
 */
void uv_mmap_disassociate(struct uv_file *file)
{
	struct rdma_umap_priv *priv, *next;
	struct mm_struct *mm;

	/* Excludes another teardown of the same file. */
	lockdep_assert_held_write(&file->base.hw_destroy_rwsem);
	while ((mm = uv_umap_next_mm(file))) {
		mmap_read_lock(mm);
		mutex_lock(&file->base.umap_lock);
		list_for_each_entry_safe(priv, next, &file->base.umaps, list) {
			if (priv->vma->vm_mm != mm)
				continue;
			uv_zap_vma(priv->vma);
			uv_umap_untrack(file, priv);
		}
		mutex_unlock(&file->base.umap_lock);
		mmap_read_unlock(mm);
		mmput(mm);
	}
}
