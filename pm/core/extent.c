// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Two-level segregated fit (Masmano et al., "TLSF: a new dynamic memory
 * allocator for real-time systems", 2004) over nodes beside the space.
 *
 * Invariants: nodes cover the space without gap or overlap, in order of their
 * offsets; no two free ones are neighbours; each free one is in one bin.
 */
#include "extent.h"

static rem_u32 log2_of(rem_u64 value)
{
	return 63 - (rem_u32)__builtin_clzll(value);
}

/* The bin of the free stretches of about @units. */
static rem_u32 bin_of(rem_u64 units)
{
	rem_u32 level = log2_of(units);
	rem_u32 part;

	if (level < 3)
		part = (rem_u32)(units << (3 - level)) % PM_BIN_PARTS;
	else
		part = (rem_u32)(units >> (level - 3)) % PM_BIN_PARTS;
	return level * PM_BIN_PARTS + part;
}

static void bin_add(struct pm_extents *extents, rem_u32 index)
{
	struct pm_node *node = &extents->node[index];
	rem_u32 bin = bin_of(node->units);
	rem_u32 first = extents->bin[bin];

	node->owner = PM_NODE_FREE;
	node->bin_before = PM_NODE_NONE;
	node->bin_after = first;
	if (first != PM_NODE_NONE)
		extents->node[first].bin_before = index;
	extents->bin[bin] = index;
	extents->part_mask[bin / PM_BIN_PARTS] |=
		(rem_u8)(1u << bin % PM_BIN_PARTS);
	extents->level_mask |= 1ull << bin / PM_BIN_PARTS;
	extents->free_units += node->units;
}

static void bin_remove(struct pm_extents *extents, rem_u32 index)
{
	struct pm_node *node = &extents->node[index];
	rem_u32 bin = bin_of(node->units);
	rem_u32 level = bin / PM_BIN_PARTS;

	if (node->bin_before != PM_NODE_NONE)
		extents->node[node->bin_before].bin_after = node->bin_after;
	else
		extents->bin[bin] = node->bin_after;
	if (node->bin_after != PM_NODE_NONE)
		extents->node[node->bin_after].bin_before = node->bin_before;
	if (extents->bin[bin] == PM_NODE_NONE) {
		extents->part_mask[level] &=
			(rem_u8) ~(1u << bin % PM_BIN_PARTS);
		if (!extents->part_mask[level])
			extents->level_mask &= ~(1ull << level);
	}
	extents->free_units -= node->units;
}

static rem_u32 spare_get(struct pm_extents *extents)
{
	rem_u32 index = extents->spare;

	extents->spare = extents->node[index].after;
	return index;
}

static void spare_put(struct pm_extents *extents, rem_u32 index)
{
	extents->node[index].after = extents->spare;
	extents->spare = index;
}

/* Cut @units off the front of a node that is in no bin; the rest is new. */
static rem_u32 split(struct pm_extents *extents, rem_u32 index, rem_u64 units)
{
	rem_u32 rest = spare_get(extents);
	struct pm_node *node = &extents->node[index];
	struct pm_node *new = &extents->node[rest];

	new->offset = node->offset + units;
	new->units = node->units - units;
	new->before = index;
	new->after = node->after;
	if (new->after != PM_NODE_NONE)
		extents->node[new->after].before = rest;
	node->after = rest;
	node->units = units;
	return rest;
}

/* Add the node behind @index, in no bin, to it. */
static void join(struct pm_extents *extents, rem_u32 index)
{
	struct pm_node *node = &extents->node[index];
	rem_u32 gone = node->after;

	node->units += extents->node[gone].units;
	node->after = extents->node[gone].after;
	if (node->after != PM_NODE_NONE)
		extents->node[node->after].before = index;
	spare_put(extents, gone);
}

void pm_extents_init(struct pm_extents *extents, struct pm_node *node,
		     rem_u32 nodes_max, rem_u64 offset, rem_u64 units)
{
	memset(extents, 0, sizeof(*extents));
	for (rem_u32 bin = 0; bin < PM_BINS; bin++)
		extents->bin[bin] = PM_NODE_NONE;
	extents->node = node;
	extents->nodes_max = nodes_max;
	extents->spare = PM_NODE_NONE;
	for (rem_u32 index = nodes_max; index-- > 1;)
		spare_put(extents, index);
	node[0] = (struct pm_node){ .offset = offset,
				    .units = units,
				    .before = PM_NODE_NONE,
				    .after = PM_NODE_NONE };
	bin_add(extents, 0);
}

