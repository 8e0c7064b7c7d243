// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: the card's TCP/IP statistics under their MIB names, and the
 * driver's own count of what went wrong.
 */
#include "iw_cxgb3.h"

#define WORD(field) (offsetof(struct tp_mib_stats, field) / sizeof(u32))
/* A 64-bit counter is a pair of words, the high one first. */
#define WIDE(name, field) { name, WORD(field##_hi), true }
#define NARROW(name, field) { name, WORD(field), false }

static const struct {
	const char *name;
	u8 word;
	bool wide;
} mib[] = {
	WIDE("ipInReceives", ip_in_receive),
	WIDE("ipInHdrErrors", ip_in_hdr_errors),
	WIDE("ipInAddrErrors", ip_in_addr_errors),
	WIDE("ipInUnknownProtos", ip_in_unknown_protos),
	WIDE("ipInDiscards", ip_in_discards),
	WIDE("ipInDelivers", ip_in_delivers),
	WIDE("ipOutRequests", ip_out_requests),
	WIDE("ipOutDiscards", ip_out_discards),
	WIDE("ipOutNoRoutes", ip_out_no_routes),
	NARROW("ipReasmTimeout", ip_reasm_timeout),
	NARROW("ipReasmReqds", ip_reasm_reqds),
	NARROW("ipReasmOKs", ip_reasm_oks),
	NARROW("ipReasmFails", ip_reasm_fails),
	NARROW("tcpActiveOpens", tcp_active_opens),
	NARROW("tcpPassiveOpens", tcp_passive_opens),
	NARROW("tcpAttemptFails", tcp_attempt_fails),
	NARROW("tcpEstabResets", tcp_estab_resets),
	NARROW("tcpOutRsts", tcp_out_rsts),
	NARROW("tcpCurrEstab", tcp_curr_estab),
	WIDE("tcpInSegs", tcp_in_segs),
	WIDE("tcpOutSegs", tcp_out_segs),
	WIDE("tcpRetransSegs", tcp_retrans_seg),
	WIDE("tcpInErrs", tcp_in_errs),
	NARROW("tcpRtoMin", tcp_rto_min),
	NARROW("tcpRtoMax", tcp_rto_max),
};

static const char * const own[T3_CNT_NUM] = {
	[T3_CNT_QP_BAD_EVENT]	= "qp_refused_events",
	[T3_CNT_CQE_STALE]	= "cqe_stale",
	[T3_CNT_CQE_BAD]	= "cqe_bad",
	[T3_CNT_AE_NO_OBJECT]	= "async_events_without_object",
	[T3_CNT_AE_ERROR]	= "async_errors",
	[T3_CNT_TERM_SENT]	= "terminates_sent",
	[T3_CNT_TERM_RCVD]	= "terminates_received",
	[T3_CNT_FLUSHED_QP]	= "qp_flushes",
	[T3_CNT_DB_DROP]	= "doorbell_drops",
	[T3_CNT_CM_BAD_EVENT]	= "cm_refused_events",
	[T3_CNT_CM_ABORT]	= "cm_aborts",
	[T3_CNT_CARD_POLL]	= "card_polls",
	[T3_CNT_CQ_OVERFLOW]	= "cq_overflows",
	[T3_CNT_OVER_QUOTA]	= "over_quota",
};

#define MIB_NUM ARRAY_SIZE(mib)

static struct rdma_stat_desc descs[MIB_NUM + T3_CNT_NUM];

static struct rdma_hw_stats *alloc_stats(void)
{
	int i;

	/* The same for every device, so it does no harm to write it twice. */
	for (i = 0; i < MIB_NUM; i++)
		descs[i].name = mib[i].name;
	for (i = 0; i < T3_CNT_NUM; i++)
		descs[MIB_NUM + i].name = own[i];
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static struct rdma_hw_stats *alloc_hw_device_stats(struct ib_device *ibdev)
{
	return alloc_stats();
}

/*
 * One TCP engine serves all ports, so each shows the counters of the card: it
 * is the ports that rdma(8) asks.
 */
static struct rdma_hw_stats *alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return alloc_stats();
}

static int get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct t3_dev *dev = to_t3_dev(ibdev);
	union {
		struct tp_mib_stats mib;
		u32 word[sizeof(struct tp_mib_stats) / sizeof(u32)];
	} raw;
	int i, err;

	err = t3_dev_ctl(dev, RDMA_GET_MIB, &raw.mib);
	if (err)
		return err;
	for (i = 0; i < MIB_NUM; i++) {
		const u32 *word = &raw.word[mib[i].word];

		stats->value[i] = mib[i].wide ? (u64)word[0] << 32 | word[1] : word[0];
	}
	for (i = 0; i < T3_CNT_NUM; i++)
		stats->value[MIB_NUM + i] = atomic64_read(&dev->counters[i]);
	return stats->num_counters;
}

const struct ib_device_ops t3_stats_ops = {
	.alloc_hw_device_stats = alloc_hw_device_stats,
	.alloc_hw_port_stats = alloc_hw_port_stats,
	.get_hw_stats	= get_hw_stats,
};
