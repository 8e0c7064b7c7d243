/* SPDX-License-Identifier: GPL-2.0 */
/* For sockets that hold a TCP port of the host, and are used for nothing else. */
#ifndef T3_TCP_PORT_H
#define T3_TCP_PORT_H

#include <linux/in.h>
#include <linux/net.h>
#include <linux/version.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/sock.h>

/* kernel_bind() has a parameter of its own type for addresses since 6.19. */
static inline int t3_kernel_bind(struct socket *sock, struct sockaddr *addr, int len)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
	return kernel_bind(sock, addr, len);
#else
	return kernel_bind(sock, (struct sockaddr_unsized *)addr, len);
#endif
}

/*
 * No other socket can bind the port of a bound socket from now on, or listen on it. As at a listen
 * of TCP, but this socket does not listen, so that the port must be marked here: fastreuse lets TCP
 * skip the search for conflicts. While a bucket has an owner TCP only clears it.
 */
static inline void t3_tcp_set_exclusive(struct sock *sk)
{
	lock_sock(sk);
	sk->sk_reuse = SK_NO_REUSE;
	WRITE_ONCE(inet_csk(sk)->icsk_bind_hash->fastreuse, 0);
	release_sock(sk);
}

/*
 * With rcu_read_lock(). The host's connection of a four-tuple, also one that opens or has ended
 * (TIME_WAIT), with a reference for sock_gen_put(); or NULL.
 */
static inline struct sock *t3_tcp_connection(struct net *net, const struct sockaddr_in *local,
					     const struct sockaddr_in *remote, int dif, int sdif)
{
	return __inet_lookup_established(net,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
					 net->ipv4.tcp_death_row.hashinfo,
#endif
					 remote->sin_addr.s_addr, remote->sin_port,
					 local->sin_addr.s_addr, ntohs(local->sin_port), dif, sdif);
}

#endif
