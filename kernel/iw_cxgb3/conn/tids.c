// SPDX-License-Identifier: GPL-2.0
/*
 * Connection ids: entries for our endpoints and listeners in cxgb3's tables.
 *
 * The tables map the id in a message of the card to an endpoint or a listener, and
 * cxgb3 calls our handlers with it. cxgb3 keeps the tables when this module is
 * unloaded, and frees them when the card is removed. So our entries are removed in
 * any state of the card. If the card works, the id is freed. Otherwise the entry is
 * cleared: the id is lost until the tables are allocated again, but no message leads
 * to freed memory.
 *
 * An ATID is cleared as well if the card has not replied to its open: if it were
 * freed, the reply would be for its next user.
 *
 * A TID is charged to the user who connects or listens. For an active open it is
 * charged before the request, since the reply, which carries the TID, cannot be
 * refused; for a connect request when the TID is entered. So a user who never
 * accepts or rejects requests leaves TIDs for other users.
 */
#include <linux/bitmap.h>

#include "cm.h"

/* The tables of the NIC driver, or NULL. Under RCU, see t3_cm_stop(). */
static struct tid_info *t3_id_tables(struct t3_cm_dev *cm)
{
	return t3_cm_has_tables(cm) ? &t3c_data(cm->dev->tdev)->tid_maps : NULL;
}

static int t3_ep_charge_tid(struct t3_ep *ep)
{
	return t3_quota_charge(ep->dev, ep->quota, T3_QUOTA_TID, 1,
			       t3c_data(ep->dev->tdev)->tid_maps.ntids);
}

/* Charge the ATID of an active open, and the TID that it gets with the card's reply. */
static int t3_ep_charge_open(struct t3_ep *ep)
{
	int err = t3_ep_charge_tid(ep);

	if (err)
		return err;
	err = t3_quota_charge(ep->dev, ep->quota, T3_QUOTA_ATID, 1,
			      t3c_data(ep->dev->tdev)->tid_maps.natids);
	if (err)
		t3_quota_uncharge(ep->quota, T3_QUOTA_TID, 1);
	return err;
}

static void t3_ep_uncharge_open(struct t3_ep *ep)
{
	t3_quota_uncharge(ep->quota, T3_QUOTA_ATID, 1);
	t3_quota_uncharge(ep->quota, T3_QUOTA_TID, 1);
}

/* Get an id for an active open. Return: 0, -ENOMEM if none is free, -ENODEV */
int t3_ep_take_atid(struct t3_ep *ep)
{
	int atid, err;

	if (!t3_dev_enter(ep->dev))
		return -ENODEV;
	err = t3_ep_charge_open(ep);
	if (err) {
		t3_dev_leave(ep->dev);
		return err;
	}
	spin_lock_bh(&ep->id_lock);
	atid = cxgb3_alloc_atid(ep->dev->tdev, &t3_client, ep);
	if (atid >= 0) {
		ep->tid = atid;
		ep->id_kind = T3_ID_ATID;
	}
	spin_unlock_bh(&ep->id_lock);
	t3_dev_leave(ep->dev);
	if (atid < 0) {
		t3_ep_uncharge_open(ep);
		return -ENOMEM;
	}
	return 0;
}

/*
 * cxgb3 uses a TID as an index into its table without a check. A check whether the
 * entry is in use is not possible: the entry of a freed TID is cleared only after
 * the card may have used the TID again. Between t3_dev_enter() and t3_dev_leave().
 */
static bool t3_tid_in_table(struct t3_dev *dev, u32 tid)
{
	const struct tid_info *tids = &t3c_data(dev->tdev)->tid_maps;

	if (tid < tids->ntids)
		return true;
	t3_count(dev, T3_CNT_CM_BAD_EVENT);
	ibdev_dbg(&dev->ibdev, "TID %u of the card is out of range (%u)\n", tid, tids->ntids);
	return false;
}

/*
 * Free a TID that was not entered.
 * @tid: the id, from a message of the card
 *
 * Any context. A softirq may not send, see t3_dev_may_send(), so a work item does. cxgb3 has such a
 * list, but linked through its table: if a wrong message names a TID that is in use, or in the
 * list, then the list leads into an endpoint, or never ends.
 */
void t3_release_tid(struct t3_dev *dev, u32 tid)
{
	struct t3_cm_dev *cm = dev->cm;

	if (!t3_dev_enter(dev))
		return;
	if (t3_tid_in_table(dev, tid)) {
		set_bit(tid, cm->released_tids);
		queue_work(t3_cm_wq, &cm->release_work);
	}
	t3_dev_leave(dev);
}

/*
 * Prepare the release of TIDs.
 * @release: the function of release_work, which sends the TIDs in released_tids to the card
 *
 * Return: 0 or -ENOMEM
 */
int t3_tids_open(struct t3_cm_dev *cm, work_func_t release)
{
	cm->ntids = t3c_data(cm->dev->tdev)->tid_maps.ntids;
	cm->released_tids = bitmap_zalloc(cm->ntids, GFP_KERNEL);
	INIT_WORK(&cm->release_work, release);
	return cm->released_tids ? 0 : -ENOMEM;
}

/* The card is gone: no TID is added any more. */
void t3_tids_close(struct t3_cm_dev *cm)
{
	cancel_work_sync(&cm->release_work);
	bitmap_free(cm->released_tids);
}

