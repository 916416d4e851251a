/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints: what comes to DRAM and what leaves it. README.md has their list. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rem_dram

#if !defined(REM_DRAM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define REM_DRAM_TRACE_H

#include <linux/tracepoint.h>

#define REM_DRAM_REASONS                 \
	EM(REM_DRAM_SCAN, "scan")        \
	EM(REM_DRAM_USE, "use")          \
	EM(REM_DRAM_ROOM, "room")        \
	EM(REM_DRAM_FAULT, "fault")      \
	EM(REM_DRAM_BOUND, "bound")      \
	EM(REM_DRAM_WRITES, "writes")    \
	EM(REM_DRAM_CHANGES, "changes")  \
	EM(REM_DRAM_LEAVES, "leaves")    \
	EMe(REM_DRAM_MOVES, "moves")

#undef EM
#undef EMe
#define EM(reason, name) TRACE_DEFINE_ENUM(reason);
#define EMe(reason, name) TRACE_DEFINE_ENUM(reason);
REM_DRAM_REASONS
#undef EM
#undef EMe
#define EM(reason, name) { reason, name },
#define EMe(reason, name) { reason, name }

DECLARE_EVENT_CLASS(rem_dram_page,
	TP_PROTO(unsigned long pfn, unsigned long frame,
		 enum rem_dram_reason reason),
	TP_ARGS(pfn, frame, reason),
	TP_STRUCT__entry(
		__field(unsigned long, pfn)
		__field(unsigned long, frame)
		__field(unsigned int, reason)
	),
	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->frame = frame;
		__entry->reason = reason;
	),
	TP_printk("pfn=0x%lx frame=0x%lx reason=%s", __entry->pfn, __entry->frame,
		  __print_symbolic(__entry->reason, REM_DRAM_REASONS))
);

#define REM_DRAM_EVENT(name)                                               \
	DEFINE_EVENT(rem_dram_page, name,                                  \
		     TP_PROTO(unsigned long pfn, unsigned long frame,      \
			      enum rem_dram_reason reason),                \
		     TP_ARGS(pfn, frame, reason))

REM_DRAM_EVENT(dram_promote);
REM_DRAM_EVENT(dram_demote);
REM_DRAM_EVENT(dram_level);
REM_DRAM_EVENT(dram_clean);
REM_DRAM_EVENT(dram_new);
REM_DRAM_EVENT(dram_copy);
REM_DRAM_EVENT(dram_map);
REM_DRAM_EVENT(dram_end);

#endif /* REM_DRAM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../kernel/remanence/mixed
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rem_dram_trace
#include <trace/define_trace.h>
