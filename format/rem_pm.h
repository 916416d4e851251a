/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The region of persistent memory: its base segment.
 *
 * A region is one range of physical memory. It begins with the base segment,
 * which describes the rest:
 *
 *   offset     bytes    what                                      written by
 *   0x000000    65536   superblock, copy 0 (struct rem_pm_super)  pmcore
 *   0x010000    65536   superblock, copy 1                        pmcore
 *   0x020000    65536   superblock, copy 2                        pmcore
 *   0x030000     ...    segment table, copies 0, 1 and 2, each    pmcore
 *                       384 bytes a slot, at offsets that the
 *                       superblock gives; then the segments
 *
 * The superblock and each place of the segment table is a *slot*: two halves
 * of REM_PM_HALF_BYTES, and three copies of both. A half begins with a word of
 * eight bytes, stored by one aligned store, and is one of
 *
 *   committed  @check = CRC32C of {REM_PM_COMMITTED u32, index u32,
 *              @sequence u32, the bytes of the half behind its word}
 *   in work    @check = CRC32C of {REM_PM_IN_WORK u32, index u32,
 *              @sequence u32}: the bytes behind it have no meaning
 *   damaged    anything else, also all zeros and all ones
 *
 * The index is that of the slot in the table, REM_PM_SUPER_INDEX for the
 * superblock. A change with sequence s is written to half s mod 2, so that the
 * half of s - 1 stays intact: all three words "in work"; flush, fence; all three
 * bodies; flush, fence; the word of copy 0; flush, fence (this commits it); the
 * words of the other copies; flush, fence.
 *
 * The committed half with the highest sequence in any copy is valid. It is refused
 * if the other half is damaged in all three copies, which may have been a newer
 * one. A slot in use has no half of zeros. Neither has a free slot: its first
 * committed record has sequence 1 and marks it as free.
 *
 * Numbers are little-endian, reserved words are zero. Python and FORMAT.md are
 * generated from this file; use only what a simple parser can read.
 */
#ifndef REM_PM_H
#define REM_PM_H

#include "rem_image.h"

/* "REMPMSUP", little-endian */
#define REM_PM_MAGIC 0x5055534d504d4552
#define REM_PM_VERSION 1

#define REM_PM_COPIES 3
#define REM_PM_HALVES 2
#define REM_PM_HALF_BYTES 192
#define REM_PM_SLOT_BYTES 384
#define REM_PM_SUPER_STRIDE_BYTES 0x10000
#define REM_PM_TABLE_OFFSET 0x30000
#define REM_PM_UNIT_BYTES 4096 /* of all allocations to segments */
#define REM_PM_SLOTS_MAX 65536
#define REM_PM_NAME_BYTES 64 /* with at least one zero at the end */

#define REM_PM_COMMITTED 0x54494d43
#define REM_PM_IN_WORK 0x4b524f57
#define REM_PM_SUPER_INDEX 0xffffffff
#define REM_PM_SEQUENCE_LAST 0xfffffffe

/*
 * struct rem_pm_word - the eight bytes that decide, stored by one store
 */
struct rem_pm_word {
	rem_u32 sequence; /* 0 */
	rem_u32 check;	  /* 4 never 0: a CRC of 0 is stored as 1 */
};

/*
 * struct rem_pm_super - one half of the superblock
 */
struct rem_pm_super {
	struct rem_pm_word word; /*   0 */
	rem_u64 magic;		 /*   8 REM_PM_MAGIC */
	rem_u32 version;	 /*  16 REM_PM_VERSION */
	rem_u32 slots;		 /*  20 of the segment table */
	rem_u64 region_bytes;	 /*  24 */
	rem_u64 base_bytes;	 /*  32 of the base segment */
	rem_u64 table_offset[3]; /*  40 of its copies, from the region's start */
	rem_u64 wish_bytes;	 /*  64 region size requested, 0 = none */
	rem_u8 uuid[16];	 /*  72 of the region */
	rem_u64 created_ns;	 /*  88 CLOCK_REALTIME */
	rem_u64 reserved[12];	 /*  96 */
};

/* What a segment is. */
enum rem_pm_type {
	REM_PM_FREE = 1,  /* a slot without a segment */
	REM_PM_RAW = 2,	  /* bytes */
	REM_PM_BLOCK = 3, /* blocks with checksums (rem_pm_block.h) */
};

/* When what was written to a segment is safe. */
enum rem_pm_persist {
	/* flush on commit: caches are volatile, each commit writes back */
	REM_PM_FOC = 1,
	/* flush on fail: the platform's Stop covers the caches */
	REM_PM_FOF = 2,
};

/*
 * struct rem_pm_segment - one half of a slot of the segment table
 *
 * In a slot of type REM_PM_FREE all that follows @type is zero.
 */
struct rem_pm_segment {
	struct rem_pm_word word; /*   0 */
	rem_u32 type;		 /*   8 enum rem_pm_type */
	rem_u32 persist;	 /*  12 enum rem_pm_persist */
	rem_u8 uuid[16];	 /*  16 */
	rem_u8 name[64];	 /*  32 letters, digits, ._-; zeros after it */
	rem_u64 offset;		 /*  96 from the region's start */
	rem_u64 bytes;		 /* 104 its size */
	rem_u64 extent_bytes;	 /* 112 what it occupies, in whole units */
	rem_u64 generation;	 /* 120 sequence of its slot at creation */
	rem_u64 created_ns;	 /* 128 CLOCK_REALTIME */
	rem_u64 map_address;	 /* 136 where programs map it, 0 = anywhere */
	rem_u32 uid;		 /* 144 owner */
	rem_u32 gid;		 /* 148 */
	rem_u32 mode;		 /* 152 permission bits, as of a file */
	rem_u32 block_bytes;	 /* 156 REM_PM_BLOCK: of a block; else 0 */
	rem_u64 reserved[4];	 /* 160 */
};

static_assert(sizeof(struct rem_pm_word) == 8);
static_assert(sizeof(struct rem_pm_super) == REM_PM_HALF_BYTES);
static_assert(offsetof(struct rem_pm_super, table_offset) == 40);
static_assert(offsetof(struct rem_pm_super, uuid) == 72);
static_assert(sizeof(struct rem_pm_segment) == REM_PM_HALF_BYTES);
static_assert(offsetof(struct rem_pm_segment, name) == 32);
static_assert(offsetof(struct rem_pm_segment, offset) == 96);
static_assert(offsetof(struct rem_pm_segment, uid) == 144);
static_assert(REM_PM_SLOT_BYTES == REM_PM_HALVES * REM_PM_HALF_BYTES);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

#endif /* REM_PM_H */
