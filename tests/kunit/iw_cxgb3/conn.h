/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites that include .c files of the connection manager: empty tracepoints, and a device
 * that has only a connection manager. Include before the .c files.
 */
#ifndef T3_KUNIT_CONN_H
#define T3_KUNIT_CONN_H

#include "../suite.h"

/* Replaces trace_cm.h, so that tests write no events to tracefs. */
#define IW_CXGB3_TRACE_CM_H
#include "cm.h"

static inline void trace_t3_ep_transition(const struct t3_ep *ep, enum ep_event event,
					  enum ep_state next, int status)
{
}

static inline void trace_t3_ep_refused(const struct t3_ep *ep, enum ep_event event)
{
}

static inline void trace_t3_cpl_in(const struct t3_ep *ep, u8 opcode)
{
}

static inline void trace_t3_cpl_arrival(const struct t3_ep *ep, const struct sk_buff *skb)
{
}

static inline void trace_t3_cpl_out(u32 id, unsigned int opcode)
{
}

static inline void trace_t3_mpa(const struct t3_ep *ep, int status, unsigned int len)
{
}

static inline void trace_t3_mpa_negotiated(const struct t3_ep *ep)
{
}

/* Freed at the end of the test. */
static struct t3_dev *conn_dev(struct kunit *test)
{
	struct t3_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct t3_cm_dev *cm = kunit_kzalloc(test, sizeof(*cm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, cm);
	dev->cm = cm;
	cm->dev = dev;
	spin_lock_init(&cm->lock);
	init_waitqueue_head(&cm->idle);
	xa_init_flags(&cm->eps, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH);
	return dev;
}

#endif
