// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a device, with a NIC driver and an ib_core that are functions of this file. They
 * take stand-ins of the locks that the real ones take, so that lockdep sees the orders: the
 * client lock and rtnl around add and remove, rtnl inside of ib_core.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#include "../failing_alloc.h"

/* The functions of the module are called by the tests. */
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

#include "main.c"
#include "health.c"

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
	bool does_not_abort;
	bool core_refuses;
	bool page_stalls;
	int dma_error;
	int lent;			/* parts of devices that are set up */
} seen;

/* Stands for the allocations of a part of a device, which other suites make to fail. */
static int set_up_part(const char *what)
{
	if (alloc_fails(GFP_KERNEL, what))
		return -ENOMEM;
	seen.lent++;
	return 0;
}

/* A second card, and a consumer of the first one that holds ib_core up. */
static struct pci_dev *other_pdev;
static struct t3cdev *other_tdev;
static struct completion core_waits, page_comes;

static struct t3_dev *the_dev(void)
{
	return tdev->ulp;
}

/* --- ib_core ------------------------------------------------------------------- */

static int core_registers(struct ib_device *ibdev)
{
	mutex_lock(&rtnl);	/* what a client does, or query_port of another driver */
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
	if (seen.page_stalls && dev->pdev == pdev) {
		complete(&core_waits);
		wait_for_completion(&page_comes);
	}
	mutex_lock(&rtnl);
	mutex_unlock(&rtnl);
	xa_erase_irq(&dev->qps, 32);
	queue_work(core_wq, &core_work);
	flush_workqueue(core_wq);
}

/* --- the rest of the driver ------------------------------------------------------ */

static void card_loses_mastering(struct pci_dev *pdev)
{
	seen.masters_cleared++;
	if (t3_dev_gone(the_dev()))
		seen.gone_before_cleared = true;
}

void t3_cm_retire(struct t3_dev *dev)
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
	seen.lent--;
}

void t3_cm_fatal(struct t3_dev *dev)
{
	qp->busy = false;
}

bool t3_cm_busy(struct t3_dev *dev)
{
	return false;
}

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
	seen.lent--;
}

int t3_ctrl_open(struct t3_dev *dev)
{
	return set_up_part(__func__);
}

void t3_ctrl_close(struct t3_dev *dev)
{
	seen.ctrl_closed++;
	seen.lent--;
}

int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len)
{
	return t3_dev_gone(dev) ? -EIO : 0;
}

void t3_ctrl_ring_again(struct t3_dev *dev)
{
}

int t3_rsc_open(struct t3_dev *dev)
{
	return set_up_part(__func__);
}

void t3_rsc_close(struct t3_dev *dev)
{
	seen.lent--;
}

int t3_dma_check(struct t3_dev *dev)
{
	return seen.dma_error;
}

void t3_ports_init(struct t3_dev *dev)
{
}

int t3_ports_watch(void)
{
	return set_up_part(__func__);
}

void t3_ports_unwatch(void)
{
	seen.lent--;
}

void t3_doorbell_work(struct work_struct *work)
{
}

void t3_dev_dispatch(struct t3_dev *dev, enum ib_event_type type, u32 port)
{
}

int t3_async_event(struct t3cdev *tdev, struct sk_buff *skb)
{
	return CPL_RET_BUF_DONE;
}

void t3_adapter_event(struct t3_dev *dev, u32 event)
{
	set_bit(T3_DEV_DOWN, &dev->flags);
	t3_dev_fatal(dev, "the adapter is being reset");
}

cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];
const struct ib_device_ops t3_verbs_ops, t3_qp_ops, t3_cq_ops, t3_mr_ops, t3_stats_ops;

int t3_cm_redirect(void *ctx, struct dst_entry *old, struct dst_entry *new, struct l2t_entry *l2t)
{
	return 0;
}

int t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	return -ENODEV;
}

int t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	return -ENODEV;
}

int t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len)
{
	return -ENODEV;
}

int t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	return -ENODEV;
}

int t3_cm_destroy_listen(struct iw_cm_id *cm_id)
{
	return -ENODEV;
}

int t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id)
{
	return 0;
}

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

/* As cxgb_open() does: an interface is taken up. */
static void nic_adds_card(struct t3cdev *tdev)
{
	mutex_lock(&rtnl);
	mutex_lock(&client_lock);
	t3_client.add(tdev);
	mutex_unlock(&client_lock);
	mutex_unlock(&rtnl);
	flush_cards();
}

