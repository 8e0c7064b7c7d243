/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a program did on the data path. Counted only if CXGB3_COUNTERS is 1 in its environment: then the
 * context gets other data path functions, so that counting costs nothing if it is off.
 *
 * The counters of a context are stored in a file of their own in shared memory (CXGB3_COUNTERS_PATH). Any process
 * of the same user may map it and read while the program runs; tools/cxgb3-counters prints it. Native byte order.
 */
#ifndef CXGB3_COUNTERS_H
#define CXGB3_COUNTERS_H

#include <stdint.h>

#define CXGB3_COUNTERS_PATH "/dev/shm/cxgb3-counters.%d.%s.%u" /* process, device, number of the context */
#define CXGB3_COUNTERS_MAGIC 0x63336378u
#define CXGB3_COUNTERS_VERSION 1

struct cxgb3_counters {
	uint32_t magic;
	uint32_t version;
	uint64_t post_send;	 /* calls, and ibv_wr_complete() */
	uint64_t send_requests;	 /* requests that they posted */
	uint64_t post_recv;
	uint64_t recv_requests;
	uint64_t doorbells;
	uint64_t poll;		 /* calls, and ibv_start_poll() and ibv_next_poll() */
	uint64_t empty_poll;	 /* those that found nothing */
	uint64_t completions;
	uint64_t arm;		 /* requests for an event */
	uint64_t arm_system_calls;
};

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: nothing is counted. */
struct cxgb3_counters *cxgb3_map_counters(const char *device);
void cxgb3_unmap_counters(struct cxgb3_counters *counters);

#ifdef __cplusplus
}
#endif

#endif /* CXGB3_COUNTERS_H */
