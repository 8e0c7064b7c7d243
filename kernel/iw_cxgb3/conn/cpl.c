// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to and from the card (CPL).
 *
 * Receive: t3_cpl_receive() runs in softirq, takes a reference and puts the message into the queue.
 * The endpoint's runner handles it. t3_cpl_messages[] has the handler of each message, and who is
 * the runner for it.
 * Send: each function builds one message. Only the runner sends for a
 * connection, so the messages on one queue stay in order.
 *
 * Each message must fit into one descriptor (T3_WR_IMM_MAX): cxgb3 drops a longer one
 * on a control queue and corrupts it on an offload queue. So an MPA frame is sent in
 * pieces.
 */
#include <linux/bitfield.h>
#include <linux/minmax.h>

#include "cm.h"
#include "trace_cm.h"

/* CLOSE_CON_REQ, ABORT_REQ and ABORT_RPL: a connection sends each at most once. */
#define TEARDOWN_SKBS	3
/* And one for t3_cpl_alloc(). */
#define SPARE_SKBS	(TEARDOWN_SKBS + 1)
#define SPARE_SIZE	T3_WR_IMM_MAX

/* --- building ------------------------------------------------------------ */

/* Allocate the spare buffers of an endpoint. Return: 0 or -ENOMEM. */
int t3_cpl_reserve(struct t3_ep *ep)
{
	struct sk_buff *skb;
	unsigned int i;

	for (i = 0; i < SPARE_SKBS; i++) {
		skb = alloc_skb(SPARE_SIZE, t3_ep_gfp());
		if (!skb)
			return -ENOMEM;
		__skb_queue_tail(&ep->spare, skb);
	}
	return 0;
}

/*
 * A buffer of at most SPARE_SIZE bytes. A softirq may get no memory, so once in the life of an
 * endpoint there is a spare buffer instead.
 */
static struct sk_buff *t3_cpl_alloc(struct t3_ep *ep, size_t len, gfp_t gfp)
{
	struct sk_buff *skb = alloc_skb(len, gfp | __GFP_NOWARN);

	if (!skb && skb_queue_len(&ep->spare) > TEARDOWN_SKBS)
		skb = __skb_dequeue(&ep->spare);
	return skb;
}

/*
 * Append a zeroed message of len bytes to an empty buffer, and fill its work request
 * header. cxgb3 adds the length, the generation and other fields.
 */
static void *t3_cpl_put_wr(struct sk_buff *skb, size_t len, unsigned int wr_op, u32 tid)
{
	struct t3_wr_hdr *wr = skb_put_zero(skb, len);

	wr->hi = cpu_to_be32(FIELD_PREP(T3_WR_OPCODE, wr_op));
	wr->lo = cpu_to_be32(FIELD_PREP(T3_WR_TID, tid));
	return wr;
}

static __be32 t3_cpl_word(unsigned int opcode, u32 id)
{
	trace_t3_cpl_out(id, opcode);
	return cpu_to_be32(FIELD_PREP(T3_CPL_OPCODE, opcode) | FIELD_PREP(T3_CPL_ID, id));
}

/* A message on the control queue, which the card forwards to TP. */
static void *t3_cpl_put_forward(struct sk_buff *skb, size_t len)
{
	skb->priority = CPL_PRIORITY_CONTROL;
	return t3_cpl_put_wr(skb, len, T3_WR_OP_FORWARD, 0);
}

/* Index of the largest MTU in the card's table that fits the path. */
static unsigned int t3_cpl_mss_index(struct t3_ep *ep)
{
	const struct t3_cm_dev *cm = ep->cm;
	unsigned int i = 0;

	while (i + 1 < cm->nmtus && cm->mtus[i + 1] <= ep->mtu)
		i++;
	return i;
}

static unsigned int t3_cpl_wnd_scale(void)
{
	unsigned int shift = 0;

	while (shift < 14 && (65535U << shift) < T3_RCV_WIN)
		shift++;
	return shift;
}

static __be32 t3_cpl_opt0h(struct t3_ep *ep)
{
	return cpu_to_be32(T3_OPT0H_KEEP_ALIVE | T3_OPT0H_TCAM_BYPASS |
			   FIELD_PREP(T3_OPT0H_WND_SCALE, t3_cpl_wnd_scale()) |
			   FIELD_PREP(T3_OPT0H_MSS_IDX, t3_cpl_mss_index(ep)) |
			   FIELD_PREP(T3_OPT0H_L2T_IDX, t3_route_l2t_index(ep)) |
			   FIELD_PREP(T3_OPT0H_TX_CHANNEL, ep->smt_idx));
}

