/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface of the in-tree NIC driver cxgb3.ko for upper-layer drivers.
 *
 * No header package ships cxgb3's own headers, so its interface is declared
 * here, from its documented layout. Loading the module does not detect a wrong
 * layout (7.2 has no MODVERSIONS, and a CRC is that of the exporter anyway). So
 * there are two checks: the assertions at the end of this file, and
 * tests/layout/check-btf, which compares every structure below with the BTF of
 * the target kernel's cxgb3.ko.
 *
 * Tag names are cxgb3's own, because they are part of a callback's type on a
 * kernel with control-flow integrity.
 *
 * 6.1 and 6.12 export three functions that 7.2 lacks: cxgb3_alloc_stid(), cxgb3_free_stid() and
 * t3_l2t_send_event(). All three kernels have the tables that they work on, so they are here.
 */
#ifndef CXGB3_ULP_H
#define CXGB3_ULP_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <net/dst.h>
#include <net/neighbour.h>

struct t3cdev;
struct l2t_entry;

/* A handler table must have this many entries: cxgb3 indexes it unchecked. */
#define CXGB3_NUM_CPL_CMDS 0xa6

/* Return values of a CPL handler; bits. 0: the handler owns the buffer. */
#define CPL_RET_BUF_DONE	1
#define CPL_RET_BAD_MSG		2
#define CPL_RET_UNKNOWN_TID	4

enum t3ctype {
	T3A = 0,
	T3B,
	T3C
};

struct t3cdev {
	char name[16];
	enum t3ctype type;
	struct list_head ofld_dev_list;
	struct net_device *lldev;
	struct proc_dir_entry *proc_dir;
	int (*send)(struct t3cdev *dev, struct sk_buff *skb);
	int (*recv)(struct t3cdev *dev, struct sk_buff **skb, int n);
	int (*ctl)(struct t3cdev *dev, unsigned int req, void *data);
	void (*neigh_update)(struct t3cdev *dev, struct neighbour *neigh);
	void *priv;
	void __rcu *l2opt;	/* struct l2t_data; NULL once offload is torn down */
	void *l3opt;
	void *l4opt;		/* struct t3c_data */
	void *ulp;		/* ours: struct t3_dev, for the async event handler */
	void *ulp_iscsi;
};

typedef int (*cpl_handler_func)(struct t3cdev *dev, struct sk_buff *skb);
typedef int (*cxgb3_cpl_handler_func)(struct t3cdev *dev, struct sk_buff *skb,
				      void *ctx);

struct cxgb3_client {
	char *name;
	void (*add)(struct t3cdev *dev);
	void (*remove)(struct t3cdev *dev);
	cxgb3_cpl_handler_func *handlers;
	int (*redirect)(void *ctx, struct dst_entry *old, struct dst_entry *new,
			struct l2t_entry *l2t);
	struct list_head client_list;
	void (*event_handler)(struct t3cdev *tdev, u32 event, u32 port);
};

/* client->event_handler(). */
enum {
	OFFLOAD_STATUS_UP,
	OFFLOAD_STATUS_DOWN,
	OFFLOAD_PORT_DOWN,
	OFFLOAD_PORT_UP,
	OFFLOAD_DB_FULL,
	OFFLOAD_DB_EMPTY,
	OFFLOAD_DB_DROP
};

/* Connection ids. A free entry of the two unions is a link of its free list. */
struct t3c_tid_entry {
	struct cxgb3_client *client;
	void *ctx;
};

union listen_entry {
	struct t3c_tid_entry t3c_tid;
	union listen_entry *next;
};

union active_open_entry {
	struct t3c_tid_entry t3c_tid;
	union active_open_entry *next;
};

struct tid_info {
	struct t3c_tid_entry *tid_tab;
	unsigned int ntids;
	atomic_t tids_in_use;

	union listen_entry *stid_tab;
	unsigned int nstids;
	unsigned int stid_base;

	union active_open_entry *atid_tab;
	unsigned int natids;
	unsigned int atid_base;

	spinlock_t atid_lock ____cacheline_aligned_in_smp;
	union active_open_entry *afree;
	unsigned int atids_in_use;

	spinlock_t stid_lock ____cacheline_aligned;	/* sfree, stids_in_use */
	union listen_entry *sfree;
	unsigned int stids_in_use;
};

struct t3c_data {
	struct list_head list_node;
	struct t3cdev *dev;
	unsigned int tx_max_chunk;
	unsigned int max_wrs;
	unsigned int nmtus;
	const unsigned short *mtus;
	struct tid_info tid_maps;

	struct t3c_tid_entry *tid_release_list;
	spinlock_t tid_release_lock;	/* private to cxgb3 */
	struct work_struct tid_release_task;

	struct sk_buff *nofail_skb;
	unsigned int release_list_incomplete;
};

/* L2 table. */
enum {
	L2T_STATE_VALID,
	L2T_STATE_STALE,
	L2T_STATE_RESOLVING,
	L2T_STATE_UNUSED
};

