// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs, by ib_create_qp(), ib_modify_qp(), ib_query_qp() and ib_destroy_qp(): when lookups
 * find a QP, its owner, its references, its reset, its status word, the access that it grants to
 * the peer, what is reported of it, and failing allocations.
 */
#include "around_qp.h"

/* --- tests: lookups and references ------------------------------------------ */

/* E6: ids are easy to guess, and a connect uses any QP that it finds. */
static void qp_is_published_only_after_success(struct kunit *test)
{
	struct t3_qp *qp = alloc_qp(test);

	xa_erase_irq(&dev->cqs, cq->id);	/* for look_for_objects() */
	card.respond_error = -EFAULT;
	KUNIT_EXPECT_EQ(test, create(qp, true), -EFAULT);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->qps));
	KUNIT_EXPECT_EQ(test, card.entries, 0);

	card.respond_error = 0;
	qp = alloc_qp(test);
	KUNIT_ASSERT_EQ(test, create(qp, true), 0);
	KUNIT_EXPECT_PTR_EQ(test, t3_qp_find(dev, qp->id), qp);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	xa_store_irq(&dev->cqs, cq->id, cq, GFP_KERNEL);
}

/* Memory of user objects is charged to a memory cgroup, that of kernel consumers is not. */
static void user_rings_are_charged_to_the_memcg(struct kunit *test)
{
	const struct ib_cq_init_attr attr = { .cqe = 64 };
	struct t3_cq *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	struct t3_qp *qp = alloc_qp(test);

	KUNIT_ASSERT_NOT_NULL(test, other);
	card.uncharged = 0;
	KUNIT_ASSERT_EQ(test, create(qp, true), 0);
	KUNIT_EXPECT_EQ(test, card.uncharged, 0);
	t3_destroy_qp(&qp->ibqp, NULL);

	qp = alloc_qp(test);
	KUNIT_ASSERT_EQ(test, create(qp, false), 0);
	KUNIT_EXPECT_EQ(test, card.uncharged, 2);
	t3_destroy_qp(&qp->ibqp, NULL);

	card.uncharged = 0;
	other->ibcq.device = &dev->ibdev;
	bundle.driver_udata.inlen = sizeof(struct t3_create_cq_req);
	card.respond_error = -EFAULT;	/* after all allocations */
	KUNIT_EXPECT_EQ(test, t3_create_cq(&other->ibcq, &attr, &bundle.driver_udata), -EFAULT);
	KUNIT_EXPECT_EQ(test, card.uncharged, 0);
}

static void kernel_qp_is_in_the_tables_of_its_cqs(struct kunit *test)
{
	struct t3_cq *rcq = make_cq(test);
	struct t3_qp *qp = alloc_qp(test);

	qp->ibqp.recv_cq = &rcq->ibcq;
	KUNIT_ASSERT_EQ(test, create(qp, false), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&cq->qps, qp->id), (void *)qp);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&rcq->qps, qp->id), (void *)qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&cq->qps));
	KUNIT_EXPECT_TRUE(test, xa_empty(&rcq->qps));
	t3_destroy_cq(&rcq->ibcq, NULL);
}

/* A QP that is being destroyed has no reference left, and waits for none. */
static void loop_over_qps_holds_a_reference_on_each(struct kunit *test)
{
	struct t3_qp *ending = make_qp(test, false), *qp = make_qp(test, false);
	unsigned long id = 0;

	t3_qp_put(ending);
	KUNIT_EXPECT_PTR_EQ(test, t3_qp_next(dev, &id, ULONG_MAX), qp);
	KUNIT_EXPECT_EQ(test, id, (unsigned long)qp->id);
	KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), 2);
	t3_qp_put(qp);
	KUNIT_EXPECT_NULL(test, t3_qp_next(dev, &id, qp->id - 1));
	id = qp->id + 1;
	KUNIT_EXPECT_NULL(test, t3_qp_next(dev, &id, ULONG_MAX));
	kref_init(&ending->ref);
	reinit_completion(&ending->released);
	t3_destroy_qp(&ending->ibqp, NULL);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/*
 * E9: iw_cm calls t3_iw_get_qp() and then t3_iw_add_ref(), under a spinlock. A destroy in between
 * must not complete, because the QP is freed then. Here the second call comes at the very end of
 * the grace period.
 */
