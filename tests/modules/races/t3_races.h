/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ioctls of /dev/t3_races, which the program tests/programs/races uses. */
#ifndef T3_RACES_H
#define T3_RACES_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define T3_RACES_NAME 48
#define T3_RACES_MOST 512 /* passages in a recording */
#define T3_RACES_PAGE 0x52414345 /* second word of the page that mmap() maps */

/* A thread passed a point. */
struct t3_races_passage {
	char name[T3_RACES_NAME];
	__u32 may_sleep; /* so it can be held there */
	__u32 reserved;
};

struct t3_races_recording {
	__u64 passages; /* address of an array */
	__u32 capacity;
	__u32 count;
};

/* The nth thread that passes this point from now on is held there. */
struct t3_races_arm {
	char name[T3_RACES_NAME];
	__u32 nth;
	__u32 reserved;
};

/* Events of the device without hardware. */
enum t3_races_event_type {
	T3_RACES_EV_REQUEST, /* which: TCP port of the listener */
	T3_RACES_EV_REPLY, /* which: number of the QP, also of all that follow */
	T3_RACES_EV_ESTABLISHED,
	T3_RACES_EV_PEER_CLOSE,
	T3_RACES_EV_CLOSE,
	T3_RACES_EV_TIMEOUT, /* ends a connection to which the peer has not replied */
	T3_RACES_EV_QP_EVENT,
	T3_RACES_EV_CQ_EVENT, /* of the QP's send CQ */
	T3_RACES_EV_COMPLETION, /* on the QP's send CQ */
	T3_RACES_EV_DEVICE_FATAL,
};

struct t3_races_event {
	__u32 type;
	__u32 which;
	__s32 status;
	__u32 reserved;
};

enum t3_races_kind {
	T3_RACES_CONTEXT,
	T3_RACES_PD,
	T3_RACES_MR,
	T3_RACES_MW,
	T3_RACES_CQ,
	T3_RACES_QP,
	T3_RACES_LISTENER,
	T3_RACES_REQUEST,
	T3_RACES_CONNECTION,
	T3_RACES_KINDS
};

struct t3_races_state {
	__u32 plugged;
	__s32 objects[T3_RACES_KINDS]; /* created and not destroyed */
};

#define T3_RACES_IOC_RECORD _IO('R', 1) /* begins a recording */
#define T3_RACES_IOC_RECORDING _IOWR('R', 2, struct t3_races_recording) /* ends it */
#define T3_RACES_IOC_ARM _IOW('R', 3, struct t3_races_arm)
/* Waits so many ms for a held thread. ETIMEDOUT: none; EAGAIN: it passed, it must not sleep. */
#define T3_RACES_IOC_WAIT _IO('R', 4)
#define T3_RACES_IOC_RELEASE _IO('R', 5) /* also disarms */
#define T3_RACES_IOC_PLUG _IO('R', 6)
#define T3_RACES_IOC_UNPLUG _IO('R', 7)
#define T3_RACES_IOC_EVENT _IOW('R', 8, struct t3_races_event)
#define T3_RACES_IOC_STATE _IOR('R', 9, struct t3_races_state)

#endif
