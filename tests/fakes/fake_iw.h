/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the device of fake_ib.h needs for iWARP: a net device, and QPs with numbers and references.
 * The connections, and so the creation and destruction of QPs, are the module's.
 */
#ifndef T3_FAKE_IW_H
#define T3_FAKE_IW_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

struct fake_iw_device {
	struct ib_device ib;
	struct net_device *ndev;	/* outlives the device */
	struct xarray qps;		/* by number */
};

struct fake_iw_qp {
	struct ib_qp ib;
	struct kref ref;	/* creation, the manager, a connection, an event */
	struct completion released;
	void *conn;		/* the module's */
};

static inline struct fake_iw_device *to_fake_iw(struct ib_device *ib)
{
	return container_of(ib, struct fake_iw_device, ib);
}

static inline struct fake_iw_qp *to_fake_qp(struct ib_qp *qp)
{
	return container_of(qp, struct fake_iw_qp, ib);
}

static inline void fake_qp_init(struct fake_iw_qp *qp)
{
	kref_init(&qp->ref);
	init_completion(&qp->released);
}

static inline void fake_qp_released(struct kref *ref)
{
	complete(&container_of(ref, struct fake_iw_qp, ref)->released);
}

static inline void fake_qp_put(struct fake_iw_qp *qp)
{
	kref_put(&qp->ref, fake_qp_released);
}

/* With a reference; NULL if it is being destroyed. */
static inline struct fake_iw_qp *fake_qp_find(struct fake_iw_device *dev, u32 number)
{
	struct fake_iw_qp *qp;

	xa_lock(&dev->qps);
	qp = xa_load(&dev->qps, number);
	if (qp && !kref_get_unless_zero(&qp->ref))
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

/* The module's: ends the connection of a QP, if it has one. */
void fake_qp_disconnect(struct fake_iw_qp *qp);

static inline void fake_qp_destroy(struct fake_iw_qp *qp)
{
	xa_erase(&to_fake_iw(qp->ib.device)->qps, qp->ib.qp_num);
	fake_qp_disconnect(qp);
	fake_qp_put(qp);
	/* A connect that found the QP before xa_erase() may have attached a connection since. */
	while (!wait_for_completion_timeout(&qp->released, 1))
		fake_qp_disconnect(qp);
}

static inline void fake_iw_add_ref(struct ib_qp *qp)
{
	kref_get(&to_fake_qp(qp)->ref);
}

static inline void fake_iw_rem_ref(struct ib_qp *qp)
{
	fake_qp_put(to_fake_qp(qp));
}

/* As other providers' it takes no reference. */
static inline struct ib_qp *fake_iw_get_qp(struct ib_device *ib, int number)
{
	struct fake_iw_qp *qp = xa_load(&to_fake_iw(ib)->qps, number);

	return qp ? &qp->ib : NULL;
}

static inline int fake_iw_port_immutable(struct ib_device *ib, u32 port,
					 struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = 1;
	return 0;
}

/* The MAC address, by which a connection manager finds the device. */
static inline int fake_iw_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	*gid = (union ib_gid){};
	memcpy(gid->raw, to_fake_iw(ib)->ndev->dev_addr, ETH_ALEN);
	return 0;
}

static const struct ib_device_ops __maybe_unused fake_iw_ops = {
	.get_port_immutable = fake_iw_port_immutable,
	.query_gid = fake_iw_query_gid,
	.iw_add_ref = fake_iw_add_ref,
	.iw_rem_ref = fake_iw_rem_ref,
	.iw_get_qp = fake_iw_get_qp,
	INIT_RDMA_OBJ_SIZE(ib_qp, fake_iw_qp, ib),
};

/* Before fake_ib_register(); ndev is set. */
static inline int fake_iw_init(struct fake_iw_device *dev)
{
	struct net_device *ndev = dev->ndev;

	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	/* librdmacm ignores a device without a GUID. */
	memcpy(&dev->ib.node_guid, ndev->dev_addr, ETH_ALEN);
	strscpy(dev->ib.iw_ifname, ndev->name, sizeof(dev->ib.iw_ifname));
	ib_set_device_ops(&dev->ib, &fake_iw_ops);
	dev->ib.phys_port_cnt = 1;	/* which ib_device_set_netdev() needs */
	return ib_device_set_netdev(&dev->ib, ndev, 1);
}

#endif
