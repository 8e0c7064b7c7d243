// SPDX-License-Identifier: GPL-2.0
/*
 * The module, and the lifetime of a device.
 *
 * The NIC driver calls add for a new card and remove for one that it gives up,
 * both with its client lock held, and often with rtnl. ib_core and its other
 * clients take rtnl while they hold their own locks, so add and remove must not
 * wait for ib_core: registration and unregistration are work items of one ordered
 * queue per card, and neither add nor remove waits for them.
 *
 *   add        allocate the device, queue register_work
 *   register   open the control QP, register with ib_core
 *   shutdown   ib_unregister_device(), which destroys the objects of consumers;
 *              end connections; close the control QP
 *   remove     set T3_DEV_GONE; wait for users of the NIC driver's tables; stop
 *              the connection manager; queue unregister_work
 *   unregister shutdown, unless it has run already; then free everything
 *
 * There are three reasons for a remove:
 *
 *   the card is unbound      DMA memory must be freed before the PCI device, and
 *                            the card can abort its connections only before cxgb3
 *                            stops it. The PCI bus notifies us before it calls
 *                            cxgb3, with none of the locks held: the notifier
 *                            queues shutdown and waits for it.
 *   the adapter is reset     The PCI device stays. cxgb3 reports the reset
 *                            beforehand, and the card loses its bus mastering
 *                            until it is reset. Shutdown runs afterwards.
 *   this module is unloaded  Shutdown completes before the client is unregistered.
 *
 * Suspend is as an unload: the client is registered again afterwards.
 *
 * The queue runs no other work: ib_unregister_device() waits for kernel consumers,
 * and these wait for completions, which other work may have to report. It also waits
 * for processes, and one of them may wait for a page that is never provided. So each
 * card has its own queue. When a card is reset, its new device is added before the
 * old one is unregistered, and the queue keeps their order. Queues are found by the
 * card's PCI address and exist until the module is unloaded: a queue cannot be
 * destroyed by its own last work item, and flushing it needs no device, which may be
 * freed meanwhile. The queues are not WQ_MEM_RECLAIM, because they flush those of
 * ib_core, which are not either.
 */
#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <rdma/ib_user_verbs.h>

#include "uapi/t3_abi.h"
#include "device.h"

MODULE_DESCRIPTION("Chelsio T3 RDMA driver");
MODULE_AUTHOR("The t3rdma authors");
MODULE_LICENSE("GPL");

struct workqueue_struct *t3_workqueue;

static struct dentry *debugfs_root;

/* A card that is or was present, by the address of its PCI device. */
struct t3_card {
	struct list_head node;
	struct workqueue_struct *life_wq;
	/* While the machine sleeps, until cxgb3 is unbound: */
	struct pci_dev *asleep;		/* with a reference; devices_mutex */
	void __iomem *control;		/* register SG_CONTROL */
	char name[];
};

static DEFINE_MUTEX(devices_mutex);
static LIST_HEAD(cards);	/* grows with devices_mutex */
static struct list_head devices __guarded_by(&devices_mutex) = LIST_HEAD_INIT(devices);
static bool exiting __guarded_by(&devices_mutex);

/* --- sysfs -------------------------------------------------------------------- */

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct t3_dev *dev = rdma_device_to_drv_device(device, struct t3_dev, ibdev);

	return sysfs_emit(buf, "%d\n", dev->tdev->type);
}
static DEVICE_ATTR_RO(hw_rev);

static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "cxgb3\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct t3_dev *dev = rdma_device_to_drv_device(device, struct t3_dev, ibdev);

	return sysfs_emit(buf, "%x.%x\n", dev->pdev->vendor, dev->pdev->device);
}
static DEVICE_ATTR_RO(board_id);

static struct attribute *t3_attributes[] = {
	&dev_attr_hw_rev.attr,
	&dev_attr_hca_type.attr,
	&dev_attr_board_id.attr,
	NULL
};

static const struct attribute_group t3_attr_group = {
	.attrs = t3_attributes,
};

/* --- registration ---------------------------------------------------------------- */

