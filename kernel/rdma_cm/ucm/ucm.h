/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device /dev/infiniband/rdma_cm: the ABI of the in-tree rdma_ucm, for ids of t3_rdma_cm.
 *
 *	ucm.c		files, the table of commands
 *	ucm_context.c	contexts
 *	ucm_cmd.c	commands that make one call of t3_rdma_cm each
 *	ucm_query.c	commands that read attributes of an id
 *	ucm_group.c	multicast groups
 *	ucm_event.c	events, from an id's handler to GET_EVENT
 *
 * Lifetimes. A file has contexts. A context is an id with a number for user space. References on
 * a context are held by the table of numbers, a command that runs, an event that is queued, and
 * a close that is pending. The context has its id in ctx->cm_id, under ctx->mutex. When the device
 * is removed, a work item destroys the id and sets ctx->cm_id to NULL; commands then fail with
 * ENXIO. The context stays until DESTROY_ID or the end of the file. An id is destroyed under
 * ctx->mutex: so if ctx->cm_id is NULL, no handler of the id runs.
 *
 * No lock is held while user memory is copied: its process decides how long a copy takes
 * (userfaultfd, FUSE).
 *
 * Locks, in order: ctx->mutex, the id's handler_mutex, @requests of a listener, ucm_lock.
 *
 * ucm_lock is one spinlock for the queues and contexts of all files: a handler does not wait for a
 * task of the process, and MIGRATE_ID moves a context, its events and its queued requests in one
 * step. A context has a reference on its struct ucm_file, which may have been closed.
 */
#ifndef T3_UCM_H
#define T3_UCM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_user_cm.h>

#include <t3_copy.h>

struct ib_client_nl_info;

extern spinlock_t ucm_lock;	/* innermost */

/**
 * struct ucm_file - an open file
 * @ref: references, of the open file and of each context of the file
 * @contexts: contexts of the file, oldest first
 * @events: events of all contexts, oldest first
 * @readers: tasks in GET_EVENT; each waits exclusively
 * @pollers: woken by @wake_work, since a process decides how many there are
 * @wake_work: has a reference while it is queued
 * @contexts_left: woken when a context was taken off @contexts
 */
struct ucm_file {
	struct kref ref;
	struct list_head contexts __guarded_by(&ucm_lock);
	struct list_head events __guarded_by(&ucm_lock);
	wait_queue_head_t readers;
	wait_queue_head_t pollers;
	struct work_struct wake_work;
	wait_queue_head_t contexts_left;
};

/**
 * struct ucm_context - an id with a number
 * @ref: references
 * @number: the name of the id in commands and events
 * @mutex: serializes commands on the context; @cm_id
 * @cm_id: the id; NULL after it was destroyed
 * @file: the file; NULL before ucm_context_publish()
 * @item: in the file's list of contexts
 * @uid: user space's own name for the id; 0 for a request that was not accepted, which reports
 *	no events
 * @reported: number of events that GET_EVENT returned, or is returning
 * @usable: commands find the context. The task that clears this destroys it
 * @ended: the context is destroyed: no event may be put back into a queue
 * @backlog: how many requests of a listener may wait for GET_EVENT
 * @backlog_left: how many more; negative as that of struct cm_id
 * @unread: number of events that wait for GET_EVENT
 * @addr_change_unread: one of them is ADDR_CHANGE
 * @events: its events in the queue of the file, oldest first: the queue may have those of thousands
 * @groups: multicast groups
 * @close: destroys the id after the removal of its device
 * @close_left: the command that runs does what @close would, with the reference that this has
 */
struct ucm_context {
	struct kref ref;
	u32 number;
	struct mutex mutex;	/* outermost */
	struct rdma_cm_id *cm_id __guarded_by(&mutex);
	struct ucm_file *file __guarded_by(&ucm_lock);	/* see ucm_context_file() */
	struct list_head item;		/* ucm_lock, as @reported and @ended */
	u64 uid __guarded_by(&mutex);
	u32 reported;
	bool usable;			/* set once; see ucm_context_claim() */
	bool ended;
	int backlog;
	atomic_t backlog_left;
	atomic_t unread;
	bool addr_change_unread;
	struct list_head events;	/* ucm_lock */
	struct list_head groups __guarded_by(&mutex);
	struct work_struct close;
	bool close_left;
};

