// SPDX-License-Identifier: GPL-2.0
/*
 * The lifetime of a device, with stubs for the NIC driver and ib_core. The stubs take mutexes in
 * place of the real locks, so that lockdep checks their order: the client lock and rtnl around add
 * and remove, rtnl inside ib_core.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/suspend.h>
#include <rdma/ib_verbs.h>

static int workqueues;

static inline struct workqueue_struct *count_workqueue(struct workqueue_struct *wq)
{
	workqueues += !!wq;
	return wq;
}

static inline void end_workqueue(struct workqueue_struct *wq)
{
	workqueues--;
	destroy_workqueue(wq);
}

#define made_workqueue(wq)	count_workqueue(wq)
#include "../compat.h"
#include "../failing_alloc.h"
#include "slow_work.h"

#undef destroy_workqueue
#define destroy_workqueue(wq)	end_workqueue(wq)
#define bus_register_notifier(bus, nb) \
	(alloc_fails(GFP_KERNEL, __func__) ? -ENOMEM : (bus_register_notifier)(bus, nb))
#define register_pm_notifier(nb) \
	(alloc_fails(GFP_KERNEL, __func__) ? -ENOMEM : (register_pm_notifier)(nb))

/* The tests call the init and exit functions. */
#undef module_init
#undef module_exit
#define module_init(fn)
#define module_exit(fn)
#undef __init
#undef __exit
#define __init
#define __exit

static int core_registers(struct ib_device *ibdev);
static void core_unregisters(struct ib_device *ibdev);
static void card_loses_mastering(struct pci_dev *pdev);
static bool card_is_present(struct pci_dev *pdev);

static unsigned int devices_made, devices_freed;

#define ib_register_device(ibdev, name, dma)	core_registers(ibdev)
#define ib_unregister_device(ibdev)		core_unregisters(ibdev)
#define ib_device_set_netdev(ibdev, ndev, port)	\
	(alloc_fails(GFP_KERNEL, __func__) ? -ENOMEM : 0)
#define _ib_alloc_device(...)			\
	(alloc_fails(GFP_KERNEL, __func__) ?	\
		NULL : (devices_made++, (_ib_alloc_device)(__VA_ARGS__)))
#define ib_dispatch_event(event)		((void)(event))
#define ib_dealloc_device(ibdev)		(devices_freed++, (ib_dealloc_device)(ibdev))
#define pci_clear_master			card_loses_mastering
#define pci_device_is_present			card_is_present
#define pci_dev_get(pdev)			(card_refs++, (pdev))
#define pci_dev_put(pdev)			(card_refs -= !!(pdev))
#define device_reprobe(device)			((void)(device), reprobes++, 0)
#undef readl
#define readl(addr)				((void)(addr), sg_control)

static int card_refs, reprobes;
static u32 sg_control;

#define dma_max_mapping_size(device)		((void)(device), max_mapping_size)

static size_t max_mapping_size;

#include "device.h"
#undef T3_SUSPEND_TIMEOUT
#define T3_SUSPEND_TIMEOUT	suspend_timeout

static unsigned long suspend_timeout = 20 * HZ;

#include "main.c"
#include "nic.c"
#include "health.c"
#include "watchdog.c"

static DEFINE_MUTEX(client_lock);	/* cxgb3_db_lock */
static DEFINE_MUTEX(rtnl);

static struct pci_dev *pdev;
static struct net_device *ndev;
static struct t3cdev *tdev;
static struct device_dma_parameters dma_parms;
static struct workqueue_struct *core_wq;	/* "infiniband": not for reclaim */
static struct work_struct core_work;
static struct t3_qp *qp;			/* of a consumer, connected */

static struct {
	unsigned int registered, unregistered;
	bool gone_at_unregister;
	bool connected_at_unregister;
	bool mastering_at_unregister;
	unsigned int aborted, stopped, masters_cleared, ctrl_closed;
	bool gone_before_cleared;
	bool does_not_abort, unplugged;
	bool core_refuses;
	bool page_missing;
	int dma_error;
	int allocated;			/* parts of devices */
	bool closes_slowly, fails_slowly;
	bool report_at_unregister, report_at_close;	/* of a failure, still in progress */
	bool doorbells_at_close;	/* are to be rung later */
	unsigned int unregistered_clients;
	bool interface_is_up;		/* when the module registers with cxgb3 */
	struct work_struct *last_work;	/* queued while the module is unloaded */
	unsigned int freed_at_exit;	/* devices, at the end of the connection manager */
} seen;