/*
 * Enter the id of a connection that the card has opened.
 * @tid: its id, from a message of the card
 *
 * Return: 0, -ENODEV, -ENOMEM if the listening user is at the limit, or -EPROTO if the id is
 * out of range
 */
int t3_ep_take_tid(struct t3_ep *ep, u32 tid)
{
	int err;

	if (!t3_dev_enter(ep->dev))
		return -ENODEV;
	err = t3_tid_in_table(ep->dev, tid) ? t3_ep_charge_tid(ep) : -EPROTO;
	if (err) {
		t3_dev_leave(ep->dev);
		return err;
	}
	spin_lock_bh(&ep->id_lock);
	ep->tid = tid;
	ep->id_kind = T3_ID_TID;
	cxgb3_insert_tid(ep->dev->tdev, &t3_client, ep, tid);
	spin_unlock_bh(&ep->id_lock);
	t3_dev_leave(ep->dev);
	return 0;
}

/*
 * An active open became a connection.
 * @tid: the connection's id
 *
 * Softirq. Does nothing if the endpoint has returned its id meanwhile.
 */
void t3_ep_exchange_atid(struct t3_ep *ep, u32 tid)
{
	struct t3cdev *tdev = ep->dev->tdev;
	u32 atid;

	spin_lock_bh(&ep->id_lock);
	if (ep->id_kind == T3_ID_ATID) {
		atid = ep->tid;
		ep->tid = tid;
		ep->id_kind = T3_ID_TID;
		cxgb3_insert_tid(tdev, &t3_client, ep, tid);
		cxgb3_free_atid(tdev, atid);
		t3_quota_uncharge(ep->quota, T3_QUOTA_ATID, 1);
	}
	spin_unlock_bh(&ep->id_lock);
}

static void t3_ep_clear_id(struct t3_ep *ep)
{
	struct tid_info *tids;

	lockdep_assert_held(&ep->id_lock);
	rcu_read_lock();
	tids = t3_id_tables(ep->cm);
	if (tids && ep->id_kind == T3_ID_ATID)
		WRITE_ONCE(tids->atid_tab[ep->tid - tids->atid_base].t3c_tid.ctx, NULL);
	else if (tids && ep->id_kind == T3_ID_TID)
		WRITE_ONCE(tids->tid_tab[ep->tid].ctx, NULL);
	rcu_read_unlock();
}

/**
 * t3_ep_return_id - remove an endpoint from the tables
 * @ep: endpoint; keeps ->tid, for logs
 */
void t3_ep_return_id(struct t3_ep *ep)
{
	struct t3_dev *dev = ep->dev;

	spin_lock_bh(&ep->id_lock);
	if (t3_dev_enter(dev)) {
		if (ep->id_kind == T3_ID_ATID)
			cxgb3_free_atid(dev->tdev, ep->tid);
		else if (ep->id_kind == T3_ID_TID)
			cxgb3_remove_tid(dev->tdev, ep, ep->tid);
		t3_dev_leave(dev);
	} else {
		t3_ep_clear_id(ep);
	}
	if (ep->id_kind == T3_ID_ATID)
		t3_ep_uncharge_open(ep);
	else if (ep->id_kind == T3_ID_TID)
		t3_quota_uncharge(ep->quota, T3_QUOTA_TID, 1);
	ep->id_kind = T3_ID_NONE;
	spin_unlock_bh(&ep->id_lock);
}

/*
 * A listener may have seven eighths of this: all STIDs that the listeners of the common account
 * leave. These have no limit, since the manager would not use a device that refuses one of them.
 */
static u32 t3_listener_share(const struct t3_listener *l, u32 nstids)
{
	const struct t3_quota *peers = &l->dev->quotas.peers;

	if (l->quota == peers)
		return U32_MAX;
	return nstids - min_t(u32, nstids, atomic_read(&peers->used[T3_QUOTA_STID]));
}

/* Get an id for a listener. Return: 0, -ENOMEM if none is free, -ENODEV */
int t3_listener_take_stid(struct t3_listener *l)
{
	struct t3cdev *tdev = l->dev->tdev;
	int err, stid = -1;

	if (!t3_dev_enter(l->dev))
		return -ENODEV;
	err = t3_quota_charge(l->dev, l->quota, T3_QUOTA_STID, 1,
			      t3_listener_share(l, t3c_data(tdev)->tid_maps.nstids));
	if (!err)
		stid = cxgb3_alloc_stid(tdev, &t3_client, l);
	t3_dev_leave(l->dev);
	if (err)
		return err;
	if (stid < 0) {
		t3_quota_uncharge(l->quota, T3_QUOTA_STID, 1);
		return -ENOMEM;
	}
	l->stid = stid;
	return 0;
}

/*
 * Remove a listener from the tables.
 * Before the last reference is dropped, and after the card has closed the listener.
 */
void t3_listener_return_stid(struct t3_listener *l)
{
	struct tid_info *tids;

	rcu_read_lock();
	tids = t3_id_tables(l->cm);
	if (tids) {
		/* For handlers, which may run until the table is freed. */
		WRITE_ONCE(tids->stid_tab[l->stid - tids->stid_base].t3c_tid.ctx, NULL);
		if (!t3_dev_gone(l->dev))
			cxgb3_free_stid(l->dev->tdev, l->stid);
	}
	rcu_read_unlock();
	t3_quota_uncharge(l->quota, T3_QUOTA_STID, 1);
}
