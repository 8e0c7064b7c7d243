/* SPDX-License-Identifier: GPL-2.0 */
/* Which processes are one owner of QPs, and which are one user. */
#ifndef T3_CRED_H
#define T3_CRED_H

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/highuid.h>
#include <linux/user_namespace.h>

/*
 * The conditions under which the caller may trace a process with the owner's credentials. All
 * ids of the owner count, so that a user cannot connect the QPs of a set-uid program that he
 * started. The caller's real ids count, so that he cannot make such a program do it.
 */
static inline bool t3_may_act_as(const struct cred *caller, const struct cred *owner)
{
	return uid_eq(caller->uid, owner->uid) && uid_eq(caller->uid, owner->euid) &&
	       uid_eq(caller->uid, owner->suid) && gid_eq(caller->gid, owner->gid) &&
	       gid_eq(caller->gid, owner->egid) && gid_eq(caller->gid, owner->sgid) &&
	       caller->user_ns == owner->user_ns &&
	       cap_issubset(owner->cap_permitted, caller->cap_permitted);
}

/*
 * A user has the ids of all namespaces below its own: subordinate ids, and those of namespaces that
 * it makes. They all count as the user who made the outermost namespace. For a namespace of root it
 * is the id that is root inside, so that each container has a share.
 *
 * The sandbox of a set-uid program (bubblewrap) is a namespace of root, too, but its processes are
 * those of the user who started it, and have that user's id. No id is root inside, or the one that
 * stands for ids without a mapping. If the root of the host is root inside, too, the ids are those
 * of the host (PrivateUsers= of systemd).
 */
static inline kuid_t t3_cred_user(const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;
	kuid_t inside;

	if (ns == &init_user_ns)
		return cred->uid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	inside = make_kuid(ns, 0);
	if (!uid_valid(inside) || uid_eq(inside, KUIDT_INIT(overflowuid)) ||
	    uid_eq(inside, GLOBAL_ROOT_UID))
		return cred->uid;
	return inside;
}

#endif
