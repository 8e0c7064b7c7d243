// SPDX-License-Identifier: GPL-2.0
/*
 * Devices and files: /dev/infiniband/uverbsN and open().
 *
 * ib_core calls uv_client_add() for each RDMA device, which creates a struct
 * uv_device. The client registration and each struct uv_file hold one ->refcount,
 * which removal may wait for, and one reference on ->dev, which frees the
 * structure.
 *
 * open() creates a struct uv_file. The struct file holds one reference, each
 * event file one more (events.c). The objects that the file has created are
 * destroyed when it is closed or the device is removed, whichever is first. Their
 * memory is freed when it is closed, that of the struct uv_file with the last
 * reference.
 *
 * Removal: if the driver has disassociate_ucontext, ib_dev is cleared, running
 * calls are waited for, and the objects of each file are destroyed. The files
 * stay open and return EIO. If the driver does not have it, removal waits until
 * all files are closed, and an open file holds the driver's module.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>

#include "core_calls.h"
#include "uverbs.h"

#define UV_MAX_DEVICES 1024

/*
 * The device numbers of ib_uverbs: 32 fixed ones and, for more devices, a dynamic range. Rules of
 * udev and cgroups have the major number 231 or this name from /proc/devices. If this module
 * replaces ib_uverbs, that is, has its class name, it uses the same numbers. Beside ib_uverbs it
 * has only a dynamic range under the same name.
 */
#define CHRDEV_NAME "infiniband_verbs"
#define FIXED_DEVT MKDEV(231, 192)
#define FIXED_DEVICES 32

static char *class_name = CHRDEV_NAME;
module_param(class_name, charp, 0444);
MODULE_PARM_DESC(class_name, "class of the devices; another one than the default lets ib_uverbs be loaded, too");

static char *prefix = "uverbs";
module_param(prefix, charp, 0444);
MODULE_PARM_DESC(prefix, "the name of a device is this and a number");

static bool replaces_ib_uverbs;
static dev_t dynamic_devt;
static DEFINE_IDA(uv_devnums);
static struct class *uv_class;

/* ---- files ----------------------------------------------------------------------- */

static void uv_device_unref(struct uv_device *dev)
{
	if (refcount_dec_and_test(&dev->base.refcount))
		complete(&dev->base.comp);
	put_device(&dev->base.dev);
}

static void uv_file_delete(struct uv_file *file)
{
	mutex_destroy(&file->base.umap_lock);
	mutex_destroy(&file->base.ucontext_lock);
	kfree(file);
}

static void uv_file_free(struct kref *ref)
{
	struct uv_file *file = container_of(ref, struct uv_file, base.ref);
	struct uv_device *dev = uv_file_uvdev(file);
	struct ib_device *ib_dev;
	int srcu;

	srcu = srcu_read_lock(&dev->base.disassociate_srcu);
	ib_dev = uv_file_ibdev(file);
	if (ib_dev && !ib_dev->ops.disassociate_ucontext)
		module_put(ib_dev->ops.owner);
	srcu_read_unlock(&dev->base.disassociate_srcu, srcu);

	if (file->base.disassociate_page)
		__free_page(file->base.disassociate_page);
	uv_file_delete(file);
	uv_device_unref(dev);
}

void uv_file_put(struct uv_file *file)
{
	kref_put(&file->base.ref, uv_file_free);
}

/* Many files may be open: one must not need much more memory than one of ib_uverbs. */
static_assert(sizeof(struct uv_file) <= sizeof(struct ib_uverbs_file) + 40);

static struct uv_file *uv_file_new(struct uv_device *dev)
{
	struct uv_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return NULL;
	file->base.device = &dev->base;
	kref_init(&file->base.ref);
	mutex_init(&file->base.ucontext_lock);
	init_rwsem(&file->base.hw_destroy_rwsem);
	spin_lock_init(&file->base.uobjects_lock);
	INIT_LIST_HEAD(&file->base.uobjects);
	uv_handles_init(&file->handles);
	mutex_init(&file->base.umap_lock);
	INIT_LIST_HEAD(&file->base.umaps);
	INIT_LIST_HEAD(&file->events);
	return file;
}

