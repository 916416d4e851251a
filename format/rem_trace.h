/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A trace of memory requests: what leaves the caches (misses, write-backs and
 * flushes) of up to 64 CPUs. It is not media; one program records it and another
 * one replays it.
 *
 *   offset   bytes       what
 *   0x0000      40       header
 *   0x0028   8 * count   records
 *
 * A record is one 64-bit number:
 *
 *   bits  0-39   the line: address / 64; zero for REM_TRACE_FLUSH and _IDLE
 *   bits 40-45   CPU
 *   bits 46-47   enum rem_trace_kind
 *   bits 48-63   instructions that the CPU began since its previous record
 *
 * The records of one CPU are in order; those of different CPUs are interleaved. A
 * longer pause is recorded by REM_TRACE_IDLE records before.
 *
 * A reader refuses another magic, version or line size, a file whose length does
 * not match the header, a wrong check, a CPU or a line beyond the header's
 * limits. All numbers are little-endian.
 *
 * Use only what a simple parser can read (see rem_image.h).
 */
#ifndef REM_TRACE_H
#define REM_TRACE_H

#include <assert.h>
#include <stddef.h>
#include "rem_image.h"

/* "REMTRACE", little-endian */
#define REM_TRACE_MAGIC 0x45434152544d4552
#define REM_TRACE_VERSION 1
#define REM_TRACE_LINE_BYTES 64
#define REM_TRACE_CPUS_MAX 64

enum rem_trace_kind {
	REM_TRACE_READ = 0,
	REM_TRACE_WRITE = 1,
	/* the CPU waits until its writes are persistent */
	REM_TRACE_FLUSH = 2,
	/* only the pause */
	REM_TRACE_IDLE = 3,
};

/*
 * struct rem_trace_header - at the start of the file
 * @lines: every line is below
 * @check: CRC32C of the records
 */
struct rem_trace_header {
	rem_u64 magic;	    /*   0 REM_TRACE_MAGIC */
	rem_u32 version;    /*   8 REM_TRACE_VERSION */
	rem_u32 line_bytes; /*  12 REM_TRACE_LINE_BYTES */
	rem_u64 count;	    /*  16 records */
	rem_u64 lines;	    /*  24 */
	rem_u32 cpu_count;  /*  32 */
	rem_u32 check;	    /*  36 */
};

static_assert(offsetof(struct rem_trace_header, count) == 16);
static_assert(offsetof(struct rem_trace_header, check) == 36);
static_assert(sizeof(struct rem_trace_header) == 40);

#endif /* REM_TRACE_H */