static const struct ib_device_ops t3_main_ops = {
	.owner		= THIS_MODULE,
	.driver_id	= RDMA_DRIVER_CXGB3,
	.uverbs_abi_ver	= T3_ABI_VERSION,
	.device_group	= &t3_attr_group,

	.iw_connect	= t3_cm_connect,
	.iw_accept	= t3_cm_accept,
	.iw_reject	= t3_cm_reject,
	.iw_create_listen = t3_cm_create_listen,
	.iw_destroy_listen = t3_cm_destroy_listen,
	.fill_res_cm_id_entry = t3_cm_fill_res_entry,
};

static int t3_register_ibdev(struct t3_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;
	u32 port;
	int err;

	ib_set_device_ops(ibdev, &t3_main_ops);
	ib_set_device_ops(ibdev, &t3_verbs_ops);
	ib_set_device_ops(ibdev, &t3_qp_ops);
	ib_set_device_ops(ibdev, &t3_cq_ops);
	ib_set_device_ops(ibdev, &t3_mr_ops);
	ib_set_device_ops(ibdev, &t3_stats_ops);

	ibdev->dev.parent = &dev->pdev->dev;
	ibdev->node_type = RDMA_NODE_RNIC;
	strscpy(ibdev->node_desc, "Chelsio T3", sizeof(ibdev->node_desc));
	memcpy(&ibdev->node_guid, dev->ports.lldevs[0]->dev_addr, ETH_ALEN);
	ibdev->phys_port_cnt = dev->ports.nports;
	ibdev->num_comp_vectors = 1;
	ibdev->local_dma_lkey = 0;
	strscpy(ibdev->iw_ifname, dev->ports.lldevs[0]->name, sizeof(ibdev->iw_ifname));
	/* The kernel arms user CQs; ib_core does not enable the command by default. */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);

	for (port = 1; port <= dev->ports.nports; port++) {
		err = ib_device_set_netdev(ibdev, dev->ports.lldevs[port - 1], port);
		if (err)
			return err;
	}
	/*
	 * The card gets page addresses only, so a segment may have any length. A bounce buffer has
	 * 256 KB at most: kernel users that map a longer segment would get ENOMEM.
	 */
	dma_set_max_seg_size(&dev->pdev->dev,
			     min_t(size_t, UINT_MAX, dma_max_mapping_size(&dev->pdev->dev)));
	return ib_register_device(ibdev, "cxgb3_%d", &dev->pdev->dev);
}

static void t3_register_work(struct work_struct *work)
{
	struct t3_dev *dev = container_of(work, struct t3_dev, register_work);
	const char *what = "open the control QP";
	int err;

	if (t3_dev_gone(dev) || test_bit(T3_DEV_SHUT_DOWN, &dev->flags))
		return;
	err = t3_ctrl_open(dev);
	if (err)
		goto err;
	dev->ctrl.ready = true;
	t3_watchdog_start(dev);
	what = "register";
	err = t3_register_ibdev(dev);
	if (err)
		goto err;
	t3_ports_init(dev);
	set_bit(T3_DEV_REGISTERED, &dev->flags);
	return;

err:
	/* unregister_work cleans up when the card is removed. */
	dev_err(&dev->pdev->dev, "cannot %s: %d\n", what, err);
}

/* True if the card may still fetch from a QP's ring, or place data into its buffers. */
static bool t3_dev_connected(struct t3_dev *dev)
{
	unsigned long id, flags;
	bool connected = false;
	struct t3_qp *qp;

	xa_lock_irqsave(&dev->qps, flags);
	xa_for_each(&dev->qps, id, qp)
		connected = connected || t3_qp_is_busy(qp);
	xa_unlock_irqrestore(&dev->qps, flags);
	return connected;
}

/*
 * Runs on the card's life_wq. Afterwards there is no consumer, no connection and no
 * control QP, and the card does not access our memory: it has confirmed that, or has
 * lost its bus mastering.
 */
