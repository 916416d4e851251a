/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Where the memory of kept programs is: the start of a range of non-volatile
 * memory whose other pages are the memory of programs. Everything is
 * little-endian; reserved words are zero.
 *
 *   0x0000      0x6000   a record as in rem_vm.h: words and bodies of two slots
 *   0x8000  table_bytes  struct rem_keep_entry[] of slot 0
 *     +     table_bytes  struct rem_keep_entry[] of slot 1
 *
 * table_bytes is 16 for each page of the range, rounded up to whole pages. The
 * pages of record and tables are never given to programs.
 *
 * A body's fields here: @state_bytes and @state_crc are of the slot's table,
 * @ram_bytes is the size of the range, @machine is the SHA-256 of the images of
 * what is not memory (files of CRIU, in the order of their names). @ram_id is zero.
 * @reserved[0] is REM_KEEP_CHECKPOINT if programs ran on after the commit, else 0.
 */
#ifndef REM_KEEP_H
#define REM_KEEP_H

#include "rem_vm.h"

#define REM_KEEP_TABLE_OFFSET 0x8000
#define REM_KEEP_PAGE_BYTES 4096
#define REM_KEEP_CHECKPOINT 1

/*
 * struct rem_keep_entry - one page of one process
 * @vaddr: its address there; a multiple of REM_KEEP_PAGE_BYTES
 * @frame: its place, in pages from the start of the range. No two entries have one
 * @pid: the process, by the number that it gets again
 *
 * Entries are sorted by @pid, then by @vaddr.
 */
struct rem_keep_entry {
	rem_u64 vaddr; /*  0 */
	rem_u32 frame; /*  8 */
	rem_u32 pid;   /* 12 */
};

static_assert(sizeof(struct rem_keep_entry) == 16);

#endif /* REM_KEEP_H */
