/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the program tests/programs/races asks of the module t3_races, by /dev/t3_races. */
#ifndef T3_RACES_H
#define T3_RACES_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define T3_RACES_NAME 48
#define T3_RACES_MOST 512 /* passages that one recording holds */

/* A thread passed a point. */
struct t3_races_passage {
	char name[T3_RACES_NAME];
	__u32 may_sleep; /* and so could be held there */
	__u32 reserved;
};

struct t3_races_recording {
	__u64 passages; /* address of an array */
	__u32 room;
	__u32 count;
};

/* The nth thread that passes this point from now on is held there. */
struct t3_races_arm {
	char name[T3_RACES_NAME];
	__u32 nth;
	__u32 reserved;
};

/* What the device without hardware reports. */
enum t3_races_word {
	T3_RACES_SAY_REQUEST, /* which: TCP port of the listener */
	T3_RACES_SAY_REPLY, /* which: number of the QP, from here on */
	T3_RACES_SAY_ESTABLISHED,
	T3_RACES_SAY_PEER_CLOSE,
	T3_RACES_SAY_CLOSE,
	T3_RACES_SAY_TIMEOUT, /* ends a connection that the peer has not answered */
	T3_RACES_SAY_QP_EVENT,
	T3_RACES_SAY_CQ_EVENT, /* of the QP's send CQ */
	T3_RACES_SAY_COMPLETION, /* on the QP's send CQ */
	T3_RACES_SAY_DEVICE_FATAL,
};

struct t3_races_say {
	__u32 word;
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
	__s32 live[T3_RACES_KINDS]; /* made and not destroyed */
};

#define T3_RACES_IOC_RECORD _IO('R', 1) /* begins a recording */
#define T3_RACES_IOC_RECORDING _IOWR('R', 2, struct t3_races_recording) /* ends it */
#define T3_RACES_IOC_ARM _IOW('R', 3, struct t3_races_arm)
/* Until a thread is held, for so many ms. ETIMEDOUT; EAGAIN: it passed, and must not sleep. */
#define T3_RACES_IOC_WAIT _IO('R', 4)
#define T3_RACES_IOC_RELEASE _IO('R', 5) /* also disarms */
#define T3_RACES_IOC_PLUG _IO('R', 6)
#define T3_RACES_IOC_UNPLUG _IO('R', 7)
#define T3_RACES_IOC_SAY _IOW('R', 8, struct t3_races_say)
#define T3_RACES_IOC_STATE _IOR('R', 9, struct t3_races_state)

#endif
