// SPDX-License-Identifier: GPL-2.0
/*
 * The control QP: a ring of memory writes, by which the driver writes the TPT and
 * the page lists in adapter memory.
 *
 * The card executes writes in the order of the ring. The last write of a block, and
 * every T3_CTRL_HALF-th one, requests a completion: an async event with the write's
 * counter. Only these ring the doorbell, since the card reads slots until it finds
 * one that is not valid. When programs ring their doorbells faster than the card
 * handles them, it may drop this one. So it is rung again after a report of dropped
 * doorbells, and periodically while a write is waited for.
 *
 * The waits are uninterruptible: memory must not be freed before the card has
 * confirmed that it was entered into or removed from its tables. A card that does
 * not confirm in time is marked as gone (health.c).
 */
#include <linux/dma-mapping.h>
#include <linux/skbuff.h>

#include "card.h"
#include "trace.h"

#define T3_CTRL_SLOTS_LOG2	8
#define T3_CTRL_SLOTS		BIT(T3_CTRL_SLOTS_LOG2)
#define T3_CTRL_HALF		(T3_CTRL_SLOTS / 2)
/* Bytes of the adapter that one writer may fill before others have their turn. */
#define T3_CTRL_PIECE		(T3_CTRL_HALF * T3_BYPASS_MAX_DATA)

/* Any context. Ring for writes that the card has not confirmed: their doorbell may be lost. */
void t3_ctrl_ring_again(struct t3_dev *dev)
{
	struct t3_ctrl *ctrl = &dev->ctrl;

	/* A doorbell too many is harmless, and one too few is made up for by the next call. */
	if (context_unsafe(READ_ONCE(ctrl->producer)) != READ_ONCE(ctrl->consumer))
		t3_ring_doorbell(dev, T3_CTRL_QP_CONTEXT);
}

static void t3_ctrl_poll(struct t3_dev *dev)
{
	t3_card_poll(dev);
	t3_ctrl_ring_again(dev);
}

static bool t3_ctrl_has_slot(const struct t3_ctrl *ctrl)
{
	lockdep_assert_held(&ctrl->mutex);
	return ctrl->producer - READ_ONCE(ctrl->consumer) < T3_CTRL_SLOTS;
}

static bool t3_ctrl_confirmed(const struct t3_ctrl *ctrl, u32 counter)
{
	return (s32)(READ_ONCE(ctrl->consumer) - counter) >= 0;
}

static const char t3_ctrl_no_reply[] = "the card does not write its memory";

/* @repeat: each request writes the first T3_BYPASS_MAX_DATA bytes of the data. */
static int t3_ctrl_post(struct t3_dev *dev, u32 addr, const void *data, u32 len, bool repeat)
{
	struct t3_ctrl *ctrl = &dev->ctrl;
	u32 done, target, n = 0;
	int err = 0;

	if (WARN_ON_ONCE(!IS_ALIGNED(addr, T3_MEM_UNIT) || !len))
		return -EINVAL;

	mutex_lock(&ctrl->mutex);
	for (done = 0; done < len; done += T3_BYPASS_MAX_DATA) {
		u32 chunk = min_t(u32, len - done, T3_BYPASS_MAX_DATA);
		bool last = done + chunk == len;
		bool completion = last || ++n % T3_CTRL_HALF == 0;
		union t3_wr_slot *slot;
		u32 flits;

		err = t3_wait_or_fatal(dev, ctrl->wait, t3_ctrl_has_slot(ctrl), t3_ctrl_poll,
				       t3_ctrl_no_reply);
		if (err)
			break;
		slot = &ctrl->ring[ctrl->producer % T3_CTRL_SLOTS];
		flits = t3_wr_build_mem_write(&slot->bypass, addr + done,
					      data && !repeat ? data + done : data, chunk,
					      ctrl->producer, completion);
		t3_wr_publish(slot, flits, T3_CTRL_QP_CONTEXT,
			      t3_gen(ctrl->producer, T3_CTRL_SLOTS_LOG2));
		WRITE_ONCE(ctrl->producer, ctrl->producer + 1);
		if (completion)
			t3_ring_doorbell(dev, T3_CTRL_QP_CONTEXT);
	}
	target = ctrl->producer;
	mutex_unlock(&ctrl->mutex);
	trace_t3_ctrl_write(dev, addr, len, target);

	if (err)
		return err;
	return t3_wait_or_fatal(dev, ctrl->wait, t3_ctrl_confirmed(ctrl, target), t3_ctrl_poll,
				t3_ctrl_no_reply);
}

int t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len)
{
	return t3_ctrl_post(dev, addr, data, len, false);
}

int t3_ctrl_fill(struct t3_dev *dev, u32 addr, u64 value, u32 len)
{
	__be64 block[T3_BYPASS_MAX_DATA / sizeof(__be64)];
	u32 done, chunk;
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(block); i++)
		block[i] = cpu_to_be64(value);
	for (done = 0; !err && done < len; done += chunk) {
		chunk = min_t(u32, len - done, T3_CTRL_PIECE);
		err = t3_ctrl_post(dev, addr + done, block, chunk, true);
	}
	return err;
}