static void t3_dev_shutdown(struct t3_dev *dev)
{
	if (test_bit(T3_DEV_SHUT_DOWN, &dev->flags))
		return;
	/* The unbind does not wait for a peer's reply to a close: abort. */
	if (test_bit(T3_DEV_UNBINDING, &dev->flags) && !t3_dev_gone(dev)) {
		t3_cm_shut_down(dev);
		if (t3_dev_connected(dev))
			t3_dev_fatal(dev, "the card does not abort its connections");
	}
	if (test_and_clear_bit(T3_DEV_REGISTERED, &dev->flags)) {
		flush_work(&dev->fatal_work);	/* dispatches an event of the device */
		ib_unregister_device(&dev->ibdev);
	}
	if (!t3_dev_gone(dev))
		t3_cm_shut_down(dev);
	cancel_delayed_work_sync(&dev->db_work);
	t3_watchdog_stop(dev);
	flush_work(&dev->fatal_work);
	if (dev->ctrl.ready)
		t3_ctrl_close(dev);
	dev->ctrl.ready = false;
	set_bit(T3_DEV_SHUT_DOWN, &dev->flags);
}

static void t3_shutdown_work(struct work_struct *work)
{
	t3_dev_shutdown(container_of(work, struct t3_dev, shutdown_work));
}

static void t3_unregister_work(struct work_struct *work)
{
	struct t3_dev *dev = container_of(work, struct t3_dev, unregister_work);

	t3_dev_shutdown(dev);
	/* Adapter events may have queued these since an earlier shutdown. */
	cancel_delayed_work_sync(&dev->db_work);
	flush_work(&dev->fatal_work);
	t3_cm_close(dev);
	debugfs_remove_recursive(dev->debugfs);
	t3_rsc_close(dev);
	ib_dealloc_device(&dev->ibdev);
}

static struct t3_card *t3_card_find(struct pci_dev *pdev)
{
	struct t3_card *card;

	lockdep_assert_held(&devices_mutex);
	list_for_each_entry(card, &cards, node)
		if (!strcmp(card->name, pci_name(pdev)))
			return card;
	return NULL;
}

static struct t3_card *t3_card_find_or_create(struct pci_dev *pdev)
{
	const char *name = pci_name(pdev);
	size_t size = strlen(name) + 1;
	struct t3_card *card;

	card = t3_card_find(pdev);
	if (card)
		return card;
	card = kzalloc(struct_size(card, name, size), GFP_KERNEL);
	if (!card)
		return NULL;
	memcpy(card->name, name, size);
	card->life_wq = alloc_ordered_workqueue("t3_life_%s", 0, name);
	if (!card->life_wq) {
		kfree(card);
		return NULL;
	}
	list_add_tail(&card->node, &cards);
	return card;
}

/* No card is added meanwhile: exiting is set, or the client is not registered. */
static void t3_cards_flush(void)
{
	struct t3_card *card;

	list_for_each_entry(card, &cards, node)
		flush_workqueue(card->life_wq);
}

static void t3_cards_free(void)
{
	struct t3_card *card, *next;

	list_for_each_entry_safe(card, next, &cards, node) {
		destroy_workqueue(card->life_wq);
		list_del(&card->node);
		kfree(card);
	}
}

/* cxgb3 must still have the card. */
static void t3_card_falls_asleep(const struct t3_dev *dev)
{
	struct t3_card *card = t3_card_find(dev->pdev);

	card->asleep = pci_dev_get(dev->pdev);
	card->control = dev->info.kdb_addr - T3_KDOORBELL + T3_SG_CONTROL;
}

static struct pci_dev *t3_card_wakes_up(struct t3_card *card)
{
	struct pci_dev *pdev = card->asleep;

	lockdep_assert_held(&devices_mutex);
	card->asleep = NULL;
	return pdev;
}

/*
 * The PCI bus unbinds a driver. BUS_NOTIFY_UNBIND_DRIVER precedes the driver's
 * remove, and only the device's lock is held.
 *
 * A card that was added between this notification and remove (the module was just
 * loaded, or an adapter reset had begun) is not shut down when remove is called. It
 * loses its bus mastering there, and BUS_NOTIFY_UNBOUND_DRIVER waits for its
 * shutdown.
 */
