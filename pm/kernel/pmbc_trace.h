/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints of pmbc: events/pmbc in tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM pmbc

#if !defined(PMBC_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define PMBC_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(pmbc_transaction,
	TP_PROTO(const char *name, u32 count, int err),
	TP_ARGS(name, count, err),
	TP_STRUCT__entry(
		__string(name, name)
		__field(u32, count)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->count = count;
		__entry->err = err;
	),
	TP_printk("name=%s blocks=%u err=%d", __get_str(name), __entry->count,
		  __entry->err)
);

/* A block was read that is not what was written. */
TRACE_EVENT(pmbc_damage,
	TP_PROTO(const char *name, u64 block),
	TP_ARGS(name, block),
	TP_STRUCT__entry(
		__string(name, name)
		__field(u64, block)
	),
	TP_fast_assign(
		__assign_str(name);
		__entry->block = block;
	),
	TP_printk("name=%s block=%llu", __get_str(name), __entry->block)
);

#endif /* PMBC_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE pmbc_trace
#include <trace/define_trace.h>
