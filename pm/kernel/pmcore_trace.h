/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints of pmcore: events/pmcore in tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM pmcore

#if !defined(PMCORE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define PMCORE_TRACE_H

#include <linux/tracepoint.h>

/* A request by ioctl: create, destroy, resize, change. */
TRACE_EVENT(pmcore_segment,
	TP_PROTO(unsigned int command, const char *name, u64 bytes, int err),
	TP_ARGS(command, name, bytes, err),
	TP_STRUCT__entry(
		__field(unsigned int, number)
		__string(name, name)
		__field(u64, bytes)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->number = _IOC_NR(command);
		__assign_str(name);
		__entry->bytes = bytes;
		__entry->err = err;
	),
	TP_printk("ioctl=%u name=%s bytes=%llu err=%d", __entry->number,
		  __get_str(name), __entry->bytes, __entry->err)
);

#endif /* PMCORE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE pmcore_trace
#include <trace/define_trace.h>