static int uv_open(struct inode *inode, struct file *filp)
{
	struct uv_device *dev = container_of(inode->i_cdev, struct uv_device, base.cdev);
	struct ib_device *ib_dev;
	struct uv_file *file;
	int srcu, err;

	if (!refcount_inc_not_zero(&dev->base.refcount))
		return -ENXIO;
	get_device(&dev->base.dev);
	/* Before the mutex: at the limit of its memory cgroup a process may reclaim for long. */
	file = uv_file_new(dev);
	if (!file) {
		err = -ENOMEM;
		goto err_device;
	}
	srcu = srcu_read_lock(&dev->base.disassociate_srcu);
	mutex_lock(&dev->base.lists_mutex);

	ib_dev = srcu_dereference(dev->base.ib_dev, &dev->base.disassociate_srcu);
	err = -EIO;
	if (!ib_dev)
		goto err_unlock;
	err = -EPERM;
	if (!rdma_dev_access_netns(ib_dev, current->nsproxy->net_ns))
		goto err_unlock;
	err = -ENODEV;
	if (!ib_dev->ops.disassociate_ucontext && !try_module_get(ib_dev->ops.owner))
		goto err_unlock;
	list_add_tail(&file->base.list, &dev->base.uverbs_file_list);

	mutex_unlock(&dev->base.lists_mutex);
	srcu_read_unlock(&dev->base.disassociate_srcu, srcu);
	/* ib_core compares this with the context's ufile. */
	filp->private_data = file;
	return stream_open(inode, filp);

err_unlock:
	mutex_unlock(&dev->base.lists_mutex);
	srcu_read_unlock(&dev->base.disassociate_srcu, srcu);
	uv_file_delete(file);
err_device:
	uv_device_unref(dev);
	return err;
}

static void uv_file_unlist(struct uv_device *dev, struct uv_file *file)
	__must_hold(&dev->base.lists_mutex)
{
	lockdep_assert_held(&dev->base.lists_mutex);
	list_del_init(&file->base.list);
}

static int uv_close(struct inode *inode, struct file *filp)
{
	struct uv_file *file = filp->private_data;
	struct uv_device *dev = uv_file_uvdev(file);
	struct uv_events *async;

	uv_file_teardown(file, RDMA_REMOVE_CLOSE);
	/* No call is running, and a removal no longer finds anything to tear down. */
	uv_file_free_handles(file);

	mutex_lock(&dev->base.lists_mutex);
	uv_file_unlist(dev, file);
	mutex_unlock(&dev->base.lists_mutex);

	async = uv_file_async(file);
	file->base.default_async_file = NULL;
	uv_events_put(async);
	uv_file_put(file);
	return 0;
}

static const struct file_operations uv_fops = {
	.owner = THIS_MODULE,
	.open = uv_open,
	.release = uv_close,
	.write = uv_write,
	.unlocked_ioctl = uv_ioctl,
	/* The structures of both ABIs are the same for 32-bit callers. */
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = uv_mmap,
};

/* ---- devices ----------------------------------------------------------------------- */

static ssize_t uv_device_show(struct device *device, char *buf, bool name)
{
	struct uv_device *dev = container_of(device, struct uv_device, base.dev);
	struct ib_device *ib_dev;
	ssize_t ret = -ENODEV;
	int srcu;

	srcu = srcu_read_lock(&dev->base.disassociate_srcu);
	ib_dev = srcu_dereference(dev->base.ib_dev, &dev->base.disassociate_srcu);
	if (ib_dev && name)
		ret = sysfs_emit(buf, "%s\n", dev_name(&ib_dev->dev));
	else if (ib_dev)
		ret = sysfs_emit(buf, "%u\n", ib_dev->ops.uverbs_abi_ver);
	srcu_read_unlock(&dev->base.disassociate_srcu, srcu);
	return ret;
}

