/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The enumerations of ib_core that pure files speak of. The values are part of the verbs ABI. */
#ifndef T3_SHIM_RDMA_IB_VERBS_H
#define T3_SHIM_RDMA_IB_VERBS_H

#include <linux/types.h>
#include <asm/byteorder.h>

enum ib_wc_status {
    IB_WC_SUCCESS = 0,
    IB_WC_LOC_LEN_ERR = 1,
    IB_WC_LOC_PROT_ERR = 4,
    IB_WC_WR_FLUSH_ERR = 5,
    IB_WC_MW_BIND_ERR = 6,
    IB_WC_LOC_ACCESS_ERR = 8,
    IB_WC_FATAL_ERR = 19,
    IB_WC_GENERAL_ERR = 21,
};

enum ib_access_flags {
    IB_ACCESS_LOCAL_WRITE = 1 << 0,
    IB_ACCESS_REMOTE_WRITE = 1 << 1,
    IB_ACCESS_REMOTE_READ = 1 << 2,
    IB_ACCESS_MW_BIND = 1 << 4,
};

#endif