static __be32 t3_cpl_opt0l(struct t3_ep *ep)
{
	return cpu_to_be32(FIELD_PREP(T3_OPT0L_TOS, ep->tos >> 2) |
			   FIELD_PREP(T3_OPT0L_RCV_BUFSIZ, T3_RCV_WIN >> 10));
}

static __be32 t3_cpl_opt2(void)
{
	return cpu_to_be32(T3_OPT2_RX_COALESCE_VALID | T3_OPT2_FLAVORS_VALID |
			   FIELD_PREP(T3_OPT2_CONG_FLAVOR, T3_CONG_TAHOE));
}

/* An opening message is dropped, because the next hop's address could not be resolved. */
static void t3_cpl_open_arp_failed(struct t3cdev *tdev, struct sk_buff *skb)
{
	const struct t3_route_cb *cb = (const void *)skb->cb;
	struct t3_ep *ep = NULL;
	struct t3_dev *dev;

	rcu_read_lock();
	dev = t3_dev_of(tdev);
	if (dev)
		ep = t3_ep_find(dev, cb->ep_id);
	rcu_read_unlock();
	if (ep) {
		t3_ep_request(ep, T3_REQ_ARP_FAILED, T3_RUN_QUEUED);
		t3_ep_put(ep);
	}
	kfree_skb(skb);
}

/* Data or a FIN that cannot be sent. The endpoint's timer handles the failure. */
static void t3_cpl_data_arp_failed(struct t3cdev *tdev, struct sk_buff *skb)
{
	kfree_skb(skb);
}

int t3_send_act_open_req(struct t3_ep *ep)
{
	struct t3_cpl_act_open_req *req;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*req), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	req = t3_cpl_put_forward(skb, sizeof(*req));
	req->ot = t3_cpl_word(T3_CPL_ACT_OPEN_REQ, ep->tid);
	req->local_port = ep->local.sin_port;
	req->peer_port = ep->remote.sin_port;
	req->local_ip = ep->local.sin_addr.s_addr;
	req->peer_ip = ep->remote.sin_addr.s_addr;
	req->opt0h = t3_cpl_opt0h(ep);
	req->opt0l = t3_cpl_opt0l(ep);
	req->opt2 = t3_cpl_opt2();
	return t3_route_send(ep, skb, t3_cpl_open_arp_failed);
}

int t3_send_pass_accept_rpl(struct t3_ep *ep)
{
	struct t3_cpl_pass_accept_rpl *rpl;
	struct sk_buff *skb;

	skb = t3_cpl_alloc(ep, sizeof(*rpl), gfp_any());
	if (!skb)
		return -ENOMEM;
	rpl = t3_cpl_put_forward(skb, sizeof(*rpl));
	rpl->ot = t3_cpl_word(T3_CPL_PASS_ACCEPT_RPL, ep->tid);
	rpl->opt2 = t3_cpl_opt2();
	rpl->opt2_copy = rpl->opt2;
	rpl->peer_ip = ep->remote.sin_addr.s_addr;
	rpl->opt0h = t3_cpl_opt0h(ep);
	rpl->opt0l_status = t3_cpl_opt0l(ep);
	return t3_route_send(ep, skb, t3_cpl_open_arp_failed);
}

int t3_send_pass_open_req(struct t3_listener *l)
{
	struct t3_cpl_pass_open_req *req;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*req), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	req = t3_cpl_put_forward(skb, sizeof(*req));
	req->ot = t3_cpl_word(T3_CPL_PASS_OPEN_REQ, l->stid);
	req->local_port = l->port;
	req->local_ip = l->addr;
	req->opt0h = cpu_to_be32(T3_OPT0H_DELACK | T3_OPT0H_TCAM_BYPASS);
	req->opt0l = cpu_to_be32(FIELD_PREP(T3_OPT0L_RCV_BUFSIZ, T3_RCV_WIN >> 10));
	req->opt1 = cpu_to_be32(FIELD_PREP(T3_OPT1_CONN_POLICY, T3_CONN_POLICY_ASK));
	return t3_dev_send(l->dev, skb);
}

