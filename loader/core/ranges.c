/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ranges.h"

#include "crc32c.h"

static bool insert(struct ranges *ranges, u64 base, u64 bytes)
{
	u32 at = ranges->count;

	if (at == REM_RANGES_MAX)
		return false;
	for (; at && ranges->range[at - 1].base > base; at--)
		ranges->range[at] = ranges->range[at - 1];
	ranges->range[at] = (struct range){ .base = base, .bytes = bytes };
	ranges->count++;
	return true;
}

bool ranges_add(struct ranges *ranges, u64 base, u64 bytes)
{
	struct map rest = { .count = 0 };
	bool all = true;
	u64 first;

	if (!range_valid(base, bytes) ||
	    !align_up(base, GO_PAGE_BYTES, &first) || first - base >= bytes)
		return true;
	bytes = (bytes - (first - base)) & ~(u64)(GO_PAGE_BYTES - 1);
	if (!bytes)
		return true;
	map_paint(&rest, first, bytes, MAP_PMEM);
	for (u32 i = 0; i < ranges->count; i++)
		map_paint(&rest, ranges->range[i].base, ranges->range[i].bytes,
			  MAP_HOLE);
	for (u32 i = 0; i < rest.count; i++)
		all &= insert(ranges, rest.entry[i].base, rest.entry[i].bytes);
	return all;
}

bool ranges_add_map(struct ranges *ranges, const struct map *map)
{
	bool all = true;

	for (u32 i = 0; i < map->count; i++) {
		const struct map_entry *entry = &map->entry[i];

		if (entry->type == MAP_PMEM || entry->type == MAP_PRAM)
			all &= ranges_add(ranges, entry->base, entry->bytes);
	}
	return all;
}

bool ranges_remove_map(struct ranges *ranges, const struct map *map)
{
	const struct ranges whole = *ranges;
	bool all = true;

	ranges->count = 0;
	for (u32 i = 0; i < whole.count; i++) {
		struct map rest = { .count = 0 };

		/* Alone, as ranges that adjoin stay two. */
		map_paint(&rest, whole.range[i].base, whole.range[i].bytes,
			  MAP_PMEM);
		for (u32 n = 0; n < map->count; n++)
			map_paint(&rest, map->entry[n].base,
				  map->entry[n].bytes, MAP_HOLE);
		for (u32 n = 0; n < rest.count; n++)
			all &= ranges_add(ranges, rest.entry[n].base,
					  rest.entry[n].bytes);
	}
	return all;
}

bool range_has_room(const struct range *range)
{
	return range->base % REM_BLOCK_ALIGN_BYTES == 0 &&
	       range->bytes > REM_BLOCK_BYTES;
}

const struct range *ranges_region(const struct ranges *ranges, u32 open)
{
	const struct range *best = NULL;
	bool best_is_open = false;

	for (u32 i = 0; i < ranges->count; i++) {
		const struct range *range = &ranges->range[i];
		bool is_open = open & 1u << i;

		if (!range_has_room(range) || is_open < best_is_open)
			continue;
		if (!best || is_open > best_is_open ||
		    range->bytes > best->bytes) {
			best = range;
			best_is_open = is_open;
		}
	}
	return best;
}

struct rem_range_stamp range_stamp(u32 count, u64 nonce)
{
	struct rem_range_stamp stamp = {
		.magic = REM_RANGE_MAGIC,
		.version = REM_VERSION,
		.count = count + 1,
		.nonce = nonce,
	};

	stamp.crc = crc32c(&stamp, offsetof(struct rem_range_stamp, crc));
	return stamp;
}

bool range_stamp_checks(const struct rem_range_stamp *stamp)
{
	return stamp->magic == REM_RANGE_MAGIC &&
	       stamp->version == REM_VERSION &&
	       stamp->crc ==
		       crc32c(stamp, offsetof(struct rem_range_stamp, crc));
}

struct range_mark range_mark(const u8 *start)
{
	u64 magic = get_u64(start);
	struct rem_range_stamp stamp;

	memcpy(&stamp, start, sizeof(stamp));
	if (range_stamp_checks(&stamp))
		return (struct range_mark){ stamp.count, stamp.nonce };
	/* Damaged, or of another version, it is nobody else's nevertheless. */
	return (struct range_mark){
		.nonce = magic == REM_BLOCK_MAGIC || magic == REM_RANGE_MAGIC ?
				 magic :
				 0,
	};
}
