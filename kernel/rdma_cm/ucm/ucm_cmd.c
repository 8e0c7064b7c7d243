// SPDX-License-Identifier: GPL-2.0
/* Commands that make one call of t3_rdma_cm each, with ucm_id(). */
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "rdma_cm.h"
#include "ucm.h"

unsigned int ucm_max_backlog = 1024;
module_param_named(max_backlog, ucm_max_backlog, uint, 0644);
MODULE_PARM_DESC(max_backlog, "upper bound, and default, of a listener's backlog");

/* --- addresses ----------------------------------------------------------- */

/* Commands with _ip take addresses of 28 bytes. Their twins came with AF_IB, for any length. */

int ucm_bind_ip(struct ucm_call *call)
{
	const struct rdma_ucm_bind_ip *cmd = call->cmd;
	struct sockaddr_in6 addr = cmd->addr;

	if (!rdma_addr_size_in6(&addr))
		return -EINVAL;
	return t3_rdma_bind_addr(ucm_id(call), (struct sockaddr *)&addr);
}

int ucm_bind(struct ucm_call *call)
{
	const struct rdma_ucm_bind *cmd = call->cmd;
	struct __kernel_sockaddr_storage addr = cmd->addr;

	if (cmd->reserved || !cmd->addr_size || cmd->addr_size != rdma_addr_size_kss(&addr))
		return -EINVAL;
	return t3_rdma_bind_addr(ucm_id(call), (struct sockaddr *)&addr);
}

/* Each lookup that fails is an event, and a process can repeat it: so unread events are limited. */
static int ucm_resolve(struct ucm_call *call, struct sockaddr *src, struct sockaddr *dst,
		       int timeout_ms)
{
	if (atomic_read(&call->ctx->unread) >= UCM_MAX_UNREAD)
		return -ENOBUFS;
	return t3_rdma_resolve_addr(ucm_id(call), src, dst, timeout_ms);
}

int ucm_resolve_ip(struct ucm_call *call)
{
	const struct rdma_ucm_resolve_ip *cmd = call->cmd;
	struct sockaddr_in6 src = cmd->src_addr, dst = cmd->dst_addr;

	if ((src.sin6_family && !rdma_addr_size_in6(&src)) || !rdma_addr_size_in6(&dst))
		return -EINVAL;
	return ucm_resolve(call, (struct sockaddr *)&src, (struct sockaddr *)&dst,
			   cmd->timeout_ms);
}

int ucm_resolve_addr(struct ucm_call *call)
{
	const struct rdma_ucm_resolve_addr *cmd = call->cmd;
	struct __kernel_sockaddr_storage src = cmd->src_addr, dst = cmd->dst_addr;

	if (cmd->reserved || (cmd->src_size && cmd->src_size != rdma_addr_size_kss(&src)) ||
	    !cmd->dst_size || cmd->dst_size != rdma_addr_size_kss(&dst))
		return -EINVAL;
	return ucm_resolve(call, (struct sockaddr *)&src, (struct sockaddr *)&dst,
			   cmd->timeout_ms);
}

int ucm_resolve_route(struct ucm_call *call)
{
	const struct rdma_ucm_resolve_route *cmd = call->cmd;

	return t3_rdma_resolve_route(ucm_id(call), cmd->timeout_ms);
}

/* --- connections --------------------------------------------------------- */

static struct rdma_conn_param ucm_conn_param(const struct rdma_ucm_conn_param *from)
{
	return (struct rdma_conn_param) {
		.private_data = from->private_data,
		.private_data_len = from->private_data_len,
		.responder_resources = from->responder_resources,
		.initiator_depth = from->initiator_depth,
		.flow_control = from->flow_control,
		.retry_count = from->retry_count,
		.rnr_retry_count = from->rnr_retry_count,
		.srq = from->srq,
		.qp_num = from->qp_num & 0xffffff,
	};
}

int ucm_connect(struct ucm_call *call)
{
	const struct rdma_ucm_connect *cmd = call->cmd;
	struct rdma_conn_param param = ucm_conn_param(&cmd->conn_param);

	if (!cmd->conn_param.valid)
		return -EINVAL;
	return t3_rdma_connect(ucm_id(call), &param, &cmd->ece);
}

