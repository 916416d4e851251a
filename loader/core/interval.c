/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "interval.h"

bool range_valid(u64 base, u64 bytes)
{
	/* The last byte must have an address; the end may be 2^64. */
	return bytes && base <= UINT64_MAX - (bytes - 1);
}

bool range_inside(u64 base, u64 bytes, u64 outer_base, u64 outer_bytes)
{
	if (!range_valid(base, bytes) || !range_valid(outer_base, outer_bytes))
		return false;
	return base >= outer_base &&
	       base + (bytes - 1) <= outer_base + (outer_bytes - 1);
}

bool range_overlaps(u64 a_base, u64 a_bytes, u64 b_base, u64 b_bytes)
{
	if (!range_valid(a_base, a_bytes) || !range_valid(b_base, b_bytes))
		return false;
	return a_base <= b_base + (b_bytes - 1) &&
	       b_base <= a_base + (a_bytes - 1);
}

bool align_up(u64 value, u64 align, u64 *ret_value)
{
	if (!align || (align & (align - 1)) || value > UINT64_MAX - (align - 1))
		return false;
	*ret_value = (value + (align - 1)) & ~(align - 1);
	return true;
}

/* Append [first, last], merged with the entry before if they are adjacent. */
static bool append(struct map *map, u64 first, u64 last, u32 type)
{
	struct map_entry *before;

	if (type == MAP_HOLE)
		return true;
	if (map->count) {
		before = &map->entry[map->count - 1];
		if (before->type == type &&
		    before->base + before->bytes == first) {
			before->bytes += last - first + 1;
			return true;
		}
	}
	/* One entry of all 2^64 bytes would have no size; nobody needs that. */
	if (map->count == MAP_ENTRIES_MAX || last - first == UINT64_MAX)
		return false;
	map->entry[map->count++] = (struct map_entry){
		.base = first,
		.bytes = last - first + 1,
		.type = type,
	};
	return true;
}

bool map_paint(struct map *map, u64 base, u64 bytes, u32 type)
{
	struct map out = { .count = 0 };
	u64 last = base + (bytes - 1);
	bool painted = false;
	bool ok = true;

	if (!range_valid(base, bytes))
		return false;
	for (u32 i = 0; i < map->count; i++) {
		const struct map_entry *old = &map->entry[i];
		u64 old_last = old->base + (old->bytes - 1);

		if (old->base < base)
			ok &= append(&out, old->base,
				     old_last < base ? old_last : base - 1,
				     old->type);
		if (!painted && old_last >= base) {
			ok &= append(&out, base, last, type);
			painted = true;
		}
		if (old_last > last)
			ok &= append(&out,
				     old->base > last ? old->base : last + 1,
				     old_last, old->type);
	}
	if (!painted)
		ok &= append(&out, base, last, type);
	if (ok)
		*map = out;
	return ok;
}

u32 map_type_at(const struct map *map, u64 address)
{
	for (u32 i = 0; i < map->count; i++)
		if (range_inside(address, 1, map->entry[i].base,
				 map->entry[i].bytes))
			return map->entry[i].type;
	return MAP_HOLE;
}

u64 map_bytes(const struct map *map, u32 type)
{
	u64 sum = 0;

	for (u32 i = 0; i < map->count; i++)
		if (map->entry[i].type == type)
			sum += map->entry[i].bytes;
	return sum;
}