static int t3_pci_event(struct notifier_block *nb, unsigned long action, void *data)
{
	struct device *device = data;
	struct pci_dev *pdev = to_pci_dev(device);
	struct t3_card *card;
	struct t3_dev *dev;

	if (action != BUS_NOTIFY_UNBIND_DRIVER && action != BUS_NOTIFY_UNBOUND_DRIVER)
		return NOTIFY_DONE;
	if (pdev->vendor != PCI_VENDOR_ID_CHELSIO)
		return NOTIFY_DONE;
	mutex_lock(&devices_mutex);
	list_for_each_entry(dev, &devices, node) {
		if (dev->pdev != pdev)
			continue;
		t3_dev_check_present(dev);
		set_bit(T3_DEV_UNBINDING, &dev->flags);
		queue_work(dev->life_wq, &dev->shutdown_work);
	}
	card = t3_card_find(pdev);
	if (card)
		pci_dev_put(t3_card_wakes_up(card));
	mutex_unlock(&devices_mutex);
	if (card)
		flush_workqueue(card->life_wq);
	return NOTIFY_OK;
}

static struct notifier_block t3_pci_notifier = {
	.notifier_call = t3_pci_event,
};

/* --- client of the NIC driver --------------------------------------------------- */

static int t3_dev_query_card(struct t3_dev *dev)
{
	struct t3cdev *tdev = dev->tdev;
	int err;

	err = tdev->ctl(tdev, GET_EMBEDDED_INFO, &dev->fw);
	if (!err)
		err = tdev->ctl(tdev, RDMA_GET_PARAMS, &dev->info);
	if (!err)
		err = tdev->ctl(tdev, GET_PORTS, &dev->ports);
	return err;
}

/* The reason why the card cannot be used, or NULL. */
static const char *t3_card_unsuitable(struct t3_dev *dev)
{
	if (dev->tdev->type == T3A)
		return "revision A of the chip is not supported";
	if (((dev->fw.fw_vers >> 16) & 0xfff) != T3_FW_MAJOR)
		return "firmware 7 is needed";
	if (!dev->ports.nports || dev->ports.nports > T3_MAX_PORTS)
		return "it has no usable port";
	switch (t3_dma_check(dev)) {
	case 0:
		return NULL;
	case -ENOMEM:
		return "no memory for DMA to it";
	default:
		return "DMA to it is not coherent or needs bounce buffers";
	}
}

/* The card's first port is up, or the module was loaded. */
static void t3_client_add(struct t3cdev *tdev)
{
	struct t3_card *card;
	const char *reason;
	struct t3_dev *dev;
	int err;

	dev = ib_alloc_device(t3_dev, ibdev);
	if (!dev)
		return;
	dev->tdev = tdev;
	err = t3_dev_query_card(dev);
	if (err) {
		pr_err(DRV_NAME ": cannot query %s: %d\n", tdev->name, err);
		goto err_dev;
	}
	dev->pdev = dev->info.pdev;
	reason = t3_card_unsuitable(dev);
	if (reason) {
		dev_info(&dev->pdev->dev, "no RDMA on this card: %s\n", reason);
		goto err_dev;
	}

	/* Only this flag charges the nodes. The xarray first tries GFP_NOWAIT, not our flags. */
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->mrs, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	mutex_init(&dev->ctrl.mutex);
	mutex_init(&dev->db_mutex);
	init_waitqueue_head(&dev->ctrl.wait);
	INIT_WORK(&dev->register_work, t3_register_work);
	INIT_WORK(&dev->shutdown_work, t3_shutdown_work);
	INIT_WORK(&dev->unregister_work, t3_unregister_work);
	INIT_DELAYED_WORK(&dev->db_work, t3_doorbell_work);
	t3_health_init(dev);
	t3_watchdog_init(dev);

	mutex_lock(&devices_mutex);
	card = exiting ? NULL : t3_card_find_or_create(dev->pdev);
	mutex_unlock(&devices_mutex);
	if (!card) {
		err = -ENOMEM;
		goto err_log;
	}
	dev->life_wq = card->life_wq;
	err = t3_rsc_open(dev);
	if (err)
		goto err_log;
	dev->debugfs = debugfs_create_dir(pci_name(dev->pdev), debugfs_root);
	err = t3_cm_open(dev);
	if (err)
		goto err_rsc;
	WRITE_ONCE(tdev->ulp, dev);
	mutex_lock(&devices_mutex);
	list_add_tail(&dev->node, &devices);
	if (!exiting)
		queue_work(dev->life_wq, &dev->register_work);
	mutex_unlock(&devices_mutex);
	return;

err_rsc:
	debugfs_remove_recursive(dev->debugfs);
	t3_rsc_close(dev);
err_log:
	dev_err(&dev->pdev->dev, "cannot set up RDMA: %d\n", err);
err_dev:
	ib_dealloc_device(&dev->ibdev);
}

