// SPDX-License-Identifier: GPL-2.0
/* The trace points of both sides. */
#define CREATE_TRACE_POINTS
#include "trace.h"
#include "trace_cm.h"
