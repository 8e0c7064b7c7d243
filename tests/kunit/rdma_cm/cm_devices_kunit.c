// SPDX-License-Identifier: GPL-2.0
/* Devices: wildcard listeners (C10), addition and removal, addresses, ports of the host's TCP. */
#include "conversation.h"

/* --- devices --------------------------------------------------------------- */

static void listen_on_wildcard(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_ASSERT_EQ(test, call(LISTEN), 0);
}

/*
 * The device is removed while a request is in the queue of a wildcard listener, which has no
 * device. The removal waits for the request, which is rejected through the device.
 */
static void a_queued_request_holds_its_device(struct kunit *test)
{
	listen_on_wildcard(test);
	lock_handler(id);
	handler_locked = true;
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, fake.removal_has_users);
	unlock_handler(id);
	handler_locked = false;
	flush_work(&removal);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
}

static void destroy_listener(struct work_struct *work)
{
	destroy(&listener);
}

/* The end of a listener waits for a handler. A worker that has another request does not. */
static void no_worker_waits_for_the_end_of_a_listener(struct kunit *test)
{
	struct cm_id *held = to_cm_id(id);
	struct work_struct end_of_id;
	int i;

	INIT_WORK_ONSTACK(&end_of_id, destroy_listener);
	listen_on_wildcard(test);
	WRITE_ONCE(fake.requests_held, true);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	cm_id_get(held);
	down_read(&held->requests);	/* a handler */
	queue_work(system_long_wq, &end_of_id);
	while (!rwsem_is_contended(&held->requests))
		msleep(20);
	release_requests();
	for (i = 0; i < 100 && !fake.rejects; i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	up_read(&held->requests);
	flush_work(&end_of_id);
	destroy_work_on_stack(&end_of_id);
	cm_id_put(held);
	id = NULL;
	KUNIT_EXPECT_EQ(test, got.written, 0u);
}

/* With two devices on one interface a request belongs to the one on which it arrived. */
static void a_request_belongs_to_the_device_it_arrived_on(struct kunit *test)
{
	end(test);
	fake_two_devices = true;
	begin(test, IN_PROCESS);
	listen_on_wildcard(test);
	KUNIT_ASSERT_NOT_NULL(test, fake.other_listener);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	expect_event(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	KUNIT_ASSERT_NOT_NULL(test, got.request);
	KUNIT_EXPECT_PTR_EQ(test, got.request->device, &fake.device);
	KUNIT_EXPECT_EQ(test, (int)got.request->port_num, 1);
}

/* The device is removed after a bind has found it. The bind fails and leaves the device no user. */
static void a_device_is_removed_as_a_bind_finds_it(struct kunit *test)
{
	struct sockaddr_storage addr = fake_address(FAKE_LOCAL, 7000);

	fake.at_point = remove_device;
	fake.point = "cm_attach_dev_found";
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&addr), -ENODEV);
	KUNIT_EXPECT_NULL(test, fake.point);
	flush_work(&removal);
	KUNIT_EXPECT_TRUE(test, fake.removed);
	KUNIT_EXPECT_NULL(test, id->device);
}

/* With the lock of the list of devices this waits for itself. */
static void a_lookup_takes_no_lock_of_all_devices(struct kunit *test)
{
	struct sockaddr_storage addr = fake_address(FAKE_LOCAL, 7000);

	mutex_lock(&cm_devices_mutex);
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	mutex_unlock(&cm_devices_mutex);
	KUNIT_EXPECT_PTR_EQ(test, id->device, &fake.device);
}

struct wildcard_listen {
	const char *name;
	bool has_other, other_in_other_netns;
	int other_result, device_result, result;
	unsigned int warnings;
};

static const struct wildcard_listen wildcard_listens[] = {
	{ "both listen", true, false, 0, 0, 0, 0 },
	{ "the port is in use on the only one", false, false, 0, -EADDRINUSE, -EADDRINUSE, 1 },
	{ "the port is in use on one of two", true, false, 0, -EADDRINUSE, -EADDRINUSE, 1 },
	{ "the port is in use, the other is in another namespace", true, true, 0, -EADDRINUSE,
	  -EADDRINUSE, 1 },
	{ "no IPv6 on one, in use on the other", true, false, -EAFNOSUPPORT, -EADDRINUSE,
	  -EADDRINUSE, 2 },
	{ "no IPv6 on one, the other listens", true, false, -EAFNOSUPPORT, 0, 0, 1 },
	{ "no IPv6, the other is in another namespace", true, true, 0, -EAFNOSUPPORT, 0, 1 },
	{ "no IPv6 on both", true, false, -EAFNOSUPPORT, -EAFNOSUPPORT, 0, 2 },
	{ "no IPv6 on one, no memory on the other", true, false, -EAFNOSUPPORT, -ENOMEM,
	  -ENOMEM, 2 },
	{ "no memory on one, the other listens", true, false, -ENOMEM, 0, -ENOMEM, 1 },
};