static void destroy_waits_for_callers_of_iw_get_qp(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	struct destroyer d = { .qp = qp };

	rcu_read_lock();
	card.late_reader = t3_iw_get_qp(&dev->ibdev, qp->id);
	/* A grace period that ends after this reader. */
	KUNIT_EXPECT_FALSE(test, poll_state_synchronize_rcu(qp->found_at));
	rcu_read_unlock();
	KUNIT_ASSERT_NOT_NULL(test, card.late_reader);
	INIT_WORK_ONSTACK(&d.work, destroy_work);
	init_completion(&d.done);
	queue_work(system_unbound_wq, &d.work);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&d.done, HZ / 5), 0);
	KUNIT_EXPECT_EQ(test, card.grace_periods, 1);
	KUNIT_EXPECT_FALSE(test, card.found_early);
	if (card.grace_periods)
		t3_iw_rem_ref(&qp->ibqp);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d.done, 20 * HZ), 0);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
}

static void no_grace_period_without_iw_get_qp(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	KUNIT_EXPECT_PTR_EQ(test, t3_qp_find(dev, qp->id), qp);
	t3_qp_put(qp);
	t3_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_EQ(test, card.grace_periods, 0);
}

static void qp_without_references_is_not_found(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	t3_qp_put(qp);	/* the last reference */
	KUNIT_EXPECT_NULL(test, t3_qp_find(dev, qp->id));
	kref_init(&qp->ref);
	reinit_completion(&qp->released);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* --- tests: owners -------------------------------------------------------------- */

static struct cred *unlike_the_owner(struct kunit *test, unsigned int i)
{
	struct cred *cred = prepare_creds();
	kuid_t *uids[3];
	kgid_t *gids[3];

	KUNIT_ASSERT_NOT_NULL(test, cred);
	uids[0] = &cred->uid;
	uids[1] = &cred->euid;
	uids[2] = &cred->suid;
	gids[0] = &cred->gid;
	gids[1] = &cred->egid;
	gids[2] = &cred->sgid;
	if (i < 3)
		*uids[i] = KUIDT_INIT(1000);
	else
		*gids[i - 3] = KGIDT_INIT(1000);
	return cred;
}

/* The number of a QP is easy to guess. The in-tree rdma_ucm passes on any number. */
static void process_connects_only_its_own_qps(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);
	struct pid *self = qp->creator;
	const struct cred *owner = qp->cred, *caller;
	const struct iw_cm_id cm_id = {};
	struct cred *other;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, t3_qp_permits(qp, &cm_id));
	for (i = 0; i < 6; i++) {
		other = unlike_the_owner(test, i);
		qp->cred = other;
		/* Its own process, which has changed its credentials since. */
		KUNIT_EXPECT_TRUE(test, t3_qp_permits(qp, &cm_id));
		qp->creator = task_tgid(&init_task);
		KUNIT_EXPECT_FALSE_MSG(test, t3_qp_permits(qp, &cm_id), "id %u differs", i);
		rcu_read_lock();
		KUNIT_EXPECT_NULL(test, t3_iw_get_qp(&dev->ibdev, qp->id));
		rcu_read_unlock();
		KUNIT_EXPECT_FALSE(test, qp->found_by_cm);
		qp->creator = self;
		put_cred(other);
	}
	/* Another process of the same user, with and without privileges of the creator. */
	qp->cred = owner;
	qp->creator = task_tgid(&init_task);
	KUNIT_EXPECT_TRUE(test, t3_qp_permits(qp, &cm_id));
	other = prepare_creds();
	KUNIT_ASSERT_NOT_NULL(test, other);
	cap_clear(other->cap_permitted);
	caller = override_creds(other);
	KUNIT_EXPECT_FALSE(test, t3_qp_permits(qp, &cm_id));
	revert_creds(caller);
	put_cred(other);
	qp->creator = self;
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void kernel_qp_is_connected_by_its_id(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false), *another = make_qp(test, false);
	struct rdma_cm_id id = {};
	struct iw_cm_id cm_id = {};
	const struct cred *caller;
	struct cred *plain;

	KUNIT_EXPECT_FALSE(test, t3_qp_permits(qp, &cm_id));
	/* An id of a process. */
	cm_id.context = &id;
	KUNIT_EXPECT_FALSE(test, t3_qp_permits(qp, &cm_id));
	id.qp = &another->ibqp;
	KUNIT_EXPECT_FALSE(test, t3_qp_permits(qp, &cm_id));
	id.qp = &qp->ibqp;
	KUNIT_EXPECT_TRUE(test, t3_qp_permits(qp, &cm_id));

	/* iw_cm asks for the QP of a second accept without an id. */
	plain = prepare_creds();
	KUNIT_ASSERT_NOT_NULL(test, plain);
	cap_clear(plain->cap_effective);
	caller = override_creds(plain);
	rcu_read_lock();
	KUNIT_EXPECT_PTR_EQ(test, t3_iw_get_qp(&dev->ibdev, qp->id), &qp->ibqp);
	current->flags &= ~PF_KTHREAD;
	KUNIT_EXPECT_NULL(test, t3_iw_get_qp(&dev->ibdev, qp->id));
	current->flags |= PF_KTHREAD;
	rcu_read_unlock();
	revert_creds(caller);
	put_cred(plain);
	t3_destroy_qp(&another->ibqp, NULL);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* --- tests: reset, rights, status word --------------------------------------- */

