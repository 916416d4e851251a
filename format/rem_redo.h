/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The redo area: writes to disks whose flush has ended in memory. It is a part of the
 * registry's memory (rem_registry.h), so that the loader keeps both: @redo_bytes, just
 * before slot 0 of the registry. Everything is little-endian; reserved words are zero.
 *
 *   area + 512 * n                  512  entry n of 8: the ring of a disk
 *     + 0                           256    struct rem_redo_disk
 *     + 256                     2 *  64    struct rem_redo_word: covered, two copies
 *     + 384                     2 *  64    struct rem_redo_word: head, two copies
 *   area + @offset          4096 * slots   data of the ring's slots
 *   behind them               64 * slots   struct rem_redo_slot of each
 *
 * A ring has the writes of a disk in the order in which they were sent; that of position
 * N is in slot N modulo @slots. Positions begin at 0 and never repeat in one ring. Of
 * each word the copy with the higher position counts, of those whose checksum is right.
 *
 * The disk may lack what is at [head, covered), and flushes that have ended promise it.
 * A boot that does not resume writes that to the disk, in order, and flushes, before
 * anybody reads the disk. What is at @covered and later was never promised.
 */
#ifndef REM_REDO_H
#define REM_REDO_H

#include "rem_image.h"

/* "REMREDO1", "DROP", little-endian. */
#define REM_REDO_MAGIC 0x314f4445524d4552
#define REM_REDO_DROPPED 0x504f5244
#define REM_REDO_VERSION 1
#define REM_REDO_DISKS 8
#define REM_REDO_ENTRY_BYTES 512
#define REM_REDO_AREA_BYTES_MIN 4096
#define REM_REDO_COVERED_AT 256
#define REM_REDO_HEAD_AT 384
#define REM_REDO_COPIES 2
#define REM_REDO_SLOT_BYTES 4096
#define REM_REDO_SECTOR_BYTES 512
#define REM_REDO_SLOTS_MAX 16777216
#define REM_REDO_IDENTITY_BYTES 128

/*
 * struct rem_redo_disk - a disk and where its ring is
 * @slots: how many it has
 * @id: of this ring; never used twice
 * @offset: from the start of the area to slot 0
 * @sectors: size of the disk, in sectors of 512 bytes
 * @identity: what the disk is, as text with a zero behind it
 * @crc: CRC32C of the bytes before it
 */
struct rem_redo_disk {
	rem_u64 magic;	      /*   0 REM_REDO_MAGIC; 0: no ring */
	rem_u32 version;      /*   8 */
	rem_u32 slots;	      /*  12 */
	rem_u64 id;	      /*  16 */
	rem_u64 offset;	      /*  24 */
	rem_u64 sectors;      /*  32 */
	rem_u64 reserved[3];  /*  40 */
	rem_u8 identity[128]; /*  64 */
	rem_u64 reserved2[7]; /* 192 */
	rem_u32 reserved3;    /* 248 */
	rem_u32 crc;	      /* 252 */
};

/*
 * struct rem_redo_word - a position, in one cache line
 * @id: of the ring
 * @crc: CRC32C of the bytes before it
 */
struct rem_redo_word {
	rem_u64 id;	      /*  0 */
	rem_u64 position;     /*  8 */
	rem_u32 reserved;     /* 16 */
	rem_u32 crc;	      /* 20 */
	rem_u64 reserved2[5]; /* 24 */
};

/*
 * struct rem_redo_slot - up to 4 KiB of a write, in one cache line
 * @id: of the ring
 * @position: of this slot's content
 * @sector: where it goes, in sectors of 512 bytes
 * @bytes: how many
 * @data_crc: CRC32C of them
 * @crc: CRC32C of the bytes before it
 * @dropped: REM_REDO_DROPPED if the write has failed: it is not written again
 */
struct rem_redo_slot {
	rem_u64 id;	      /*  0 */
	rem_u64 position;     /*  8 */
	rem_u64 sector;	      /* 16 */
	rem_u32 bytes;	      /* 24 */
	rem_u32 data_crc;     /* 28 */
	rem_u32 reserved;     /* 32 */
	rem_u32 crc;	      /* 36 */
	rem_u64 dropped;      /* 40 */
	rem_u64 reserved2[2]; /* 48 */
};

static_assert(sizeof(struct rem_redo_disk) == 256);
static_assert(offsetof(struct rem_redo_disk, identity) == 64);
static_assert(offsetof(struct rem_redo_disk, crc) == 252);
static_assert(sizeof(struct rem_redo_word) == 64);
static_assert(offsetof(struct rem_redo_word, crc) == 20);
static_assert(sizeof(struct rem_redo_slot) == 64);
static_assert(offsetof(struct rem_redo_slot, crc) == 36);

#endif /* REM_REDO_H */
