// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What is done with segments: each changes one slot of the table, at one
 * instant, and takes the same number of stores whatever else there is.
 *
 * Order: what a record says is true before the record is committed, by the
 * fences that pm_slot_write() has before its commit. Space that a record no
 * longer needs is free only after the commit.
 */
#include "region.h"

#define HUGE_UNITS (0x200000 / REM_PM_UNIT_BYTES)

static rem_u64 units_of(rem_u64 bytes)
{
	return bytes / REM_PM_UNIT_BYTES + !!(bytes % REM_PM_UNIT_BYTES);
}

static int check_slot(const struct pm_region *region, rem_u32 slot)
{
	if (slot >= region->super.slots ||
	    region->entry[slot].state == PM_SLOT_FREE)
		return -ENOENT;
	if (region->entry[slot].state != PM_SLOT_USED)
		return -EUCLEAN;
	return 0;
}

/*
 * What media must hold of a slot, as memory has it. Before a change, too: the next
 * record is valid only beside one that is.
 */
static int restore(struct pm_region *region, const struct pm_slot *slot,
		   rem_u32 sequence, const void *record)
{
	struct pm_verdict found;
	int done = pm_slot_restore(region->env, slot, sequence, record, &found);

	region->damaged += found.damaged;
	region->repaired += done == 1;
	return done < 0 ? done : 0;
}

/* Commit the superblock as memory has it by now; @was: as media has it. */
static int commit_super(struct pm_region *region,
			const struct rem_pm_super *was)
{
	struct pm_slot slot = pm_super_slot(region->base);
	int err;

	if (was->word.sequence >= REM_PM_SEQUENCE_LAST)
		return -EOVERFLOW;
	err = restore(region, &slot, was->word.sequence, was);
	if (err)
		return err;
	pm_slot_write(region->env, &slot, ++region->super.word.sequence,
		      &region->super);
	return 0;
}

/* Commit @record into a slot and remember it. */
static int commit(struct pm_region *region, rem_u32 index,
		  const struct rem_pm_segment *record)
{
	struct pm_entry *entry = &region->entry[index];
	struct pm_slot slot =
		pm_table_slot(region->base, &region->super, index);
	rem_u32 sequence = entry->record.word.sequence + 1;
	int err;

	if (sequence > REM_PM_SEQUENCE_LAST)
		return -EOVERFLOW;
	err = restore(region, &slot, sequence - 1, &entry->record);
	if (err)
		return err;
	pm_slot_write(region->env, &slot, sequence, record);
	entry->record = *record;
	entry->record.word.sequence = sequence;
	return 0;
}

static void fill_record(struct rem_pm_segment *record,
			const struct pm_segment_new *new,
			const struct pm_node *node)
{
	memset(record, 0, sizeof(*record));
	record->type = new->type;
	record->persist = new->persist;
	memcpy(record->uuid, new->uuid, sizeof(record->uuid));
	memcpy(record->name, new->name, strlen(new->name));
	record->offset = node->offset * REM_PM_UNIT_BYTES;
	record->bytes = new->bytes;
	record->extent_bytes = node->units * REM_PM_UNIT_BYTES;
	record->created_ns = new->created_ns;
	record->map_address = new->map_address;
	record->uid = new->uid;
	record->gid = new->gid;
	record->mode = new->mode;
	record->block_bytes = new->block_bytes;
}

/* Space for @bytes, by huge pages where that is possible. */
static rem_u32 get_space(struct pm_region *region, rem_u64 bytes, rem_u32 slot)
{
	rem_u64 units = units_of(bytes);

	return pm_extents_get(&region->extents, units,
			      units >= HUGE_UNITS ? HUGE_UNITS : 1, slot);
}

static void aside(struct pm_region *region, bool begins)
{
	if (region->aside)
		region->aside(region, begins);
}

static void zero_space(struct pm_region *region, rem_u64 offset, rem_u64 bytes)
{
	aside(region, true);
	pm_zero(region->env, region->base + offset, bytes);
	aside(region, false);
}

/*
 * Blocks of a size that can be laid out. A record that has another is not damaged:
 * such segments were made, and are there to be destroyed.
 */
static bool block_bytes_are_valid(const struct pm_segment_new *new)
{
	rem_u32 bytes = new->block_bytes;

	if (new->type != REM_PM_BLOCK)
		return !bytes;
	return bytes >= REM_PM_BLOCK_BYTES_MIN &&
	       bytes <= REM_PM_BLOCK_BYTES_MAX && !(bytes & (bytes - 1));
}