static void t3_dev_unlist(struct t3_dev *dev)
	__must_hold(&devices_mutex)
{
	lockdep_assert_held(&devices_mutex);
	list_del(&dev->node);
}

static void t3_client_remove(struct t3cdev *tdev)
{
	struct t3_dev *dev = tdev->ulp;

	if (!dev)
		return;
	t3_dev_set_gone(dev, !test_bit(T3_DEV_SHUT_DOWN, &dev->flags));
	WRITE_ONCE(tdev->ulp, NULL);
	/* Wait for handlers in softirq, and for users between enter and leave. */
	synchronize_net();
	t3_cm_stop(dev);

	mutex_lock(&devices_mutex);
	t3_dev_unlist(dev);
	queue_work(dev->life_wq, &dev->unregister_work);
	mutex_unlock(&devices_mutex);
}

static void t3_client_event(struct t3cdev *tdev, u32 event, u32 port)
{
	struct t3_dev *dev = tdev->ulp;

	if (dev)
		t3_adapter_event(dev, event);
}

struct cxgb3_client t3_client = {
	.name		= DRV_NAME,
	.add		= t3_client_add,
	.remove		= t3_client_remove,
	.handlers	= t3_cpl_handlers,
	.event_handler	= t3_client_event,
};

/* End all devices. Afterwards cxgb3 does not call this module. */
static void t3_client_stop(bool suspends)
{
	struct t3_dev *dev;
	bool stopped;

	mutex_lock(&devices_mutex);
	stopped = exiting;
	exiting = true;
	list_for_each_entry(dev, &devices, node) {
		if (suspends) {
			set_bit(T3_DEV_UNBINDING, &dev->flags);
			t3_card_falls_asleep(dev);
		}
		queue_work(dev->life_wq, &dev->shutdown_work);
	}
	mutex_unlock(&devices_mutex);
	if (stopped)
		return;
	t3_cards_flush();
	cxgb3_unregister_client(&t3_client);
	t3_cards_flush();
}

static void t3_client_start(void)
{
	mutex_lock(&devices_mutex);
	exiting = false;
	mutex_unlock(&devices_mutex);
	cxgb3_register_client(&t3_client);
}

/* --- suspend and hibernation ------------------------------------------------------ */

/* A card that has slept, with the reference, or NULL. *lost: without the state from cxgb3. */
static struct pci_dev *t3_next_sleeper(bool *lost)
{
	struct pci_dev *pdev = NULL;
	struct t3_card *card;

	mutex_lock(&devices_mutex);
	list_for_each_entry(card, &cards, node) {
		if (!card->asleep)
			continue;
		/* Without bus mastering if it was declared dead on the way into the suspend. */
		*lost = !card->asleep->is_busmaster ||
			!(readl(card->control) & T3_SG_GLOBALENABLE);
		pdev = t3_card_wakes_up(card);
		break;
	}
	mutex_unlock(&devices_mutex);
	return pdev;
}

/*
 * Only a new probe by cxgb3 makes such a card work, and gives the ports new net devices. A boot
 * kernel may have used the card before it has loaded the image of a hibernation.
 */
static void t3_wake_cards(bool hibernated)
{
	struct pci_dev *pdev;
	bool lost;
	int err;

	while ((pdev = t3_next_sleeper(&lost))) {
		if (lost || hibernated) {
			dev_info(&pdev->dev, "the card does not work any more: cxgb3 probes it again\n");
			err = device_reprobe(&pdev->dev);
			if (err)
				dev_err(&pdev->dev, "cxgb3 does not take the card: %d\n", err);
		}
		pci_dev_put(pdev);
	}
}

