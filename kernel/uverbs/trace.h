/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM t3_uverbs

#if !defined(T3_UVERBS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define T3_UVERBS_TRACE_H

#include <linux/tracepoint.h>
#include <linux/version.h>

#include "table.h"

/* Since 6.10 __assign_str() has no source argument. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define T3_ASSIGN_STR(dst, src) __assign_str(dst, src)
#else
#define T3_ASSIGN_STR(dst, src) __assign_str(dst)
#endif

/* The end of a command. For INVOKE_WRITE the inner command is reported first, then the ioctl. */
TRACE_EVENT(t3_uverbs_command,
	    TP_PROTO(const char *device, const struct uv_row *row, int err),
	TP_ARGS(device, row, err),
	TP_STRUCT__entry(
		__string(device, device)
		__string(command, row->name)
		__field(u8, abi)
		__field(int, err)
	),
	TP_fast_assign(
		T3_ASSIGN_STR(device, device);
		T3_ASSIGN_STR(command, row->name);
		__entry->abi = row->abi;
		__entry->err = err;
	),
	TP_printk("%s %s by %s: %d", __get_str(device), __get_str(command),
		  __print_symbolic(__entry->abi,
				   { UV_ABI_WRITE, "write" },
				   { UV_ABI_WRITE_EX, "extended write" },
				   { UV_ABI_IOCTL, "ioctl" }),
		  __entry->err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
