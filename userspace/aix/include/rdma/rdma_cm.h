/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What AIX's page of rdma_resolve_addr() calls <rdma/rdma_cma.h>. */
#include <rdma/rdma_cma.h>