/* The allocations of a part of a device; other suites test it with failing allocations. */
static int set_up_part(const char *what)
{
	if (alloc_fails(GFP_KERNEL, what))
		return -ENOMEM;
	seen.allocated++;
	return 0;
}

/* A second card, and a consumer of the first one that blocks ib_unregister_device(). */
static struct pci_dev *other_pdev;
static struct t3cdev *other_tdev;
static struct completion core_blocked, page_provided;

static struct t3_dev *the_dev(void)
{
	return tdev->ulp;
}

/* --- ib_core ------------------------------------------------------------------- */

static int core_registers(struct ib_device *ibdev)
{
	mutex_lock(&rtnl);	/* as a client does, or query_port of another driver */
	mutex_unlock(&rtnl);
	if (seen.core_refuses)
		return -ENFILE;
	if (alloc_fails(GFP_KERNEL, __func__))
		return -ENOMEM;
	seen.registered++;
	return 0;
}

static void takes_a_while(struct work_struct *work)
{
	msleep(50);
}

static void core_unregisters(struct ib_device *ibdev)
{
	struct t3_dev *dev = to_t3_dev(ibdev);

	seen.unregistered++;
	seen.gone_at_unregister = t3_dev_gone(dev);
	seen.connected_at_unregister = qp->busy;
	seen.mastering_at_unregister = !seen.masters_cleared;
	seen.report_at_unregister |= !!work_busy(&dev->fatal_work);
	if (seen.page_missing && dev->pdev == pdev) {
		complete(&core_blocked);
		wait_for_completion(&page_provided);
	}
	mutex_lock(&rtnl);
	mutex_unlock(&rtnl);
	xa_erase_irq(&dev->qps, 32);
	queue_work(core_wq, &core_work);
	flush_workqueue(core_wq);
}

/* --- stubs of the driver ---------------------------------------------------------- */

static void card_loses_mastering(struct pci_dev *pdev)
{
	seen.masters_cleared++;
	pdev->is_busmaster = 0;
	if (t3_dev_gone(the_dev()))
		seen.gone_before_cleared = true;
}

static bool card_is_present(struct pci_dev *pdev)
{
	return !seen.unplugged;
}

void t3_cm_shut_down(struct t3_dev *dev)
{
	seen.aborted++;
	if (!seen.does_not_abort)
		qp->busy = false;
}

void t3_cm_stop(struct t3_dev *dev)
{
	seen.stopped++;
	qp->busy = false;
}

void t3_cm_close(struct t3_dev *dev)
{
	if (seen.closes_slowly)
		msleep(50);
	seen.report_at_close |= !!work_busy(&dev->fatal_work);
	seen.doorbells_at_close |= delayed_work_pending(&dev->db_work);
	seen.allocated--;
}

static void end_connections(struct t3_dev *dev)
{
	if (seen.fails_slowly)
		msleep(50);
	qp->busy = false;
}

static bool has_endpoints(struct t3_dev *dev)
{
	return false;
}

const struct t3_conn_ops t3_conn_ops = {
	.fatal	= end_connections,
	.busy	= has_endpoints,
};

int t3_cm_open(struct t3_dev *dev)
{
	return set_up_part(__func__);
}

int t3_cm_init(void)
{
	return set_up_part(__func__);
}

void t3_cm_exit(void)
{
	seen.allocated--;
	seen.freed_at_exit = devices_freed;
}

int t3_ctrl_open(struct t3_dev *dev)
{
	return set_up_part(__func__);
}

void t3_ctrl_close(struct t3_dev *dev)
{
	seen.ctrl_closed++;
	seen.doorbells_at_close |= delayed_work_pending(&dev->db_work);
	seen.allocated--;
}

int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len)
{
	return t3_dev_gone(dev) ? -EIO : 0;
}

int t3_rsc_open(struct t3_dev *dev)
{
	return set_up_part(__func__);
}

