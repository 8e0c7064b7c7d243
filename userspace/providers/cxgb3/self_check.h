/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CXGB3_SELF_CHECK_H
#define CXGB3_SELF_CHECK_H

#include "userspace/providers/cxgb3/verbs_abi.h"

/*
 * Compares the declarations of verbs_abi.h with the libibverbs that this process runs. Returns NULL if they
 * agree, else the name of what does not.
 */
const char *cxgb3_self_check(const struct verbs_context_ops *ops);

#endif /* CXGB3_SELF_CHECK_H */
