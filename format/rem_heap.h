/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A region of the persistent heap (heap/). All numbers are little-endian.
 *
 *   offset   bytes   what
 *   0x0000      96   header: 88 bytes, CRC32C of them, 4 bytes zero
 *   0x1000       8   truncated: records up to this number are dropped
 *   0x1040       8   not zero while a program has the region open
 *   0x1200    3584   per session: the undo record that was open at a checkpoint
 *   0x2000    4096   64 roots: name (40), type (8), offset (8), size (8)
 *   0x3000           per session: redo lines, undo lines, of 64 bytes
 *   table            a word per chunk
 *   chunks           65536 bytes each
 *
 * Header: magic (8), version (4), policy (4), uuid (16), size (8), sessions (4),
 * redo lines (4), undo lines (4), zero (4), table offset (8), offset of the
 * first chunk (8), chunks (8), bytes of a chunk (8).
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

/* "REMHEAP", little-endian */
#define REM_HEAP_MAGIC 0x00504145484d4552
#define REM_HEAP_VERSION 1
#define REM_HEAP_HEADER_CHECKED_BYTES 88
#define REM_HEAP_TRUNCATED 0x1000
#define REM_HEAP_OPEN 0x1040
#define REM_HEAP_LIVE 0x1200
#define REM_HEAP_ROOTS 0x2000
#define REM_HEAP_ROOT_BYTES 64
#define REM_HEAP_LOGS 0x3000
#define REM_HEAP_CHUNK_BYTES 65536

#endif