void t3_rsc_close(struct t3_dev *dev)
{
	seen.allocated--;
}

int t3_dma_check(struct t3_dev *dev)
{
	return seen.dma_error;
}

int t3_ports_watch(void)
{
	return set_up_part(__func__);
}

void t3_ports_unwatch(void)
{
	seen.allocated--;
}

void t3_adapter_event(struct t3_dev *dev, u32 event)
{
	set_bit(T3_DEV_DOWN, &dev->flags);
	t3_dev_fatal(dev, "the adapter is being reset");
}

cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];
const struct ib_device_ops t3_verbs_ops, t3_qp_ops, t3_cq_ops, t3_mr_ops, t3_stats_ops;

/* --- the NIC driver ---------------------------------------------------------------- */

static int nic_ctl(struct t3cdev *tdev, unsigned int req, void *data)
{
	switch (req) {
	case GET_EMBEDDED_INFO:
		((struct ch_embedded_info *)data)->fw_vers = T3_FW_MAJOR << 16;
		return 0;
	case RDMA_GET_PARAMS:
		((struct rdma_info *)data)->pdev = tdev == other_tdev ? other_pdev : pdev;
		return 0;
	case GET_PORTS:
		((struct adap_ports *)data)->nports = 1;
		((struct adap_ports *)data)->lldevs[0] = ndev;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* As cxgb_open() does when an interface is set up. */
static void nic_adds_card(struct t3cdev *tdev)
{
	mutex_lock(&rtnl);
	mutex_lock(&client_lock);
	t3_client.add(tdev);
	mutex_unlock(&client_lock);
	mutex_unlock(&rtnl);
	t3_cards_flush();
}

static void nic_adds(void)
{
	nic_adds_card(tdev);
}

/* As remove_one() does when the bus unbinds the card. */
static void nic_removes_card(struct t3cdev *tdev)
{
	mutex_lock(&client_lock);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
}

static void nic_removes(void)
{
	nic_removes_card(tdev);
}

void cxgb3_register_client(struct cxgb3_client *client)
{
	if (seen.interface_is_up)
		nic_adds();
}

void cxgb3_unregister_client(struct cxgb3_client *client)
{
	seen.unregistered_clients++;
	nic_removes();
}

void t3_register_cpl_handler(unsigned int opcode, cpl_handler_func h)
{
	/* The last event before the handler is removed. */
	if (!h && seen.last_work)
		queue_work(t3_workqueue, seen.last_work);
}

int cxgb3_ofld_send(struct t3cdev *dev, struct sk_buff *skb)
{
	kfree_skb(skb);
	return 0;
}

/* --- tests ------------------------------------------------------------------------- */

static int life_init(struct kunit *test)
{
	static const struct net_device_ops no_poll;
	static const u8 mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 1 };

	memset(&seen, 0, sizeof(seen));
	max_mapping_size = SIZE_MAX;
	devices_made = 0;
	devices_freed = 0;
	pdev = kunit_kzalloc(test, sizeof(*pdev), GFP_KERNEL);
	ndev = kunit_kzalloc(test, sizeof(*ndev), GFP_KERNEL);
	tdev = kunit_kzalloc(test, sizeof(*tdev), GFP_KERNEL);
	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, pdev && ndev && tdev && qp);
	pdev->vendor = PCI_VENDOR_ID_CHELSIO;
	pdev->dev.init_name = "life_kunit";
	pdev->dev.dma_parms = &dma_parms;
	ndev->netdev_ops = &no_poll;
	ndev->dev_addr = mac;
	tdev->type = T3C;
	tdev->ctl = nic_ctl;
	core_wq = alloc_workqueue("life_kunit", 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, core_wq);
	pdev->is_busmaster = 1;
	INIT_WORK(&core_work, takes_a_while);
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
	return 0;
}

static void life_exit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, devices_freed, 1);
	KUNIT_EXPECT_EQ(test, seen.registered, seen.unregistered);
	KUNIT_EXPECT_FALSE(test, seen.gone_before_cleared);
	KUNIT_EXPECT_TRUE(test, list_empty(&devices));
	KUNIT_EXPECT_EQ(test, card_refs, 0);
	t3_module_exit();
	destroy_workqueue(core_wq);
	KUNIT_EXPECT_EQ(test, workqueues, 0);
}