NAMED_PARAM(wildcard_listen, wildcard_listens);

/* The results of the devices, and the result of the listen on all of them. */
static void a_wildcard_listen(struct kunit *test)
{
	const struct wildcard_listen *wildcard = test->param_value;
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	end(test);
	fake_two_devices = wildcard->has_other;
	begin(test, IN_PROCESS);
	fake.other_in_other_netns = wildcard->other_in_other_netns;
	fake.other_listen_error = wildcard->other_result;
	fake.listen_error = wildcard->device_result;
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), wildcard->result);
	KUNIT_EXPECT_EQ(test, !!fake.listener, !wildcard->result && !wildcard->device_result);
	KUNIT_EXPECT_EQ(test, !!fake.other_listener, wildcard->has_other && !wildcard->result &&
			!wildcard->other_in_other_netns && !wildcard->other_result);
	KUNIT_EXPECT_EQ(test, fake.warnings, wildcard->warnings);
}

/* A program can repeat its listen. That a device has no IPv6 is logged once. */
static void a_device_without_ipv6_is_logged_once(struct kunit *test)
{
	fake.listen_error = -EAFNOSUPPORT;
	listen_on_wildcard(test);
	listener = NULL;
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	listen_on_wildcard(test);
	KUNIT_EXPECT_EQ(test, fake.warnings, 1u);
}

/* A device that is added and refuses is logged. The listener stays on the first device. */
static void a_new_device_refuses_a_listener(struct kunit *test)
{
	listen_on_wildcard(test);
	fake.other_listen_error = -ENOMEM;
	fake_add(test, &fake.other);
	fake_two_devices = true;
	KUNIT_EXPECT_NULL(test, fake.other_listener);
	KUNIT_EXPECT_EQ(test, fake.warnings, 1u);
	KUNIT_ASSERT_EQ(test, fake_request(), 0);
	expect_event(test, "request", 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

/* As in-tree: the listen succeeds, and the listener gets the device that is added later. */
static void a_wildcard_listen_without_a_device(struct kunit *test)
{
	removing = true;
	fake_remove_device(NULL);
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.listener);
	fake_add(test, &fake.device);
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	removing = false;
	fake.removed = false;
}

/* A device whose removal begins during the listen does not count. */
static void a_device_is_removed_during_a_wildcard_listen(struct kunit *test)
{
	fake.point = "cm_listen_next_device";
	fake.at_point = remove_device;
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_NULL(test, fake.listener);
}

/*
 * A device is removed while an id is being bound to it, and the bind fails. The event is still
 * queued when the id is bound to another device, which stays.
 */
static void the_removal_of_a_former_device(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);
	struct rdma_cm_id *owner;

	owner = make_id();
	KUNIT_ASSERT_NOT_NULL(test, owner);
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(owner, (struct sockaddr *)&any), 0);
	delay_worker();
	fake.point = "cm_attached";
	fake.at_point = remove_device;
	KUNIT_EXPECT_EQ(test, call(BIND), -EADDRNOTAVAIL);
	KUNIT_EXPECT_NULL(test, fake.point);
	t3_rdma_destroy_id(owner);
	flush_work(&removal);
	fake_add(test, &fake.other);
	fake_two_devices = true;
	KUNIT_EXPECT_EQ(test, call(BIND), 0);
	KUNIT_EXPECT_PTR_EQ(test, id->device, &fake.other);
	run_worker();
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
	KUNIT_EXPECT_EQ(test, cm_state(to_cm_id(id)), CM_ST_BOUND);
}

static void request_on_the_other_device(void)
{
	fake.listener = fake.other_listener;
	fake_request();
	fake.listener = NULL;
}

/* A listen fails with a request in the queue. The next one has the backlog that it asks for. */
static void a_request_of_a_listen_that_failed(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	end(test);
	fake_two_devices = true;
	begin(test, IN_PROCESS);
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	lock_handler(id);
	handler_locked = true;
	fake.listen_error = -EADDRINUSE;
	fake.point = "cm_listener_listens";
	fake.at_point = request_on_the_other_device;
	KUNIT_EXPECT_EQ(test, call(LISTEN), -EADDRINUSE);
	KUNIT_EXPECT_NULL(test, fake.point);
	fake.listen_error = 0;
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&to_cm_id(id)->backlog_left), 1);
	unlock_handler(id);
	handler_locked = false;
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&to_cm_id(id)->backlog_left), 2);
}

/* --- namespaces -------------------------------------------------------------- */

/* Other namespaces than that of the ids. They have no more than their addresses. */
static struct net other_net, third_net;

static void port_is_on(struct net_device *ndev)
{
	RCU_INIT_POINTER(fake.port_data[1].netdev, ndev);
}

/* A net device in the other namespace. It has the MAC address of loopback. */
static struct net_device *net_device_elsewhere(void)
{
	static struct net_device ndev;

	ndev.dev_addr = init_net.loopback_dev->dev_addr;
	ndev.addr_len = init_net.loopback_dev->addr_len;
	dev_net_set(&ndev, &other_net);
	return &ndev;
}

