// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* glue.c with its table in the open, for glue_test.cc. */
#include "userspace/providers/cxgb3/glue.c"

const struct verbs_context_ops *glue_ops(void)
{
	return &cxgb3_context_ops;
}