static void device_with_a_connection(struct kunit *test)
{
	nic_adds();
	KUNIT_ASSERT_NOT_NULL(test, the_dev());
	KUNIT_ASSERT_EQ(test, seen.registered, 1);
	qp->busy = true;
	KUNIT_ASSERT_EQ(test, xa_insert_irq(&the_dev()->qps, 32, qp, GFP_KERNEL), 0);
}

static void bus_unbinds_card(struct pci_dev *pdev, struct t3cdev *tdev)
{
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBIND_DRIVER, &pdev->dev);
	nic_removes_card(tdev);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
}

static void bus_unbinds(void)
{
	bus_unbinds_card(pdev, tdev);
}

/* The card can abort its connections only before cxgb3 stops it. */
static void unbind_aborts_connections_before_remove(struct kunit *test)
{
	device_with_a_connection(test);
	bus_unbinds();
	KUNIT_EXPECT_GE(test, seen.aborted, 1);
	KUNIT_EXPECT_FALSE(test, seen.gone_at_unregister);
	KUNIT_EXPECT_FALSE(test, seen.connected_at_unregister);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_EQ(test, seen.ctrl_closed, 1);
}

/* ib_unregister_device() unpins memory: the card must not access it any more. */
static void failed_abort_at_unbind_ends_bus_mastering(struct kunit *test)
{
	seen.does_not_abort = true;
	device_with_a_connection(test);
	bus_unbinds();
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, seen.mastering_at_unregister);
	KUNIT_EXPECT_TRUE(test, seen.gone_at_unregister);
}

/* It cannot reply: every wait for it would take until its timeout. */
static void unplugged_card_is_gone_before_anything_waits(struct kunit *test)
{
	device_with_a_connection(test);
	seen.unplugged = true;
	bus_unbinds();
	KUNIT_EXPECT_EQ(test, seen.aborted, 0);
	KUNIT_EXPECT_TRUE(test, seen.gone_at_unregister);
	KUNIT_EXPECT_FALSE(test, seen.connected_at_unregister);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
}

/* The report is an event of the device. Afterwards no consumer has a handler for it. */
static void unregistration_waits_for_the_report_of_a_failure(struct kunit *test)
{
	seen.does_not_abort = true;
	seen.fails_slowly = true;
	device_with_a_connection(test);
	bus_unbinds();
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, seen.report_at_unregister);
}

/* Dropped doorbells are reported before the shutdown and after it, and then a failure. */
static void device_is_freed_after_its_work_items(struct kunit *test)
{
	device_with_a_connection(test);
	queue_delayed_work(t3_workqueue, &the_dev()->db_work, 60 * HZ);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBIND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_EQ(test, seen.ctrl_closed, 1);
	KUNIT_EXPECT_FALSE(test, seen.doorbells_at_close);
	seen.fails_slowly = true;
	queue_delayed_work(t3_workqueue, &the_dev()->db_work, 60 * HZ);
	t3_dev_fatal(the_dev(), "as a test");
	nic_removes();
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_FALSE(test, seen.doorbells_at_close);
	KUNIT_EXPECT_FALSE(test, seen.report_at_close);
}

static void unbind_of_other_devices_is_ignored(struct kunit *test)
{
	struct pci_dev *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->vendor = PCI_VENDOR_ID_CHELSIO;
	other->dev.init_name = "life_kunit_other";
	device_with_a_connection(test);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBIND_DRIVER, &other->dev);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_BIND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_EQ(test, seen.unregistered, 0);
	bus_unbinds();
}

/* The module was loaded while the bus unbinds the card. */
static void remove_without_notification_stops_dma_first(struct kunit *test)
{
	device_with_a_connection(test);
	nic_removes();
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, seen.mastering_at_unregister);
}

/* cxgb3 holds rtnl from the report to the end of the reset: neither callback may wait for it. */
static void reset_stops_dma_and_does_not_wait(struct kunit *test)
{
	device_with_a_connection(test);
	mutex_lock(&rtnl);
	mutex_lock(&client_lock);
	t3_client.event_handler(tdev, OFFLOAD_STATUS_DOWN, 0);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
	mutex_unlock(&rtnl);
	t3_cards_flush();
	KUNIT_EXPECT_TRUE(test, seen.gone_at_unregister);
}

