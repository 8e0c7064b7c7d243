/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef T3_SHIM_LINUX_BITFIELD_H
#define T3_SHIM_LINUX_BITFIELD_H

#define FIELD_PREP(mask, value) (((typeof(mask))(value) << __builtin_ctzll(mask)) & (mask))
#define FIELD_GET(mask, word) (((word) & (mask)) >> __builtin_ctzll(mask))

#endif
