/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_races: the hook behind the points of tests/races, and a device without hardware for the
 * operations that race. hook.c holds threads, device.c has the verbs of the device,
 * provider.c its connections, main.c the ioctls for the program tests/programs/races.
 */
#ifndef RACES_H
#define RACES_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include "t3_races.h"

/* hook.c */
void t3_race_point(const char *name);
void races_record(void);
int races_recording(struct t3_races_recording __user *to);
int races_arm(const struct t3_races_arm *arm);
int races_wait(unsigned int ms);
void races_release(void);

/*
 * main.c: mmap() maps it instead of a page of the device. It is not freed with the device, so that
 * a mapping that still shows it is noticed.
 */
extern struct page *races_page;

/* device.c */
struct races_device {
	struct ib_device ib;
	struct net_device *ndev;	/* the module's, which outlives the device */
	struct xarray qps;	/* by number */
};

struct races_cq {
	struct ib_cq ib;
	struct kref ref;
	struct completion released;
};

struct races_conn;

struct races_qp {
	struct ib_qp ib;
	struct kref ref;	/* creation, the manager, a connection, an event */
	struct completion released;
	struct races_conn *conn;	/* under races_conns_lock */
};

static inline struct races_qp *to_races_qp(struct ib_qp *qp)
{
	return container_of(qp, struct races_qp, ib);
}

static inline struct races_device *to_races_device(struct ib_device *ib)
{
	return container_of(ib, struct races_device, ib);
}

extern atomic_t races_objects[T3_RACES_KINDS];
struct races_qp *races_qp_find(struct races_device *dev, u32 number);
void races_qp_put(struct races_qp *qp);
int races_plug(struct net_device *ndev);
int races_unplug(void);
bool races_plugged(void);
int races_report(const struct t3_races_event *event);

/* provider.c */
extern const struct ib_device_ops races_iw_ops;
void races_qp_disconnect(struct races_qp *qp, int status);
int races_conn_event(struct races_qp *qp, const struct t3_races_event *event);
int races_request(struct races_device *dev, u16 port);

#endif