/**
 * struct ucm_group - a multicast group that a context has joined
 * @ref: references, of the table of groups and of each event
 * @number: its name in LEAVE_MCAST and in events
 * @uid: user space's name for it
 * @ctx: the context. A group that is in the table keeps it
 * @item: in the context's list
 * @addr: its address
 * @reported: number of its events that GET_EVENT returned
 * @ended: it was left: no event may be put back into a queue
 */
struct ucm_group {
	struct kref ref;
	u32 number;
	u64 uid;
	struct ucm_context *ctx;
	struct list_head item;		/* ctx->mutex */
	struct sockaddr_storage addr;
	u32 reported;			/* ucm_lock, as @ended */
	bool ended;
};

/*
 * The maximum of unread events of a context. Only what can be repeated without end observes it:
 * lookups that fail, WRITE_CM_EVENT, and ADDR_CHANGE. A connection has few events, and loses none.
 */
#define UCM_MAX_UNREAD	64

/**
 * struct ucm_event - an event that waits for GET_EVENT
 * @item: in the file's list of events
 * @ctx: the context
 * @ctx_item: in the context's list of events
 * @request: the context of a connect request, or NULL
 * @group: the multicast group, or NULL
 * @resp: what GET_EVENT returns
 */
struct ucm_event {
	struct list_head item;
	struct ucm_context *ctx;
	struct list_head ctx_item;
	struct ucm_context *request;
	struct ucm_group *group;
	struct rdma_ucm_event_resp resp;
};

/* QUERY_PATH with the one path of an id. */
struct ucm_query_path_resp {
	__u32 num_paths;
	__u32 reserved;
	struct ib_path_rec_data path_data;
};

static_assert(offsetof(struct ucm_query_path_resp, path_data) ==
	      sizeof(struct rdma_ucm_query_path_resp));

/* All responses but events. */
union ucm_any_resp {
	struct rdma_ucm_create_id_resp create;
	struct rdma_ucm_destroy_id_resp destroy;
	struct rdma_ucm_migrate_resp migrate;
	struct rdma_ucm_query_route_resp route;
	struct rdma_ucm_query_addr_resp addr;
	struct ucm_query_path_resp path;
	struct ib_uverbs_qp_attr attr;
};

/**
 * struct ucm_call - a command that runs
 * @filp: the open file
 * @file: its struct ucm_file
 * @ctx: the context that the command names; its mutex is held
 * @cmd: the command, padded with zeros
 * @in: length of the command
 * @out: length of the space for the response
 * @resp: the response. It is copied to user space after the command has succeeded and has released
 *	its locks
 * @resp_len: length of the response, or 0
 * @resp_to: address of the response in user space
 * @option: value of SET_OPTION, copied before the context is locked
 * @option_fault: the value could not be copied
 * @joined: the group of a join, with references on it and on its context, until the response is
 *	copied; or NULL
 */
struct ucm_call {
	struct file *filp;
	struct ucm_file *file;
	struct ucm_context *ctx;
	const void *cmd;
	size_t in;
	size_t out;
	union ucm_any_resp *resp;
	size_t resp_len;
	u64 resp_to;
	int option;
	bool option_fault;
	struct ucm_group *joined;
};

/* RDMA_USER_CM_CMD_WRITE_CM_EVENT, which the headers of older kernels lack. */
#define UCM_WRITE_EVENT	24

/* librdmacm queues an event of its own. */
struct ucm_write_event_cmd {
	__u32 id;
	__u32 reserved;
	__u32 event;
	__u32 status;
	union {
		struct rdma_ucm_conn_param conn;
		struct rdma_ucm_ud_param ud;
		__u64 arg;
	} param;
};

static_assert(sizeof(struct ucm_write_event_cmd) == 320);

/* The file of a context, without the lock: to compare it. */
static inline struct ucm_file *ucm_context_file(const struct ucm_context *ctx)
{
	return context_unsafe(READ_ONCE(ctx->file));
}

/* The name that user space has given the id. An accept may set it while events come. */
static inline u64 ucm_context_uid(const struct ucm_context *ctx)
{
	return context_unsafe(READ_ONCE(ctx->uid));
}