/* Addresses or namespaces of net devices have changed. Return: the number of updates. */
static unsigned int net_devices_changed(void)
{
	unsigned int updates = 0;

	cm_inetaddr_event(NULL, NETDEV_UP, NULL);
	for (; delayed_work_pending(&cm_listeners_update.work); updates++)
		flush_delayed_work(&cm_listeners_update.work);
	return updates;
}

static u32 listens_on(void)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)&fake.listener->local_addr;

	return ntohl(sin->sin_addr.s_addr);
}

/* Any process can give that address to a dummy in a namespace of its own. */
static void the_mac_address_of_a_port(struct kunit *test)
{
	port_is_on(net_device_elsewhere());
	KUNIT_EXPECT_EQ(test, call(BIND), -ENODEV);
	KUNIT_EXPECT_NULL(test, id->device);
}

/* The listener follows the port. */
static void a_wildcard_and_a_port_of_another_namespace(struct kunit *test)
{
	port_is_on(net_device_elsewhere());
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.listener);
	port_is_on(init_net.loopback_dev);
	net_devices_changed();
	KUNIT_ASSERT_NOT_NULL(test, fake.listener);
	KUNIT_EXPECT_EQ(test, listens_on(), (u32)FAKE_LOCAL);
	port_is_on(net_device_elsewhere());
	net_devices_changed();
	KUNIT_EXPECT_NULL(test, fake.listener);
}

/* What the card would take as a wildcard is also for others: on a bridge, or in a container. */
static void a_wildcard_is_the_addresses_of_its_namespace(struct kunit *test)
{
	fake.addr_gone = true;
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.listener);
	fake.addr_gone = false;
	net_devices_changed();
	KUNIT_ASSERT_NOT_NULL(test, fake.listener);
	KUNIT_EXPECT_EQ(test, listens_on(), (u32)FAKE_LOCAL);
	fake.upper = net_device_elsewhere();
	KUNIT_EXPECT_EQ(test, net_devices_changed(), 1u);
	KUNIT_EXPECT_EQ(test, fake.listens, 1u);
	KUNIT_EXPECT_EQ(test, fake_res.entries, 1);
}

/* Another namespace may get it then, with services of its own. */
static void an_address_that_goes_and_comes_back(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, call(BIND), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	fake.addr_gone = true;
	net_devices_changed();
	KUNIT_EXPECT_NULL(test, fake.listener);
	fake.addr_gone = false;
	net_devices_changed();
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
}

/* Another namespace chooses how many interfaces it has. */
static void the_look_at_other_namespaces_is_bounded(struct kunit *test)
{
	struct sockaddr_in6 addr = {};
	unsigned int visits = 1;
	struct cm_id *cm;

	KUNIT_EXPECT_EQ(test, call(BIND), 0);
	cm = to_cm_id(id);
	cm_addr_copy((struct sockaddr *)&addr, cm_src(cm));
	write_pnet(&fake.device.coredev.rdma_net, &third_net);
	KUNIT_EXPECT_EQ(test, cm_iw_addr_use(cm, &fake.device, &addr, &visits), CM_ADDR_FREE);
	fake.upper = net_device_elsewhere();
	visits = 1;
	fake.addr_looks = 0;
	KUNIT_EXPECT_EQ(test, cm_iw_addr_use(cm, &fake.device, &addr, &visits), CM_ADDR_SHARED);
	KUNIT_EXPECT_EQ(test, fake.addr_looks, 1u);	/* that of the device's namespace */
	visits = 2;
	KUNIT_EXPECT_EQ(test, cm_iw_addr_use(cm, &fake.device, &addr, &visits), CM_ADDR_FREE);
	KUNIT_EXPECT_EQ(test, visits, 0u);
}

static void give_ipv6_addresses(struct kunit *test, unsigned int n)
{
	struct inet6_ifaddr *ifa = kunit_kcalloc(test, n, sizeof(*ifa), GFP_KERNEL);
	struct inet6_dev *in6_dev = kunit_kzalloc(test, sizeof(*in6_dev), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, ifa);
	KUNIT_ASSERT_NOT_NULL(test, in6_dev);
	rwlock_init(&in6_dev->lock);
	INIT_LIST_HEAD(&in6_dev->addr_list);
	for (i = 0; i < n; i++) {
		ifa[i].addr.s6_addr32[0] = htonl(0x20010db8);
		ifa[i].addr.s6_addr32[3] = htonl(i + 1);
		list_add_tail(&ifa[i].if_list, &in6_dev->addr_list);
	}
	fake.in6_dev = in6_dev;
}

/* The device has none. A user can make them, and the updates are for all users. */
static void a_wildcard_and_a_thousand_ipv6_addresses(struct kunit *test)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };

	give_ipv6_addresses(test, CM_MAX_ADDRS);
	fake.listen_error = -EAFNOSUPPORT;
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_EQ(test, fake.listen_calls, 2u);	/* one is for IPv4 */
	KUNIT_EXPECT_EQ(test, fake.ipv6_reads, 1u);
}