static void refused_reset_changes_nothing(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	received(qp, 1);
	/* Applied to the QP, but not polled yet. */
	spin_lock_irq(&cq->lock);
	t3_cq_consume_all(cq);
	spin_unlock_irq(&cq->lock);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), -EINVAL);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_SUCCESS), 1);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* Old entries in the CQs would be taken for completions of the next connection. */
static void reset_without_a_purge_is_refused(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	qp->resetting = true;
	other_reset.qp = qp;
	other_reset.lookups = 0;
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), -EINVAL);
	KUNIT_EXPECT_FALSE(test, qp->resetting);
	other_reset.qp = NULL;
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The FIFO of doorbells is still full: the next requests must not ring. */
static void reset_keeps_the_doorbells_off(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_qp_set_status(qp, T3_QP_STATUS_DB_OFF, 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, status_of(qp), T3_QP_STATUS_DB_OFF);
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void reset_qp_connects_again(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);

	recv(test, qp, 1);
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	/* A concurrent flush finds nothing to do. */
	t3_qp_flush(qp);
	recv(test, qp, 2);
	t3_cq_flush_qp(qp);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 0);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, polled(test, IB_WC_WR_FLUSH_ERR), 1);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* From the RDMA_INIT to the last message of the card it may use page lists of the domain. */
static void connected_qp_uses_its_domain(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);

	KUNIT_EXPECT_FALSE(test, t3_pd_is_used(&pd));
	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), -EINVAL);
	t3_qp_fsm_apply(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_TRUE(test, t3_pd_is_used(&pd));
	t3_qp_disconnected(qp);
	KUNIT_EXPECT_FALSE(test, t3_pd_is_used(&pd));
	t3_destroy_qp(&qp->ibqp, NULL);
}

static void query(struct t3_qp *qp, struct ib_qp_attr *attr)
{
	struct ib_qp_init_attr init;

	t3_query_qp(&qp->ibqp, attr, IB_QP_STATE | IB_QP_PATH_MTU, &init);
}

/* As every in-tree iWARP driver does, and as rdma-core's test_query_rc_qp expects. */
static void idle_qp_is_reported_in_init(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, true);
	struct ib_qp_attr attr;

	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, (int)attr.qp_state, (int)IB_QPS_INIT);
	KUNIT_EXPECT_EQ(test, (int)attr.cur_qp_state, (int)IB_QPS_INIT);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_INIT), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_INIT), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, (int)attr.qp_state, (int)IB_QPS_INIT);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The largest IB MTU that fits into the port's, as ib_query_port() has it. */
static void path_mtu_is_the_active_mtu_of_the_port(struct kunit *test)
{
	const struct t3_conn_attrs over_port_2 = { .tid = 7, .channel = 1 };
	struct t3_qp *qp = make_qp(test, true);
	struct ib_qp_attr attr;

	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, attr.port_num, 1);
	KUNIT_EXPECT_EQ(test, (int)attr.path_mtu, (int)IB_MTU_1024);
	KUNIT_ASSERT_EQ(test, connect_attrs(qp, &over_port_2), 0);
	query(qp, &attr);
	KUNIT_EXPECT_EQ(test, attr.port_num, 2);
	KUNIT_EXPECT_EQ(test, (int)attr.path_mtu, (int)IB_MTU_4096);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* rdma_cm moves to RTR without a path; ibv_rc_pingpong with the path to its peer. */
