// SPDX-License-Identifier: GPL-2.0
/*
 * Fakes without an effect, linked to each suite of this folder. They are weak: a suite with the
 * real function or with a fake of its own uses that one.
 */
#include "../suite.h"
#include "device.h"

#define EMPTY(function)			void __weak function { }
#define FIXED(type, function, result)	type __weak function { return result; }

struct cxgb3_client t3_client __weak;

EMPTY(t3_race_point(const char *name))

/* The NIC driver. */

FIXED(int, cxgb3_alloc_atid(struct t3cdev *dev, struct cxgb3_client *client, void *ctx), -1)
FIXED(void *, cxgb3_free_atid(struct t3cdev *dev, int atid), NULL)
EMPTY(cxgb3_insert_tid(struct t3cdev *dev, struct cxgb3_client *client, void *ctx, u32 tid))
EMPTY(cxgb3_remove_tid(struct t3cdev *dev, void *ctx, unsigned int tid))

/* The device and its card. */

FIXED(int, t3_async_event(struct t3cdev *tdev, struct sk_buff *skb), CPL_RET_BUF_DONE)
EMPTY(t3_card_poll(struct t3_dev *dev))
FIXED(unsigned long, t3_card_timeout(void), 60 * HZ)
EMPTY(t3_ctrl_completed(struct t3_dev *dev, u32 counter))
EMPTY(t3_ctrl_modified(struct t3_dev *dev))
EMPTY(t3_ctrl_ring_again(struct t3_dev *dev))
FIXED(int, t3_ctrl_write(struct t3_dev *dev, u32 addr, const void *data, u32 len), -EIO)

bool __weak t3_dev_enter(struct t3_dev *dev)
{
	rcu_read_lock();
	if (!t3_dev_gone(dev))
		return true;
	rcu_read_unlock();
	return false;
}

EMPTY(t3_dev_fatal(struct t3_dev *dev, const char *what))
EMPTY(t3_doorbell_init(struct t3_qp *qp))
EMPTY(t3_doorbell_work(struct work_struct *work))
EMPTY(t3_doorbells_off(struct t3_dev *dev))
EMPTY(t3_ports_init(struct t3_dev *dev))

/* Resources. */

FIXED(int, t3_dma_alloc(struct t3_dev *dev, struct t3_dma *mem, size_t size, gfp_t gfp), -ENOMEM)
EMPTY(t3_dma_free(struct t3_dev *dev, struct t3_dma *mem))
FIXED(int, t3_id_get(struct t3_dev *dev, struct t3_ids *ids, struct t3_quota *quota), -ENOMEM)
EMPTY(t3_id_put(struct t3_ids *ids, struct t3_quota *quota, u32 id))
EMPTY(t3_pbl_free(struct t3_dev *dev, struct t3_quota *quota, u32 addr, u32 bytes))

struct t3_mmap * __weak t3_mmap_insert(struct t3_ucontext *uc, const struct t3_mmap *of, size_t len)
{
	return NULL;
}

/* Queues and memory regions. */

FIXED(struct t3_cq *, t3_cq_find(struct t3_dev *dev, u32 id), NULL)
EMPTY(t3_cq_put(struct t3_cq *cq))
EMPTY(t3_cq_written(struct t3_cq *cq))
FIXED(int, t3_mr_resolve(struct t3_dev *dev, struct t3_host_sge *sge, u8 *code, u32 *pbl), -EINVAL)
FIXED(bool, t3_qp_allows_remote_read(struct t3_qp *qp), true)
EMPTY(t3_qp_async_error(struct t3_qp *qp, const struct t3_cqe *cqe, enum t3_ae_class class))
EMPTY(t3_qp_disconnected(struct t3_qp *qp))
FIXED(struct t3_qp *, t3_qp_find(struct t3_dev *dev, u32 id), NULL)
FIXED(bool, t3_qp_in_state(struct t3_qp *qp, enum ib_qp_state state), false)
FIXED(struct t3_qp *, t3_qp_next(struct t3_dev *dev, unsigned long *id, unsigned long last), NULL)
FIXED(bool, t3_qp_permits(const struct t3_qp *qp, const struct iw_cm_id *cm_id), true)
EMPTY(t3_qp_put(struct t3_qp *qp))
FIXED(int, t3_qp_fsm_apply(struct t3_qp *qp, enum t3_qp_event ev), 0)
FIXED(bool, t3_qp_reserve_rtr_entry(struct t3_qp *qp), true)
EMPTY(t3_qp_set_status(struct t3_qp *qp, u64 set, u64 clear))
FIXED(bool, t3_rq_has_completion(const struct t3_wq *wq), false)
FIXED(bool, t3_rq_next_completion(struct t3_wq *wq, struct t3_completion *out), false)
FIXED(bool, t3_sq_has_completion(const struct t3_wq *wq), false)
FIXED(bool, t3_sq_next_completion(struct t3_wq *wq, struct t3_completion *out), false)
FIXED(enum ib_wc_status, t3_wc_status(u8 status), IB_WC_GENERAL_ERR)
FIXED(enum t3_cqe_result, t3_wq_apply(struct t3_wq *wq, const struct t3_cqe *cqe), T3_CQE_STALE)
EMPTY(t3_wq_flush(struct t3_wq *wq))