static ssize_t ibdev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return uv_device_show(device, buf, true);
}
static DEVICE_ATTR_RO(ibdev);

static ssize_t abi_version_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return uv_device_show(device, buf, false);
}
static DEVICE_ATTR_RO(abi_version);

static struct attribute *uv_device_attrs[] = {
	&dev_attr_ibdev.attr,
	&dev_attr_abi_version.attr,
	NULL,
};

static const struct attribute_group uv_device_group = {
	.attrs = uv_device_attrs,
};

static void uv_device_release(struct device *device)
{
	struct uv_device *dev = container_of(device, struct uv_device, base.dev);

	uv_stats_free(dev);
	cleanup_srcu_struct(&dev->base.disassociate_srcu);
	mutex_destroy(&dev->base.lists_mutex);
	mutex_destroy(&dev->base.xrcd_tree_mutex);
	kfree(dev);
}

static dev_t uv_devt(int number)
{
	if (replaces_ib_uverbs && number < FIXED_DEVICES)
		return FIXED_DEVT + number;
	return dynamic_devt + number;
}

static int uv_client_add(struct ib_device *ib_dev)
{
	struct uv_device *dev;
	int err;

	/* Not served by this module; another client may serve it. */
	if (!ib_dev->ops.alloc_ucontext || !uv_driver_allowed(ib_dev->ops.driver_id))
		return -EOPNOTSUPP;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	err = init_srcu_struct(&dev->base.disassociate_srcu);
	if (err) {
		kfree(dev);
		return err;
	}
	device_initialize(&dev->base.dev);
	dev->base.dev.class = uv_class;
	/* Without netlink libibverbs searches the directory of the parent. */
	dev->base.dev.parent = ib_dev->dev.parent;
	dev->base.dev.release = uv_device_release;
	dev->base.groups[0] = &uv_device_group;
	dev->base.dev.groups = dev->base.groups;
	refcount_set(&dev->base.refcount, 1);
	init_completion(&dev->base.comp);
	dev->base.xrcd_tree = RB_ROOT;
	mutex_init(&dev->base.xrcd_tree_mutex);
	mutex_init(&dev->base.lists_mutex);
	context_unsafe(INIT_LIST_HEAD(&dev->base.uverbs_file_list)); /* not published yet */
	rcu_assign_pointer(dev->base.ib_dev, ib_dev);
	dev->base.num_comp_vectors = ib_dev->num_comp_vectors;
	uv_device_init_supported(dev, ib_dev);

	err = ida_alloc_max(&uv_devnums, UV_MAX_DEVICES - 1, GFP_KERNEL);
	if (err < 0)
		goto err_put;
	dev->base.devnum = err;
	dev->base.dev.devt = uv_devt(dev->base.devnum);
	err = dev_set_name(&dev->base.dev, "%s%d", prefix, dev->base.devnum);
	if (!err)
		err = uv_stats_add(dev, ib_dev);
	if (err)
		goto err_number;

	cdev_init(&dev->base.cdev, &uv_fops);
	dev->base.cdev.owner = THIS_MODULE;
	err = cdev_device_add(&dev->base.cdev, &dev->base.dev);
	if (err)
		goto err_stats;
	ib_set_client_data(ib_dev, &uv_client, dev);
	return 0;

err_stats:
	uv_stats_hide(dev);
err_number:
	ida_free(&uv_devnums, dev->base.devnum);
err_put:
	put_device(&dev->base.dev);
	return err;
}

static void uv_device_disassociate(struct uv_device *dev)
{
	struct uv_file *file;

	rcu_assign_pointer(dev->base.ib_dev, NULL);
	synchronize_srcu(&dev->base.disassociate_srcu);

	mutex_lock(&dev->base.lists_mutex);
	while (!list_empty(&dev->base.uverbs_file_list)) {
		file = list_first_entry(&dev->base.uverbs_file_list, struct uv_file, base.list);
		list_del_init(&file->base.list);
		kref_get(&file->base.ref);
		/* The teardown may close files, also this one. */
		mutex_unlock(&dev->base.lists_mutex);
		uv_file_teardown(file, RDMA_REMOVE_DRIVER_REMOVE);
		uv_file_put(file);
		mutex_lock(&dev->base.lists_mutex);
	}
	mutex_unlock(&dev->base.lists_mutex);
}