static void nic_adds(void)
{
	nic_adds_card(tdev);
}

/* As remove_one() does, when the bus unbinds it. */
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
}

void cxgb3_unregister_client(struct cxgb3_client *client)
{
	nic_removes();
}

void t3_register_cpl_handler(unsigned int opcode, cpl_handler_func h)
{
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
	devices_made = 0;
	devices_freed = 0;
	exiting = false;
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
	t3_module_exit();
	destroy_workqueue(core_wq);
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
	t3_pci_event(&t3_pci_watch, BUS_NOTIFY_UNBIND_DRIVER, &pdev->dev);
	nic_removes_card(tdev);
	t3_pci_event(&t3_pci_watch, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
}

static void bus_unbinds(void)
{
	bus_unbinds_card(pdev, tdev);
}

/* The card is asked to end its connections as long as cxgb3 lets it. */
static void unbound_card_ends_in_order(struct kunit *test)
{
	device_with_a_connection(test);
	bus_unbinds();
	KUNIT_EXPECT_GE(test, seen.aborted, 1);
	KUNIT_EXPECT_FALSE(test, seen.gone_at_unregister);
	KUNIT_EXPECT_FALSE(test, seen.connected_at_unregister);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_EQ(test, seen.ctrl_closed, 1);
}

/* ib_core unpins what consumers have registered: the card must not reach it. */
static void card_that_does_not_abort_loses_mastering(struct kunit *test)
{
	seen.does_not_abort = true;
	device_with_a_connection(test);
	bus_unbinds();
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, seen.mastering_at_unregister);
	KUNIT_EXPECT_TRUE(test, seen.gone_at_unregister);
}

static void other_devices_of_the_bus_are_not_ours(struct kunit *test)
{
	struct pci_dev *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->vendor = PCI_VENDOR_ID_CHELSIO;
	other->dev.init_name = "life_kunit_other";
	device_with_a_connection(test);
	t3_pci_event(&t3_pci_watch, BUS_NOTIFY_UNBIND_DRIVER, &other->dev);
	t3_pci_event(&t3_pci_watch, BUS_NOTIFY_BIND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_EQ(test, seen.unregistered, 0);
	bus_unbinds();
}

/* As when the module is loaded while the bus unbinds the card. */
static void remove_without_a_notice_stops_dma_first(struct kunit *test)
{
	device_with_a_connection(test);
	nic_removes();
	t3_pci_event(&t3_pci_watch, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 1);
	KUNIT_EXPECT_FALSE(test, seen.mastering_at_unregister);
}

/* cxgb3 holds rtnl from the report to the end of the reset: nothing may wait for it. */
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
	flush_cards();
	KUNIT_EXPECT_TRUE(test, seen.gone_at_unregister);
}

/* The card goes on as a NIC. */
static void module_that_goes_leaves_mastering_on(struct kunit *test)
{
	device_with_a_connection(test);
	t3_module_exit();
	KUNIT_EXPECT_EQ(test, seen.masters_cleared, 0);
	KUNIT_EXPECT_FALSE(test, seen.gone_at_unregister);
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
	exiting = false;
}

static struct completion queue_goes_on;

static void hold_the_queue(struct work_struct *work)
{
	wait_for_completion(&queue_goes_on);
}

/* B12: the adapter is reset again before the queue has come to the registration. */
static void registration_that_is_too_late_does_nothing(struct kunit *test)
{
	static DECLARE_WORK(holder, hold_the_queue);
	struct t3_card *card;

	init_completion(&queue_goes_on);
	mutex_lock(&devices_mutex);
	card = find_or_make_card(pdev);
	mutex_unlock(&devices_mutex);
	KUNIT_ASSERT_NOT_NULL(test, card);
	queue_work(card->life_wq, &holder);
	mutex_lock(&client_lock);
	t3_client.add(tdev);
	t3_client.event_handler(tdev, OFFLOAD_STATUS_DOWN, 0);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
	complete(&queue_goes_on);
	flush_cards();
	KUNIT_EXPECT_EQ(test, seen.registered, 0);
	KUNIT_EXPECT_EQ(test, seen.unregistered, 0);
}

