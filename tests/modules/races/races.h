/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t3_races: the hook behind the points of tests/races, and a device without hardware for the
 * operations that race. hook.c holds threads, device.c has the verbs of the device,
 * provider.c its connections, main.c the ioctls for the program tests/programs/races.
 */
#ifndef RACES_H
#define RACES_H

#include "../../fakes/fake_iw.h"
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
extern atomic_t races_objects[T3_RACES_KINDS];
int races_plug(struct net_device *ndev);
int races_unplug(void);
bool races_plugged(void);
int races_report(const struct t3_races_event *event);

/* provider.c */
extern const struct ib_device_ops races_conn_ops;
int races_conn_event(struct fake_iw_qp *qp, const struct t3_races_event *event);
int races_request(struct fake_iw_device *dev, u16 port);

#endif
