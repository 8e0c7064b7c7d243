/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_SLAB_H
#define T3_SHIM_LINUX_SLAB_H

#include <stdlib.h>

#include <linux/errno.h>

#define kzalloc(size, gfp) calloc(1, size)
#define kfree(memory) free(memory)
#define ERR_PTR(error) ((void*)(long)(error))

#endif
