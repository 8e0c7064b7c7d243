// SPDX-License-Identifier: GPL-2.0
/* The module, its network interface, and /dev/t3_races. */
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "races.h"

static struct net_device *races_ndev;
struct page *races_page;

static netdev_tx_t races_xmit(struct sk_buff *skb, struct net_device *ndev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops ndev_ops = {
	.ndo_start_xmit = races_xmit,
	.ndo_set_mac_address = eth_mac_addr,
};

static int races_copy_state(struct t3_races_state __user *to)
{
	struct t3_races_state now = { .plugged = races_plugged() };
	int kind;

	for (kind = 0; kind < T3_RACES_KINDS; kind++)
		now.objects[kind] = atomic_read(&races_objects[kind]);
	return copy_to_user(to, &now, sizeof(now)) ? -EFAULT : 0;
}

static long races_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	union {
		struct t3_races_arm arm;
		struct t3_races_event event;
	} in;

	switch (cmd) {
	case T3_RACES_IOC_RECORD:
		races_record();
		return 0;
	case T3_RACES_IOC_RECORDING:
		return races_recording(user);
	case T3_RACES_IOC_ARM:
		if (copy_from_user(&in.arm, user, sizeof(in.arm)))
			return -EFAULT;
		filp->private_data = filp;
		return races_arm(&in.arm);
	case T3_RACES_IOC_WAIT:
		return races_wait(arg);
	case T3_RACES_IOC_RELEASE:
		races_release();
		return 0;
	case T3_RACES_IOC_PLUG:
		return races_plug(races_ndev);
	case T3_RACES_IOC_UNPLUG:
		return races_unplug();
	case T3_RACES_IOC_EVENT:
		if (copy_from_user(&in.event, user, sizeof(in.event)))
			return -EFAULT;
		return races_report(&in.event);
	case T3_RACES_IOC_STATE:
		return races_copy_state(user);
	default:
		return -ENOTTY;
	}
}

/* The process that holds a thread may exit: the thread must then continue. */
static int races_close(struct inode *inode, struct file *filp)
{
	if (filp->private_data)
		races_release();
	return 0;
}

static int races_open(struct inode *inode, struct file *filp)
{
	filp->private_data = NULL;	/* misc_open() stores the device there */
	return 0;
}

static const struct file_operations races_fops = {
	.owner = THIS_MODULE,
	.open = races_open,
	.unlocked_ioctl = races_ioctl,
	.release = races_close,
};

static struct miscdevice races_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "t3_races",
	.fops = &races_fops,
};

static int __init races_init(void)
{
	int err;

	races_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!races_page)
		return -ENOMEM;
	((u32 *)page_address(races_page))[1] = T3_RACES_PAGE;
	races_ndev = alloc_etherdev(0);
	if (!races_ndev) {
		err = -ENOMEM;
		goto err_page;
	}
	strscpy(races_ndev->name, "race%d", IFNAMSIZ);
	races_ndev->netdev_ops = &ndev_ops;
	eth_hw_addr_random(races_ndev);
	err = register_netdev(races_ndev);
	if (err)
		goto err_free;
	err = misc_register(&races_misc);
	if (err)
		goto err_ndev;
	return 0;

err_ndev:
	unregister_netdev(races_ndev);
err_free:
	free_netdev(races_ndev);
err_page:
	__free_page(races_page);
	return err;
}

static void __exit races_exit(void)
{
	misc_deregister(&races_misc);
	races_unplug();
	unregister_netdev(races_ndev);
	free_netdev(races_ndev);
	__free_page(races_page);
}

module_init(races_init);
module_exit(races_exit);

MODULE_DESCRIPTION("Points at which tests hold threads, and a device without hardware");
MODULE_LICENSE("GPL");
