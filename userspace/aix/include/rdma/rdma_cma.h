/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* librdmacm's own header, and AIX's rules over it. */
#ifndef OFEDAIX_RDMA_CMA_H
#define OFEDAIX_RDMA_CMA_H

#include_next <rdma/rdma_cma.h>
#include <ofedaix_cm.h>
#include <rdma/verbs.h>

#endif