/* The host's TCP keeps the ports of a VRF apart: a server there may have the port. */
static void a_wildcard_and_a_vrf(struct kunit *test)
{
	static struct net_device in_vrf = { .priv_flags = IFF_L3MDEV_SLAVE };

	dev_net_set(&in_vrf, &init_net);
	port_is_on(&in_vrf);
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.listener);
	port_is_on(init_net.loopback_dev);
	net_devices_changed();
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
}

struct other_id {
	const char *name;
	enum rdma_ucm_port_space ps;
	enum ib_qp_type qp_type;
};

static const struct other_id other_ids[] = {
	{ "datagrams", RDMA_PS_UDP, IB_QPT_UD },
	{ "RDMA_PS_UDP with a connected QP", RDMA_PS_UDP, IB_QPT_RC },
	{ "RDMA_PS_IB", RDMA_PS_IB, IB_QPT_RC },
	{ "RDMA_PS_TCP with a QP for datagrams", RDMA_PS_TCP, IB_QPT_UD },
};

NAMED_PARAM(other_id, other_ids);

/* It would take the SYNs to the port of a TCP server. */
static void an_id_without_a_port_of_tcp(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);
	const struct other_id *other = test->param_value;
	int i;

	for (i = 0; i < 2; i++) {
		destroy(&id);
		id = make_id();
		KUNIT_ASSERT_NOT_NULL(test, id);
		id->ps = other->ps;
		id->qp_type = other->qp_type;
		to_cm_id(id)->bind.ps = other->ps;
		KUNIT_EXPECT_EQ(test, i ? t3_rdma_bind_addr(id, (struct sockaddr *)&any) :
				call(BIND), 0);
		KUNIT_EXPECT_EQ(test, call(LISTEN), i ? 0 : -EINVAL);
		KUNIT_EXPECT_EQ(test, fake.listen_calls, 0u);
	}
}

/* The port is held for IPv6 only, so that it cannot become that of IPv4, too. */
static void afonly_of_a_bound_id(struct kunit *test)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };

	KUNIT_EXPECT_EQ(test, t3_rdma_set_afonly(id, 1), 0);
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, t3_rdma_set_afonly(id, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, t3_rdma_set_afonly(id, 1), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_NULL(test, fake.listener);
}

static void other_change(void)
{
	cm_unlisten(to_cm_id(id), NULL);
}

/*
 * A process that sleeps at each of its addresses, as one above the limit of its cgroup, does not
 * keep a removal of the device from them. An update does what is left then.
 */
static void a_change_between_two_addresses(struct kunit *test)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };

	give_ipv6_addresses(test, 1);
	fake.at_point = other_change;
	fake.point = "cm_listen_yields";
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_EQ(test, fake.listen_calls, 1u);
	KUNIT_EXPECT_EQ(test, fake.listens, 0u);
	flush_delayed_work(&cm_listeners_update.work);
	KUNIT_EXPECT_EQ(test, fake.listens, 2u);
}

/* Its owner sleeps while it listens: the update, which is for all users, does not wait for it. */
static void an_id_that_is_busy_during_an_update(struct kunit *test)
{
	struct cm_id *busy;

	listen_on_wildcard(test);
	busy = to_cm_id(id);
	cm_unlisten(busy, NULL);
	mutex_lock(&busy->listen_mutex);
	cm_update_work(&cm_listeners_update.work.work);
	KUNIT_EXPECT_EQ(test, fake.listens, 0u);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&cm_listeners_update.work));
	mutex_unlock(&busy->listen_mutex);
	flush_delayed_work(&cm_listeners_update.work);
	KUNIT_EXPECT_EQ(test, fake.listens, 1u);
}

static struct inet6_ifaddr late_addr;	/* the interface gets it before the update */

static void update_meanwhile(void)
{
	if (list_empty(&late_addr.if_list))
		list_add_tail(&late_addr.if_list, &fake.in6_dev->addr_list);
	cm_update_work(&cm_listeners_update.work.work);
}

/*
 * The same while it begins to listen: the update leaves the id out, and its owner then does what
 * the update would have done. No other update is queued: a process could keep all users at it.
 */
static void an_update_while_an_id_begins_to_listen(struct kunit *test)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };

	give_ipv6_addresses(test, 1);
	late_addr.addr.s6_addr32[0] = htonl(0x20010db9);
	INIT_LIST_HEAD(&late_addr.if_list);
	fake.at_point = update_meanwhile;
	fake.point = "cm_listen_yields";
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	to_cm_id(id)->listen_begun = true;	/* as if it had listened before */
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&cm_listeners_update.work));
	KUNIT_EXPECT_EQ(test, fake.listens, 3u);
	cm_unlisten(to_cm_id(id), NULL);
	KUNIT_EXPECT_EQ(test, fake.listens, 0u);
	update_meanwhile();
	KUNIT_EXPECT_EQ(test, fake.listens, 3u);
}