struct l2t_entry {
	u16 state;
	u16 idx;
	u32 addr;		/* raw big endian */
	int ifindex;
	u16 smt_idx;
	u16 vlan;
	struct neighbour *neigh;
	struct l2t_entry *first;
	struct l2t_entry *next;
	struct sk_buff_head arpq;
	spinlock_t lock;	/* state, arpq */
	atomic_t refcnt;
	u8 dmac[6];
};

struct l2t_data {
	unsigned int nentries;
	struct l2t_entry *rover;
	atomic_t nfree;
	rwlock_t lock;
	struct rcu_head rcu_head;
	struct l2t_entry l2tab[];
};

typedef void (*arp_failure_handler_func)(struct t3cdev *dev, struct sk_buff *skb);

/* What cxgb3's L2 code expects at the start of skb->cb. */
struct l2t_skb_cb {
	arp_failure_handler_func arp_failure_handler;
};

/* t3cdev->ctl() requests. */
enum {
	GET_MAX_OUTSTANDING_WR	= 0,
	GET_TX_MAX_CHUNK	= 1,
	GET_TID_RANGE		= 2,
	GET_STID_RANGE		= 3,
	GET_RTBL_RANGE		= 4,
	GET_L2T_CAPACITY	= 5,
	GET_MTUS		= 6,
	GET_WR_LEN		= 7,
	GET_IFF_FROM_MAC	= 8,
	GET_DDP_PARAMS		= 9,
	GET_PORTS		= 10,
	RDMA_GET_PARAMS		= 13,
	RDMA_CQ_OP		= 14,
	RDMA_CQ_SETUP		= 15,
	RDMA_CQ_DISABLE		= 16,
	RDMA_CTRL_QP_SETUP	= 17,
	RDMA_GET_MEM		= 18,
	RDMA_GET_MIB		= 19,
	GET_RX_PAGE_INFO	= 50,
	GET_EMBEDDED_INFO	= 70
};

struct tid_range {
	unsigned int base;
	unsigned int num;
};

struct mtutab {
	unsigned int size;
	const unsigned short *mtus;
};

struct iff_mac {
	struct net_device *dev;
	const unsigned char *mac_addr;
	u16 vlan_tag;
};

struct adap_ports {
	unsigned int nports;
	struct net_device *lldevs[2];
};

/* "top" is the last byte of a region, not the first one behind it. */
struct rdma_info {
	unsigned int tpt_base;
	unsigned int tpt_top;
	unsigned int pbl_base;
	unsigned int pbl_top;
	unsigned int rqt_base;
	unsigned int rqt_top;
	unsigned int udbell_len;
	unsigned long udbell_physbase;
	void __iomem *kdb_addr;
	struct pci_dev *pdev;
};

struct rdma_cq_op {
	unsigned int id;
	unsigned int op;
	unsigned int credits;
};

struct rdma_cq_setup {
	unsigned int id;
	unsigned long long base_addr;
	unsigned int size;
	unsigned int credits;
	unsigned int credit_thres;
	unsigned int ovfl_mode;
};

struct rdma_ctrlqp_setup {
	unsigned long long base_addr;
	unsigned int size;
};

struct ofld_page_info {
	unsigned int page_size;
	unsigned int num;
};

struct ch_embedded_info {
	u32 fw_vers;
	u32 tp_vers;
};

/*
 * RDMA_GET_MIB. Counters wider than 32 bits come as a pair, high word first.
 * cxgb3 spells the names in camel case.
 */
struct tp_mib_stats {
	u32 ip_in_receive_hi;
	u32 ip_in_receive_lo;
	u32 ip_in_hdr_errors_hi;
	u32 ip_in_hdr_errors_lo;
	u32 ip_in_addr_errors_hi;
	u32 ip_in_addr_errors_lo;
	u32 ip_in_unknown_protos_hi;
	u32 ip_in_unknown_protos_lo;
	u32 ip_in_discards_hi;
	u32 ip_in_discards_lo;
	u32 ip_in_delivers_hi;
	u32 ip_in_delivers_lo;
	u32 ip_out_requests_hi;
	u32 ip_out_requests_lo;
	u32 ip_out_discards_hi;
	u32 ip_out_discards_lo;
	u32 ip_out_no_routes_hi;
	u32 ip_out_no_routes_lo;
	u32 ip_reasm_timeout;
	u32 ip_reasm_reqds;
	u32 ip_reasm_oks;
	u32 ip_reasm_fails;
	u32 reserved[8];
	u32 tcp_active_opens;
	u32 tcp_passive_opens;
	u32 tcp_attempt_fails;
	u32 tcp_estab_resets;
	u32 tcp_out_rsts;
	u32 tcp_curr_estab;
	u32 tcp_in_segs_hi;
	u32 tcp_in_segs_lo;
	u32 tcp_out_segs_hi;
	u32 tcp_out_segs_lo;
	u32 tcp_retrans_seg_hi;
	u32 tcp_retrans_seg_lo;
	u32 tcp_in_errs_hi;
	u32 tcp_in_errs_lo;
	u32 tcp_rto_min;
	u32 tcp_rto_max;
};