/* X15, B13: the card stays a NIC, and the device that ib_core did not take goes with it, once. */
static void refused_registration_is_undone_with_the_card(struct kunit *test)
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

static void dead_card_comes_back_when_bound_again(struct kunit *test)
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

/* A program registers memory on the first card, and the page of it does not come. */
static void card_does_not_wait_for_another(struct kunit *test)
{
	static DECLARE_WORK(first, unbind_first);
	static DECLARE_WORK(other, unbind_other);

	init_completion(&core_waits);
	init_completion(&page_comes);
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
	seen.page_stalls = true;
	queue_work(system_unbound_wq, &first);
	wait_for_completion(&core_waits);
	queue_work(system_unbound_wq, &other);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&other_is_unbound, 10 * HZ), 0);
	KUNIT_EXPECT_EQ(test, devices_freed, 1);
	complete(&page_comes);
	flush_work(&first);
	flush_work(&other);
	KUNIT_EXPECT_EQ(test, devices_freed, 2);
	devices_freed--;
}

static void (*card_goes)(void);

static void adapter_is_reset(void)
{
	mutex_lock(&client_lock);
	t3_client.event_handler(tdev, OFFLOAD_STATUS_DOWN, 0);
	t3_client.remove(tdev);
	mutex_unlock(&client_lock);
	flush_cards();
}

static void module_goes(void)
{
}

/* All of the module's life, with a card that comes and goes. */
static void probe_and_remove(struct kunit *test)
{
	unsigned int made = devices_made, freed = devices_freed;
	int ret;

	t3_module_exit();
	exiting = false;
	seen.lent = 0;
	seen.registered = 0;
	seen.unregistered = 0;
	allocations_fail();
	ret = t3_module_init();
	if (!ret) {
		nic_adds();
		card_goes();
		t3_module_exit();
	}
	allocations_work();
	KUNIT_EXPECT_TRUE(test, !ret || (ret == -ENOMEM && failing.where));
	KUNIT_EXPECT_NULL_MSG(test, the_dev(), "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, devices_made - made, devices_freed - freed, "devices, %s",
			    alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.lent, 0, "parts of devices, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.registered, seen.unregistered, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, seen.registered, !failing.where, "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE(test, list_empty(&devices));
	KUNIT_EXPECT_TRUE(test, list_empty(&cards));
	exiting = false;
	KUNIT_ASSERT_EQ(test, t3_module_init(), 0);
}

static void probe_without_memory(struct kunit *test)
{
	static void (*const ways[])(void) = { bus_unbinds, adapter_is_reset, module_goes };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		card_goes = ways[i];
		KUNIT_EXPECT_GE(test, fail_each_allocation(test, probe_and_remove), 11U);
	}
	devices_freed = 1;
}

/* A shortage of memory is no property of the platform. */
static void reason_against_a_card_is_the_real_one(struct kunit *test)
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

/* res_kunit has what it is answered. */
static void netlink_may_ask_for_connections(struct kunit *test)
{
	nic_adds();
	KUNIT_EXPECT_PTR_EQ(test, main_ops.fill_res_cm_id_entry, &t3_cm_fill_res_entry);
	bus_unbinds();
}

static struct kunit_case life_cases[] = {
	KUNIT_CASE(unbound_card_ends_in_order),
	KUNIT_CASE(card_that_does_not_abort_loses_mastering),
	KUNIT_CASE(other_devices_of_the_bus_are_not_ours),
	KUNIT_CASE(remove_without_a_notice_stops_dma_first),
	KUNIT_CASE(reset_stops_dma_and_does_not_wait),
	KUNIT_CASE(module_that_goes_leaves_mastering_on),
	KUNIT_CASE(registration_that_is_too_late_does_nothing),
	KUNIT_CASE(refused_registration_is_undone_with_the_card),
	KUNIT_CASE(dead_card_comes_back_when_bound_again),
	KUNIT_CASE(card_does_not_wait_for_another),
	KUNIT_CASE(probe_without_memory),
	KUNIT_CASE(reason_against_a_card_is_the_real_one),
	KUNIT_CASE(netlink_may_ask_for_connections),
	{}
};

static struct kunit_suite life_suite = {
	.name = "iw_cxgb3_life",
	.init = life_init,
	.exit = life_exit,
	.test_cases = life_cases,
};

kunit_test_suites(&life_suite);
