// SPDX-License-Identifier: GPL-2.0
/*
 * Queries, user contexts and their mappings, protection domains.
 */
#include <linux/cc_platform.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>

#include "uapi/t3_abi.h"
#include "compat_mm.h"
#include "t3_compat_verbs.h"
#include "verbs.h"

/* --- queries ---------------------------------------------------------------- */

static int t3_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			   struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibdev);
	int err;

	err = t3_udata_empty(udata);
	if (err)
		return err;

	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ibdev->node_guid;
	attr->fw_ver = (u64)((dev->fw.fw_vers >> 16) & 0xfff) << 32 |
		       ((dev->fw.fw_vers >> 8) & 0xff) << 16 | (dev->fw.fw_vers & 0xff);
	attr->hw_ver = dev->tdev->type;
	attr->vendor_id = dev->pdev->vendor;
	attr->vendor_part_id = dev->pdev->device;
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (t3_memory_windows) {
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW;
		attr->max_mw = dev->stags.max - dev->stags.min + 1;
	}
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->page_size_cap = T3_MR_PAGE_SIZES;
	attr->max_mr_size = U32_MAX;
	attr->max_qp = (dev->qp_groups.max - dev->qp_groups.min + 1) * dev->qp_group_size;
	attr->max_qp_wr = T3_MAX_RQ_ENTRIES - 1;
	attr->max_send_sge = T3_MAX_SGE;
	attr->max_recv_sge = T3_MAX_SGE;
	attr->max_sge_rd = T3_MAX_READ_SGE;
	attr->max_qp_rd_atom = T3_MAX_RD_ATOM;
	attr->max_qp_init_rd_atom = T3_MAX_RD_ATOM;
	attr->max_cq = dev->cq_ids.max - dev->cq_ids.min + 1;
	attr->max_cqe = T3_MAX_CQE;
	attr->max_mr = dev->stags.max - dev->stags.min + 1;
	attr->max_pd = dev->pd_ids.max - dev->pd_ids.min + 1;
	attr->max_fast_reg_page_list_len = T3_MAX_FASTREG_PAGES;
	attr->atomic_cap = IB_ATOMIC_NONE;
	return 0;
}

static int t3_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	bool slow = test_bit(port - 1, &to_t3_dev(ibdev)->ports_slow);

	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_SNMP_TUNNEL_SUP | IB_PORT_REINIT_SUP |
			       IB_PORT_DEVICE_MGMT_SUP | IB_PORT_VENDOR_CLASS_SUP |
			       IB_PORT_BOOT_MGMT_SUP;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = 1;
	/* 1 or 10 Gbit/s, as ib_get_eth_speed() names them: 1X is 2.5 or 10 Gbit/s. */
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = slow ? IB_SPEED_SDR : IB_SPEED_FDR10;
	attr->max_msg_sz = U32_MAX;
	return 0;
}

static int t3_get_port_immutable(struct ib_device *ibdev, u32 port,
				 struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->pkey_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static int t3_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	struct t3_dev *dev = to_t3_dev(ibdev);

	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, dev->ports.lldevs[port - 1]->dev_addr, ETH_ALEN);
	return 0;
}

static int t3_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0;
	return 0;
}

/* The format of ethtool -i, which old libraries parse. */
static void t3_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	const struct ch_embedded_info *fw = &to_t3_dev(ibdev)->fw;

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%s %u.%u.%u TP %u.%u.%u",
		 fw->fw_vers >> 28 ? "T" : "N", (fw->fw_vers >> 16) & 0xfff,
		 (fw->fw_vers >> 8) & 0xff, fw->fw_vers & 0xff, (fw->tp_vers >> 16) & 0xff,
		 (fw->tp_vers >> 8) & 0xff, fw->tp_vers & 0xff);
}

/* --- user contexts ------------------------------------------------------------ */

static int t3_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct t3_ucontext *uc = to_t3_ucontext(ibuc);
	struct t3_dev *dev = to_t3_dev(ibuc->device);
	int err = t3_udata_empty(udata);

	if (err)
		return err;
	/*
	 * uverbs does not pin this module for a process, because it can
	 * disassociate the process from its objects. That is for cards that are
	 * removed. rmmod is refused while a process has the device open.
	 */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	uc->quota = t3_quota_get(&dev->quotas);
	if (IS_ERR(uc->quota)) {
		module_put(THIS_MODULE);
		return PTR_ERR(uc->quota);
	}
	t3_qp_groups_init(&uc->groups);
	uc->groups.quota = uc->quota;
	return 0;
}

/* A process that imports the context gets what t3_alloc_ucontext() returns: nothing. */
static int t3_query_ucontext(struct ib_ucontext *ibuc, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static void t3_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	struct t3_ucontext *uc = to_t3_ucontext(ibuc);
	struct t3_dev *dev = to_t3_dev(ibuc->device);

	t3_qp_groups_free(dev, &uc->groups);
	t3_quota_put(&dev->quotas, uc->quota);
	/* Unloading unregisters the device first, which waits for our caller. */
	module_put(THIS_MODULE);
}