/* cxgb3 frees its tables next: no handler may run, and no endpoint have an entry. */
static void remove_ends_connections_and_waits_for_handlers(struct kunit *test)
{
	/* Normal and expedited grace periods are counted separately. */
	struct rcu_gp_oldstate before;

	device_with_a_connection(test);
	get_state_synchronize_rcu_full(&before);
	nic_removes();
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&before));
	KUNIT_EXPECT_EQ(test, seen.stopped, 1);
	t3_cards_flush();
}

/* Its code is freed then. */
static void module_unload_waits_for_work_items(struct kunit *test)
{
	struct slow_work *slow = kunit_kzalloc(test, sizeof(*slow), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, slow);
	device_with_a_connection(test);
	INIT_WORK(&slow->work, run_slowly);
	seen.last_work = &slow->work;
	seen.closes_slowly = true;
	t3_module_exit();
	seen.last_work = NULL;
	KUNIT_EXPECT_TRUE(test, slow->done);
	KUNIT_EXPECT_EQ(test, seen.freed_at_exit, 1);
	KUNIT_EXPECT_NULL(test, debugfs_lookup(DRV_NAME, NULL));
	flush_work(&slow->work);
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
}

/* The card still works as a NIC. */
static void module_unload_keeps_bus_mastering(struct kunit *test)
{
	device_with_a_connection(test);
	t3_module_exit();
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_FALSE(test, seen.gone_at_unregister);
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
}

/* --- suspend ------------------------------------------------------------------------ */

static const struct sleep {
	const char *name;
	unsigned long prepare, post;
	u32 control;			/* SG_CONTROL afterwards */
	int reprobes;
	bool dead;			/* declared so on the way into the suspend */
} sleeps[] = {
	{ "the card keeps its power", PM_SUSPEND_PREPARE, PM_POST_SUSPEND, T3_SG_GLOBALENABLE, 0 },
	{ "the card loses its power", PM_SUSPEND_PREPARE, PM_POST_SUSPEND, 0, 1 },
	{ "hibernation", PM_HIBERNATION_PREPARE, PM_POST_HIBERNATION, T3_SG_GLOBALENABLE, 1 },
	{ "no image is loaded", PM_RESTORE_PREPARE, PM_POST_RESTORE, T3_SG_GLOBALENABLE, 0 },
	{ "the card is dead", PM_SUSPEND_PREPARE, PM_POST_SUSPEND, T3_SG_GLOBALENABLE, 1, true },
};

static void sleep_name(const struct sleep *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(sleep, sleeps, sleep_name);

/* cxgb3 has no power management, so that it neither stops the card nor starts it again. */
static void rdma_ends_before_a_sleep_and_comes_back(struct kunit *test)
{
	const struct sleep *c = test->param_value;

	reprobes = 0;
	device_with_a_connection(test);
	t3_pm_event(NULL, c->prepare, NULL);
	KUNIT_EXPECT_GE(test, seen.aborted, 1);
	KUNIT_EXPECT_EQ(test, seen.unregistered, 1);
	KUNIT_EXPECT_FALSE(test, seen.gone_at_unregister);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_EQ(test, devices_freed, 1);
	KUNIT_EXPECT_NULL(test, the_dev());
	KUNIT_EXPECT_EQ(test, card_refs, 1);

	sg_control = c->control;
	pdev->is_busmaster = !c->dead;
	seen.interface_is_up = true;
	t3_pm_event(NULL, c->post, NULL);
	seen.interface_is_up = false;
	KUNIT_EXPECT_EQ(test, reprobes, c->reprobes);
	KUNIT_EXPECT_EQ(test, seen.registered, 2);
	KUNIT_EXPECT_EQ(test, card_refs, 0);
	bus_unbinds();
	devices_freed--;
}

static void provide_page(struct work_struct *work)
{
	complete(&page_provided);
}

/* A program registers memory, and its page is not provided. */
static void suspend_does_not_wait_for_a_process(struct kunit *test)
{
	static DECLARE_DELAYED_WORK(provide, provide_page);
	unsigned long begin = jiffies;

	init_completion(&core_blocked);
	init_completion(&page_provided);
	device_with_a_connection(test);
	seen.page_missing = true;
	schedule_delayed_work(&provide, 10 * HZ);
	suspend_timeout = HZ / 2;
	KUNIT_EXPECT_EQ(test, notifier_to_errno(t3_pm_event(NULL, PM_SUSPEND_PREPARE, NULL)),
			-EBUSY);
	suspend_timeout = 20 * HZ;
	KUNIT_EXPECT_EQ(test, notifier_to_errno(t3_pm_event(NULL, PM_SUSPEND_PREPARE, NULL)),
			-EBUSY);
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, begin + 8 * HZ));
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);	/* the card works as a NIC */

	/* The process is killed. */
	sg_control = T3_SG_GLOBALENABLE;
	seen.page_missing = false;
	seen.interface_is_up = true;
	mod_delayed_work(system_wq, &provide, 0);
	flush_work(&t3_pm_restart_work);
	seen.interface_is_up = false;
	KUNIT_EXPECT_EQ(test, seen.unregistered, 1);
	KUNIT_EXPECT_EQ(test, seen.registered, 2);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_EQ(test, card_refs, 0);
	bus_unbinds();
	devices_freed--;
}

