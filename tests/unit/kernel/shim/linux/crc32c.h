/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SHIM_LINUX_CRC32C_H
#define SHIM_LINUX_CRC32C_H

#include <linux/types.h>

/* As the kernel's: neither end is complemented. */
static inline u32 crc32c(u32 crc, const void *data, size_t length)
{
	const u8 *byte = (const u8 *)data;
	int bit;

	for (; length; length--) {
		crc ^= *byte++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

#endif /* SHIM_LINUX_CRC32C_H */
