// SPDX-License-Identifier: GPL-2.0
/*
 * RoCE: what an id has for it, and the head of the private data of a request. Private data of a REQ
 * and a SIDR REQ begin with the IP addresses of the connection (annex A11 of the IB architecture);
 * a service id is made of port space and port.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/rdma_cm_ib.h>

#include "rdma_cm.h"
#include "roce.h"

#define ROCE_PSN_MASK		0xffffff

/* The head of the private data of a request. */
struct cm_ip_header {
	u8 version;		/* 0 */
	u8 ip_version;		/* in the upper 4 bits */
	__be16 port;		/* of the source */
	struct in6_addr src;	/* an IPv4 address is in the last 4 bytes */
	struct in6_addr dst;
} __packed;

static_assert(sizeof(struct cm_ip_header) == 36);

int cm_roce_alloc(struct cm_id *id)
{
	id->roce = cm_zalloc_nowait(id->memcg, sizeof(*id->roce));
	if (!id->roce)
		return -ENOMEM;
	id->roce->psn = get_random_u32() & ROCE_PSN_MASK;
	return 0;
}

int cm_roce_set_qkey(struct cm_id *id, u32 qkey)
{
	struct cm_roce *roce = id->roce;

	if (id->base.id.ps == RDMA_PS_IPOIB)
		return -EINVAL;
	if (roce->qkey)
		return qkey && qkey != roce->qkey ? -EINVAL : 0;
	roce->qkey = qkey ? qkey : RDMA_UDP_QKEY;
	return 0;
}

/* The Q_Key of an id's datagrams. */
int cm_roce_qkey(struct cm_id *id, u32 *qkey)
{
	int ret = cm_roce_set_qkey(id, 0);

	*qkey = id->roce->qkey;
	return ret;
}

__be64 cm_roce_service_id(const struct cm_id *id, const struct sockaddr *addr)
{
	return cpu_to_be64(((u64)id->base.id.ps << 16) + cm_addr_port(addr));
}

static void cm_ip_header_set(struct in6_addr *to, const struct sockaddr *from)
{
	if (from->sa_family == AF_INET)
		to->s6_addr32[3] = ((const struct sockaddr_in *)from)->sin_addr.s_addr;
	else
		*to = ((const struct sockaddr_in6 *)from)->sin6_addr;
}

static void cm_ip_header_get(struct sockaddr_in6 *sin6, bool ipv4, const struct in6_addr *from,
			     u16 port, int ifindex)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)sin6;

	memset(sin6, 0, sizeof(*sin6));
	if (ipv4) {
		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = from->s6_addr32[3];
	} else {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = *from;
		if (ipv6_addr_type(from) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = ifindex;
	}
	cm_addr_set_port((struct sockaddr *)sin6, port);
}

/* Private data of a request: the header, then the data of the consumer. The caller frees it. */
void *cm_roce_request_data(struct cm_id *id, const struct rdma_conn_param *param,
			   unsigned int limit, u8 *len)
{
	struct cm_ip_header *header;
	unsigned int size = sizeof(*header) + param->private_data_len;

	if (size > limit)
		return ERR_PTR(-EINVAL);
	header = kzalloc(size, GFP_KERNEL);
	if (!header)
		return ERR_PTR(-ENOMEM);
	header->ip_version = (cm_src(id)->sa_family == AF_INET ? 4 : 6) << 4;
	header->port = cpu_to_be16(cm_addr_port(cm_src(id)));
	cm_ip_header_set(&header->src, cm_src(id));
	cm_ip_header_set(&header->dst, cm_dst(id));
	if (param->private_data_len)
		memcpy(header + 1, param->private_data, param->private_data_len);
	*len = size;
	return header;
}

void cm_roce_save_data(struct cm_peer_params *peer, const void *data, unsigned int len)
{
	peer->len = len;
	memcpy(peer->data, data, len);
}

/* Return: false if the header is malformed. */
bool cm_roce_parse_request(struct cm_peer_params *peer, const void *data, unsigned int len,
			   __be64 service_id, int ifindex)
{
	const struct cm_ip_header *header = data;
	bool ipv4 = header->ip_version >> 4 == 4;

	if (header->version || (!ipv4 && header->ip_version >> 4 != 6))
		return false;
	cm_ip_header_get(&peer->remote, ipv4, &header->src, be16_to_cpu(header->port), ifindex);
	cm_ip_header_get(&peer->local, ipv4, &header->dst, be64_to_cpu(service_id), ifindex);
	cm_roce_save_data(peer, header + 1, len - sizeof(*header));
	return true;
}