/* Its registers are not mapped any more. */
static void card_that_was_unbound_is_not_probed_again(struct kunit *test)
{
	reprobes = 0;
	sg_control = 0;
	device_with_a_connection(test);
	t3_pm_event(NULL, PM_SUSPEND_PREPARE, NULL);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBIND_DRIVER, &pdev->dev);
	t3_pm_event(NULL, PM_POST_SUSPEND, NULL);
	KUNIT_EXPECT_EQ(test, reprobes, 0);
}

/* cxgb3 has no such client any more. */
static void module_unload_before_a_sleep(struct kunit *test)
{
	device_with_a_connection(test);
	t3_pm_event(NULL, PM_SUSPEND_PREPARE, NULL);
	t3_pci_event(&t3_pci_notifier, BUS_NOTIFY_UNBIND_DRIVER, &pdev->dev);
	t3_module_exit();
	KUNIT_EXPECT_EQ(test, seen.unregistered_clients, 1);
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
}

static struct completion queue_goes_on;

static void hold_the_queue(struct work_struct *work)
{
	wait_for_completion(&queue_goes_on);
}

/* B12: the adapter is reset again before the queue runs the registration. */
static void late_registration_does_nothing(struct kunit *test)
{
	static DECLARE_WORK(holder, hold_the_queue);
	struct t3_card *card;

	init_completion(&queue_goes_on);
	mutex_lock(&devices_mutex);
	card = t3_card_find_or_create(pdev);
	mutex_unlock(&devices_mutex);
	KUNIT_ASSERT_NOT_NULL(test, card);
	queue_work(card->life_wq, &holder);
	mutex_lock(&client_lock);
	t3_client.add(tdev);
	t3_client.event_handler(tdev, OFFLOAD_STATUS_DOWN, 0);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
	complete(&queue_goes_on);
	t3_cards_flush();
	KUNIT_EXPECT_EQ(test, seen.registered, 0);
	KUNIT_EXPECT_EQ(test, seen.unregistered, 0);
}

/* X15, B13: the card still works as a NIC; the device is freed once, when the card is removed. */
static void failed_registration_is_undone_on_remove(struct kunit *test)
{
	seen.core_refuses = true;
	nic_adds();
	KUNIT_ASSERT_NOT_NULL(test, the_dev());
	KUNIT_EXPECT_FALSE(test, test_bit(T3_DEV_REGISTERED, &the_dev()->flags));
	KUNIT_EXPECT_EQ(test, devices_freed, 0);
	bus_unbinds();
	KUNIT_EXPECT_EQ(test, seen.unregistered, 0);
	KUNIT_EXPECT_EQ(test, seen.ctrl_closed, 1);
	KUNIT_EXPECT_NULL(test, debugfs_lookup("life_kunit", debugfs_root));
}