int pm_segment_create(struct pm_region *region,
		      const struct pm_segment_new *new, rem_u32 *ret_slot)
{
	rem_u32 slot = region->free_slot;
	struct rem_pm_segment record;
	struct pm_node *node;
	rem_u32 index;
	int err;

	if (!pm_name_is_valid(new->name) || !new->bytes ||
	    !block_bytes_are_valid(new))
		return -EINVAL;
	if (region->refused)
		return -EROFS;
	if (pm_segment_find(region, new->name) != PM_SLOT_NONE)
		return -EEXIST;
	if (slot == PM_SLOT_NONE)
		return -ENOSPC;
	index = get_space(region, new->bytes, slot);
	if (index == PM_NODE_NONE)
		return -ENOSPC;
	node = &region->extents.node[index];
	fill_record(&record, new, node);
	record.generation = region->entry[slot].record.word.sequence + 1ull;
	err = pm_record_is_sound(&region->super, &record) ? 0 : -EINVAL;
	if (!err) {
		zero_space(region, record.offset, record.extent_bytes);
		err = commit(region, slot, &record);
	}
	if (err) {
		pm_extents_put(&region->extents, index);
		return err;
	}
	region->free_slot = region->entry[slot].next;
	region->entry[slot].state = PM_SLOT_USED;
	region->entry[slot].node = index;
	region->used++;
	pm_hash_add(region, slot);
	*ret_slot = slot;
	return 0;
}

int pm_segment_destroy(struct pm_region *region, rem_u32 slot)
{
	struct rem_pm_segment none = { .type = REM_PM_FREE };
	struct pm_entry *entry;
	int err = check_slot(region, slot);

	if (err)
		return err;
	entry = &region->entry[slot];
	pm_hash_remove(region, slot);
	err = commit(region, slot, &none);
	if (err) {
		pm_hash_add(region, slot);
		return err;
	}
	pm_extents_put(&region->extents, entry->node);
	entry->state = PM_SLOT_FREE;
	entry->next = region->free_slot;
	region->free_slot = slot;
	region->used--;
	return 0;
}

/* Grow or shrink where it is. */
static int resize_here(struct pm_region *region, rem_u32 slot, rem_u64 bytes)
{
	struct pm_entry *entry = &region->entry[slot];
	struct rem_pm_segment record = entry->record;
	rem_u64 units = units_of(bytes);
	int err;

	record.bytes = bytes;
	record.extent_bytes = units * REM_PM_UNIT_BYTES;
	/* What lies behind the old end is made zeros at each growth. */
	if (bytes > entry->record.bytes)
		zero_space(region, record.offset + entry->record.bytes,
			   record.extent_bytes - entry->record.bytes);
	err = commit(region, slot, &record);
	if (!err)
		pm_extents_resize(&region->extents, entry->node, units);
	return err;
}

static int copy_over(void *context, void *from, rem_u64 from_bytes, void *to,
		     rem_u64 room_bytes)
{
	struct pm_region *region = context;
	rem_u8 piece[1024];

	for (rem_u64 at = 0; at < from_bytes; at += sizeof(piece)) {
		size_t now = from_bytes - at;

		if (now > sizeof(piece))
			now = sizeof(piece);
		if (at / sizeof(piece) % PM_REST == PM_REST - 1)
			pm_rest(region->env);
		if (!pm_fetch(piece, (rem_u8 *)from + at, now))
			return -EIO; /* it stays where it is */
		pm_copy(region->env, (rem_u8 *)to + at, piece, now);
	}
	/* It is to be larger. */
	pm_zero(region->env, (rem_u8 *)to + from_bytes,
		room_bytes - from_bytes);
	return 0;
}

static int resize_by_moving(struct pm_region *region, rem_u32 slot,
			    rem_u64 bytes, pm_fill fill, void *context)
{
	struct pm_entry *entry = &region->entry[slot];
	struct rem_pm_segment record = entry->record;
	rem_u8 *from = region->base + record.offset;
	rem_u32 old = entry->node;
	rem_u32 index = get_space(region, bytes, slot);
	struct pm_node *node;
	int err = 0;

	if (index == PM_NODE_NONE)
		return -ENOSPC;
	node = &region->extents.node[index];
	record.offset = node->offset * REM_PM_UNIT_BYTES;
	record.extent_bytes = node->units * REM_PM_UNIT_BYTES;
	record.bytes = bytes;
	aside(region, true);
	err = fill(context, from, entry->record.bytes,
		   region->base + record.offset, record.extent_bytes);
	aside(region, false);
	if (!err)
		err = commit(region, slot, &record);
	if (err) {
		pm_extents_put(&region->extents, index);
		return err;
	}
	entry->node = index;
	pm_extents_put(&region->extents, old);
	return 0;
}

