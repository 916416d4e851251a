/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A block segment: the layout of a segment of type REM_PM_BLOCK.
 *
 * Programs see @blocks logical blocks. Each is in one of @places places, which are
 * more than the blocks, and the *map* has its place. A block is written to a free
 * place, and one store of eight bytes to the map then replaces the old content.
 * All offsets are from the segment's start:
 *
 *   offset     bytes    what                                      written by
 *   0x000000     4096   struct rem_pm_block_header, copy 0        pmbc
 *   0x001000     4096   copy 1                                    pmbc
 *   0x002000     4096   copy 2                                    pmbc
 *   0x003000     ...    map, copies 0 and 1; journal lanes; places, at offsets
 *                       in the header
 *
 * An entry of the map has a place and a check: CRC32C of {block u32, the place's
 * bytes}. It detects data of another block, and damage of data or entry. A block
 * that was never written, or was discarded, has the place REM_PM_BLOCK_HOLE; the
 * check is CRC32C of {block u32, REM_PM_BLOCK_HOLE u32}, and it reads as zeros.
 *
 * Writing one block: the data; flush, fence; the entry in both maps; flush, fence.
 * If the entries differ, that of map 0 is valid if its check is right, otherwise
 * that of map 1 if its check is right. An acknowledged write is in both.
 *
 * Writing many blocks, in a lane of the journal: all data, the lane's entries;
 * flush, fence; both words "committed"; flush, fence (this commits the
 * transaction); the entries in both maps; flush, fence; both words "idle"; flush.
 * The fences of the next change make these words durable before anything of that
 * change. If a word of a lane is committed, the program that opens the segment
 * completes the lane. A lane with two damaged words is refused.
 *
 *   committed  @check = CRC32C of {REM_PM_COMMITTED u32, lane u32, @sequence
 *              u32, the lane's bytes from @count on, with its entries}
 *   idle       @check = CRC32C of {REM_PM_IN_WORK u32, lane u32, @sequence u32}
 */
#ifndef REM_PM_BLOCK_H
#define REM_PM_BLOCK_H

#include "rem_pm.h"

/* "REMPMBLK", little-endian */
#define REM_PM_BLOCK_MAGIC 0x4b4c424d504d4552
#define REM_PM_BLOCK_VERSION 1
#define REM_PM_BLOCK_BYTES_MIN 512
#define REM_PM_BLOCK_BYTES_MAX 65536
#define REM_PM_BLOCK_HEADER_STRIDE_BYTES 4096
#define REM_PM_BLOCK_MAP_OFFSET 0x3000
#define REM_PM_BLOCK_MAPS 2
#define REM_PM_BLOCK_HOLE 0xffffffff
#define REM_PM_BLOCK_PLACES_MAX 0xfffffffe
#define REM_PM_BLOCK_LANES_MAX 64

/*
 * struct rem_pm_block_header - the layout of the segment; never changed
 */
struct rem_pm_block_header {
	rem_u64 magic;	       /*   0 REM_PM_BLOCK_MAGIC */
	rem_u32 version;       /*   8 REM_PM_BLOCK_VERSION */
	rem_u32 block_bytes;   /*  12 a power of two */
	rem_u64 blocks;	       /*  16 */
	rem_u64 places;	       /*  24 more than blocks */
	rem_u64 map_offset[2]; /*  32 8 bytes for each block */
	rem_u64 lane_offset;   /*  48 */
	rem_u32 lane_bytes;    /*  56 */
	rem_u32 lanes;	       /*  60 */
	rem_u64 place_offset;  /*  64 multiple of 4096 */
	rem_u64 segment_bytes; /*  72 */
	rem_u8 uuid[16];       /*  80 of the segment */
	rem_u64 reserved[3];   /*  96 */
	rem_u32 reserved2;     /* 120 */
	rem_u32 crc;	       /* 124 CRC32C of the bytes before it */
};

/*
 * struct rem_pm_map_entry - the place of a block, and its check
 */
struct rem_pm_map_entry {
	rem_u32 place; /* 0 */
	rem_u32 check; /* 4 */
};

/*
 * struct rem_pm_lane - the head of a journal lane
 */
struct rem_pm_lane {
	struct rem_pm_word word; /*   0 */
	rem_u64 reserved[7];	 /*   8 */
	struct rem_pm_word copy; /*  64 of the word, in another cache line */
	rem_u64 reserved2[7];	 /*  72 */
	rem_u32 count;		 /* 128 of entries */
	rem_u32 reserved3;	 /* 132 */
};

/*
 * struct rem_pm_lane_entry - one block of a transaction
 */
struct rem_pm_lane_entry {
	rem_u32 block;		       /* 0 */
	rem_u32 reserved;	       /* 4 */
	struct rem_pm_map_entry entry; /* 8 */
};

static_assert(sizeof(struct rem_pm_block_header) == 128);
static_assert(offsetof(struct rem_pm_block_header, place_offset) == 64);
static_assert(offsetof(struct rem_pm_block_header, crc) == 124);
static_assert(sizeof(struct rem_pm_map_entry) == 8);
static_assert(sizeof(struct rem_pm_lane) == 136);
static_assert(offsetof(struct rem_pm_lane, copy) == 64);
static_assert(sizeof(struct rem_pm_lane_entry) == 16);

#endif /* REM_PM_BLOCK_H */