static void fatal_card_recovers_after_rebind(struct kunit *test)
{
	device_with_a_connection(test);
	t3_dev_fatal(the_dev(), "as a test");
	bus_unbinds();
	KUNIT_EXPECT_NULL(test, the_dev());
	KUNIT_EXPECT_EQ(test, seen.unregistered, 1);
	KUNIT_EXPECT_EQ(test, devices_freed, 1);
	nic_adds();
	KUNIT_ASSERT_NOT_NULL(test, the_dev());
	KUNIT_EXPECT_FALSE(test, t3_dev_gone(the_dev()));
	KUNIT_EXPECT_EQ(test, seen.registered, 2);
	bus_unbinds();
	devices_freed--;
}

static void unbind_first(struct work_struct *work)
{
	bus_unbinds();
}

static struct completion other_is_unbound;

static void unbind_other(struct work_struct *work)
{
	bus_unbinds_card(other_pdev, other_tdev);
	complete(&other_is_unbound);
}

/* A program registers memory on the first card, and its page is never provided. */
static void card_does_not_wait_for_another(struct kunit *test)
{
	static DECLARE_WORK(first, unbind_first);
	static DECLARE_WORK(other, unbind_other);

	init_completion(&core_blocked);
	init_completion(&page_provided);
	init_completion(&other_is_unbound);
	other_pdev = kunit_kzalloc(test, sizeof(*other_pdev), GFP_KERNEL);
	other_tdev = kunit_kzalloc(test, sizeof(*other_tdev), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, other_pdev && other_tdev);
	other_pdev->vendor = PCI_VENDOR_ID_CHELSIO;
	other_pdev->dev.init_name = "life_kunit_other";
	other_pdev->dev.dma_parms = &dma_parms;
	other_tdev->type = T3C;
	other_tdev->ctl = nic_ctl;

	device_with_a_connection(test);
	nic_adds_card(other_tdev);
	KUNIT_ASSERT_EQ(test, seen.registered, 2);
	seen.page_missing = true;
	queue_work(system_unbound_wq, &first);
	wait_for_completion(&core_blocked);
	queue_work(system_unbound_wq, &other);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&other_is_unbound, 10 * HZ), 0);
	KUNIT_EXPECT_EQ(test, devices_freed, 1);
	complete(&page_provided);
	flush_work(&first);
	flush_work(&other);
	KUNIT_EXPECT_EQ(test, devices_freed, 2);
	devices_freed--;
}

static void (*remove_the_card)(void);

static void adapter_is_reset(void)
{
	mutex_lock(&client_lock);
	t3_client.event_handler(tdev, OFFLOAD_STATUS_DOWN, 0);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
	t3_cards_flush();
}

static void unload_only(void)
{
}