static int check_change(const struct pm_region *region, rem_u32 slot,
			rem_u64 bytes)
{
	int err = check_slot(region, slot);

	if (err)
		return err;
	if (!bytes)
		return -EINVAL;
	return region->refused ? -EROFS : 0;
}

int pm_segment_resize(struct pm_region *region, rem_u32 slot, rem_u64 bytes,
		      bool may_move)
{
	int err = check_change(region, slot, bytes);
	rem_u64 have, units = units_of(bytes);

	if (err)
		return err;
	have = region->extents.node[region->entry[slot].node].units;
	if (units <= have ||
	    units - have <=
		    pm_extents_room(&region->extents, region->entry[slot].node))
		return resize_here(region, slot, bytes);
	return may_move ? resize_by_moving(region, slot, bytes, copy_over,
					   region) :
			  -ENOSPC;
}

int pm_segment_rebuild(struct pm_region *region, rem_u32 slot, rem_u64 bytes,
		       pm_fill fill, void *context)
{
	int err = check_change(region, slot, bytes);

	return err ? err : resize_by_moving(region, slot, bytes, fill, context);
}

int pm_segment_give_up(struct pm_region *region, rem_u32 index)
{
	struct rem_pm_segment none = { .type = REM_PM_FREE };
	struct pm_entry *entry;
	struct pm_slot slot;

	if (index >= region->super.slots ||
	    region->entry[index].state != PM_SLOT_REFUSED)
		return -ENOENT;
	entry = &region->entry[index];
	slot = pm_table_slot(region->base, &region->super, index);
	/* A cut in between leaves it refused, or what it was before. */
	pm_slot_first(region->env, &slot, &none, true);
	pm_fence(region->env);
	/* One that was refused for the place or name of another may be hashed. */
	if (pm_record_is_sound(&region->super, &entry->record))
		pm_hash_remove(region, index);
	entry->record = none;
	entry->record.word.sequence = 1;
	entry->state = PM_SLOT_FREE;
	entry->next = region->free_slot;
	region->free_slot = index;
	region->refused--;
	return 0;
}

int pm_segment_change(struct pm_region *region, rem_u32 slot,
		      const struct rem_pm_segment *record)
{
	struct rem_pm_segment new;
	int err = check_slot(region, slot);

	if (err)
		return err;
	new = region->entry[slot].record;
	new.persist = record->persist;
	new.uid = record->uid;
	new.gid = record->gid;
	new.mode = record->mode;
	new.map_address = record->map_address;
	if (!pm_record_is_sound(&region->super, &new))
		return -EINVAL;
	return commit(region, slot, &new);
}

int pm_region_wish(struct pm_region *region, rem_u64 bytes)
{
	struct rem_pm_super was = region->super;
	int err;

	if (bytes % REM_PM_UNIT_BYTES)
		return -EINVAL;
	if (bytes && bytes < region->super.base_bytes + REM_PM_UNIT_BYTES)
		return -EFBIG;
	for (rem_u32 i = 0; bytes && i < region->super.slots; i++) {
		const struct rem_pm_segment *record = &region->entry[i].record;

		if (region->entry[i].state == PM_SLOT_USED &&
		    record->offset + record->extent_bytes > bytes)
			return -EFBIG;
	}
	region->super.wish_bytes = bytes;
	err = commit_super(region, &was);
	if (err)
		region->super = was;
	return err;
}

int pm_region_scrub(struct pm_region *region, rem_u32 index)
{
	const struct rem_pm_segment *record;
	struct pm_slot slot;

	if (index == PM_SLOT_NONE) {
		slot = pm_super_slot(region->base);
		return restore(region, &slot, region->super.word.sequence,
			       &region->super);
	}
	if (region->entry[index].state == PM_SLOT_REFUSED)
		return -EUCLEAN; /* memory does not know what it held */
	slot = pm_table_slot(region->base, &region->super, index);
	record = &region->entry[index].record;
	return restore(region, &slot, record->word.sequence, record);
}
