// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The file of counters that a context has if the program requests it. */
#include "userspace/providers/cxgb3/counters.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file of this name is left from an earlier process of the same id. Its counts do not belong to this process. */
static int create_file(const char *device)
{
	static unsigned int contexts;
	const unsigned int context = __atomic_fetch_add(&contexts, 1, __ATOMIC_RELAXED);
	char path[128];

	snprintf(path, sizeof(path), CXGB3_COUNTERS_PATH, (int)getpid(), device, context);
	unlink(path);
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

struct cxgb3_counters *cxgb3_map_counters(const char *device)
{
	struct cxgb3_counters *counters = MAP_FAILED;
	int fd = create_file(device);

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, sizeof(*counters)))
		counters = mmap(NULL, sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (counters == MAP_FAILED)
		return NULL;
	counters->version = CXGB3_COUNTERS_VERSION;
	counters->magic = CXGB3_COUNTERS_MAGIC;
	return counters;
}

/* The file stays, so that it can be read after the program has ended. */
void cxgb3_unmap_counters(struct cxgb3_counters *counters)
{
	if (counters)
		munmap(counters, sizeof(*counters));
}