/*
 * All mappings are made with rdma_user_mmap_io(), and uverbs zaps them before it
 * calls this. Nothing else is to be done.
 */
static void t3_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

/*
 * @what: the ring or the doorbell page. Return: its entry. Keys are page aligned and fit 32 bits,
 * as old libraries expect.
 */
struct t3_mmap *t3_mmap_insert(struct t3_ucontext *uc, const struct t3_mmap *what, size_t len)
{
	struct t3_mmap *map = kmemdup(what, sizeof(*what), GFP_KERNEL_ACCOUNT);
	int err;

	if (!map)
		return ERR_PTR(-ENOMEM);
	err = rdma_user_mmap_entry_insert(&uc->ibucontext, &map->rdma, len);
	if (err) {
		kfree(map);
		return ERR_PTR(err);
	}
	return map;
}

/* Neither the object nor a mapping uses the memory any more. */
static void t3_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct t3_mmap *map = container_of(entry, struct t3_mmap, rdma);

	t3_dma_free(to_t3_dev(entry->ucontext->device), &map->mem);
	kfree(map);
}

/*
 * rdma_user_mmap_io() maps everything as the memory of a device: without the bit of AMD's memory
 * encryption (SME). The memory of a ring has the bit in the kernel's mapping and in its DMA
 * address. In an encrypted guest it has none, as all memory for DMA there. The page tables exist,
 * so nothing can fail here. After an error uverbs would still have the mapping in its list.
 */
static void t3_mmap_encrypted(struct vm_area_struct *vma, unsigned long pfn)
{
	unsigned long addr;
	vm_fault_t ret;

	if (!cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT))
		return;
	t3_zap_vma(vma);
	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		ret = vmf_insert_pfn_prot(vma, addr, pfn++, vma->vm_page_prot);
		WARN_ON_ONCE(ret != VM_FAULT_NOPAGE);
	}
}

/* rdma_user_mmap_entry_get() checks the length. */
static int t3_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(ibuc, vma);
	size_t len = vma->vm_end - vma->vm_start;
	struct t3_mmap *map;
	int err;

	if (!entry)
		return -EINVAL;
	map = container_of(entry, struct t3_mmap, rdma);
	if (!map->doorbell) {
		err = rdma_user_mmap_io(ibuc, vma, page_to_pfn(map->mem.page), len,
					vma->vm_page_prot, entry);
		if (!err)
			t3_mmap_encrypted(vma, page_to_pfn(map->mem.page));
		goto put;
	}
	if (vma->vm_flags & VM_READ) {
		err = -EPERM;
		goto put;
	}
	/* A child process must not ring the doorbells of its parent. */
	t3_vma_flags(vma, VM_DONTCOPY | VM_DONTEXPAND, VM_MAYREAD);
	err = rdma_user_mmap_io(ibuc, vma, map->doorbell >> PAGE_SHIFT, len,
				pgprot_noncached(vma->vm_page_prot), entry);
put:
	rdma_user_mmap_entry_put(entry);
	return err;
}

/* --- protection domains ---------------------------------------------------------- */

static int t3_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct t3_ucontext *uc = rdma_udata_to_drv_context(udata, struct t3_ucontext, ibucontext);
	struct t3_dev *dev = to_t3_dev(ibpd->device);
	struct t3_alloc_pd_resp resp = {};
	struct t3_pd *pd = to_t3_pd(ibpd);
	int id, err;

	err = t3_udata_empty(udata);
	if (err)
		return err;
	pd->quota = uc ? uc->quota : NULL;
	id = t3_id_get(dev, &dev->pd_ids, pd->quota);
	if (id < 0)
		return id;
	pd->id = id;
	t3_pd_init(pd);
	resp.pdid = id;
	if (udata) {
		err = t3_udata_respond(udata, &resp, sizeof(resp));
		if (err)
			t3_id_put(&dev->pd_ids, pd->quota, id);
	}
	return err;
}

static int t3_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct t3_dev *dev = to_t3_dev(ibpd->device);
	struct t3_pd *pd = to_t3_pd(ibpd);

	t3_pd_close(dev, pd);
	t3_id_put(&dev->pd_ids, pd->quota, pd->id);
	return 0;
}

const struct ib_device_ops t3_verbs_ops = {
	.query_device	= t3_query_device,
	.query_port	= t3_query_port,
	.get_port_immutable = t3_get_port_immutable,
	.query_gid	= t3_query_gid,
	.query_pkey	= t3_query_pkey,
	.get_dev_fw_str	= t3_get_dev_fw_str,
	.alloc_ucontext	= t3_alloc_ucontext,
	.query_ucontext	= t3_query_ucontext,
	.dealloc_ucontext = t3_dealloc_ucontext,
	.disassociate_ucontext = t3_disassociate_ucontext,
	.mmap		= t3_mmap,
	.mmap_free	= t3_mmap_free,
	.alloc_pd	= t3_alloc_pd,
	.dealloc_pd	= t3_dealloc_pd,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, t3_ucontext, ibucontext),
	INIT_RDMA_OBJ_SIZE(ib_pd, t3_pd, ibpd),
};
