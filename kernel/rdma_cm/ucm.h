/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device /dev/infiniband/rdma_cm: the stock ABI of rdma_ucm over ids.
 *
 *	ucm.c		files, the table of commands, contexts
 *	ucm_cmd.c	commands that are a call of t3_rdma_cm each
 *	ucm_query.c	commands that answer with what an id knows
 *	ucm_event.c	events, from an id's handler to GET_EVENT
 *
 * Life. A file has contexts; a context is an id with a number. The table of numbers, a
 * command that runs, a queued event and a pending close each hold a reference
 * on the context. Its id is a matter of ctx->mutex: whoever finds ctx->cm_id NULL
 * came too late and answers ENXIO. So an id can be closed under its owner when the
 * device goes, while the context stays until DESTROY_ID or the end of the file.
 *
 * No lock is held while user memory is copied: the owner of that memory decides how long it takes.
 *
 * Locks: ctx->mutex, then the id's handler mutex, then file->mutex, then file->lock.
 * Handlers run under the handler mutex and may not sleep in an upcall of the provider, so
 * file->lock is all that they take to queue an event; who takes events off has the mutex
 * too. ctx->file changes (MIGRATE_ID) under the three mutexes. A context keeps the memory of
 * its file, also when that is closed: who holds one of the mutexes may lock what ctx->file is.
 */
#ifndef T3_UCM_H
#define T3_UCM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include <t3_rdma_cm.h>

/**
 * struct ucm_file - an open file
 * @ref: of the open file, and of each context that is its own
 * @mutex: the lists, and the counters of the contexts on them
 * @lock: @events
 * @contexts: oldest first
 * @events: oldest first, of all contexts
 * @contexts_left: woken when a context has left @contexts
 */
struct ucm_file {
	struct kref ref;
	struct mutex mutex;	/* before @lock */
	spinlock_t lock;	/* innermost */
	struct list_head contexts;
	struct list_head events;
	wait_queue_head_t readers;
	wait_queue_head_t contexts_left;
};

/**
 * struct ucm_context - an id with a number
 * @mutex: one command at a time; @cm_id
 * @cm_id: NULL once it is closed
 * @uid: what user space knows it by; 0: a request that was not accepted, of which
 *	nothing is told
 * @reported: events that user space was given, or is just being given
 * @ended: nothing is queued for it any more
 * @room: how many more requests a listener may have undelivered
 * @unread: events that wait for GET_EVENT
 */
struct ucm_context {
	struct kref ref;
	u32 number;
	struct mutex mutex;	/* outermost */
	struct rdma_cm_id *cm_id;
	struct ucm_file *file;
	struct list_head item;
	u64 uid;
	u32 reported;
	bool ended;
	atomic_t room;
	atomic_t unread;
	struct work_struct close;
};

/*
 * Most events that a context may have unread when user space calls for another one. Those of a
 * connection are few and are never lost; lookups that fail could go on for ever.
 */
#define UCM_MAX_UNREAD	64

/**
 * struct ucm_event - an event that waits for GET_EVENT
 * @request: the context of a connect request, or NULL
 */
struct ucm_event {
	struct list_head item;
	struct ucm_context *ctx;
	struct ucm_context *request;
	struct rdma_ucm_event_resp resp;
};

/* All answers but events. */
union ucm_any_answer {
	struct rdma_ucm_create_id_resp create;
	struct rdma_ucm_destroy_id_resp destroy;
	struct rdma_ucm_migrate_resp migrate;
	struct rdma_ucm_query_route_resp route;
	struct rdma_ucm_query_addr_resp addr;
	struct rdma_ucm_query_path_resp path;
	struct ib_uverbs_qp_attr attr;
};

/**
 * struct ucm_call - a command that runs
 * @ctx: of the id that the command names; its mutex is held
 * @cmd: the command, padded with zeros
 * @in: how much of it user space sent
 * @out: how much space there is for the answer
 * @answer: what is copied to user space when the command has succeeded and holds no lock any more
 * @answer_len: its length, 0 if there is none
 * @answer_to: where user space wants it
 * @option: of SET_OPTION, copied before the context is locked
 * @option_fault: it could not be copied
 */
struct ucm_call {
	struct file *filp;
	struct ucm_file *file;
	struct ucm_context *ctx;
	const void *cmd;
	size_t in;
	size_t out;
	union ucm_any_answer *answer;
	size_t answer_len;
	u64 answer_to;
	int option;
	bool option_fault;
};

/* WRITE_CM_EVENT of 7.1 and later: a library sends an event to itself. */
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

/* The id that a command is about; nothing takes it away during the command. */
static inline struct rdma_cm_id *ucm_id(const struct ucm_call *call)
{
	lockdep_assert_held(&call->ctx->mutex);
	return call->ctx->cm_id;
}

/* As much of the answer as there is space for; at once, so the caller may hold no lock. */
static inline int ucm_copy_answer(const struct ucm_call *call, u64 where, const void *answer,
				  size_t len)
{
	return copy_to_user(u64_to_user_ptr(where), answer, min(len, call->out)) ? -EFAULT : 0;
}

/* The same when the command has returned. */
static inline int ucm_answer(struct ucm_call *call, u64 where, const void *answer, size_t len)
{
	if (WARN_ON_ONCE(len > sizeof(*call->answer)))
		return -EINVAL;
	call->answer_len = min(len, call->out);
	call->answer_to = where;
	memcpy(call->answer, answer, call->answer_len);
	return 0;
}

/* ucm.c */
extern unsigned int ucm_max_backlog;
struct ucm_context *ucm_context_make(struct ucm_file *file, struct mem_cgroup *memcg);
int ucm_context_show(struct ucm_context *ctx);
void ucm_context_put(struct ucm_context *ctx);
void ucm_file_put(struct ucm_file *file);
u32 ucm_context_end(struct ucm_context *ctx);
void ucm_context_unmake(struct ucm_context *ctx);
bool ucm_context_claim(struct ucm_context *ctx);

/* ucm_cmd.c */
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
int ucm_join(struct ucm_call *call);
int ucm_leave(struct ucm_call *call);

/* ucm_query.c */
int ucm_query_route(struct ucm_call *call);
int ucm_query(struct ucm_call *call);
int ucm_init_qp_attr(struct ucm_call *call);

/* ucm_event.c */
int ucm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event);
int ucm_get_event(struct ucm_call *call);
int ucm_write_event(struct ucm_call *call);
u32 ucm_drop_events(struct ucm_context *ctx);
void ucm_move(struct ucm_context *ctx, struct ucm_file *to);
void ucm_free_events(struct ucm_file *file);

#endif
