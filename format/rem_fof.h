/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A region of plain memory, for flush on fail (heap/src/fof). All numbers are
 * little-endian. Pointers are addresses: the region is mapped at the address
 * that its header names, or not at all. The allocator's state is part of it.
 *
 *   offset   bytes   what
 *   0x0000      88   struct rem_fof_header
 *   0x1000       8   mark: what the content is (enum rem_fof_mark)
 *   0x1040       8   number of the opening
 *   0x2000    4096   64 of struct rem_heap_root (rem_heap.h) with addresses
 *   0x3000     936   39 of struct rem_fof_class, by size class
 *   0x33a8     128   32 lists of free runs, by the power of two of their
 *                    length: number of the first chunk plus one, or zero
 *   0x3428       8   address of the first struct rem_fof_thread
 *   0x4000           struct rem_fof_entry of each chunk
 *   chunks           65536 bytes each, at multiples of 65536
 *
 * Word of a chunk: 0 the inside of a run; bits 63..56 = 1: slab of objects of
 * one size, the rest is the size class; 2: the first chunk of a large object,
 * the rest is their number; 3: the first and the last of free chunks in a row,
 * the rest is their number.
 *
 * A free object's first word is the address of the next one of its list, the
 * first object of a batch has the address of the next batch in its second word.
 * A batch has as many objects as 8192 bytes hold, and at least two.
 */
#ifndef REM_FOF_H
#define REM_FOF_H

#include <assert.h>
#include <stddef.h>
#include "rem_image.h"

/* "REMFOF", little-endian */
#define REM_FOF_MAGIC 0x0000464f464d4552
#define REM_FOF_VERSION 1
#define REM_FOF_MARK 0x1000
#define REM_FOF_OPENING 0x1040
#define REM_FOF_ROOTS 0x2000
#define REM_FOF_SHARED 0x3000
#define REM_FOF_LISTS 0x33a8
#define REM_FOF_THREADS 0x3428
#define REM_FOF_TABLE 0x4000
#define REM_FOF_CHUNK_BYTES 65536
#define REM_FOF_CLASSES 39

enum rem_fof_mark {
	/* A program closed it: all of it was written back before. */
	REM_FOF_CLOSED = 0,
	/* A program has it open, or died with it open. */
	REM_FOF_OPEN = 1,
	/* Caches were no longer saved: written back once, no stores since. */
	REM_FOF_HELD = 2,
};

/*
 * struct rem_fof_header - the first bytes of a region
 * @base: the address that it is mapped at
 * @crc: CRC32C of the bytes before it
 */
struct rem_fof_header {
	rem_u64 magic;	       /*  0 REM_FOF_MAGIC */
	rem_u32 version;       /*  8 REM_FOF_VERSION */
	rem_u32 reserved;      /* 12 */
	rem_u8 uuid[16];       /* 16 */
	rem_u64 region_bytes;  /* 32 */
	rem_u64 base;	       /* 40 */
	rem_u64 chunks_offset; /* 48 of the first chunk */
	rem_u64 chunks;	       /* 56 */
	rem_u64 chunk_bytes;   /* 64 REM_FOF_CHUNK_BYTES */
	rem_u64 table_offset;  /* 72 REM_FOF_TABLE */
	rem_u32 crc;	       /* 80 */
	rem_u32 reserved2;     /* 84 */
};

/*
 * struct rem_fof_entry - what a chunk is
 * @before: in the first chunk of a free run, the previous run of its list
 * @after: the next one; both are numbers of chunks plus one
 */
struct rem_fof_entry {
	rem_u64 word;	/*  0 */
	rem_u32 before; /*  8 */
	rem_u32 after;	/* 12 */
};

/*
 * struct rem_fof_class - what threads share of a size class; addresses
 * @fresh: the part of a slab that was never given out
 */
struct rem_fof_class {
	rem_u64 batches;   /*  0 */
	rem_u64 fresh;	   /*  8 */
	rem_u64 fresh_end; /* 16 */
};

/*
 * struct rem_fof_cache - what a thread keeps of a size class
 * @free: address of the first free object
 * @full: address of a whole batch, or zero
 * @count: number of objects that @free leads to
 */
struct rem_fof_cache {
	rem_u64 free;	  /*  0 */
	rem_u64 full;	  /*  8 */
	rem_u64 count;	  /* 16 */
	rem_u64 reserved; /* 24 */
};

/*
 * struct rem_fof_thread - what a thread keeps; a cache of each class follows
 * @next: address of the next one
 * @opening: the opening in which a thread has it
 */
struct rem_fof_thread {
	rem_u64 next;	     /*  0 */
	rem_u64 opening;     /*  8 */
	rem_u64 reserved[6]; /* 16 */
};

static_assert(sizeof(struct rem_fof_header) == 88);
static_assert(offsetof(struct rem_fof_header, crc) == 80);
static_assert(sizeof(struct rem_fof_entry) == 16);
static_assert(sizeof(struct rem_fof_class) == 24);
static_assert(sizeof(struct rem_fof_cache) == 32);
static_assert(sizeof(struct rem_fof_thread) == 64);

#endif
