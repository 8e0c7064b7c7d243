/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM iw_cxgb3

#if !defined(T3_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define T3_TRACE_H

#include <linux/bitfield.h>
#include <linux/tracepoint.h>

#include "verbs.h"

TRACE_EVENT(t3_qp_state,
	TP_PROTO(const struct t3_qp *qp, enum t3_qp_state from, enum t3_qp_event ev,
		 const struct t3_transition *to),
	TP_ARGS(qp, from, ev, to),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(int, from)
		__field(int, to)
		__field(int, ev)
		__field(unsigned int, actions)
		__field(bool, legal)
	),
	TP_fast_assign(
		__entry->id = qp->id;
		__entry->from = from;
		__entry->to = to ? to->next : from;
		__entry->ev = ev;
		__entry->actions = to ? to->actions : 0;
		__entry->legal = to;
	),
	TP_printk("qp %u: %s in %s%s%s actions %#x", __entry->id,
		  t3_qp_event_name(__entry->ev), t3_qp_state_name(__entry->from),
		  __entry->legal ? " -> " : " refused",
		  __entry->legal ? t3_qp_state_name(__entry->to) : "",
		  __entry->actions)
);

TRACE_EVENT(t3_cqe,
	TP_PROTO(u32 cq, const struct t3_cqe *cqe, int result),
	TP_ARGS(cq, cqe, result),
	TP_STRUCT__entry(
		__field(u32, cq)
		__field(u32, qp)
		__field(bool, is_sq)
		__field(u8, opcode)
		__field(u8, status)
		__field(u32, len)
		__field(u32, word2)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->cq = cq;
		__entry->qp = t3_cqe_qpid(cqe);
		__entry->is_sq = t3_cqe_is_sq(cqe);
		__entry->opcode = t3_cqe_opcode(cqe);
		__entry->status = t3_cqe_status(cqe);
		__entry->len = be32_to_cpu(cqe->len);
		__entry->word2 = cqe->u.sq.wrid_hi;
		__entry->result = result;
	),
	TP_printk("cq %u qp %u %s opcode %u status %#x (%s) len %u word2 %#x result %d",
		  __entry->cq, __entry->qp, __entry->is_sq ? "SQ" : "RQ",
		  __entry->opcode, __entry->status, t3_status_name(__entry->status),
		  __entry->len, __entry->word2, __entry->result)
);

TRACE_EVENT(t3_async_event,
	TP_PROTO(const struct t3_async_event *ae),
	TP_ARGS(ae),
	TP_STRUCT__entry(
		__field(u32, flags)
		__field(u16, cq)
		__field(u16, index)
		__field(u32, qp)
		__field(bool, is_sq)
		__field(u8, opcode)
		__field(u8, status)
	),
	TP_fast_assign(
		__entry->flags = be32_to_cpu(ae->flags);
		__entry->cq = FIELD_GET(T3_AE_CQ_ID, be32_to_cpu(ae->cq));
		__entry->index = FIELD_GET(T3_AE_CQ_INDEX, be32_to_cpu(ae->cq));
		__entry->qp = t3_cqe_qpid(&ae->cqe);
		__entry->is_sq = t3_cqe_is_sq(&ae->cqe);
		__entry->opcode = t3_cqe_opcode(&ae->cqe);
		__entry->status = t3_cqe_status(&ae->cqe);
	),
	TP_printk("cq %u qp %u %s opcode %u status %#x (%s) flags %#x index %u", __entry->cq,
		  __entry->qp, __entry->is_sq ? "SQ" : "RQ", __entry->opcode,
		  __entry->status, t3_status_name(__entry->status), __entry->flags,
		  __entry->index)
);

TRACE_EVENT(t3_ctrl_write,
	TP_PROTO(const struct t3_dev *dev, u32 addr, u32 len, u32 counter),
	TP_ARGS(dev, addr, len, counter),
	TP_STRUCT__entry(
		__field(u32, addr)
		__field(u32, len)
		__field(u32, counter)
		__field(u32, consumer)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->len = len;
		__entry->counter = counter;
		__entry->consumer = dev->ctrl.consumer;
	),
	TP_printk("%u bytes to %#x, counter %u, confirmed %u", __entry->len,
		  __entry->addr, __entry->counter, __entry->consumer)
);

TRACE_EVENT(t3_mr,
	TP_PROTO(const struct t3_dev *dev, const struct t3_tpt *tpt, bool registered),
	TP_ARGS(dev, tpt, registered),
	TP_STRUCT__entry(
		__field(bool, registered)
		__field(u32, stag)
		__field(u64, va)
		__field(u32, len)
		__field(u8, perms)
		__field(u8, page_code)
	),
	TP_fast_assign(
		__entry->registered = registered;
		__entry->stag = tpt->stag;
		__entry->va = tpt->va;
		__entry->len = tpt->len;
		__entry->perms = tpt->perms;
		__entry->page_code = tpt->page_code;
	),
	TP_printk("%s stag %#x va %#llx len %u perms %#x pages of 2^%u",
		  __entry->registered ? "register" : "deregister",
		  __entry->stag, __entry->va, __entry->len, __entry->perms,
		  __entry->page_code + T3_PAGE_CODE_SHIFT)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
