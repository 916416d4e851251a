/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The ranges of NVRAM, as the machine is made: one for each range of the NFIT, and
 * what firmware's map has beside them. And what they begin with: a stamp (struct
 * rem_range_stamp) or a block tells whether another kernel has used a range while the
 * one with the block was absent.
 */
#ifndef LOADER_RANGES_H
#define LOADER_RANGES_H

#include "interval.h"

struct range {
	u64 base;
	u64 bytes;
};

/* struct ranges - whole pages, ascending, without overlaps */
struct ranges {
	u32 count;
	struct range range[REM_RANGES_MAX];
};

/*
 * Add what of [base, base + bytes) is in no range yet, in whole pages. False if
 * there is no room. An invalid range is ignored.
 */
bool ranges_add(struct ranges *ranges, u64 base, u64 bytes);

/* Add the NVRAM of a memory map; false if a range has no room. */
bool ranges_add_map(struct ranges *ranges, const struct map *map);

/*
 * Leave whole pages of what no entry of @map has, of any type. False if a range has
 * no room.
 */
bool ranges_remove_map(struct ranges *ranges, const struct map *map);

/* Whether it is aligned and large enough for the record block. */
bool range_has_room(const struct range *range);

/*
 * The range with the record block: the largest of those that have room, the first of
 * several that are equal; NULL if there is none. Bit n of @open: range n has a block
 * with an image that could be entered; then it comes before larger ones, which may be
 * new.
 */
const struct range *ranges_region(const struct ranges *ranges, u32 open);

/* The next stamp after all that have counted up to @count. */
struct rem_range_stamp range_stamp(u32 count, u64 nonce);

/* True if @stamp was stored by a cold boot. */
bool range_stamp_checks(const struct rem_range_stamp *stamp);

/*
 * struct range_mark - what a range begins with, as its entry of a description has it
 * @count: of its stamp
 * @nonce: of its stamp; else the magic of a block, or of a stamp that was cut off
 *
 * Zeros: neither, the range is not ours.
 */
struct range_mark {
	u64 count;
	u64 nonce;
};

/* Of the range whose first sizeof(struct rem_range_stamp) bytes are at @start. */
struct range_mark range_mark(const u8 *start);

static inline bool range_is_marked(struct range_mark mark)
{
	return mark.count || mark.nonce;
}

#endif /* LOADER_RANGES_H */