/* Load, add and remove a card, unload. */
static void probe_and_remove(struct kunit *test)
{
	unsigned int made = devices_made, freed = devices_freed;
	int ret, queues;

	t3_module_exit();
	queues = workqueues;
	seen.allocated = 0;
	seen.registered = 0;
	seen.unregistered = 0;
	allocations_fail();
	ret = t3_module_init();
	if (!ret) {
		nic_adds();
		if (!the_dev())
			KUNIT_EXPECT_NULL_MSG(test, debugfs_lookup("life_kunit", debugfs_root),
					      "%s", alloc_that_failed());
		remove_the_card();
		t3_module_exit();
	}
	allocations_work();
	KUNIT_EXPECT_NULL_MSG(test, debugfs_lookup(DRV_NAME, NULL), "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE(test, !ret || (ret == -ENOMEM && failing.where));
	KUNIT_EXPECT_NULL_MSG(test, the_dev(), "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, devices_made - made, devices_freed - freed, "devices, %s",
			    alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, workqueues, queues, "workqueues, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.allocated, 0, "parts of devices, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.registered, seen.unregistered, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.registered, !failing.where, "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE(test, list_empty(&devices));
	KUNIT_EXPECT_TRUE(test, list_empty(&cards));
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
}

static void probe_without_memory(struct kunit *test)
{
	static void (*const removals[])(void) = { bus_unbinds, adapter_is_reset, unload_only };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(removals); i++) {
		remove_the_card = removals[i];
		KUNIT_EXPECT_GE(test, fail_each_allocation(test, probe_and_remove), 11U);
	}
	devices_freed = 1;
}

/* Lack of memory is not reported as a property of the platform. */
static void unsuitable_card_reports_the_cause(struct kunit *test)
{
	struct t3_dev *dev;

	nic_adds();
	dev = the_dev();
	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_EXPECT_NULL(test, t3_card_unsuitable(dev));
	seen.dma_error = -ENOMEM;
	KUNIT_EXPECT_NOT_NULL(test, strstr(t3_card_unsuitable(dev), "no memory"));
	seen.dma_error = -EOPNOTSUPP;
	KUNIT_EXPECT_NOT_NULL(test, strstr(t3_card_unsuitable(dev), "not coherent"));
	seen.dma_error = 0;
	bus_unbinds();
}

/* Where all DMA is bounced, a longer mapping fails. */
static void segments_fit_a_bounce_buffer(struct kunit *test)
{
	nic_adds();
	KUNIT_EXPECT_EQ(test, dma_parms.max_segment_size, UINT_MAX);
	bus_unbinds();
	devices_freed--;
	max_mapping_size = 256 * 1024;
	nic_adds();
	KUNIT_EXPECT_EQ(test, dma_parms.max_segment_size, 256 * 1024);
	bus_unbinds();
}

/* restrack_kunit tests the operation itself. */
static void restrack_op_for_cm_ids_is_set(struct kunit *test)
{
	nic_adds();
	KUNIT_EXPECT_PTR_EQ(test, t3_main_ops.fill_res_cm_id_entry, &t3_cm_fill_res_entry);
	bus_unbinds();
}

/* An xarray ignores __GFP_ACCOUNT of its callers if memory is free: only the flag charges. */
static void nodes_of_the_tables_are_charged_to_the_memcg(struct kunit *test)
{
	struct t3_dev *dev;

	nic_adds();
	dev = the_dev();
	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_EXPECT_TRUE(test, dev->qps.xa_flags & XA_FLAGS_ACCOUNT);
	KUNIT_EXPECT_TRUE(test, dev->cqs.xa_flags & XA_FLAGS_ACCOUNT);
	KUNIT_EXPECT_TRUE(test, dev->mrs.xa_flags & XA_FLAGS_ACCOUNT);
	bus_unbinds();
}

static struct kunit_case life_cases[] = {
	KUNIT_CASE(unbind_aborts_connections_before_remove),
	KUNIT_CASE(failed_abort_at_unbind_ends_bus_mastering),
	KUNIT_CASE(unplugged_card_is_gone_before_anything_waits),
	KUNIT_CASE(unregistration_waits_for_the_report_of_a_failure),
	KUNIT_CASE(device_is_freed_after_its_work_items),
	KUNIT_CASE(unbind_of_other_devices_is_ignored),
	KUNIT_CASE(remove_without_notification_stops_dma_first),
	KUNIT_CASE(reset_stops_dma_and_does_not_wait),
	KUNIT_CASE(remove_ends_connections_and_waits_for_handlers),
	KUNIT_CASE(module_unload_waits_for_work_items),
	KUNIT_CASE(module_unload_keeps_bus_mastering),
	KUNIT_CASE_PARAM(rdma_ends_before_a_sleep_and_comes_back, sleep_gen_params),
	KUNIT_CASE(suspend_does_not_wait_for_a_process),
	KUNIT_CASE(card_that_was_unbound_is_not_probed_again),
	KUNIT_CASE(module_unload_before_a_sleep),
	KUNIT_CASE(late_registration_does_nothing),
	KUNIT_CASE(failed_registration_is_undone_on_remove),
	KUNIT_CASE(fatal_card_recovers_after_rebind),
	KUNIT_CASE(card_does_not_wait_for_another),
	KUNIT_CASE(probe_without_memory),
	KUNIT_CASE(unsuitable_card_reports_the_cause),
	KUNIT_CASE(segments_fit_a_bounce_buffer),
	KUNIT_CASE(restrack_op_for_cm_ids_is_set),
	KUNIT_CASE(nodes_of_the_tables_are_charged_to_the_memcg),
	{}
};

static struct kunit_suite life_suite = {
	.name = "iw_cxgb3_life",
	.init = life_init,
	.exit = life_exit,
	.test_cases = life_cases,
};

kunit_test_suites(&life_suite);
