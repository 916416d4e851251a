/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which space of a region is taken: a map in volatile memory, rebuilt at each
 * open. Two-level segregated fit, so that giving and taking space costs the
 * same with ten segments and ten thousand.
 */
#ifndef PM_EXTENT_H
#define PM_EXTENT_H

#include "env.h"

#define PM_NODE_NONE 0xffffffffu
#define PM_NODE_FREE 0xffffffffu /* as owner */
#define PM_BIN_LEVELS 48
#define PM_BIN_PARTS 8
#define PM_BINS (PM_BIN_LEVELS * PM_BIN_PARTS)

/* A stretch of the region, in units; all of them together cover it. */
struct pm_node {
	rem_u64 offset;
	rem_u64 units;
	rem_u32 owner;	/* slot, or PM_NODE_FREE */
	rem_u32 before; /* neighbours by address */
	rem_u32 after;
	rem_u32 bin_before; /* neighbours in the bin of a free node */
	rem_u32 bin_after;
};

struct pm_extents {
	struct pm_node *node;
	rem_u32 nodes_max;
	rem_u32 spare; /* nodes that are no stretch, by @after */
	rem_u64 free_units;
	rem_u64 level_mask;
	rem_u8 part_mask[PM_BIN_LEVELS];
	rem_u32 bin[PM_BINS];
};

/* Nodes that @slots segments can need, one of them while it moves, and the gaps. */
static inline rem_u32 pm_nodes_for(rem_u32 slots)
{
	return 2 * slots + 4;
}

/*
 * Begin with @units from @offset on, all free. The node array holds
 * @nodes_max.
 */
void pm_extents_init(struct pm_extents *extents, struct pm_node *node,
		     rem_u32 nodes_max, rem_u64 offset, rem_u64 units);

/* Take a given stretch out of the free node @in. Returns its node. */
rem_u32 pm_extents_take(struct pm_extents *extents, rem_u32 in, rem_u64 offset,
			rem_u64 units, rem_u32 owner);

/*
 * Find @units, aligned to @align units where that can be had; take them.
 * Returns the node, or PM_NODE_NONE.
 */
rem_u32 pm_extents_get(struct pm_extents *extents, rem_u64 units, rem_u64 align,
		       rem_u32 owner);

void pm_extents_put(struct pm_extents *extents, rem_u32 node);

/* Free units that follow a node directly. */
rem_u64 pm_extents_room(const struct pm_extents *extents, rem_u32 node);

/* Make a node longer, by no more than that room, or shorter. */
void pm_extents_resize(struct pm_extents *extents, rem_u32 node, rem_u64 units);

#endif /* PM_EXTENT_H */
