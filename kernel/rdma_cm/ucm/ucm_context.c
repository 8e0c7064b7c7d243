// SPDX-License-Identifier: GPL-2.0
/* Contexts of ids: their numbers, references, and ends. ucm.h describes lifetimes and locks. */
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "rdma_cm.h"
#include "ucm.h"

/* Only the flag charges a node: the xarray first tries GFP_NOWAIT, not our flags. */
static DEFINE_XARRAY_FLAGS(ucm_contexts, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);

static void ucm_file_free(struct kref *ref)
{
	kfree(container_of(ref, struct ucm_file, ref));
}

void ucm_file_put(struct ucm_file *file)
{
	kref_put(&file->ref, ucm_file_free);
}

static void ucm_context_free(struct kref *ref)
{
	struct ucm_context *ctx = container_of(ref, struct ucm_context, ref);

	mutex_destroy(&ctx->mutex);
	if (ucm_context_file(ctx))
		ucm_file_put(ucm_context_file(ctx));
	kfree(ctx);
}

void ucm_context_put(struct ucm_context *ctx)
{
	kref_put(&ctx->ref, ucm_context_free);
}

struct workqueue_struct *ucm_close_wq;

static void ucm_context_destroy_id(struct ucm_context *ctx)
	__must_hold(&ctx->mutex)
{
	lockdep_assert_held(&ctx->mutex);
	if (ctx->cm_id)
		t3_rdma_destroy_id(ctx->cm_id);
	ctx->cm_id = NULL;
}

static bool ucm_context_take_close(struct ucm_context *ctx)
{
	return READ_ONCE(ctx->close_left) && xchg(&ctx->close_left, false);
}

/*
 * Ends a command on a context, of which the caller has a reference. A close that was left is done
 * here: its worker would have no turn while other commands follow.
 */
void ucm_context_unlock(struct ucm_context *ctx)
{
	bool close = ucm_context_take_close(ctx);

	if (close)
		ucm_context_destroy_id(ctx);
	mutex_unlock(&ctx->mutex);
	if (close)
		ucm_context_put(ctx);
	smp_mb(); /* before the read, as in ucm_context_close() */
	if (ucm_context_take_close(ctx) && !queue_work(ucm_close_wq, &ctx->close))
		ucm_context_put(ctx);
}

/*
 * After the removal of the device: destroys the id without waiting for user space. Closes of other
 * users wait for this worker, so it does not wait for a command that runs on the context: with
 * @close_left, which has a reference, the command closes.
 */
static void ucm_context_close(struct work_struct *work)
{
	struct ucm_context *ctx = container_of(work, struct ucm_context, close);

	kref_get(&ctx->ref);
	if (xchg(&ctx->close_left, true))
		ucm_context_put(ctx);
	if (mutex_trylock(&ctx->mutex))
		ucm_context_unlock(ctx);
	ucm_context_put(ctx);
}

/*
 * Allocates a context that @memcg is charged for. It has one reference, which is the table's, and a
 * number that commands cannot use before ucm_context_publish(). @gfp: GFP_ATOMIC in handlers.
 */
struct ucm_context *ucm_context_alloc(struct mem_cgroup *memcg, gfp_t gfp)
{
	struct ucm_context *ctx;

	ctx = cm_zalloc(memcg, sizeof(*ctx), gfp);
	if (!ctx)
		return NULL;
	kref_init(&ctx->ref);
	mutex_init(&ctx->mutex);
	INIT_LIST_HEAD(&ctx->item);
	INIT_LIST_HEAD(&ctx->events);
	INIT_WORK(&ctx->close, ucm_context_close);
	context_unsafe(INIT_LIST_HEAD(&ctx->groups)); /* not published yet */
	if (xa_alloc(&ucm_contexts, &ctx->number, ctx, xa_limit_32b, gfp)) {
		ucm_context_put(ctx);
		return NULL;
	}
	return ctx;
}

/* From now on commands of the file can use the context. */
void ucm_context_publish(struct ucm_context *ctx, struct ucm_file *file)
{
	lockdep_assert_held(&ucm_lock);
	kref_get(&file->ref);
	ctx->file = file;
	list_add_tail(&ctx->item, &file->contexts);
	/* Commands that find it see the context complete. */
	smp_store_release(&ctx->usable, true);
}

/* From now on commands do not find the context. Only the task that succeeds may destroy it. */
bool ucm_context_claim(struct ucm_context *ctx)
{
	return xchg(&ctx->usable, false);
}

/* Frees the number, and puts the table's reference. */
static void ucm_context_put_number(struct ucm_context *ctx)
{
	xa_erase(&ucm_contexts, ctx->number);
	ucm_context_put(ctx);
}

/**
 * ucm_context_destroy - destroy a context that was claimed, or not published
 * @ctx: the context. The caller has the table's reference; this puts it
 *
 * Return: number of events of the context that GET_EVENT returned
 */
u32 ucm_context_destroy(struct ucm_context *ctx)
{
	LIST_HEAD(events);
	u32 reported;

	mutex_lock(&ctx->mutex);
	ucm_context_destroy_id(ctx);
	ucm_context_unlock(ctx);
	/* If the work item found the id first, it must finish before DESTROY_ID returns. */
	if (cancel_work_sync(&ctx->close))
		ucm_context_put(ctx);

	mutex_lock(&ctx->mutex);
	reported = ucm_context_unlist(ctx, &events);
	ucm_end_groups(ctx);
	ucm_context_unlock(ctx);
	ucm_drop_events(&events);
	ucm_context_put_number(ctx);
	return reported;
}

/**
 * ucm_context_cancel - undo ucm_context_alloc()
 * @ctx: the context, which was not published
 *
 * For a handler, which must not take ctx->mutex; no other task knows the context. The caller keeps
 * the id.
 */
void ucm_context_cancel(struct ucm_context *ctx)
{
	context_unsafe(ctx->cm_id = NULL); /* see above */
	ucm_context_put_number(ctx);
}

/* The table has a reference, which is put after the entry was erased with the lock. */
static struct ucm_context *ucm_context_find(u32 number)
	__must_hold(&ucm_contexts.xa_lock)
{
	lockdep_assert_held(&ucm_contexts.xa_lock);
	return xa_load(&ucm_contexts, number);
}

/* Looks up the context of a number in a file, and takes a reference. */
struct ucm_context *ucm_context_get(struct ucm_file *file, u32 number)
{
	struct ucm_context *ctx;

	xa_lock(&ucm_contexts);
	ctx = ucm_context_find(number);
	/* In this order: ucm_context_publish(). */
	if (!ctx || !smp_load_acquire(&ctx->usable))
		ctx = ERR_PTR(-ENOENT);
	else if (ucm_context_file(ctx) != file)
		ctx = ERR_PTR(-EINVAL);
	else
		kref_get(&ctx->ref);
	xa_unlock(&ucm_contexts);
	return ctx;
}