/* Softirq. An async event of the control QP. */
void t3_ctrl_completed(struct t3_dev *dev, u32 counter)
{
	struct t3_ctrl *ctrl = &dev->ctrl;

	WRITE_ONCE(ctrl->consumer, counter + 1);
	wake_up(&ctrl->wait);
}

/* Softirq. An async event: the card has executed a MODIFY_QP. */
void t3_ctrl_modified(struct t3_dev *dev)
{
	WRITE_ONCE(dev->ctrl.modified, true);
	wake_up(&dev->ctrl.wait);
}

static struct sk_buff *t3_ctrl_context_skb(void)
{
	return alloc_skb(sizeof(struct t3_wr_modify_qp), GFP_KERNEL);
}

static int t3_ctrl_send_context(struct t3_dev *dev, struct sk_buff *skb, u64 ring_dma, u32 slots)
{
	t3_wr_build_ctrl_context(skb_put(skb, sizeof(struct t3_wr_modify_qp)), ring_dma, slots);
	skb->priority = CPL_PRIORITY_CONTROL;
	WRITE_ONCE(dev->ctrl.modified, false);
	return t3_dev_send(dev, skb);
}

/*
 * The control CQ has no memory: without credits and in overflow mode 1 the SGE
 * turns each of its entries into an async event.
 */
static int t3_ctrl_setup_cq(struct t3_dev *dev, u32 size)
{
	struct rdma_cq_setup setup = {
		.id = T3_CTRL_CQ_ID,
		.size = size,
		.ovfl_mode = size ? 1 : 0,
	};

	return t3_dev_context_ctl(dev, RDMA_CQ_SETUP, &setup, true);
}

/* Up to a second; false: no reply. */
static bool t3_ctrl_wait_modified(struct t3_dev *dev)
{
	struct t3_ctrl *ctrl = &dev->ctrl;

	return wait_event_timeout(ctrl->wait, READ_ONCE(ctrl->modified) || t3_dev_gone(dev), HZ) &&
	       READ_ONCE(ctrl->modified);
}

int t3_ctrl_open(struct t3_dev *dev)
{
	struct t3_ctrl *ctrl = &dev->ctrl;
	struct sk_buff *skb;
	int err;

	err = t3_ctrl_setup_cq(dev, 1);
	if (err)
		return err;
	err = -ENOMEM;
	/* Allocated now, since t3_ctrl_close() must not fail: the card would keep a freed ring. */
	ctrl->last_skb = t3_ctrl_context_skb();
	if (!ctrl->last_skb)
		goto err_cq;
	ctrl->ring = dma_alloc_coherent(&dev->pdev->dev, T3_CTRL_SLOTS * T3_WR_SLOT_BYTES,
					&ctrl->dma, GFP_KERNEL);
	if (!ctrl->ring)
		goto err_skb;
	skb = t3_ctrl_context_skb();
	if (!skb)
		goto err_ring;
	err = t3_ctrl_send_context(dev, skb, ctrl->dma, T3_CTRL_SLOTS);
	if (err)
		goto err_ring;
	/*
	 * It is not certain that all firmware replies to this request. The first write
	 * shows whether the card works.
	 */
	ctrl->replies_to_modify = t3_ctrl_wait_modified(dev);
	if (!ctrl->replies_to_modify)
		dev_dbg(&dev->pdev->dev, "no reply to the control QP's context\n");
	if (!t3_dev_gone(dev))
		return 0;
	err = -EIO;
err_ring:
	dma_free_coherent(&dev->pdev->dev, T3_CTRL_SLOTS * T3_WR_SLOT_BYTES,
			  ctrl->ring, ctrl->dma);
err_skb:
	kfree_skb(ctrl->last_skb);
	ctrl->last_skb = NULL;
err_cq:
	t3_ctrl_setup_cq(dev, 0);
	return err;
}

/*
 * The card confirms that it has given up the ring, or it loses its bus mastering. Firmware that
 * does not reply to a MODIFY_QP gets a second: it does not fetch from a ring in which every
 * write is confirmed.
 */
static void t3_ctrl_take_ring(struct t3_dev *dev)
{
	struct t3_ctrl *ctrl = &dev->ctrl;
	struct sk_buff *skb = ctrl->last_skb;

	ctrl->last_skb = NULL;
	if (t3_ctrl_send_context(dev, skb, 0, 0))
		t3_dev_fatal(dev, "the control QP cannot be closed");
	else if (ctrl->replies_to_modify)
		t3_wait_or_fatal(dev, ctrl->wait, READ_ONCE(ctrl->modified), t3_ctrl_poll,
				 "the card does not close its control QP");
	else if (!t3_ctrl_wait_modified(dev))
		dev_dbg(&dev->pdev->dev, "no reply to the end of the control QP\n");
}

void t3_ctrl_close(struct t3_dev *dev)
{
	struct t3_ctrl *ctrl = &dev->ctrl;

	t3_ctrl_take_ring(dev);
	dma_free_coherent(&dev->pdev->dev, T3_CTRL_SLOTS * T3_WR_SLOT_BYTES,
			  ctrl->ring, ctrl->dma);
	t3_ctrl_setup_cq(dev, 0);
}