rem_u32 pm_extents_take(struct pm_extents *extents, rem_u32 in, rem_u64 offset,
			rem_u64 units, rem_u32 owner)
{
	bin_remove(extents, in);
	if (offset > extents->node[in].offset) {
		rem_u32 rest =
			split(extents, in, offset - extents->node[in].offset);

		bin_add(extents, in);
		in = rest;
	}
	if (extents->node[in].units > units)
		bin_add(extents, split(extents, in, units));
	extents->node[in].owner = owner;
	return in;
}

/* A free node of at least @units by whole bins: constant time. */
static rem_u32 find_by_bin(const struct pm_extents *extents, rem_u64 units)
{
	rem_u32 level = log2_of(units);
	rem_u64 round = level > 3 ? (1ull << (level - 3)) - 1 : 0;
	rem_u32 bin = bin_of(units + round);
	rem_u32 parts;
	rem_u64 levels;

	level = bin / PM_BIN_PARTS;
	parts = extents->part_mask[level] & (0xffu << bin % PM_BIN_PARTS);
	if (!parts) {
		levels = extents->level_mask & (~0ull << level << 1);
		if (!levels)
			return PM_NODE_NONE;
		level = (rem_u32)__builtin_ctzll(levels);
		parts = extents->part_mask[level];
	}
	return extents
		->bin[level * PM_BIN_PARTS + (rem_u32)__builtin_ctz(parts)];
}

/* Only before giving up: some nodes of the request's own bin may be enough. */
static rem_u32 find_in_own_bin(const struct pm_extents *extents, rem_u64 units)
{
	rem_u32 index = extents->bin[bin_of(units)];

	while (index != PM_NODE_NONE && extents->node[index].units < units)
		index = extents->node[index].bin_after;
	return index;
}

static rem_u32 find(const struct pm_extents *extents, rem_u64 units)
{
	rem_u32 index;

	if (units > extents->free_units)
		return PM_NODE_NONE;
	index = find_by_bin(extents, units);
	return index != PM_NODE_NONE ? index : find_in_own_bin(extents, units);
}

rem_u32 pm_extents_get(struct pm_extents *extents, rem_u64 units, rem_u64 align,
		       rem_u32 owner)
{
	rem_u64 offset;
	rem_u32 index = PM_NODE_NONE;

	if (units > 1ull << (PM_BIN_LEVELS - 2))
		return PM_NODE_NONE;
	if (align > 1) {
		index = find(extents, units + align - 1);
		if (index != PM_NODE_NONE) {
			offset = extents->node[index].offset;
			offset = (offset + align - 1) / align * align;
			return pm_extents_take(extents, index, offset, units,
					       owner);
		}
	}
	index = find(extents, units);
	if (index == PM_NODE_NONE)
		return index;
	return pm_extents_take(extents, index, extents->node[index].offset,
			       units, owner);
}

static bool is_free(const struct pm_extents *extents, rem_u32 index)
{
	return index != PM_NODE_NONE &&
	       extents->node[index].owner == PM_NODE_FREE;
}

void pm_extents_put(struct pm_extents *extents, rem_u32 index)
{
	rem_u32 before = extents->node[index].before;

	if (is_free(extents, extents->node[index].after)) {
		bin_remove(extents, extents->node[index].after);
		join(extents, index);
	}
	if (is_free(extents, before)) {
		bin_remove(extents, before);
		join(extents, before);
		index = before;
	}
	bin_add(extents, index);
}

rem_u64 pm_extents_room(const struct pm_extents *extents, rem_u32 index)
{
	rem_u32 after = extents->node[index].after;

	return is_free(extents, after) ? extents->node[after].units : 0;
}

void pm_extents_resize(struct pm_extents *extents, rem_u32 index, rem_u64 units)
{
	if (units == extents->node[index].units)
		return;
	if (is_free(extents, extents->node[index].after)) {
		bin_remove(extents, extents->node[index].after);
		join(extents, index);
	}
	if (extents->node[index].units > units)
		bin_add(extents, split(extents, index, units));
}
