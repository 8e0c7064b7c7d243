// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory that the card, the kernel and the program share. */
#include "userspace/providers/cxgb3/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

size_t cxgb3_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

size_t cxgb3_whole_pages(size_t bytes)
{
	return (bytes + cxgb3_page_size() - 1) & ~(cxgb3_page_size() - 1);
}

void *cxgb3_map_ring(int fd, size_t bytes, uint64_t key)
{
	void *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)key);

	if (ring == MAP_FAILED)
		return NULL;
	if (madvise(ring, bytes, MADV_DONTFORK)) {
		munmap(ring, bytes);
		return NULL;
	}
	return ring;
}
