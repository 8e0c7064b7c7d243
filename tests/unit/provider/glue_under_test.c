// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* glue.c with its tables in the open, for glue_test.cc. */
#include "userspace/providers/cxgb3/glue.c"

const struct verbs_context_ops *glue_ops(void)
{
	return &cxgb3_context_ops;
}

const struct verbs_device_ops *glue_device_ops(void)
{
	return &cxgb3_device_ops;
}