/* Connections. */

FIXED(int, t3_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param), -ENODEV)
FIXED(int, t3_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param), -ENODEV)
FIXED(int, t3_cm_create_listen(struct iw_cm_id *cm_id, int backlog), -ENODEV)
EMPTY(t3_cm_debugfs_add(struct t3_cm_dev *cm))
EMPTY(t3_cm_debugfs_remove(struct t3_cm_dev *cm))
FIXED(int, t3_cm_destroy_listen(struct iw_cm_id *cm_id), -ENODEV)
EMPTY(t3_cm_established(struct t3_ep *ep))
FIXED(int, t3_cm_fill_res_entry(struct sk_buff *msg, struct rdma_cm_id *cm_id), 0)
EMPTY(t3_cm_init_acked(struct t3_ep *ep))
FIXED(int, t3_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 len), -ENODEV)
EMPTY(t3_cm_report_end(struct t3_ep *ep, enum ep_event event, int status))
EMPTY(t3_cm_report_peer_close(struct t3_ep *ep))
EMPTY(t3_cm_run_call(struct t3_ep *ep))
EMPTY(t3_cm_rx_stream(struct t3_ep *ep))
FIXED(unsigned long, t3_cm_timeout(void), 60 * HZ)
EMPTY(t3_cpl_init(void))
EMPTY(t3_cpl_release_tids(struct work_struct *work))
FIXED(int, t3_cpl_reserve(struct t3_ep *ep), 0)
EMPTY(t3_ep_confirm_neigh(struct t3_ep *ep))
EMPTY(t3_ep_disconnect(struct t3_ep *ep, bool abrupt, bool may_sleep))
EMPTY(t3_ep_get(struct t3_ep *ep))
EMPTY(t3_ep_put(struct t3_ep *ep))
FIXED(int, t3_listener_receive_syn(struct t3cdev *tdev, struct sk_buff *skb, void *ctx), 0)
EMPTY(t3_listener_remove_child(struct t3_ep *ep))
EMPTY(t3_listener_drop_old(struct t3_listener *l, bool next_hop))
FIXED(int, t3_listener_reply(struct t3cdev *tdev, struct sk_buff *skb, void *ctx), 0)
FIXED(bool, t3_listener_upcall_begin(struct t3_listener *l), true)
EMPTY(t3_listener_upcall_end(struct t3_listener *l))
EMPTY(t3_listener_wake_all(struct t3_cm_dev *cm))
FIXED(bool, t3_route_conflicts(struct t3_dev *dev, const struct iw_cm_id *id, __be32 addr), false)
FIXED(bool, t3_route_has_address(const struct net_device *ndev, __be32 addr), true)
FIXED(bool, t3_route_keeps_address(const struct t3_ep *ep), true)
FIXED(bool, t3_route_is_valid(struct t3_ep *ep), true)
FIXED(unsigned int, t3_route_l2t_index(struct t3_ep *ep), ep->l2t->idx)
FIXED(bool, t3_route_purge(struct t3_ep *ep), true)
EMPTY(t3_route_release(struct t3_ep *ep))
FIXED(bool, t3_route_is_alone(const struct t3_ep *ep), false)
EMPTY(t3_route_revalidate(struct t3_ep *ep))
FIXED(bool, t3_route_take_back(struct t3_ep *ep), false)
FIXED(int, t3_send_terminate(struct t3_ep *ep), 0)
FIXED(bool, t3_tcp_is_connected(const struct t3_ep *ep), false)
EMPTY(t3_tcp_port_release(struct t3_tcp_port *held))
EMPTY(t3_tcp_ports_exit(void))
FIXED(int, t3_tcp_ports_init(void), 0)
EMPTY(t3_tids_close(struct t3_cm_dev *cm))
FIXED(int, t3_tids_open(struct t3_cm_dev *cm, work_func_t release), 0)
