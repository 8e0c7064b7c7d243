/* SPDX-License-Identifier: GPL-2.0 */
/* Which processes are one owner of QPs. */
#ifndef T3_CRED_H
#define T3_CRED_H

#include <linux/capability.h>
#include <linux/cred.h>

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

#endif
