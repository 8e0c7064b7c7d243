/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets, where 6.1, 6.12 and 7.2 differ. */
#ifndef T3_RDMA_CM_COMPAT_NET_H
#define T3_RDMA_CM_COMPAT_NET_H

#include <linux/net.h>
#include <linux/version.h>

/* kernel_bind: an address type of its own since 6.19. */
static inline int t3_kernel_bind(struct socket *sock, struct sockaddr *addr, int len)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
	return kernel_bind(sock, addr, len);
#else
	return kernel_bind(sock, (struct sockaddr_unsized *)addr, len);
#endif
}

#endif
