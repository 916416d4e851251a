/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A region: its superblock, its segment table, and what is done with them.
 *
 * No function here allocates; the caller allows one at a time, and may let others
 * read meanwhile where @aside is called. Errors
 * are negative errno:
 *   -ENOMEDIUM     no region has been made here
 *   -EUCLEAN       damaged beyond repair: all copies, or impossible content
 *   -EPROTONOSUPPORT  made by a newer version
 *   -ENOTEMPTY     something else is there
 *   -EFBIG         it would cut off a segment, or does not fit the memory
 *   -EROFS         damaged slots: what they hold is not known, so nothing that
 *                  takes space may be done
 *   -ENOSPC, -EEXIST, -ENOENT, -EINVAL, -EOVERFLOW as usual
 */
#ifndef PM_REGION_H
#define PM_REGION_H

#include "extent.h"
#include "slot.h"

enum pm_slot_state {
	PM_SLOT_FREE,
	PM_SLOT_USED,
	PM_SLOT_REFUSED, /* damaged in all copies, or impossible */
};

/* What is kept of a slot in volatile memory. */
struct pm_entry {
	struct rem_pm_segment record; /* as committed, checked */
	rem_u32 state;		      /* enum pm_slot_state */
	rem_u32 node;		      /* its extent */
	rem_u32 next;		      /* of the same hash, or free */
};

struct pm_region {
	struct pm_env *env;
	rem_u8 *base;
	/*
	 * Called before and after work on a segment's content that takes time with its
	 * size, or null: what is kept of the region may be read meanwhile, by others, but
	 * changed by nobody.
	 */
	void (*aside)(struct pm_region *region, bool begins);
	struct rem_pm_super super; /* as committed, checked */
	struct pm_extents extents;
	struct pm_entry *entry; /* one a slot */
	rem_u32 *hash;
	rem_u32 hash_mask;
	rem_u32 free_slot; /* first of a list by @next */
	rem_u32 used;
	rem_u32 refused;
	rem_u64 repaired; /* slots that open or scrub put right */
	rem_u64 damaged;  /* halves found damaged, in all */
};

#define PM_SLOT_NONE 0xffffffffu

/* What is asked of pm_region_format(). */
struct pm_format {
	rem_u64 bytes;
	rem_u32 slots;
	rem_u64 created_ns;
	rem_u8 uuid[16];
};

/* What is asked of pm_segment_create(). */
struct pm_segment_new {
	const char *name;
	rem_u32 type; /* enum rem_pm_type */
	rem_u32 persist;
	rem_u64 bytes;
	rem_u32 block_bytes;
	rem_u32 uid, gid, mode;
	rem_u64 map_address;
	rem_u64 created_ns;
	rem_u8 uuid[16];
};

/* Bytes of the base segment of a region with @slots. */
rem_u64 pm_base_bytes(rem_u32 slots);

/*
 * Make a region of what lies at @base. Only on memory that holds none
 * (pm_region_peek() says -ENOMEDIUM), or after pm_region_wipe().
 */
int pm_region_format(struct pm_env *env, void *base,
		     const struct pm_format *format);
void pm_region_wipe(struct pm_env *env, void *base);

/*
 * Whether something is in the memory that is to become a region: 0, or -ENOTEMPTY and
 * the offset of a byte that is neither zero nor of a format that was cut. Of @bytes
 * of memory both ends are read, where partition tables, file systems, LVM, RAID and
 * swap have their headers, and all that a format stores to.
 */
int pm_region_check_blank(struct pm_env *env, const void *base, rem_u64 bytes,
			  const struct pm_format *format, rem_u64 *ret_offset);

/* The superblock that holds. @bytes: of the memory there is. */
int pm_region_peek(const void *base, rem_u64 bytes, struct rem_pm_super *ret);

/* Bytes of volatile memory that an open region with @slots needs. */
size_t pm_region_volatile_bytes(rem_u32 slots);

/*
 * Read and check everything, repair what copies allow where @may_write. The
 * region then has the size @bytes, which -EFBIG refuses if it cuts off a
 * segment. @memory: pm_region_volatile_bytes(), zeroed.
 */
int pm_region_open(struct pm_region *region, struct pm_env *env, void *base,
		   rem_u64 bytes, void *memory, bool may_write);

/* The slot of a name, or PM_SLOT_NONE. */
rem_u32 pm_segment_find(const struct pm_region *region, const char *name);
bool pm_name_is_valid(const char *name);

int pm_segment_create(struct pm_region *region,
		      const struct pm_segment_new *new, rem_u32 *ret_slot);
int pm_segment_destroy(struct pm_region *region, rem_u32 slot);
/* Nobody may write to the segment meanwhile. @may_move: else grow in place. */
int pm_segment_resize(struct pm_region *region, rem_u32 slot, rem_u64 bytes,
		      bool may_move);
/*
 * Another size, in another place, which @fill makes out of the old one before it
 * is the segment's: all of it or, after an error of @fill's, nothing.
 */
typedef int (*pm_fill)(void *context, void *from, rem_u64 from_bytes, void *to,
		       rem_u64 room_bytes);
int pm_segment_rebuild(struct pm_region *region, rem_u32 slot, rem_u64 bytes,
		       pm_fill fill, void *context);
/* New owner, mode, persist, map address: @record with nothing else changed. */
int pm_segment_change(struct pm_region *region, rem_u32 slot,
		      const struct rem_pm_segment *record);

/*
 * Give up a refused slot: what it held is lost, and it is free. If another
 * slot is refused because it has the same place or name, it stays refused
 * until the next open.
 */
int pm_segment_give_up(struct pm_region *region, rem_u32 slot);

/* Ask for another size of the region, from the next boot on; 0 takes it back. */
int pm_region_wish(struct pm_region *region, rem_u64 bytes);

/*
 * Look at a slot's copies again, or at the superblock's with PM_SLOT_NONE, and
 * put them right, from memory if all are damaged. 0; -EUCLEAN: it was refused
 * when the region was opened, or media does not keep what is stored.
 */
int pm_region_scrub(struct pm_region *region, rem_u32 slot);

static inline rem_u8 *pm_segment_at(const struct pm_region *region,
				    rem_u32 slot)
{
	return region->base + region->entry[slot].record.offset;
}

/* Of table.c and segment.c, for each other. */
struct pm_slot pm_table_slot(rem_u8 *base, const struct rem_pm_super *super,
			     rem_u32 index);
struct pm_slot pm_super_slot(rem_u8 *base);
/* What a superblock would be; -EINVAL or -ENOSPC. */
int pm_region_plan(const struct pm_format *format, struct rem_pm_super *ret);
void pm_hash_add(struct pm_region *region, rem_u32 slot);
/* Nothing happens where it is not there. */
void pm_hash_remove(struct pm_region *region, rem_u32 slot);
bool pm_record_is_sound(const struct rem_pm_super *super,
			const struct rem_pm_segment *record);

#endif /* PM_REGION_H */