/*
 * The steps of a suspend that a process may delay: ib_unregister_device() waits for a call that
 * waits for a page which is never provided. The suspend is refused then, and the machine can be
 * shut down. RDMA begins again when the process has ended.
 */
static struct workqueue_struct *t3_pm_wq;	/* ordered */
static DECLARE_COMPLETION(t3_pm_stopped);

static void t3_pm_stop(struct work_struct *work)
{
	t3_client_stop(true);
	complete(&t3_pm_stopped);
}

static void t3_pm_restart(struct work_struct *work)
{
	t3_wake_cards(false);
	t3_client_start();
}

static DECLARE_WORK(t3_pm_stop_work, t3_pm_stop);
static DECLARE_WORK(t3_pm_restart_work, t3_pm_restart);

static int t3_pm_prepare(void)
{
	if (!work_busy(&t3_pm_restart_work)) {
		reinit_completion(&t3_pm_stopped);
		queue_work(t3_pm_wq, &t3_pm_stop_work);
		if (wait_for_completion_timeout(&t3_pm_stopped, T3_SUSPEND_TIMEOUT))
			return NOTIFY_OK;
		queue_work(t3_pm_wq, &t3_pm_restart_work);
	}
	pr_err(DRV_NAME ": suspend is refused: a process uses RDMA in a call that does not end, as ibv_reg_mr() of a file that is not served\n");
	return notifier_from_errno(-EBUSY);
}

/*
 * cxgb3 has no power management. So RDMA ends before the machine sleeps, while the card works and
 * processes run, and begins again when it has woken up, with new devices.
 */
static int t3_pm_event(struct notifier_block *nb, unsigned long action, void *data)
{
	switch (action) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		return t3_pm_prepare();
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		t3_wake_cards(action == PM_POST_HIBERNATION);
		t3_client_start();
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block t3_pm_notifier = {
	.notifier_call = t3_pm_event,
};

static int __init t3_module_init(void)
{
	int err;

	t3_workqueue = alloc_workqueue(DRV_NAME, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!t3_workqueue)
		return -ENOMEM;
	t3_pm_wq = alloc_ordered_workqueue("t3_pm", 0);
	if (!t3_pm_wq) {
		err = -ENOMEM;
		goto err_wq;
	}
	debugfs_root = debugfs_create_dir(DRV_NAME, NULL);
	err = t3_cm_init();
	if (err)
		goto err_debugfs;
	err = t3_ports_watch();
	if (err)
		goto err_cm;
	err = bus_register_notifier(&pci_bus_type, &t3_pci_notifier);
	if (err)
		goto err_ports;
	err = register_pm_notifier(&t3_pm_notifier);
	if (err)
		goto err_bus;
	t3_register_cpl_handler(T3_CPL_ASYNC_NOTIFY, t3_async_event);
	t3_client_start();
	return 0;

err_bus:
	bus_unregister_notifier(&pci_bus_type, &t3_pci_notifier);
err_ports:
	t3_ports_unwatch();
err_cm:
	t3_cm_exit();
err_debugfs:
	debugfs_remove_recursive(debugfs_root);
	destroy_workqueue(t3_pm_wq);
err_wq:
	destroy_workqueue(t3_workqueue);
	return err;
}

static void __exit t3_module_exit(void)
{
	t3_ports_unwatch();
	unregister_pm_notifier(&t3_pm_notifier);
	destroy_workqueue(t3_pm_wq);
	t3_client_stop(false);
	bus_unregister_notifier(&pci_bus_type, &t3_pci_notifier);
	t3_register_cpl_handler(T3_CPL_ASYNC_NOTIFY, NULL);
	synchronize_net();
	t3_cards_free();
	destroy_workqueue(t3_workqueue);
	t3_cm_exit();
	debugfs_remove_recursive(debugfs_root);
}

module_init(t3_module_init);
module_exit(t3_module_exit);