void cxgb3_register_client(struct cxgb3_client *client);
void cxgb3_unregister_client(struct cxgb3_client *client);
int cxgb3_alloc_atid(struct t3cdev *dev, struct cxgb3_client *client, void *ctx);
void *cxgb3_free_atid(struct t3cdev *dev, int atid);
void cxgb3_insert_tid(struct t3cdev *dev, struct cxgb3_client *client, void *ctx,
		      unsigned int tid);
void cxgb3_remove_tid(struct t3cdev *dev, void *ctx, unsigned int tid);
struct t3cdev *dev2t3cdev(struct net_device *dev);
void t3_register_cpl_handler(unsigned int opcode, cpl_handler_func h);
/*
 * Consumes the buffer if the result is not negative. 2 (NET_XMIT_CN) means
 * "queued inside cxgb3" and is success (CVE-2015-8812).
 */
int cxgb3_ofld_send(struct t3cdev *dev, struct sk_buff *skb);
struct l2t_entry *t3_l2t_get(struct t3cdev *dev, struct dst_entry *dst,
			     struct net_device *ndev, const void *daddr);
int t3_l2t_send_slow(struct t3cdev *dev, struct sk_buff *skb, struct l2t_entry *e);
void t3_l2e_free(struct l2t_data *d, struct l2t_entry *e);

/* skb->priority: bit 0 picks the control queue, bits 3:1 the queue set. */
#define CPL_PRIORITY_DATA	0
#define CPL_PRIORITY_CONTROL	1

static inline struct t3c_data *t3c_data(const struct t3cdev *dev)
{
	return dev->l4opt;
}

/* Ids of listeners. Return: the id, or -1 if none is free. */
static inline int cxgb3_alloc_stid(struct t3cdev *dev, struct cxgb3_client *client, void *ctx)
{
	struct tid_info *tids = &t3c_data(dev)->tid_maps;
	union listen_entry *entry;
	int stid = -1;

	spin_lock_bh(&tids->stid_lock);
	entry = tids->sfree;
	if (entry) {
		tids->sfree = entry->next;
		entry->t3c_tid.ctx = ctx;
		entry->t3c_tid.client = client;
		tids->stids_in_use++;
		stid = tids->stid_base + (entry - tids->stid_tab);
	}
	spin_unlock_bh(&tids->stid_lock);
	return stid;
}

static inline void cxgb3_free_stid(struct t3cdev *dev, int stid)
{
	struct tid_info *tids = &t3c_data(dev)->tid_maps;
	union listen_entry *entry = &tids->stid_tab[stid - tids->stid_base];

	spin_lock_bh(&tids->stid_lock);
	entry->next = tids->sfree;
	tids->sfree = entry;
	tids->stids_in_use--;
	spin_unlock_bh(&tids->stid_lock);
}

/* Make the kernel resolve the next hop again. */
static inline void t3_l2t_send_event(struct t3cdev *dev, struct l2t_entry *e)
{
	switch (READ_ONCE(e->state)) {
	case L2T_STATE_STALE:
		neigh_event_send(e->neigh, NULL);
		spin_lock_bh(&e->lock);
		if (e->state == L2T_STATE_STALE)
			e->state = L2T_STATE_VALID;
		spin_unlock_bh(&e->lock);
		break;
	case L2T_STATE_RESOLVING:
		neigh_event_send(e->neigh, NULL);
		break;
	}
}

/*
 * The numbers are those of a kernel without lock debugging, which makes
 * spinlock_t grow and moves everything behind one.
 */
static_assert(offsetof(struct t3cdev, ctl) == 72);
static_assert(offsetof(struct t3cdev, l2opt) == 96);
static_assert(offsetof(struct t3cdev, l4opt) == 112);
static_assert(sizeof(struct t3cdev) == 136);
static_assert(offsetof(struct cxgb3_client, event_handler) == 56);
static_assert(sizeof(struct cxgb3_client) == 64);
static_assert(sizeof(union listen_entry) == 16);
static_assert(sizeof(struct adap_ports) == 24);
static_assert(offsetof(struct rdma_info, udbell_physbase) == 32);
static_assert(sizeof(struct rdma_info) == 56);
static_assert(sizeof(struct rdma_cq_op) == 12);
static_assert(sizeof(struct rdma_cq_setup) == 32);
static_assert(sizeof(struct tp_mib_stats) == 184);
#if !defined(CONFIG_DEBUG_SPINLOCK) && !defined(CONFIG_DEBUG_LOCK_ALLOC) && \
	defined(CONFIG_SMP) && L1_CACHE_BYTES == 64
static_assert(offsetof(struct tid_info, sfree) == 136);
static_assert(sizeof(struct tid_info) == 192);
static_assert(offsetof(struct t3c_data, tid_maps) == 64);
static_assert(offsetof(struct t3c_data, nofail_skb) == 304);
static_assert(sizeof(struct t3c_data) == 320);
static_assert(offsetof(struct l2t_entry, refcnt) == 68);
static_assert(sizeof(struct l2t_entry) == 80);
static_assert(offsetof(struct l2t_data, l2tab) == 48);
#endif

#endif
