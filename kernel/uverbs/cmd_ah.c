// SPDX-License-Identifier: GPL-2.0
/* Address handles, of rxe. iWARP has none. */

#include "ah_attr.h"
#include "rows.h"

void uv_ah_from_qp_dest(struct rdma_ah_attr *to, struct ib_device *dev,
			const struct ib_uverbs_qp_dest *from)
{
	to->type = rdma_ah_find_type(dev, from->port_num);
	if (from->is_global) {
		rdma_ah_set_grh(to, NULL, from->flow_label, from->sgid_index, from->hop_limit,
				from->traffic_class);
		memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
	} else {
		rdma_ah_set_ah_flags(to, 0);
	}
	rdma_ah_set_dlid(to, from->dlid);
	rdma_ah_set_sl(to, from->sl);
	rdma_ah_set_path_bits(to, from->src_path_bits);
	rdma_ah_set_static_rate(to, from->static_rate);
	rdma_ah_set_port_num(to, from->port_num);
	rdma_ah_set_make_grd(to, false);
}

void uv_ah_to_qp_dest(struct ib_uverbs_qp_dest *to, struct rdma_ah_attr *from)
{
	const struct ib_global_route *grh;

	to->dlid = rdma_ah_get_dlid(from);
	to->sl = rdma_ah_get_sl(from);
	to->src_path_bits = rdma_ah_get_path_bits(from);
	to->static_rate = rdma_ah_get_static_rate(from);
	to->is_global = !!(rdma_ah_get_ah_flags(from) & IB_AH_GRH);
	if (to->is_global) {
		grh = rdma_ah_read_grh(from);
		memcpy(to->dgid, grh->dgid.raw, sizeof(to->dgid));
		to->flow_label = grh->flow_label;
		to->sgid_index = grh->sgid_index;
		to->hop_limit = grh->hop_limit;
		to->traffic_class = grh->traffic_class;
	}
	to->port_num = rdma_ah_get_port_num(from);
}

struct uv_create_ah {
	struct ib_uobject *ah, *pd;
	u64 user_handle;
	struct ib_uverbs_ah_attr attr;
};

static int uv_do_create_ah(struct uv_call *call, void *args)
{
	struct uv_create_ah *a = args;
	struct ib_uverbs_qp_dest dest = {
		.flow_label = a->attr.grh.flow_label,
		.dlid = a->attr.dlid,
		.sgid_index = a->attr.grh.sgid_index,
		.hop_limit = a->attr.grh.hop_limit,
		.traffic_class = a->attr.grh.traffic_class,
		.sl = a->attr.sl,
		.src_path_bits = a->attr.src_path_bits,
		.static_rate = a->attr.static_rate,
		.is_global = a->attr.is_global,
		.port_num = a->attr.port_num,
	};
	struct rdma_ah_attr attr = {};
	struct ib_ah *ah;

	if (!rdma_is_port_valid(call->dev, a->attr.port_num))
		return -EINVAL;
	memcpy(dest.dgid, a->attr.grh.dgid, sizeof(dest.dgid));
	uv_ah_from_qp_dest(&attr, call->dev, &dest);
	ah = rdma_create_user_ah(a->pd->object, &attr, uv_udata(call));
	if (IS_ERR(ah))
		return PTR_ERR(ah);
	ah->uobject = a->ah;
	a->ah->user_handle = a->user_handle;
	a->ah->object = ah;
	return 0;
}

static int uv_ah_destroy(struct ib_uobject *uobj, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	return rdma_destroy_ah_user(uobj->object, RDMA_DESTROY_AH_SLEEPABLE,
				    &attrs->driver_udata);
}

const struct uv_type uv_ah = {
	.name = "ah",
	.id = UVERBS_OBJECT_AH,
	.size = UV_SIZE(struct uv_object),
	.destroy = uv_ah_destroy,
};

struct uv_row uv_ah_rows[] __ro_after_init = { {
	.name = "create_ah",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_CREATE_AH),
	.flags = UV_DRIVER_DATA,
	UV_NEEDS_FN2(create_user_ah, destroy_ah),
	.handler = uv_do_create_ah,
	UV_WRITE_FIELDS(uv_create_ah, ib_uverbs_create_ah, ib_uverbs_create_ah_resp,
			W_NEW(ah, ah_handle, ah),
			W_OBJ(pd, UV_READ, pd_handle, pd),
			W_IN(user_handle, user_handle),
			W_IN(attr, attr)),
}, {
	.name = "destroy_ah",
	UV_WRITE_CMD(IB_USER_VERBS_CMD_DESTROY_AH),
	UV_NEEDS_FN2(create_user_ah, destroy_ah),
	UV_WRITE_FIELDS(uv_destroy, ib_uverbs_destroy_ah, uv_none,
			W_OBJ(ah, UV_DESTROY, ah_handle, obj)),
}, {
	.name = "destroy_ah",
	UV_IOCTL_METHOD(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY),
	UV_NEEDS_FN2(create_user_ah, destroy_ah),
	UV_IOCTL_FIELDS(uv_destroy,
			A_OBJ(ah, UV_DESTROY, UVERBS_ATTR_DESTROY_AH_HANDLE, obj)),
}, {
	/* the end */
} };
