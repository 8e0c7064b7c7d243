/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of the connection manager: events/iw_cxgb3_cm in tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM iw_cxgb3_cm

#if !defined(IW_CXGB3_TRACE_CM_H) || defined(TRACE_HEADER_MULTI_READ)
#define IW_CXGB3_TRACE_CM_H

#include <linux/tracepoint.h>

#include "cm.h"

TRACE_EVENT(t3_ep_transition,
	TP_PROTO(const struct t3_ep *ep, enum ep_event event, enum ep_state next, int status),
	TP_ARGS(ep, event, next, status),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tid)
		__field(u8, state)
		__field(u8, event)
		__field(u8, next)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->tid = ep->tid;
		__entry->state = ep->state;
		__entry->event = event;
		__entry->next = next;
		__entry->status = status;
	),
	TP_printk("ep=%u tid=0x%x %s + %s -> %s status=%d", __entry->id, __entry->tid,
		  ep_state_name(__entry->state), ep_event_name(__entry->event),
		  ep_state_name(__entry->next), __entry->status)
);

TRACE_EVENT(t3_ep_refused,
	TP_PROTO(const struct t3_ep *ep, enum ep_event event),
	TP_ARGS(ep, event),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tid)
		__field(u8, state)
		__field(u8, event)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->tid = ep->tid;
		__entry->state = ep->state;
		__entry->event = event;
	),
	TP_printk("ep=%u tid=0x%x %s refuses %s", __entry->id, __entry->tid,
		  ep_state_name(__entry->state), ep_event_name(__entry->event))
);

TRACE_EVENT(t3_cpl_in,
	TP_PROTO(const struct t3_ep *ep, u8 opcode),
	TP_ARGS(ep, opcode),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tid)
		__field(u8, state)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->tid = ep->tid;
		__entry->state = ep->state;
		__entry->opcode = opcode;
	),
	TP_printk("ep=%u tid=0x%x %s 0x%02x", __entry->id, __entry->tid,
		  ep_state_name(__entry->state), __entry->opcode)
);

/*
 * A message when it arrives, in softirq, which is the order of the card's messages and
 * async events. The flits are those of RDMA_TERMINATE, the word is the second one.
 */
TRACE_EVENT(t3_cpl_arrival,
	TP_PROTO(const struct t3_ep *ep, const struct sk_buff *skb),
	TP_ARGS(ep, skb),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, opcode)
		__field(u8, flits)
		__field(u32, word)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->opcode = t3_cpl_opcode(skb);
		__entry->flits = be32_to_cpu((__force __be32)skb->priority) & T3_TERM_FLITS;
		__entry->word = skb_headlen(skb) < 8 ? 0 :
				be32_to_cpup((const __be32 *)skb->data + 1);
	),
	TP_printk("ep=%u 0x%02x flits %u word 0x%08x", __entry->id, __entry->opcode,
		  __entry->flits, __entry->word)
);

TRACE_EVENT(t3_cpl_out,
	TP_PROTO(u32 id, u8 opcode),
	TP_ARGS(id, opcode),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->opcode = opcode;
	),
	TP_printk("id=0x%x 0x%02x", __entry->id, __entry->opcode)
);

TRACE_EVENT(t3_mpa,
	TP_PROTO(const struct t3_ep *ep, enum mpa_status status, unsigned int len),
	TP_ARGS(ep, status, len),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u8, status)
		__field(u16, len)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->status = status;
		__entry->len = len;
	),
	TP_printk("ep=%u %u bytes: %s", __entry->id, __entry->len,
		  mpa_status_name(__entry->status))
);

/* The result of the MPA negotiation. */
TRACE_EVENT(t3_mpa_negotiated,
	TP_PROTO(const struct t3_ep *ep),
	TP_ARGS(ep),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, tid)
		__field(bool, active)
		__field(u8, rev)
		__field(bool, enhanced)
		__field(u8, attrs)
		__field(u8, rtr)
		__field(u16, ird)
		__field(u16, ord)
	),
	TP_fast_assign(
		__entry->id = ep->id;
		__entry->tid = ep->tid;
		__entry->active = ep->active;
		__entry->rev = ep->mpa_rev;
		__entry->enhanced = ep->enhanced;
		__entry->attrs = ep->mpa_attrs;
		__entry->rtr = ep->rtr_type;
		__entry->ird = ep->ird;
		__entry->ord = ep->ord;
	),
	TP_printk("ep=%u tid=0x%x %s rev=%u%s crc=%u markers=%u/%u rtr=%s ird=%u ord=%u",
		  __entry->id, __entry->tid, __entry->active ? "active" : "passive",
		  __entry->rev, __entry->enhanced ? " enhanced" : "",
		  !!(__entry->attrs & T3_MPA_CRC), !!(__entry->attrs & T3_MPA_RX_MARKERS),
		  !!(__entry->attrs & T3_MPA_TX_MARKERS), t3_rtr_name(__entry->rtr),
		  __entry->ird, __entry->ord)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace_cm
#include <trace/define_trace.h>