int t3_send_close_listsrv_req(struct t3_listener *l)
{
	struct t3_cpl_close_listsrv_req *req;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*req), GFP_KERNEL | __GFP_NOFAIL);
	req = t3_cpl_put_forward(skb, sizeof(*req));
	req->ot = t3_cpl_word(T3_CPL_CLOSE_LISTSRV_REQ, l->stid);
	return t3_dev_send(l->dev, skb);
}

static void t3_send_tid_release(struct t3_dev *dev, u32 tid)
{
	struct t3_cpl_tid_release *req;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*req), GFP_KERNEL | __GFP_NOFAIL);
	req = t3_cpl_put_forward(skb, sizeof(*req));
	req->ot = t3_cpl_word(T3_CPL_TID_RELEASE, tid);
	t3_dev_send(dev, skb);
}

/* t3_cm_dev.release_work */
void t3_cpl_release_tids(struct work_struct *work)
{
	struct t3_cm_dev *cm = container_of(work, struct t3_cm_dev, release_work);
	unsigned int tid;

	for_each_set_bit(tid, cm->released_tids, cm->ntids) {
		clear_bit(tid, cm->released_tids);
		t3_send_tid_release(cm->dev, tid);
	}
}

static int t3_send_stream_piece(struct t3_ep *ep, const u8 *data, unsigned int len)
{
	struct t3_wr_tx_data *wr;
	struct sk_buff *skb;
	int ret;

	skb = t3_cpl_alloc(ep, sizeof(*wr) + len, gfp_any());
	if (!skb)
		return -ENOMEM;
	skb->priority = CPL_PRIORITY_DATA;
	wr = t3_cpl_put_wr(skb, sizeof(*wr), T3_WR_OP_OFLD_TX_DATA, ep->tid);
	wr->wr.hi |= cpu_to_be32(T3_WR_COMPL);
	wr->len = cpu_to_be32(len);
	wr->sndseq = cpu_to_be32(ep->snd_nxt);
	wr->param = cpu_to_be32(FIELD_PREP(T3_TX_PORT, ep->smt_idx) |
				FIELD_PREP(T3_TX_SNDBUF, T3_SND_WIN >> 15));
	if (!ep->tx_init_done)
		wr->flags = cpu_to_be32(T3_TX_INIT);
	/* cxgb3 starts the SGL of data that do not fit the work request here. */
	skb_set_transport_header(skb, sizeof(*wr));
	skb_put_data(skb, data, len);

	ret = t3_route_send(ep, skb, t3_cpl_data_arp_failed);
	if (ret)
		return ret;
	ep->tx_init_done = true;
	ep->snd_nxt += len;
	ep->streaming_unacked++;
	return 0;
}

/*
 * Send the next part of the MPA frame in tx_frame.
 * @until: number of bytes of the frame to have sent afterwards
 *
 * Return: 0 or -errno.
 */
int t3_send_stream(struct t3_ep *ep, unsigned int until)
{
	unsigned int len;
	int ret;

	while (ep->tx_sent < until) {
		len = min_t(unsigned int, until - ep->tx_sent, T3_STREAM_PIECE_MAX);
		ret = t3_send_stream_piece(ep, ep->tx_frame + ep->tx_sent, len);
		if (ret)
			return ret;
		ep->tx_sent += len;
	}
	return 0;
}

int t3_send_rx_data_ack(struct t3_ep *ep, unsigned int credits)
{
	struct t3_cpl_rx_data_ack *ack;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*ack), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	ack = t3_cpl_put_forward(skb, sizeof(*ack));
	ack->ot = t3_cpl_word(T3_CPL_RX_DATA_ACK, ep->tid);
	ack->credit_dack = cpu_to_be32(T3_RX_FORCE_ACK | FIELD_PREP(T3_RX_CREDITS, credits));
	return t3_dev_send(ep->dev, skb);
}

/*
 * Ready to receive (RTR): a zero-length read on the offload queue, behind RDMA_INIT.
 * The card holds the QP's own requests until it has sent the read.
 */
