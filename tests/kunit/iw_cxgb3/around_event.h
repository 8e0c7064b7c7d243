/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For suites that pass events of the card or of the adapter to a device: event.c, with empty
 * tracepoints. Include before other .c files.
 */
#ifndef T3_KUNIT_AROUND_EVENT_H
#define T3_KUNIT_AROUND_EVENT_H

#include "../suite.h"

/* Replaces trace.h: tests add no events to tracefs. */
#define T3_TRACE_H
#include "device.h"

static inline void trace_t3_async_event(const struct t3_async_event *ae)
{
}

#include "cqe.c"
#include "event.c"

struct workqueue_struct *t3_workqueue;
static struct t3_dev *dev;

#endif