static void rtr_with_an_infiniband_path_is_refused(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR, .max_dest_rd_atomic = 4 };
	struct t3_qp *qp = make_qp(test, true);

	KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr,
					   IB_QP_STATE | IB_QP_ACCESS_FLAGS, NULL), 0);
	KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE | IB_QP_AV |
					IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER, NULL),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, qp->max_ird, 1U);
	KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	connection_ends(qp, T3_QPEV_LOST);
	t3_destroy_qp(&qp->ibqp, NULL);
}

/* The u32 that rdma(8) shows under a name, or -1. */
static s64 driver_u32(const struct sk_buff *skb, const char *name)
{
	const struct nlattr *table = (const void *)skb->data, *attr;
	bool found = false;
	int left;

	nla_for_each_nested(attr, table, left) {
		if (nla_type(attr) == RDMA_NLDEV_ATTR_DRIVER_STRING)
			found = !nla_strcmp(attr, name);
		else if (nla_type(attr) == RDMA_NLDEV_ATTR_DRIVER_U32 && found)
			return nla_get_u32(attr);
	}
	return -1;
}

static void resource_shows_requests_of_kernel_qps_only(struct kunit *test)
{
	struct t3_qp *kernel = make_qp(test, false), *user = make_qp(test, true);
	struct sk_buff *skb = alloc_skb(PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	recv(test, kernel, 1);
	recv(test, kernel, 2);
	send(test, kernel, 3);
	KUNIT_EXPECT_EQ(test, t3_fill_res_qp_entry(skb, &kernel->ibqp), 0);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "recvs"), 2LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "sends"), 1LL);
	skb_trim(skb, 0);
	/* The kernel does not see the posts of a process. */
	KUNIT_EXPECT_EQ(test, t3_fill_res_qp_entry(skb, &user->ibqp), 0);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "user"), 1LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "recvs"), -1LL);
	KUNIT_EXPECT_EQ(test, driver_u32(skb, "sends"), -1LL);
	kfree_skb(skb);
	t3_destroy_qp(&user->ibqp, NULL);
	t3_destroy_qp(&kernel->ibqp, NULL);
}

static void qp_access_flags_limit_the_peer(struct kunit *test)
{
	static const struct {
		int flags;
		u8 caps;
	} rights[] = {
		{ -1, T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },	/* never set */
		{ 0, T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },	/* as rdma_cm sets them */
		{ IB_ACCESS_LOCAL_WRITE, 0 },
		{ IB_ACCESS_REMOTE_READ, T3_QPCAP_RDMA_READ },
		{ IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE, T3_QPCAP_RDMA_WRITE },
		{ IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
		  T3_QPCAP_RDMA_READ | T3_QPCAP_RDMA_WRITE },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rights); i++) {
		struct ib_qp_attr attr = {
			.qp_state = IB_QPS_INIT, .qp_access_flags = rights[i].flags,
		};
		struct t3_qp *qp = make_qp(test, true);

		t3_memory_windows = i % 2;	/* nothing else lets a process bind a window */
		if (rights[i].flags >= 0)
			KUNIT_EXPECT_EQ(test, t3_modify_qp(&qp->ibqp, &attr, IB_QP_STATE |
							IB_QP_ACCESS_FLAGS, NULL), 0);
		KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
		KUNIT_EXPECT_EQ(test, card.qp_caps,
				rights[i].caps | (t3_memory_windows ? T3_QPCAP_BIND : 0));
		KUNIT_EXPECT_EQ(test, t3_qp_allows_remote_read(qp),
				!!(rights[i].caps & T3_QPCAP_RDMA_READ));
		connection_ends(qp, T3_QPEV_LOST);
		/* A peer that opens with an RTR read needs the right to read. */
		KUNIT_EXPECT_EQ(test, move(qp, IB_QPS_RESET), 0);
		KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_READ),
				rights[i].caps & T3_QPCAP_RDMA_READ ? 0 : -EINVAL);
		if (qp->busy)
			connection_ends(qp, T3_QPEV_LOST);
		t3_destroy_qp(&qp->ibqp, NULL);
	}
}