int t3_send_rtr_read(struct t3_ep *ep)
{
	struct t3_wr_read *wr;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(*wr), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb->priority = CPL_PRIORITY_DATA;
	wr = t3_cpl_put_wr(skb, sizeof(*wr), T3_WR_OP_READ, ep->tid);
	wr->rdma_op = T3_RDMA_READ_REQ;
	wr->rem_stag = cpu_to_be32(T3_RTR_STAG);
	wr->rem_to = cpu_to_be64(1);
	wr->local_stag = cpu_to_be32(T3_RTR_STAG);
	wr->local_to = cpu_to_be64(1);
	return t3_dev_send(ep->dev, skb);
}

/*
 * The card reports with an async event that it has sent the message to the peer. As the other
 * messages of the teardown it does not wait for memory: reclaim may need this connection.
 */
int t3_send_terminate(struct t3_ep *ep)
{
	struct sk_buff *skb = t3_cpl_alloc(ep, T3_TERMINATE_WR_BYTES, GFP_NOWAIT);
	int ret;

	if (!skb)
		return -ENOMEM;
	skb->priority = CPL_PRIORITY_DATA;
	t3_wr_build_terminate(skb_put(skb, T3_TERMINATE_WR_BYTES), ep->tid, ep->term.layer_type,
			      ep->term.code);
	ret = t3_dev_send(ep->dev, skb);
	if (!ret)
		t3_count(ep->dev, T3_CNT_TERM_SENT);
	return ret;
}

/* Return: NULL only if the card sends more teardown messages than a connection allows. */
static struct sk_buff *t3_cpl_take_spare(struct t3_ep *ep)
{
	struct sk_buff *skb = __skb_dequeue(&ep->spare);

	if (!skb)
		t3_count(ep->dev, T3_CNT_CM_BAD_EVENT);
	return skb;
}

void t3_send_close_con_req(struct t3_ep *ep)
{
	struct sk_buff *skb = t3_cpl_take_spare(ep);
	struct t3_cpl_close_con_req *req;

	if (!skb)
		return;
	skb->priority = CPL_PRIORITY_DATA;
	req = t3_cpl_put_wr(skb, sizeof(*req), T3_WR_OP_OFLD_CLOSE_CON, ep->tid);
	req->ot = t3_cpl_word(T3_CPL_CLOSE_CON_REQ, ep->tid);
	req->snd_nxt = cpu_to_be32(ep->snd_nxt);
	t3_route_send(ep, skb, t3_cpl_data_arp_failed);
}

static struct sk_buff *t3_cpl_build_abort(struct t3_ep *ep, unsigned int wr_op,
					  unsigned int opcode, u8 cmd)
{
	struct sk_buff *skb = t3_cpl_take_spare(ep);
	struct t3_cpl_abort *msg;

	if (!skb)
		return NULL;
	skb->priority = CPL_PRIORITY_DATA;
	msg = t3_cpl_put_wr(skb, sizeof(*msg), wr_op, ep->tid);
	msg->ot = t3_cpl_word(opcode, ep->tid);
	msg->cmd = cmd;
	return skb;
}

/*
 * The request bypasses cxgb3's ARP queue. A message stays in that queue for ever if the
 * neighbour entry is removed without a report, and then the missing reply of the card would
 * be taken for a failure of the device. Messages of this connection in the queue are purged
 * first: the card would receive them after the abort, for a TID that may belong to another
 * connection by then. Without the next hop's address no RST can be sent to the peer, but the
 * card must release the connection.
 */
void t3_send_abort_req(struct t3_ep *ep)
{
	bool reachable = t3_route_purge(ep);
	struct sk_buff *skb = t3_cpl_build_abort(ep, T3_WR_OP_OFLD_ABORT_REQ, T3_CPL_ABORT_REQ,
					  reachable ? T3_ABORT_SEND_RST : T3_ABORT_NO_RST);
	struct t3_cpl_abort *req;

	if (!skb)
		return;
	req = (struct t3_cpl_abort *)skb->data;
	req->snd_nxt = cpu_to_be32(ep->snd_nxt);
	req->no_tx_data = !ep->tx_init_done;
	t3_route_revalidate(ep);
	t3_dev_send(ep->dev, skb);
}

void t3_send_abort_rpl(struct t3_ep *ep)
{
	struct sk_buff *skb = t3_cpl_build_abort(ep, T3_WR_OP_OFLD_ABORT_RPL, T3_CPL_ABORT_RPL,
					  T3_ABORT_NO_RST);

	if (skb)
		t3_dev_send(ep->dev, skb);
}