static void uv_client_remove(struct ib_device *ib_dev, void *data)
{
	struct uv_device *dev = data;

	cdev_device_del(&dev->base.cdev, &dev->base.dev);
	uv_stats_hide(dev);
	ida_free(&uv_devnums, dev->base.devnum);
	if (ib_dev->ops.disassociate_ucontext)
		uv_device_disassociate(dev);
	if (refcount_dec_and_test(&dev->base.refcount))
		complete(&dev->base.comp);
	if (!ib_dev->ops.disassociate_ucontext)
		wait_for_completion(&dev->base.comp);
	put_device(&dev->base.dev);
}

/* RDMA_NLDEV_CMD_GET_CHARDEV: libibverbs queries the character device of an RDMA device. */
static int uv_client_nl_info(struct ib_device *ib_dev, void *data, struct ib_client_nl_info *info)
{
	struct uv_device *dev = data;

	if (info->port != -1)
		return -EINVAL;
	info->abi = ib_dev->ops.uverbs_abi_ver;
	info->cdev = &dev->base.dev;
	if (ib_dev->ops.uverbs_no_driver_id_binding)
		return 0;
	return nla_put_u32(info->nl_msg, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, ib_dev->ops.driver_id);
}

/* libibverbs queries the client of this name. The first client of the name replies. */
struct ib_client uv_client = {
	.name = "uverbs",
	.no_kverbs_req = true,
	.add = uv_client_add,
	.remove = uv_client_remove,
	.get_nl_info = uv_client_nl_info,
};

static char *uv_devnode(UV_DEVNODE_CONST struct device *device, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return kasprintf(GFP_KERNEL, "infiniband/%s", dev_name(device));
}

static CLASS_ATTR_STRING(abi_version, 0444, __stringify(IB_USER_VERBS_ABI_VERSION));

static int uv_chrdev_register(void)
{
	int err;

	replaces_ib_uverbs = !strcmp(class_name, CHRDEV_NAME);
	if (replaces_ib_uverbs) {
		err = register_chrdev_region(FIXED_DEVT, FIXED_DEVICES, CHRDEV_NAME);
		if (err)
			return err;
	}
	err = alloc_chrdev_region(&dynamic_devt, 0, UV_MAX_DEVICES, CHRDEV_NAME);
	if (err && replaces_ib_uverbs)
		unregister_chrdev_region(FIXED_DEVT, FIXED_DEVICES);
	return err;
}

static void uv_chrdev_unregister(void)
{
	unregister_chrdev_region(dynamic_devt, UV_MAX_DEVICES);
	if (replaces_ib_uverbs)
		unregister_chrdev_region(FIXED_DEVT, FIXED_DEVICES);
}

int uv_devices_init(void)
{
	int err;

	err = uv_chrdev_register();
	if (err) {
		pr_err("no device numbers (%d); is ib_uverbs loaded? Set class_name= and prefix=\n",
		       err);
		return err;
	}
	uv_class = uv_core_class_create(class_name);
	if (IS_ERR(uv_class)) {
		err = PTR_ERR(uv_class);
		pr_err("cannot create class %s (%d); is ib_uverbs loaded? Set class_name= and prefix=\n",
		       class_name, err);
		goto err_regions;
	}
	uv_class->devnode = uv_devnode;
	err = class_create_file(uv_class, &class_attr_abi_version.attr);
	if (err)
		goto err_class;
	err = ib_register_client(&uv_client);
	if (err)
		goto err_class;
	return 0;

err_class:
	class_destroy(uv_class);
err_regions:
	uv_chrdev_unregister();
	return err;
}

void uv_devices_exit(void)
{
	ib_unregister_client(&uv_client);
	class_destroy(uv_class);
	uv_chrdev_unregister();
	ida_destroy(&uv_devnums);
}
