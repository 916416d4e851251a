/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A region of the persistent heap (heap/). All numbers are little-endian.
 *
 *   offset   bytes   what
 *   0x0000      96   struct rem_heap_header
 *   0x1000       8   truncated: records up to this number are dropped
 *   0x1040       8   not zero while a program has the region open
 *   0x1200    3584   per session: the undo record that was open at a checkpoint
 *   0x2000    4096   64 of struct rem_heap_root
 *   0x3000           per session: redo lines, undo lines, of 64 bytes
 *   table            a word per chunk
 *   chunks           65536 bytes each
 *
 * Word of a chunk: 0 free or the rest of a large object; bits 63..56 = 1: slab,
 * the rest is the size class; bits 63..56 = 2: large object, the rest its bytes.
 * A slab begins with one byte per object, 0 or 1.
 *
 * Line of a log, words 0 to 7: bit 63 of each is the torn bit, the same in all
 * words of a whole line; word 0 has bits 63 of words 1 to 7 in 62..56, last (55),
 * first (54) and the sequence number (47..0). Words 1 to 7 are entries: bits
 * 63..60 kind, 59..48 count, 47..0 offset. Kinds: 1 count words follow, 2 the byte
 * becomes count, 3 zeros (a word with the bytes follows), 4 older records do not
 * apply here (the same), 5 ends the undo record of that number.
 */
#ifndef REM_HEAP_H
#define REM_HEAP_H

#include <assert.h>
#include <stddef.h>
#include "rem_image.h"

/* "REMHEAP", little-endian */
#define REM_HEAP_MAGIC 0x00504145484d4552
#define REM_HEAP_VERSION 1
#define REM_HEAP_TRUNCATED 0x1000
#define REM_HEAP_OPEN 0x1040
#define REM_HEAP_LIVE 0x1200
#define REM_HEAP_ROOTS 0x2000
#define REM_HEAP_ROOTS_MAX 64
#define REM_HEAP_NAME_BYTES 40
#define REM_HEAP_LOGS 0x3000
#define REM_HEAP_CHUNK_BYTES 65536

/*
 * struct rem_heap_header - the first bytes of a region
 * @crc: CRC32C of the bytes before it
 */
struct rem_heap_header {
	rem_u64 magic;	       /*  0 REM_HEAP_MAGIC */
	rem_u32 version;       /*  8 REM_HEAP_VERSION */
	rem_u32 policy;	       /* 12 number of the policy */
	rem_u8 uuid[16];       /* 16 */
	rem_u64 region_bytes;  /* 32 */
	rem_u32 sessions;      /* 40 */
	rem_u32 redo_lines;    /* 44 of each session */
	rem_u32 undo_lines;    /* 48 of each session */
	rem_u32 reserved;      /* 52 */
	rem_u64 table_offset;  /* 56 */
	rem_u64 chunks_offset; /* 64 of the first chunk */
	rem_u64 chunks;	       /* 72 */
	rem_u64 chunk_bytes;   /* 80 REM_HEAP_CHUNK_BYTES */
	rem_u32 crc;	       /* 88 */
	rem_u32 reserved2;     /* 92 */
};

/*
 * struct rem_heap_root - a pointer that is found by its name
 * @name: with at least one zero at its end; all zeros = the entry is free
 * @type: identifies the type of what it points to
 */
struct rem_heap_root {
	rem_u8 name[40]; /*  0 */
	rem_u64 type;	 /* 40 */
	rem_u64 offset;	 /* 48 */
	rem_u64 bytes;	 /* 56 */
};

static_assert(sizeof(struct rem_heap_header) == 96);
static_assert(offsetof(struct rem_heap_header, crc) == 88);
static_assert(offsetof(struct rem_heap_root, type) == REM_HEAP_NAME_BYTES);
static_assert(sizeof(struct rem_heap_root) == 64);

#endif