int t3_cpl_status_to_errno(u8 status)
{
	switch (status) {
	case T3_CPL_ERR_NONE:
		return 0;
	case T3_CPL_ERR_TCAM_FULL:
		return -ENOMEM;
	case T3_CPL_ERR_CONN_RESET:
		return -ECONNREFUSED;
	case T3_CPL_ERR_CONN_EXIST:
		return -EADDRINUSE;
	case T3_CPL_ERR_ARP_MISS:
		return -EHOSTUNREACH;
	case T3_CPL_ERR_CONN_TIMEDOUT:
		return -ETIMEDOUT;
	default:
		return -EIO;
	}
}

/* --- receive, runner --------------------------------------------- */

/* Does not sleep: without memory for a long MPA request it aborts the connection. */
static void t3_cpl_on_establish(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_establish *est = (const void *)skb->data;
	const struct t3_cm_dev *cm = ep->cm;
	u16 tcp_opt = be16_to_cpu(est->tcp_opt);
	unsigned int mtu_idx = FIELD_GET(T3_TCP_OPT_MSS_IDX, tcp_opt);

	ep->snd_nxt = be32_to_cpu(est->snd_isn);
	ep->rcv_nxt = be32_to_cpu(est->rcv_isn);
	ep->emss = (mtu_idx < cm->nmtus ? cm->mtus[mtu_idx] : 576) - 40;
	if (tcp_opt & T3_TCP_OPT_TIMESTAMPS)
		ep->emss -= 12;
	ep->emss = max_t(u16, ep->emss, 128);
	t3_ep_confirm_neigh(ep);
	if (!t3_ep_fsm_apply(ep, EP_EV_ESTABLISHED, 0))
		t3_cm_established(ep);
}

static void t3_cpl_on_act_open_rpl(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_act_open_rpl *rpl = (const void *)skb->data;
	u8 status = rpl->status;

	switch (status) {
	case T3_CPL_ERR_CONN_EXIST:
		/* The TID of a connection that has just closed may not be released yet. */
		if (ep->state == EP_CONNECTING && !ep->open_retried) {
			ep->open_retried = true;
			t3_ep_fsm_apply(ep, EP_EV_OPEN_EXISTS, 0);
			return;
		}
		break;
	case T3_CPL_ERR_TCAM_FULL:
	case T3_CPL_ERR_ARP_MISS:
		break;
	default:
		/* These replies have a TID, which the driver must release. */
		t3_release_tid(ep->dev, be32_to_cpu(rpl->ot) & T3_CPL_ID);
	}
	t3_ep_fsm_apply(ep, EP_EV_OPEN_FAILED, t3_cpl_status_to_errno(status));
}

static void t3_cpl_on_rx_data(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_rx_data *rx = (const void *)skb->data;
	unsigned int avail = sizeof(ep->rx_frame) - ep->rx_len;
	unsigned int len = be16_to_cpu(rx->len);
	u32 seq = be32_to_cpu(rx->seq);
	int ret;

	/*
	 * Credits that are not returned reduce the receive window for the rest of the
	 * connection. A connection that closes needs no window.
	 */
	ret = t3_send_rx_data_ack(ep, len);
	if (ret && (ep->state == EP_MPA_REQ_SENT || ep->state == EP_MPA_REQ_WAIT)) {
		t3_ep_fsm_apply(ep, EP_EV_ABORT, ret);
		return;
	}
	if (len > skb->len - sizeof(*rx) || seq != ep->rcv_nxt) {
		ibdev_dbg(&ep->dev->ibdev, "ep %u: RX_DATA at 0x%x, expected 0x%x, %u of %u bytes\n",
			  ep->id, seq, ep->rcv_nxt, skb->len, len);
		t3_ep_fsm_apply(ep, EP_EV_MPA_BAD, -EPROTO);
		return;
	}
	if (!len)
		return;
	ep->rcv_nxt += len;
	if (ep->state != EP_MPA_REQ_SENT && ep->state != EP_MPA_REQ_WAIT) {
		t3_ep_fsm_apply(ep, EP_EV_MPA_BAD, -EPROTO);
		return;
	}
	/*
	 * rx_frame has one byte more than the longest frame, so mpa_parse() sees a frame
	 * that is too long although the rest of it is cut off.
	 */
	if (skb_copy_bits(skb, sizeof(*rx), ep->rx_frame + ep->rx_len, min(len, avail))) {
		t3_ep_fsm_apply(ep, EP_EV_MPA_BAD, -EPROTO);
		return;
	}
	ep->rx_len += min(len, avail);
	t3_cm_rx_stream(ep);
}

