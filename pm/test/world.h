/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A small region in a recorder, and its content as a user sees it. */
#ifndef PM_WORLD_H
#define PM_WORLD_H

#include "recorder.h"

#define WORLD_SLOTS 12
#define WORLD_BYTES (96 * 4096) /* the base segment has 54 units */

struct seen_segment {
	char name[REM_PM_NAME_BYTES];
	rem_u64 bytes, generation, map_address, offset;
	rem_u32 type, persist, mode, uid;
	rem_u32 content; /* checksum of the bytes */
};

struct seen {
	rem_u32 count;
	rem_u64 region_bytes, wish_bytes;
	struct seen_segment segment[WORLD_SLOTS]; /* in order of names */
};

struct world {
	struct pm_env *env;
	struct pm_region region;
	void *volatile_memory;
};

void world_make(struct world *world);
/* Opens the memory's content, as a boot would. */
int world_open(struct world *world);
void world_free(struct world *world);

/* A segment of @units filled with a pattern of @seed. Returns its slot. */
rem_u32 world_add(struct world *world, const char *name, rem_u64 bytes,
		  rem_u32 seed);
/* "one" and "two"; the slot of "one" has two committed halves. Returns it. */
rem_u32 world_add_two(struct world *world);
/* A segment's slot, or with PM_SLOT_NONE the superblock's. */
struct pm_slot world_slot(const struct world *world, rem_u32 index);
/* A segment "new" without a content. Returns its creation's error. */
int region_create_new(struct pm_region *region);
void world_fill(struct world *world, rem_u32 slot, rem_u32 seed);
void world_see(const struct pm_region *region, struct seen *ret);
bool seen_same(const struct seen *one, const struct seen *other);
/* Where they differ, for a message. */
const char *seen_difference(const struct seen *one, const struct seen *other);

/* Opens an image as a boot would, and reads it. Returns opening's error. */
int image_see(rem_u8 *image, size_t bytes, bool may_write, struct seen *ret,
	      struct pm_region *ret_region);

#endif /* PM_WORLD_H */
