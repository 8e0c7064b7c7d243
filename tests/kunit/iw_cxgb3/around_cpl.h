/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Empty fakes for suites that test the messages of cpl.c: a NIC driver without ids, a connection
 * manager without consumers, no listener. Include after conn.h.
 */
#ifndef T3_KUNIT_AROUND_CPL_H
#define T3_KUNIT_AROUND_CPL_H

struct cxgb3_client t3_client;

bool t3_dev_enter(struct t3_dev *dev)
{
	rcu_read_lock();
	if (!t3_dev_gone(dev))
		return true;
	rcu_read_unlock();
	return false;
}

unsigned long t3_card_timeout(void)
{
	return 60 * HZ;
}

void t3_card_poll(struct t3_dev *dev)
{
}

unsigned long t3_cm_timeout(void)
{
	return 60 * HZ;
}

void t3_cm_run_call(struct t3_ep *ep)
{
}

void t3_cm_report_peer_close(struct t3_ep *ep)
{
}

void t3_cm_established(struct t3_ep *ep)
{
}

void t3_cm_rx_stream(struct t3_ep *ep)
{
}

void t3_cm_init_acked(struct t3_ep *ep)
{
}

int t3_qp_report(struct t3_qp *qp, enum t3_qp_event ev)
{
	return 0;
}

bool t3_listener_upcall_begin(struct t3_listener *l)
{
	return true;
}

void t3_listener_upcall_end(struct t3_listener *l)
{
}

void t3_listener_remove_child(struct t3_ep *ep)
{
}

int t3_listener_receive_syn(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	return 0;
}

int t3_listener_reply(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	return 0;
}

#endif