static void t3_cpl_on_wr_ack(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_wr_ack *ack = (const void *)skb->data;
	unsigned int credits = be16_to_cpu(ack->credits);
	unsigned int streaming = min(credits, ep->streaming_unacked);

	if (credits)
		t3_ep_confirm_neigh(ep);
	ep->streaming_unacked -= streaming;
	if (credits == streaming || !ep->init_unacked)
		return;
	WRITE_ONCE(ep->init_unacked, false);
	t3_cm_init_acked(ep);
}

static void t3_cpl_on_peer_close(struct t3_ep *ep, struct sk_buff *skb)
{
	t3_ep_confirm_neigh(ep);
	t3_ep_fsm_apply(ep, EP_EV_PEER_CLOSE, -ECONNRESET);
}

static void t3_cpl_on_close_con_rpl(struct t3_ep *ep, struct sk_buff *skb)
{
	t3_ep_fsm_apply(ep, EP_EV_CLOSE_RPL, 0);
}

static void t3_cpl_on_abort_req(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_abort_rss *req = (const void *)skb->data;

	switch (req->status) {
	case T3_CPL_ERR_RTX_NEG_ADVICE:
	case T3_CPL_ERR_PERSIST_NEG_ADVICE:
		t3_route_revalidate(ep);
		return;
	}
	/* TP and the firmware each report the abort. The reply follows the second report. */
	if (!ep->peer_abort_seen) {
		ep->peer_abort_seen = true;
		return;
	}
	ep->peer_abort_seen = false;
	t3_ep_fsm_apply(ep, EP_EV_PEER_ABORT, -ECONNRESET);
}

static void t3_cpl_on_abort_rpl(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_abort_rss *rpl = (const void *)skb->data;

	/*
	 * ABORT_FAILED: both ends had closed already, and the connection is released. The
	 * card sends this reply once.
	 */
	if (rpl->status != T3_CPL_ERR_ABORT_FAILED && !ep->abort_rpl_seen) {
		ep->abort_rpl_seen = true;
		return;
	}
	ep->abort_rpl_seen = false;
	t3_ep_fsm_apply(ep, ep->peer_abort_seen ? EP_EV_ABORT_RPL_CROSSED : EP_EV_ABORT_RPL, 0);
}

static void t3_cpl_on_ec_status(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_status *ec = (const void *)skb->data;

	if (ec->status)
		t3_ep_fsm_apply(ep, EP_EV_BAD_CLOSE, -ECONNRESET);
}

/*
 * TERMINATE from the peer. An async event reports it to the QP. This message has the
 * details, for the debug log.
 */
static void t3_cpl_on_terminate(struct t3_ep *ep, struct sk_buff *skb)
{
	unsigned int flits = be32_to_cpu((__force __be32)skb->priority) & T3_TERM_FLITS;
	unsigned int len = min_t(unsigned int, 8 * flits, skb->len);
	const struct t3_cpl_rdma_terminate *term = (const void *)skb->data;
	u8 hdr[4];

	if (len < sizeof(*term) + sizeof(hdr) ||
	    skb_copy_bits(skb, sizeof(*term), hdr, sizeof(hdr)))
		return;
	ibdev_dbg(&ep->dev->ibdev, "ep %u: TERMINATE from the peer: layer %u type %u code 0x%02x\n",
		  ep->id, hdr[0] >> 4, hdr[0] & 0xf, hdr[1]);
}

/* The namespace stays: the destroy of the listener's id waits for this, as for an upcall. */
static int t3_cpl_resolve_syn(struct t3_ep *ep)
{
	int ret;

	if (!t3_listener_upcall_begin(ep->listener))
		return -ECONNREFUSED;
	ret = t3_route_resolve(ep);
	if (!ret && t3_tcp_is_connected(ep))
		ret = -EADDRINUSE;
	t3_listener_upcall_end(ep->listener);
	return ret;
}

