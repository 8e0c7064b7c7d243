/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: events/t3_rdma_cm in tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM t3_rdma_cm

#if !defined(T3_RDMA_CM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define T3_RDMA_CM_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>

#include "rdma_cm.h"

TRACE_EVENT(cm_fsm_apply,
	TP_PROTO(u32 id, enum cm_state from, enum cm_event event, enum cm_state to, u16 actions,
		 int status),
	TP_ARGS(id, from, event, to, actions, status),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, from)
		__field(u8, event)
		__field(u8, to)
		__field(u16, actions)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->from = from;
		__entry->event = event;
		__entry->to = to;
		__entry->actions = actions;
		__entry->status = status;
	),
	TP_printk("id=%u %s + %s -> %s actions=0x%x status=%d", __entry->id,
		  cm_state_name(__entry->from), cm_event_name(__entry->event),
		  cm_state_name(__entry->to), __entry->actions, __entry->status)
);

TRACE_EVENT(cm_fsm_refuse,
	TP_PROTO(u32 id, enum cm_state state, enum cm_event event, int status),
	TP_ARGS(id, state, event, status),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, state)
		__field(u8, event)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->state = state;
		__entry->event = event;
		__entry->status = status;
	),
	TP_printk("id=%u %s refuses %s status=%d", __entry->id, cm_state_name(__entry->state),
		  cm_event_name(__entry->event), __entry->status)
);

TRACE_EVENT(cm_upcall,
	TP_PROTO(u32 id, int type, int status),
	TP_ARGS(id, type, status),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, type)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->type = type;
		__entry->status = status;
	),
	TP_printk("id=%u %s status=%d", __entry->id,
		  __print_symbolic(__entry->type,
				   { IW_CM_EVENT_CONNECT_REQUEST, "CONNECT_REQUEST" },
				   { IW_CM_EVENT_CONNECT_REPLY, "CONNECT_REPLY" },
				   { IW_CM_EVENT_ESTABLISHED, "ESTABLISHED" },
				   { IW_CM_EVENT_DISCONNECT, "DISCONNECT" },
				   { IW_CM_EVENT_CLOSE, "CLOSE" }),
		  __entry->status)
);

TRACE_EVENT(cm_ib_upcall,
	TP_PROTO(u32 id, int type),
	TP_ARGS(id, type),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, type)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->type = type;
	),
	TP_printk("id=%u %s", __entry->id,
		  __print_symbolic(__entry->type,
				   { IB_CM_REQ_ERROR, "REQ_ERROR" },
				   { IB_CM_REQ_RECEIVED, "REQ" },
				   { IB_CM_REP_ERROR, "REP_ERROR" },
				   { IB_CM_REP_RECEIVED, "REP" },
				   { IB_CM_RTU_RECEIVED, "RTU" },
				   { IB_CM_USER_ESTABLISHED, "USER_ESTABLISHED" },
				   { IB_CM_DREQ_ERROR, "DREQ_ERROR" },
				   { IB_CM_DREQ_RECEIVED, "DREQ" },
				   { IB_CM_DREP_RECEIVED, "DREP" },
				   { IB_CM_TIMEWAIT_EXIT, "TIMEWAIT_EXIT" },
				   { IB_CM_MRA_RECEIVED, "MRA" },
				   { IB_CM_REJ_RECEIVED, "REJ" },
				   { IB_CM_SIDR_REQ_ERROR, "SIDR_REQ_ERROR" },
				   { IB_CM_SIDR_REQ_RECEIVED, "SIDR_REQ" },
				   { IB_CM_SIDR_REP_RECEIVED, "SIDR_REP" }))
);

TRACE_EVENT(cm_report,
	TP_PROTO(u32 id, int event, int status, int ret),
	TP_ARGS(id, event, status, ret),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, event)
		__field(int, status)
		__field(int, ret)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->event = event;
		__entry->status = status;
		__entry->ret = ret;
	),
	TP_printk("id=%u event=%u status=%d ret=%d", __entry->id, __entry->event,
		  __entry->status, __entry->ret)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
