/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Block segments (rem_pm_block.h): blocks that are written whole or not at all,
 * alone or many together, and never read back as anything else.
 *
 * No function waits or allocates. Readers may run side by side; a writer
 * or scrubber must be alone. Errors are negative errno:
 *   -EBADMSG    the block's bytes are not what was written, or media has lost
 *               them; none are given out
 *   -EIO        media does not keep what a transaction needs: none was changed
 *   -ENOMEDIUM  no blocks have been laid out in this segment
 *   -EUCLEAN    damaged beyond repair
 *   -ERANGE     no such block
 *   -E2BIG      more blocks than a lane of the journal holds
 *   -ENOSPC     no free place: damaged entries keep theirs until next open
 *   -EROFS      opened for reading
 */
#ifndef PM_BLOCK_H
#define PM_BLOCK_H

#include "slot.h"

/*
 * What blocks ask of their surroundings besides env.h: pm_copy(), and a copy out of
 * media, with the checksum of the bytes that came to @to added to *@crc. @from is read
 * once: a change meanwhile changes both. @to and @bytes are multiples of 8.
 */
rem_u32 pm_copy_crc32c(struct pm_env *env, void *to, const void *from,
		       size_t bytes, rem_u32 crc);
/* False: media has lost some of it. */
bool pm_fetch_crc32c(void *to, const void *from, size_t bytes, rem_u32 *crc);

struct pm_block_format {
	rem_u64 segment_bytes;
	rem_u32 block_bytes;
	rem_u32 lanes;
	rem_u32 lane_entries; /* blocks of the largest transaction */
	rem_u8 uuid[16];      /* of the segment */
};

struct pm_block {
	struct pm_env *env;
	rem_u8 *base;
	struct rem_pm_block_header header;
	rem_u32 lane_entries;
	rem_u32 lane_next; /* lanes are used in turn */
	rem_u32 *free;	   /* places, as a stack */
	rem_u32 free_count;
	rem_u8 *bad; /* a bit for each block that was found so */
	/* Of the lane that was read last: a change is made by these, not by what media has. */
	struct rem_pm_lane_entry *entries;
	rem_u32 entry_count;
	bool may_write;
	rem_u64 bad_count;
	rem_u64 repaired;   /* entries, words and headers put right */
	rem_u64 replayed;   /* transactions that open finished */
	rem_u64 mismatches; /* reads and scrubs that ended in -EBADMSG */
};

/* One block of a transaction; no data: it becomes a hole. */
struct pm_block_io {
	rem_u32 block;
	const void *data;
};

/* How a segment would be laid out; -EINVAL or -ENOSPC. */
int pm_block_plan(const struct pm_block_format *format,
		  struct rem_pm_block_header *ret);
/* Lay out. The segment is not yet one of blocks until this is done. */
int pm_block_format(struct pm_env *env, void *base,
		    const struct pm_block_format *format);

/*
 * Whether a segment for which pm_block_peek() says -ENOMEDIUM has nothing but what a
 * format of it left that was cut: 0, or -EUCLEAN: its headers are lost, its blocks
 * are not.
 */
int pm_block_check_blank(struct pm_env *env, const void *base,
			 const struct pm_block_format *format);

/* The header that holds, checked against the segment. */
int pm_block_peek(const void *base, rem_u64 bytes, const rem_u8 *uuid,
		  struct rem_pm_block_header *ret);
size_t pm_block_volatile_bytes(const struct rem_pm_block_header *header);
/* @memory: pm_block_volatile_bytes(), zeroed. */
int pm_block_open(struct pm_block *block, struct pm_env *env, void *base,
		  rem_u64 bytes, const rem_u8 *uuid, void *memory,
		  bool may_write);

/* For pm_block_rebuild(): memory, zeroed, of volatile bytes, and of a block. */
struct pm_block_lent {
	void *from, *to, *buffer;
};

/*
 * Lay out @format at @to and write there what the segment at @from holds.
 * -EFBIG: a block that was written has no place in it. -EBADMSG: one is damaged.
 * -EUCLEAN: its headers are lost, or its first format was cut: opening it finishes
 * that.
 */
int pm_block_rebuild(struct pm_env *env, void *from, rem_u64 from_bytes,
		     void *to, const struct pm_block_format *format,
		     const struct pm_block_lent *lent);

/* Anyone may do so side by side, if nobody writes. */
int pm_block_read(struct pm_block *block, rem_u64 number, void *to);

/* All of @io is durable on return, or, after a cut before that, none. */
int pm_block_write(struct pm_block *block, const struct pm_block_io *io,
		   rem_u32 count);

/* Look at a block and both its entries; put the entries right. */
int pm_block_scrub(struct pm_block *block, rem_u64 number);
/* Header copies and lanes, which are idle: a damaged word is put right. */
void pm_block_scrub_base(struct pm_block *block);

/* The first block from @number on that was found damaged; or how many there are. */
rem_u64 pm_block_next_bad(const struct pm_block *block, rem_u64 number);

static inline bool pm_block_is_bad(const struct pm_block *block, rem_u64 number)
{
	return block->bad[number / 8] >> number % 8 & 1;
}

/* Of block.c and block_open.c, for each other. */
union pm_map_word {
	struct rem_pm_map_entry entry;
	rem_u64 word;
};

rem_u8 *pm_map_at(const struct pm_block *block, int map, rem_u64 number);
union pm_map_word pm_map_get(const struct pm_block *block, int map,
			     rem_u64 number);
union pm_map_word pm_map_hole(rem_u32 number);
/* What is got where media has lost the entry: it checks nowhere. */
union pm_map_word pm_map_lost(rem_u32 number);
void pm_map_put(struct pm_block *block, int map, rem_u32 number,
		union pm_map_word entry);
bool pm_map_verify(const struct pm_block *block, rem_u32 number,
		   union pm_map_word entry);
struct rem_pm_lane *pm_lane_at(const struct pm_block *block, rem_u32 lane);
void pm_lane_store(struct pm_block *block, rem_u32 lane, rem_u64 word);
rem_u64 pm_lane_idle(rem_u32 lane, rem_u32 sequence);
/*
 * Read a lane's entries into @entries; their checksum. False: media has lost some, or
 * there are too many.
 */
bool pm_lane_read(struct pm_block *block, rem_u32 lane, rem_u32 *ret_sum);
rem_u32 pm_lane_check(rem_u32 lane, rem_u32 sequence, rem_u32 sum);
/* A word of a lane, 0 or 1; zeros where media has lost it. */
struct rem_pm_word pm_lane_word(const struct pm_block *block, rem_u32 lane,
				int copy);

#endif /* PM_BLOCK_H */