/* --- tests: one allocation fails --------------------------------------------- */

/* A failed connect leaves the QP unchanged, and can be repeated. */
static void make_and_connect(struct kunit *test)
{
	struct t3_qp *qp = alloc_qp(test);
	const int rtr_entries = atomic_read(&cq->rtr_avail);
	unsigned int refs;
	int ret;

	card.sent = 0;
	allocations_fail();
	ret = create(qp, false);
	if (ret)
		goto out;
	refs = kref_read(&qp->ref);
	ret = connect(qp, T3_RTR_NONE);
	allocations_work();
	if (ret) {
		KUNIT_EXPECT_EQ(test, (int)qp->state, (int)T3_QPS_IDLE);
		KUNIT_EXPECT_FALSE(test, qp->busy);
		KUNIT_EXPECT_NULL(test, qp->ep);
		KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), refs);
		KUNIT_EXPECT_EQ(test, card.sent, 0);
		KUNIT_EXPECT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	}
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, kref_read(&qp->ref), refs);
	KUNIT_EXPECT_EQ(test, t3_destroy_qp(&qp->ibqp, NULL), 0);
out:
	allocations_work();
	KUNIT_EXPECT_EQ_MSG(test, ret, failing.where ? -ENOMEM : 0, "%s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.ids, 1, "ids, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, card.rqts, 0, "receive queues, %s", alloc_that_failed());
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&cq->rtr_avail), rtr_entries, "entries, %s",
			    alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&dev->qps), "%s", alloc_that_failed());
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&cq->qps), "%s", alloc_that_failed());
}

static void connect_without_memory(struct kunit *test)
{
	KUNIT_EXPECT_GE(test, fail_each_allocation(test, make_and_connect), 7U);
}

/* However many errors there are. In softirq. */
static void connection_has_one_terminate(struct kunit *test)
{
	struct t3_qp *qp = make_qp(test, false);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, connect(qp, T3_RTR_NONE), 0);
	qp->term = (struct t3_term){ .layer_type = 0x11, .code = 0x02 };
	local_bh_disable();
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, t3_qp_fsm_apply(qp, T3_QPEV_PROTO_ERROR), 0);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, card.terminates, 1);
	KUNIT_EXPECT_EQ(test, card.term.layer_type, 0x11);
	KUNIT_EXPECT_EQ(test, card.term.code, 0x02);
	KUNIT_EXPECT_EQ(test, card.aborts, 0);
	connection_ends(qp, T3_QPEV_LOST);
	KUNIT_EXPECT_EQ(test, t3_destroy_qp(&qp->ibqp, NULL), 0);
}

static struct kunit_case qp_cases[] = {
	KUNIT_CASE(qp_is_published_only_after_success),
	KUNIT_CASE(user_rings_are_charged_to_the_memcg),
	KUNIT_CASE(kernel_qp_is_in_the_tables_of_its_cqs),
	KUNIT_CASE(loop_over_qps_holds_a_reference_on_each),
	KUNIT_CASE(destroy_waits_for_callers_of_iw_get_qp),
	KUNIT_CASE(no_grace_period_without_iw_get_qp),
	KUNIT_CASE(qp_without_references_is_not_found),
	KUNIT_CASE(process_connects_only_its_own_qps),
	KUNIT_CASE(kernel_qp_is_connected_by_its_id),
	KUNIT_CASE(refused_reset_changes_nothing),
	KUNIT_CASE(reset_without_a_purge_is_refused),
	KUNIT_CASE(reset_keeps_the_doorbells_off),
	KUNIT_CASE(reset_qp_connects_again),
	KUNIT_CASE(connected_qp_uses_its_domain),
	KUNIT_CASE(idle_qp_is_reported_in_init),
	KUNIT_CASE(path_mtu_is_the_active_mtu_of_the_port),
	KUNIT_CASE(rtr_with_an_infiniband_path_is_refused),
	KUNIT_CASE(resource_shows_requests_of_kernel_qps_only),
	KUNIT_CASE(qp_access_flags_limit_the_peer),
	KUNIT_CASE(connect_without_memory),
	KUNIT_CASE(connection_has_one_terminate),
	{}
};

TEST_SUITE("iw_cxgb3_qp", qp_cases, .init = qp_init, .exit = qp_exit);