/* Each refusal can cost a walk of the interfaces of all namespaces. */
static void refusals_of_an_update_are_limited(struct kunit *test)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };

	give_ipv6_addresses(test, 2 * CM_MAX_REFUSALS);
	fake.listen_error = -EADDRINUSE;
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, fake.listen_calls, (unsigned int)CM_MAX_REFUSALS);
	KUNIT_EXPECT_EQ(test, to_cm_id(id)->listen_from, CM_MAX_REFUSALS);
	fake.listen_error = 0;
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_EQ(test, fake.listens, 2u * CM_MAX_REFUSALS + 1);
	KUNIT_EXPECT_EQ(test, to_cm_id(id)->listen_from, 0);
}

/* Of an update that one user makes long the others do not wait four times as long. */
static void the_pause_after_a_long_update(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, t3_update_delay(60 * HZ), 2ul * HZ);
}

/* A provider with sockets listens in the namespace of its net device. */
static void a_wildcard_of_a_provider_with_sockets(struct kunit *test)
{
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	fake.upper = net_device_elsewhere();
	listen_on_wildcard(test);
	KUNIT_ASSERT_NOT_NULL(test, fake.listener);
	KUNIT_EXPECT_EQ(test, listens_on(), (u32)INADDR_ANY);
}

/* siw makes its socket in the namespace of the task that calls it. */
static void in_other_net(void)
{
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	port_is_on(net_device_elsewhere());
	id->route.addr.dev_addr.net = &other_net;
}

/* Return: what is to be restored. */
static struct nsproxy *move_task_to(struct nsproxy *nsproxy)
{
	struct nsproxy *before = current->nsproxy;

	task_lock(current);
	current->nsproxy = nsproxy;
	task_unlock(current);
	return before;
}

static void update_in_a_worker(void)
{
	queue_delayed_work(t3_unbound_wq, &cm_listeners_update.work, 0);
	flush_delayed_work(&cm_listeners_update.work);
}

/* A container's: no worker makes it. The caller does, also if an update comes before it. */
static void a_socket_of_another_namespace(struct kunit *test)
{
	struct nsproxy nsproxy = *current->nsproxy, *before;

	in_other_net();
	nsproxy.net_ns = &other_net;
	before = move_task_to(&nsproxy);
	fake.point = "cm_listen_next_device";
	fake.at_point = update_in_a_worker;
	listen_on_wildcard(test);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_PTR_EQ(test, fake.listen_net, (const struct net *)&other_net);
	KUNIT_EXPECT_EQ(test, fake.listens, 1u);
	KUNIT_EXPECT_EQ(test, fake.warnings, 0u);
	update_in_a_worker();
	KUNIT_EXPECT_EQ(test, fake.listens, 1u);
	cm_unlisten(to_cm_id(id), NULL);
	update_in_a_worker();
	KUNIT_EXPECT_EQ(test, fake.listens, 0u);
	KUNIT_EXPECT_EQ(test, fake.warnings, 1u);
	KUNIT_EXPECT_EQ(test, fake.listen_calls, 1u);
	move_task_to(before);
	id->route.addr.dev_addr.net = &init_net;
}

/* A process that has changed its namespace. */
static void a_task_of_another_namespace(struct kunit *test)
{
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	in_other_net();
	KUNIT_EXPECT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), -EADDRNOTAVAIL);
	KUNIT_EXPECT_EQ(test, fake.listen_calls, 0u);
	id->route.addr.dev_addr.net = &init_net;
	port_is_on(init_net.loopback_dev);
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	run_shorthand(test, READY);
	id->route.addr.dev_addr.net = &other_net;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EADDRNOTAVAIL);
	KUNIT_EXPECT_NULL(test, fake.conn);
	id->route.addr.dev_addr.net = &init_net;
}

/* A worker may: it is in the first namespace, as the listener. */
static void a_socket_of_the_first_namespace(struct kunit *test)
{
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
	listen_on_wildcard(test);
	cm_unlisten(to_cm_id(id), NULL);
	update_in_a_worker();
	KUNIT_EXPECT_EQ(test, fake.listens, 1u);
	KUNIT_EXPECT_PTR_EQ(test, fake.listen_net, (const struct net *)&init_net);
}

/* A request comes as the port leaves the namespace of the listener. */
static void a_request_and_a_port_that_leaves(struct kunit *test)
{
	listen_on_wildcard(test);
	port_is_on(net_device_elsewhere());
	fake_request();
	flush_events();
	KUNIT_EXPECT_EQ(test, fake.rejects, 1u);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
}

/* The listener ends. */
static void the_next_id_cannot_bind(struct kunit *test)
{
	listener = NULL;
	destroy(&id);
	id = make_id();
	KUNIT_ASSERT_NOT_NULL(test, id);
	KUNIT_EXPECT_EQ(test, call(BIND), -EADDRINUSE);
}