int ucm_listen(struct ucm_call *call)
{
	const struct rdma_ucm_listen *cmd = call->cmd;
	/* The counts of places are of type int. */
	int backlog = cmd->backlog, limit = min_t(unsigned int, ucm_max_backlog, INT_MAX);

	if (backlog <= 0 || backlog > limit)
		backlog = limit;
	/*
	 * Before requests can come. An id that listens already keeps the state of its backlog. The
	 * requests of a listen that failed keep their places.
	 */
	if (cm_state(to_cm_id(ucm_id(call))) != CM_ST_LISTENING) {
		atomic_add(backlog - call->ctx->backlog, &call->ctx->backlog_left);
		call->ctx->backlog = backlog;
	}
	return t3_rdma_listen(ucm_id(call), backlog);
}

/*
 * With parameters this accepts a request. Without, it completes a connection after
 * CONNECT_RESPONSE: librdmacm sends that when the QP is ready.
 */
int ucm_accept(struct ucm_call *call)
{
	const struct rdma_ucm_accept *cmd = call->cmd;
	struct rdma_conn_param param = ucm_conn_param(&cmd->conn_param);
	struct ucm_context *ctx = call->ctx;
	u64 before;
	int ret;

	lockdep_assert_held(&ctx->mutex);
	before = ctx->uid;
	if (!cmd->conn_param.valid)
		return t3_rdma_establish(ucm_id(call));
	/*
	 * Events may come before the accept returns, and need user space's name for the id. Only a
	 * request that was not accepted has none; on any other id the accept fails.
	 */
	if (!before)
		WRITE_ONCE(ctx->uid, cmd->uid);
	ret = t3_rdma_accept(ucm_id(call), &param, &cmd->ece);
	if (ret)
		WRITE_ONCE(ctx->uid, before);
	return ret;
}

/* Reasons that belong to the protocol are not for consumers. */
int ucm_reject(struct ucm_call *call)
{
	const struct rdma_ucm_reject *cmd = call->cmd;
	u8 reason = cmd->reason ? cmd->reason : IB_CM_REJ_CONSUMER_DEFINED;

	if (reason != IB_CM_REJ_CONSUMER_DEFINED && reason != IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED)
		return -EINVAL;
	return t3_rdma_reject(ucm_id(call), cmd->private_data, cmd->private_data_len, reason);
}

int ucm_disconnect(struct ucm_call *call)
{
	return t3_rdma_disconnect(ucm_id(call));
}

int ucm_notify(struct ucm_call *call)
{
	const struct rdma_ucm_notify *cmd = call->cmd;

	return t3_rdma_notify(ucm_id(call), cmd->event);
}

/* --- options ------------------------------------------------------------- */

static const struct {
	int (*set)(struct rdma_cm_id *id, int value);
	u8 len;
} ucm_id_options[] = {
	[RDMA_OPTION_ID_TOS]		= { t3_rdma_set_service_type, sizeof(u8) },
	[RDMA_OPTION_ID_REUSEADDR]	= { t3_rdma_set_reuseaddr, sizeof(int) },
	[RDMA_OPTION_ID_AFONLY]		= { t3_rdma_set_afonly, sizeof(int) },
	[RDMA_OPTION_ID_ACK_TIMEOUT]	= { t3_rdma_set_ack_timeout, sizeof(u8) },
};

/* Runs before the context is locked. ucm_set_option() reports a wrong length and a fault. */
void ucm_copy_option(struct ucm_call *call)
{
	const struct rdma_ucm_set_option *cmd = call->cmd;
	union {
		u8 byte;
		int word;
	} value = {};

	if (cmd->optlen != sizeof(value.byte) && cmd->optlen != sizeof(value.word))
		return;
	call->option_fault = copy_from_user(&value, u64_to_user_ptr(cmd->optval), cmd->optlen);
	call->option = cmd->optlen == sizeof(value.byte) ? value.byte : value.word;
}

int ucm_set_option(struct ucm_call *call)
{
	const struct rdma_ucm_set_option *cmd = call->cmd;
	u32 option;

	/* An option that exists, for InfiniBand only. */
	if (cmd->level == RDMA_OPTION_IB && cmd->optname == RDMA_OPTION_IB_PATH)
		return -EINVAL;
	if (cmd->level != RDMA_OPTION_ID || cmd->optname >= ARRAY_SIZE(ucm_id_options))
		return -ENOSYS;
	option = array_index_nospec(cmd->optname, ARRAY_SIZE(ucm_id_options));
	if (cmd->optlen != ucm_id_options[option].len)
		return -EINVAL;
	if (call->option_fault)
		return -EFAULT;
	return ucm_id_options[option].set(ucm_id(call), call->option);
}
