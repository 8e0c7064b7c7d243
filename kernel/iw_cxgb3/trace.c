// SPDX-License-Identifier: GPL-2.0
/* The trace points of the verbs side; those of the connection manager are made in cm.c. */
#define CREATE_TRACE_POINTS
#include "trace.h"