/* The card takes the SYNs to the address from each port: also those for the other namespace. */
static void an_address_that_two_namespaces_have(struct kunit *test)
{
	fake.upper = net_device_elsewhere();
	fake.addr_in_other_net = true;
	KUNIT_EXPECT_EQ(test, call(BIND), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	/* The device is a third one's. The listener stays: the other chooses its addresses. */
	write_pnet(&fake.device.coredev.rdma_net, &third_net);
	net_devices_changed();
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	the_next_id_cannot_bind(test);
}

/* The host has it on an interface that is not the card's, and its TCP gets the address back. */
static void an_address_that_the_namespace_of_the_device_has(struct kunit *test)
{
	write_pnet(&fake.device.coredev.rdma_net, &third_net);
	KUNIT_EXPECT_EQ(test, call(BIND), 0);
	KUNIT_EXPECT_EQ(test, call(LISTEN), 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	fake.addr_on_bridge = true;
	net_devices_changed();
	KUNIT_EXPECT_NULL(test, fake.listener);
	fake.addr_on_bridge = false;
	net_devices_changed();
	KUNIT_EXPECT_NOT_NULL(test, fake.listener);
	fake.addr_on_bridge = true;
	the_next_id_cannot_bind(test);
}

/* The card would take the segments of the host's TCP from the chosen peer. */
static void a_connect_from_an_address_of_the_namespace_of_the_device(struct kunit *test)
{
	write_pnet(&fake.device.coredev.rdma_net, &third_net);
	run_shorthand(test, READY);
	fake.addr_on_bridge = true;
	KUNIT_EXPECT_EQ(test, call(CONNECT), -EADDRINUSE);
	KUNIT_EXPECT_NULL(test, fake.conn);
}

/* --- addresses ------------------------------------------------------------- */

static void destroy_the_id(struct work_struct *work)
{
	destroy(&id);
}

static DECLARE_WORK(destruction, destroy_the_id);

static void destroy_in_another_task(void)
{
	queue_work(system_long_wq, &destruction);
	flush_work(&destruction);
}

/*
 * An id is destroyed while the callback of its lookup runs. The destroy waits for the end of the
 * callback, as the module may be unloaded next.
 */
static void a_destroy_waits_for_the_callback_of_a_lookup(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake.point = "cm_lookup_done";
	fake.at_point = destroy_in_another_task;
	fake_lookup_done(0);
	KUNIT_EXPECT_NULL(test, fake.point);
	KUNIT_EXPECT_NULL(test, id);
	KUNIT_EXPECT_EQ(test, fake.lookups_cancelled, 1u);
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
}

/* ib_core has one worker for all users; the result needs the mutexes of the id, of its file. */
static void the_callback_of_a_lookup_only_queues(struct kunit *test)
{
	end(test);
	begin(test, IN_PROCESS);
	KUNIT_ASSERT_EQ(test, call(BIND), 0);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	delay_worker();
	fake_lookup_done(0);
	KUNIT_EXPECT_EQ(test, got.written, 0u);
	run_worker();
	expect_event(test, "resolved", 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

/*
 * A lookup that fails leaves the id without an interface and an address, as the next one may find
 * another route.
 */
static void a_failed_lookup_binds_to_nothing(struct kunit *test)
{
	struct rdma_dev_addr *dev_addr;

	dev_addr = &id->route.addr.dev_addr;
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake_lookup_done(-ETIMEDOUT);
	expect_event(test, "failed", 0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, dev_addr->bound_dev_if, 0);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	port_is_on(NULL);
	fake_lookup_done(0);
	expect_event(test, "no device", 0, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	KUNIT_EXPECT_EQ(test, dev_addr->bound_dev_if, 0);
	KUNIT_EXPECT_TRUE(test, cm_addr_any(cm_src(to_cm_id(id))));
	port_is_on(init_net.loopback_dev);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	fake_lookup_done(0);
	expect_event(test, "found", 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	KUNIT_EXPECT_NE(test, dev_addr->bound_dev_if, 0);
	KUNIT_EXPECT_FALSE(test, cm_addr_any(cm_src(to_cm_id(id))));
}

/* The callback of a lookup may still run when the consumer begins another one. */
static void a_lookup_waits_for_the_callback_of_the_last_one(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	KUNIT_EXPECT_EQ(test, fake.lookups_cancelled, 0u);
	fake_lookup_done(-ETIMEDOUT);
	expect_event(test, "failed", 0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	KUNIT_EXPECT_EQ(test, fake.lookups_cancelled, 1u);
	fake_lookup_done(0);
	expect_event(test, "found", 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void resolve_over_a_route(struct kunit *test, u8 neighbour_state)
{
	fake.route_known = true;
	fake.route_has_neighbour = true;
	fake.neighbour_state = neighbour_state;
	KUNIT_ASSERT_EQ(test, call(RESOLVE), 0);
	KUNIT_EXPECT_EQ(test, fake.route_refs, 0);
	KUNIT_EXPECT_EQ(test, fake.neighbour_refs, 0);
}

/* The route and the neighbour are known: the id takes the link address, and no reference. */
static void a_neighbour_that_is_known_needs_no_lookup(struct kunit *test)
{
	resolve_over_a_route(test, NUD_REACHABLE);
	KUNIT_EXPECT_NULL(test, fake.lookup);
	expect_event(test, "found", 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	KUNIT_EXPECT_EQ(test, (int)id->route.addr.dev_addr.dst_dev_addr[0], 2);
}

static void a_neighbour_that_is_not_known_is_looked_up(struct kunit *test)
{
	static const u8 states[] = { NUD_NONE, NUD_INCOMPLETE };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		resolve_over_a_route(test, states[i]);
		KUNIT_ASSERT_NOT_NULL(test, fake.lookup);
		fake_lookup_done(0);
		expect_event(test, "found", i, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		end(test);
		begin(test, IN_PROCESS);
	}
}

/* --- ports of the host's TCP ------------------------------------------------ */

static int host_bind(u16 port, bool reuse)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct socket *sock;
	int ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);

	if (ret)
		return ret;
	sock->sk->sk_reuse = reuse ? SK_CAN_REUSE : SK_NO_REUSE;
	ret = t3_kernel_bind(sock, (struct sockaddr *)&any, sizeof(any));
	sock_release(sock);
	return ret;
}

/* As siw, which binds its ports in the host's TCP itself. */
static void provider_has_sockets(void)
{
	reserve_tcp_ports = true;
	fake.has_sockets = true;
	fake.device.iw_driver_flags = IW_F_NO_PORT_MAP;
}

/* The id and the provider hold the port together, and the host cannot have it. */
static void a_provider_with_sockets_listens(struct kunit *test)
{
	u16 port;

	provider_has_sockets();
	listen_on_wildcard(test);
	KUNIT_EXPECT_NOT_NULL(test, fake.sock);
	port = cm_addr_port(cm_src(to_cm_id(id)));
	KUNIT_EXPECT_EQ(test, host_bind(port, true), -EADDRINUSE);
	fake_release_port();
	KUNIT_EXPECT_EQ(test, host_bind(port, true), -EADDRINUSE);
	end(test);
	KUNIT_EXPECT_EQ(test, host_bind(port, false), 0);
	begin(test, IN_PROCESS);
}

static const struct conversation ready = { "ready", {
	S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(ROUTE), S(GOT_ROUTE) } };

/* The peer does not reply for a minute, for which the removal of the device does not wait. */
static void a_removal_cancels_a_connect(struct kunit *test)
{
	fake.can_cancel = true;
	run(test, &ready);
	KUNIT_ASSERT_EQ(test, call(CONNECT), 0);
	KUNIT_ASSERT_NOT_NULL(test, fake.conn);
	removing = true;
	queue_work(system_long_wq, &removal);
	while (!READ_ONCE(fake.removal_waits))
		cond_resched();
	flush_workqueue(cm_wq);
	KUNIT_EXPECT_NULL(test, fake.conn);
	KUNIT_EXPECT_EQ(test, fake.cancels, 1u);
}

/* Nor does a destroyed id keep its device and its QP for that time. */
static void a_destroy_cancels_a_connect(struct kunit *test)
{
	fake.can_cancel = true;
	run(test, &ready);
	KUNIT_ASSERT_EQ(test, call(CONNECT), 0);
	KUNIT_ASSERT_NOT_NULL(test, fake.conn);
	destroy(&id);
	KUNIT_EXPECT_NULL(test, fake.conn);
	KUNIT_EXPECT_EQ(test, fake.cancels, 1u);
}

static void a_provider_with_sockets_connects(struct kunit *test)
{
	provider_has_sockets();
	run(test, &ready);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.sock);
}

/*
 * The port of a wildcard address is reserved in the host's TCP, because the device is not known
 * yet. A connect leaves it to the provider.
 */
static void a_connect_returns_the_reserved_port(struct kunit *test)
{
	static const struct conversation routed = { "routed", {
		S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR), S(PREPARE_QP), S(ROUTE),
		S(GOT_ROUTE) } };
	struct sockaddr_storage any = fake_address(INADDR_ANY, 7000);

	provider_has_sockets();
	KUNIT_ASSERT_EQ(test, t3_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	run(test, &routed);
	KUNIT_EXPECT_EQ(test, host_bind(7000, false), -EADDRINUSE);
	KUNIT_EXPECT_EQ(test, call(CONNECT), 0);
	KUNIT_EXPECT_NOT_NULL(test, fake.sock);
	fake_release_port();
	KUNIT_EXPECT_EQ(test, host_bind(7000, false), 0);
}

static const struct conversation resolved = { "resolved", {
	S(RESOLVE), V(LOOKUP_DONE, 0), S(GOT_ADDR) } };

/* A lookup binds the id. Its port is reserved as soon as the device is known. */
static void the_port_of_a_lookup(struct kunit *test)
{
	reserve_tcp_ports = true;
	run(test, &resolved);
	KUNIT_EXPECT_EQ(test, host_bind(cm_addr_port(cm_src(to_cm_id(id))), true), -EADDRINUSE);
}

/* Its provider has sockets. */
static void a_lookup_without_a_socket(struct kunit *test)
{
	provider_has_sockets();
	run(test, &resolved);
	KUNIT_EXPECT_NULL(test, to_cm_id(id)->bind.reserved);
}

/* The id has no device, and listens on all. */
static void a_listen_after_a_failed_lookup(struct kunit *test)
{
	static const struct conversation failed = { "failed", {
		S(RESOLVE), V(LOOKUP_DONE, -EHOSTUNREACH),
		V(GOT_ADDR_ERROR, -EHOSTUNREACH) } };
	u16 port;

	reserve_tcp_ports = true;
	run(test, &failed);
	port = cm_addr_port(cm_src(to_cm_id(id)));
	KUNIT_EXPECT_EQ(test, host_bind(port, true), 0);
	KUNIT_EXPECT_EQ(test, t3_rdma_listen(id, 1), 0);
	KUNIT_EXPECT_EQ(test, host_bind(port, true), -EADDRINUSE);
}

static struct kunit_case cm_devices_cases[] = {
	KUNIT_CASE(a_device_is_removed_as_a_bind_finds_it),
	KUNIT_CASE(a_lookup_takes_no_lock_of_all_devices),
	KUNIT_CASE(a_queued_request_holds_its_device),
	KUNIT_CASE(no_worker_waits_for_the_end_of_a_listener),
	KUNIT_CASE(a_removal_cancels_a_connect),
	KUNIT_CASE(a_destroy_cancels_a_connect),
	KUNIT_CASE(a_request_belongs_to_the_device_it_arrived_on),
	KUNIT_CASE_PARAM(a_wildcard_listen, wildcard_listen_gen_params),
	KUNIT_CASE(a_device_without_ipv6_is_logged_once),
	KUNIT_CASE(a_new_device_refuses_a_listener),
	KUNIT_CASE(a_wildcard_listen_without_a_device),
	KUNIT_CASE(a_device_is_removed_during_a_wildcard_listen),
	KUNIT_CASE(the_removal_of_a_former_device),
	KUNIT_CASE(a_request_of_a_listen_that_failed),
	KUNIT_CASE(the_mac_address_of_a_port),
	KUNIT_CASE(a_wildcard_and_a_port_of_another_namespace),
	KUNIT_CASE(a_wildcard_is_the_addresses_of_its_namespace),
	KUNIT_CASE(an_address_that_goes_and_comes_back),
	KUNIT_CASE(the_look_at_other_namespaces_is_bounded),
	KUNIT_CASE(a_wildcard_and_a_thousand_ipv6_addresses),
	KUNIT_CASE(a_wildcard_and_a_vrf),
	KUNIT_CASE_PARAM(an_id_without_a_port_of_tcp, other_id_gen_params),
	KUNIT_CASE(afonly_of_a_bound_id),
	KUNIT_CASE(a_change_between_two_addresses),
	KUNIT_CASE(an_id_that_is_busy_during_an_update),
	KUNIT_CASE(an_update_while_an_id_begins_to_listen),
	KUNIT_CASE(refusals_of_an_update_are_limited),
	KUNIT_CASE(the_pause_after_a_long_update),
	KUNIT_CASE(a_wildcard_of_a_provider_with_sockets),
	KUNIT_CASE(a_socket_of_another_namespace),
	KUNIT_CASE(a_task_of_another_namespace),
	KUNIT_CASE(a_socket_of_the_first_namespace),
	KUNIT_CASE(a_request_and_a_port_that_leaves),
	KUNIT_CASE(an_address_that_two_namespaces_have),
	KUNIT_CASE(an_address_that_the_namespace_of_the_device_has),
	KUNIT_CASE(a_connect_from_an_address_of_the_namespace_of_the_device),
	KUNIT_CASE(a_destroy_waits_for_the_callback_of_a_lookup),
	KUNIT_CASE(the_callback_of_a_lookup_only_queues),
	KUNIT_CASE(a_failed_lookup_binds_to_nothing),
	KUNIT_CASE(a_lookup_waits_for_the_callback_of_the_last_one),
	KUNIT_CASE(a_neighbour_that_is_known_needs_no_lookup),
	KUNIT_CASE(a_neighbour_that_is_not_known_is_looked_up),
	KUNIT_CASE(the_port_of_a_lookup),
	KUNIT_CASE(a_lookup_without_a_socket),
	KUNIT_CASE(a_listen_after_a_failed_lookup),
	KUNIT_CASE(a_provider_with_sockets_listens),
	KUNIT_CASE(a_provider_with_sockets_connects),
	KUNIT_CASE(a_connect_returns_the_reserved_port),
	{}
};

TEST_SUITE("t3_rdma_cm_devices", cm_devices_cases, .init = begin_init,
	   .exit = end_exit);