static void t3_cpl_on_pass_accept_req(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_pass_accept_req *req = (const void *)skb->data;
	u32 tid = be32_to_cpu(req->ot) & T3_CPL_ID;
	bool next_hop;
	int ret;

	/* An event of the device closed the endpoint before its first message. */
	if (ep->state == EP_CLOSED) {
		t3_release_tid(ep->dev, tid);
		return;
	}
	ep->local.sin_family = AF_INET;
	ep->local.sin_port = req->local_port;
	ep->local.sin_addr.s_addr = req->local_ip;
	ep->remote.sin_family = AF_INET;
	ep->remote.sin_port = req->peer_port;
	ep->remote.sin_addr.s_addr = req->peer_ip;
	ep->tos = FIELD_GET(T3_CPL_TOS, be32_to_cpu(req->tos_tid));

	ret = t3_cpl_resolve_syn(ep);
	next_hop = ret == -ENOMEM;
	if (!ret)
		ret = t3_ep_take_tid(ep, tid);
	if (!ret) {
		t3_ep_fsm_apply(ep, EP_EV_SYN, 0);
		if (t3_send_pass_accept_rpl(ep))
			t3_ep_fsm_apply(ep, EP_EV_ARP_FAILED, 0);
		return;
	}

	/* When its TID is released, the card answers the SYN with a RST. */
	ibdev_dbg(&ep->dev->ibdev, "SYN from %pI4 refused: %d\n", &req->peer_ip, ret);
	t3_release_tid(ep->dev, tid);
	if (ret == -ENOMEM)	/* the next SYN can have what the old one gives back */
		t3_listener_drop_old(ep->listener, next_hop);
	t3_ep_fsm_apply(ep, EP_EV_ABORT, 0);
}

/* --- receive, softirq ------------------------------------------------------ */

/*
 * The TID must be in the table before the next message for it, which may be the next one of this
 * poll. So the ATID is exchanged here, also if another thread is the runner.
 */
static void t3_cpl_exchange_atid(struct t3_ep *ep, struct sk_buff *skb)
{
	const struct t3_cpl_establish *est = (const void *)skb->data;

	t3_ep_exchange_atid(ep, be32_to_cpu(est->ot) & T3_CPL_ID);
}

/*
 * Only the ack of RDMA_INIT changes something, and is worth a context switch of its own. The flag
 * is set before RDMA_INIT is sent, so its ack finds the flag.
 */
static bool t3_cpl_wr_ack_is_urgent(const struct t3_ep *ep)
{
	return READ_ONCE(ep->init_unacked);
}

/* In EP_CLOSING the end of this side changes nothing but the state: the peer's FIN follows. */
static bool t3_cpl_close_con_rpl_is_urgent(const struct t3_ep *ep)
{
	return READ_ONCE(ep->state) != EP_CLOSING;
}

/**
 * struct t3_cpl_message - what is done with a message of the card
 * @min_len: a shorter message is dropped
 * @listener: handles a message for a listener, in the softirq
 * @arrive: called in the softirq before the message is in the queue; or NULL
 * @handle: handler, called by the runner
 * @run: the runner; T3_RUN_NOW for a handler that does not sleep
 * @urgent: see t3_ep_receive()
 */
struct t3_cpl_message {
	size_t min_len;
	cxgb3_cpl_handler_func listener;
	void (*arrive)(struct t3_ep *ep, struct sk_buff *skb);
	void (*handle)(struct t3_ep *ep, struct sk_buff *skb);
	enum t3_ep_run run;
	bool (*urgent)(const struct t3_ep *ep);
};

#define LEN(type)		sizeof(struct t3_cpl_##type)
#define LISTENER(type, fn)	{ .min_len = LEN(type), .listener = (fn) }
#define NOW(type, fn)		{ .min_len = LEN(type), .handle = (fn), .run = T3_RUN_NOW }
#define QUEUED(type, fn)	{ .min_len = LEN(type), .handle = (fn), .run = T3_RUN_QUEUED }
#define LATER(type, fn, is_urgent) \
	{ .min_len = LEN(type), .handle = (fn), .run = T3_RUN_LATER, .urgent = (is_urgent) }

