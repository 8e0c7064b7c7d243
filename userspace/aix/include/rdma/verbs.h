/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs by AIX's name for their header. */
#ifndef OFEDAIX_RDMA_VERBS_H
#define OFEDAIX_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <ofedaix_verbs.h>

#endif
