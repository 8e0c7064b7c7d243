// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: the card's TCP/IP statistics under their MIB names, and the
 * driver's own counters of errors.
 */
#include "device.h"

#define MIB_WORD(field) (offsetof(struct tp_mib_stats, field) / sizeof(u32))
/* A 64-bit counter is a pair of words, the high one first. */
#define MIB_64(name, field) { name, MIB_WORD(field##_hi), true }
#define MIB_32(name, field) { name, MIB_WORD(field), false }

static const struct {
	const char *name;
	u8 word;
	bool wide;
} t3_mib[] = {
	MIB_64("ipInReceives", ip_in_receive),
	MIB_64("ipInHdrErrors", ip_in_hdr_errors),
	MIB_64("ipInAddrErrors", ip_in_addr_errors),
	MIB_64("ipInUnknownProtos", ip_in_unknown_protos),
	MIB_64("ipInDiscards", ip_in_discards),
	MIB_64("ipInDelivers", ip_in_delivers),
	MIB_64("ipOutRequests", ip_out_requests),
	MIB_64("ipOutDiscards", ip_out_discards),
	MIB_64("ipOutNoRoutes", ip_out_no_routes),
	MIB_32("ipReasmTimeout", ip_reasm_timeout),
	MIB_32("ipReasmReqds", ip_reasm_reqds),
	MIB_32("ipReasmOKs", ip_reasm_oks),
	MIB_32("ipReasmFails", ip_reasm_fails),
	MIB_32("tcpActiveOpens", tcp_active_opens),
	MIB_32("tcpPassiveOpens", tcp_passive_opens),
	MIB_32("tcpAttemptFails", tcp_attempt_fails),
	MIB_32("tcpEstabResets", tcp_estab_resets),
	MIB_32("tcpOutRsts", tcp_out_rsts),
	MIB_32("tcpCurrEstab", tcp_curr_estab),
	MIB_64("tcpInSegs", tcp_in_segs),
	MIB_64("tcpOutSegs", tcp_out_segs),
	MIB_64("tcpRetransSegs", tcp_retrans_seg),
	MIB_64("tcpInErrs", tcp_in_errs),
	MIB_32("tcpRtoMin", tcp_rto_min),
	MIB_32("tcpRtoMax", tcp_rto_max),
};

static const char * const t3_counter_names[T3_CNT_NUM] = {
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

#define MIB_NUM ARRAY_SIZE(t3_mib)

static struct rdma_stat_desc t3_stat_descs[MIB_NUM + T3_CNT_NUM];

static struct rdma_hw_stats *t3_alloc_hw_stats(void)
{
	int i;

	/* The same values for every device, so concurrent writes are harmless. */
	for (i = 0; i < MIB_NUM; i++)
		t3_stat_descs[i].name = t3_mib[i].name;
	for (i = 0; i < T3_CNT_NUM; i++)
		t3_stat_descs[MIB_NUM + i].name = t3_counter_names[i];
	return rdma_alloc_hw_stats_struct(t3_stat_descs, ARRAY_SIZE(t3_stat_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static struct rdma_hw_stats *t3_alloc_hw_device_stats(struct ib_device *ibdev)
{
	return t3_alloc_hw_stats();
}

/*
 * One TCP engine serves all ports, so each port shows the counters of the card:
 * rdma(8) reads the counters of ports only.
 */
static struct rdma_hw_stats *t3_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return t3_alloc_hw_stats();
}

static int t3_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			   int index)
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
		const u32 *word = &raw.word[t3_mib[i].word];

		stats->value[i] = t3_mib[i].wide ? (u64)word[0] << 32 | word[1] : word[0];
	}
	for (i = 0; i < T3_CNT_NUM; i++)
		stats->value[MIB_NUM + i] = atomic64_read(&dev->counters[i]);
	return stats->num_counters;
}

const struct ib_device_ops t3_stats_ops = {
	.alloc_hw_device_stats = t3_alloc_hw_device_stats,
	.alloc_hw_port_stats = t3_alloc_hw_port_stats,
	.get_hw_stats	= t3_get_hw_stats,
};