/* Without the lock: a reader that finds events must take it and look again. */
static inline bool ucm_has_events(const struct ucm_file *file)
{
	return !context_unsafe(list_empty_careful(&file->events));
}

/* The id of a command. It stays during the command. */
static inline struct rdma_cm_id *ucm_id(const struct ucm_call *call)
{
	lockdep_assert_held(&call->ctx->mutex);
	return call->ctx->cm_id;
}

/* Copies a response to user space, up to the length of the space. The caller holds no lock. */
static inline int ucm_copy_resp(const struct ucm_call *call, u64 to, const void *resp, size_t len)
{
	return t3_copy_out(u64_to_user_ptr(to), resp, len, min(len, call->out));
}

/* Sets the response, which ucm_write() copies after the command has returned. */
static inline int ucm_respond(struct ucm_call *call, u64 to, const void *resp, size_t len)
{
	if (WARN_ON_ONCE(len > sizeof(*call->resp)))
		return -EINVAL;
	call->resp_len = min(len, call->out);
	call->resp_to = to;
	memcpy(call->resp, resp, call->resp_len);
	return 0;
}

/* ucm.c */
int cm_ucm_nl_info(struct ib_client_nl_info *res);
int cm_ucm_init(void);
void cm_ucm_exit(void);

/* ucm_context.c */
extern struct workqueue_struct *ucm_close_wq;
extern struct workqueue_struct *ucm_wake_wq;
void ucm_wake_work(struct work_struct *work);
void ucm_context_unlock(struct ucm_context *ctx) t3_releases(&ctx->mutex);
struct ucm_context *ucm_context_get(struct ucm_file *file, u32 number);
struct ucm_context *ucm_context_alloc(struct mem_cgroup *memcg, gfp_t gfp);
void ucm_context_publish(struct ucm_context *ctx, struct ucm_file *file) __must_hold(&ucm_lock);
void ucm_context_put(struct ucm_context *ctx);
void ucm_file_put(struct ucm_file *file);
u32 ucm_context_destroy(struct ucm_context *ctx);
void ucm_context_cancel(struct ucm_context *ctx);
bool ucm_context_claim(struct ucm_context *ctx);

/* ucm_cmd.c */
extern unsigned int ucm_max_backlog;
int ucm_bind_ip(struct ucm_call *call);
int ucm_bind(struct ucm_call *call);
int ucm_resolve_ip(struct ucm_call *call);
int ucm_resolve_addr(struct ucm_call *call);
int ucm_resolve_route(struct ucm_call *call);
int ucm_connect(struct ucm_call *call);
int ucm_listen(struct ucm_call *call);
int ucm_accept(struct ucm_call *call);
int ucm_reject(struct ucm_call *call);
int ucm_disconnect(struct ucm_call *call);
void ucm_copy_option(struct ucm_call *call);
int ucm_set_option(struct ucm_call *call);
int ucm_notify(struct ucm_call *call);

/* ucm_group.c */
void ucm_group_get(struct ucm_group *group);
void ucm_group_put(struct ucm_group *group);
void ucm_end_groups(struct ucm_context *ctx) __must_hold(&ctx->mutex);
void ucm_begin_join(struct ucm_call *call);
void ucm_finish_join(struct ucm_call *call, int error);
int ucm_join_ip(struct ucm_call *call);
int ucm_join(struct ucm_call *call);
int ucm_leave(struct ucm_call *call);

/* ucm_query.c */
void ucm_copy_ah_attr(struct ib_uverbs_ah_attr *to, const struct rdma_ah_attr *from);
int ucm_query_route(struct ucm_call *call);
int ucm_query(struct ucm_call *call);
int ucm_init_qp_attr(struct ucm_call *call);

/* ucm_event.c */
int ucm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event);
int ucm_get_event(struct ucm_call *call);
int ucm_write_event(struct ucm_call *call);
u32 ucm_context_unlist(struct ucm_context *ctx, struct list_head *events);
u32 ucm_group_unlist(struct ucm_group *group, struct list_head *events)
	__must_hold(&group->ctx->mutex);
void ucm_drop_events(struct list_head *events);
int ucm_move(struct ucm_context *ctx, struct ucm_file *from, struct ucm_file *to, u32 *reported);

#endif
