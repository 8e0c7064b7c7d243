/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The uapi header of this name is included by others, so it must stay reachable. */
#include_next <asm/byteorder.h>
#ifndef T3_SHIM_ASM_BYTEORDER_H
#define T3_SHIM_ASM_BYTEORDER_H

#include <endian.h>

#define cpu_to_be16(x) htobe16(x)
#define cpu_to_be32(x) htobe32(x)
#define cpu_to_be64(x) htobe64(x)
#define be16_to_cpu(x) be16toh(x)
#define be32_to_cpu(x) be32toh(x)
#define be64_to_cpu(x) be64toh(x)

#endif
