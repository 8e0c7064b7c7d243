// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The kernel's macros min() and ilog2() stay out of C++. */
#include "kernel/iw_cxgb3/card/doorbell_page.h"

u32 qps_per_doorbell_page(u32 bar_bytes);
u64 doorbell_page(u32 qp_id, u32 qps_per_page);

u32 qps_per_doorbell_page(u32 bar_bytes) {
    return t3_qps_per_doorbell_page(bar_bytes);
}

u64 doorbell_page(u32 qp_id, u32 qps_per_page) {
    return t3_doorbell_page(qp_id, qps_per_page);
}