static const struct t3_cpl_message t3_cpl_messages[CXGB3_NUM_CPL_CMDS] = {
	[T3_CPL_PASS_OPEN_RPL]	= LISTENER(pass_open_rpl, t3_listener_reply),
	[T3_CPL_CLOSE_LISTSRV_RPL] = LISTENER(status, t3_listener_reply),
	/* The listener makes the endpoint, which handles the message now. */
	[T3_CPL_PASS_ACCEPT_REQ] = { .min_len = LEN(pass_accept_req),
				     .listener = t3_listener_receive_syn,
				     .handle = t3_cpl_on_pass_accept_req, .run = T3_RUN_NOW },
	[T3_CPL_PASS_ESTABLISH]	= NOW(establish, t3_cpl_on_establish),
	[T3_CPL_ACT_ESTABLISH]	= { .min_len = LEN(establish), .arrive = t3_cpl_exchange_atid,
				    .handle = t3_cpl_on_establish, .run = T3_RUN_NOW },
	[T3_CPL_ACT_OPEN_RPL]	= QUEUED(act_open_rpl, t3_cpl_on_act_open_rpl),
	[T3_CPL_RX_DATA]	= QUEUED(rx_data, t3_cpl_on_rx_data),
	[T3_CPL_TX_DMA_ACK]	= LATER(wr_ack, t3_cpl_on_wr_ack, t3_cpl_wr_ack_is_urgent),
	[T3_CPL_RDMA_TERMINATE]	= QUEUED(rdma_terminate, t3_cpl_on_terminate),
	[T3_CPL_RDMA_EC_STATUS]	= QUEUED(status, t3_cpl_on_ec_status),
	[T3_CPL_PEER_CLOSE]	= QUEUED(peer_close, t3_cpl_on_peer_close),
	[T3_CPL_CLOSE_CON_RPL]	= LATER(close_con_rpl, t3_cpl_on_close_con_rpl,
					t3_cpl_close_con_rpl_is_urgent),
	[T3_CPL_ABORT_REQ_RSS]	= QUEUED(abort_rss, t3_cpl_on_abort_req),
	[T3_CPL_ABORT_RPL_RSS]	= QUEUED(abort_rss, t3_cpl_on_abort_rpl),
};

/*
 * Handle a message in the runner.
 * @skb: message, of which t3_cpl_receive() has checked the length; the caller frees it
 */
void t3_cpl_handle(struct t3_ep *ep, struct sk_buff *skb)
{
	u8 opcode = t3_cpl_opcode(skb);

	trace_t3_cpl_in(ep, opcode);
	/* After the close a message has no effect, but a SYN has a TID to release. */
	if (ep->state != EP_CLOSED || opcode == T3_CPL_PASS_ACCEPT_REQ)
		t3_cpl_messages[opcode].handle(ep, skb);
}

/*
 * Softirq. cxgb3 reads ctx from its tables without a lock. RCU keeps the memory until the end
 * of this softirq, but the last reference may be dropped already.
 */
static int t3_cpl_receive(struct t3cdev *tdev, struct sk_buff *skb, void *ctx)
{
	const struct t3_cpl_message *msg = &t3_cpl_messages[t3_cpl_opcode(skb)];
	bool complete = msg->min_len && pskb_may_pull(skb, msg->min_len);
	struct t3_ep *ep = ctx;

	if (msg->listener)
		return complete ? msg->listener(tdev, skb, ctx) : CPL_RET_BUF_DONE;
	if (!t3_ep_tryget(ep))
		return CPL_RET_BUF_DONE;
	trace_t3_cpl_arrival(ep, skb);
	if (complete) {
		if (msg->arrive)
			msg->arrive(ep, skb);
		t3_ep_receive(ep, skb, msg->run, msg->urgent);
	} else {
		t3_count(ep->dev, T3_CNT_CM_BAD_EVENT);
		kfree_skb(skb);
	}
	t3_ep_put(ep);
	return 0;
}

/* cxgb3 drops and logs messages without a function. */
cxgb3_cpl_handler_func t3_cpl_handlers[CXGB3_NUM_CPL_CMDS];

void t3_cpl_init(void)
{
	unsigned int opcode;

	for (opcode = 0; opcode < CXGB3_NUM_CPL_CMDS; opcode++)
		if (t3_cpl_messages[opcode].min_len)
			t3_cpl_handlers[opcode] = t3_cpl_receive;
}
