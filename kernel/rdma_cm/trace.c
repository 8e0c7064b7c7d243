// SPDX-License-Identifier: GPL-2.0
/* The trace points. */
#include "rdma_cm.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
