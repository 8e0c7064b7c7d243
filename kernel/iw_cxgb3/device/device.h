/* SPDX-License-Identifier: GPL-2.0 */
/* The highest layer: module, lifetime of a device, events, ports, counters. */
#ifndef IW_CXGB3_DEVICE_H
#define IW_CXGB3_DEVICE_H

#include "cm.h"

#define DRV_NAME		"iw_cxgb3"
#define T3_FW_MAJOR		7
#define T3_MAX_PORTS		2
/* For RDMA to end before a suspend: as long as the kernel waits for processes to freeze. */
#define T3_SUSPEND_TIMEOUT	(20 * HZ)

/* event.c */
int t3_async_event(struct t3cdev *tdev, struct sk_buff *skb);
void t3_adapter_event(struct t3_dev *dev, u32 event);

/* port.c */
void t3_ports_init(struct t3_dev *dev);
int t3_ports_watch(void);
void t3_ports_unwatch(void);

/* stats.c */
extern const struct ib_device_ops t3_stats_ops;

#endif
