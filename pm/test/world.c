// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdlib.h>

#include "check.h"
#include "need.h"
#include "world.h"

static void garbage(rem_u8 *at, size_t bytes)
{
	unsigned long seed = 42;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (rem_u8)(1 + random_next(&seed) % 255);
}

void world_make(struct world *world)
{
	struct pm_format format = {
		.bytes = WORLD_BYTES,
		.slots = WORLD_SLOTS,
		.created_ns = 1234567890123456789ull,
		.uuid = "sixteen bytes id",
	};
	rem_u64 base = pm_base_bytes(WORLD_SLOTS);

	memset(world, 0, sizeof(*world));
	world->env = recorder_new(WORLD_BYTES);
	/* Old bytes must never appear in a new segment. */
	garbage(world->env->memory + base, WORLD_BYTES - base);
	CHECK(!pm_region_format(world->env, world->env->memory, &format),
	      "format");
	CHECK(!world_open(world), "open after format");
}

int world_open(struct world *world)
{
	size_t bytes = pm_region_volatile_bytes(WORLD_SLOTS);

	free(world->volatile_memory);
	world->volatile_memory = calloc(1, bytes);
	return pm_region_open(&world->region, world->env, world->env->memory,
			      WORLD_BYTES, world->volatile_memory, true);
}

void world_free(struct world *world)
{
	free(world->volatile_memory);
	recorder_free(world->env);
}

void world_fill(struct world *world, rem_u32 slot, rem_u32 seed)
{
	rem_u8 *at = pm_segment_at(&world->region, slot);
	unsigned long state = seed;

	for (rem_u64 i = 0; i < world->region.entry[slot].record.bytes; i++)
		at[i] = (rem_u8)random_next(&state);
}

rem_u32 world_add(struct world *world, const char *name, rem_u64 bytes,
		  rem_u32 seed)
{
	struct pm_segment_new new = {
		.name = name,
		.type = REM_PM_RAW,
		.persist = REM_PM_FOC,
		.bytes = bytes,
		.uid = 1000,
		.mode = 0640,
		.created_ns = 5,
	};
	rem_u32 slot = PM_SLOT_NONE;
	int err = pm_segment_create(&world->region, &new, &slot);

	CHECK(!err, "create %s: %d", name, err);
	if (!err)
		world_fill(world, slot, seed);
	return slot;
}

rem_u32 world_add_two(struct world *world)
{
	rem_u32 one = world_add(world, "one", 6000, 1);
	struct rem_pm_segment record;

	world_add(world, "two", 4096, 2);
	record = world->region.entry[one].record;
	record.mode = 0600;
	CHECK(!pm_segment_change(&world->region, one, &record), "change");
	return one;
}

struct pm_slot world_slot(const struct world *world, rem_u32 index)
{
	rem_u8 *memory = world->env->memory;

	if (index == PM_SLOT_NONE)
		return pm_super_slot(memory);
	return pm_table_slot(memory, &world->region.super, index);
}

int region_create_new(struct pm_region *region)
{
	struct pm_segment_new new = { .name = "new",
				      .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 5000 };
	rem_u32 slot;

	return pm_segment_create(region, &new, &slot);
}

static int by_name(const void *one, const void *other)
{
	return strcmp(((const struct seen_segment *)one)->name,
		      ((const struct seen_segment *)other)->name);
}

void world_see(const struct pm_region *region, struct seen *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->region_bytes = region->super.region_bytes;
	ret->wish_bytes = region->super.wish_bytes;
	for (rem_u32 slot = 0; slot < region->super.slots; slot++) {
		const struct rem_pm_segment *record =
			&region->entry[slot].record;
		struct seen_segment *segment;

		if (region->entry[slot].state != PM_SLOT_USED)
			continue;
		segment = &ret->segment[ret->count++];
		memcpy(segment->name, record->name, sizeof(segment->name));
		segment->bytes = record->bytes;
		segment->generation = record->generation;
		segment->map_address = record->map_address;
		segment->type = record->type;
		segment->persist = record->persist;
		segment->mode = record->mode;
		segment->uid = record->uid;
		segment->content =
			pm_crc32c(region->base + record->offset, record->bytes);
	}
	qsort(ret->segment, ret->count, sizeof(ret->segment[0]), by_name);
}

bool seen_same(const struct seen *one, const struct seen *other)
{
	return !memcmp(one, other, sizeof(*one));
}

const char *seen_difference(const struct seen *one, const struct seen *other)
{
	static char text[200];

	if (one->count != other->count) {
		snprintf(text, sizeof(text), "%u segments, not %u", one->count,
			 other->count);
		return text;
	}
	for (rem_u32 i = 0; i < one->count; i++)
		if (memcmp(&one->segment[i], &other->segment[i],
			   sizeof(one->segment[i]))) {
			snprintf(text, sizeof(text), "segment %s differs",
				 one->segment[i].name);
			return text;
		}
	return "the superblock differs";
}

int image_see(rem_u8 *image, size_t bytes, bool may_write, struct seen *ret,
	      struct pm_region *ret_region)
{
	static rem_u8 memory[1 << 16];
	static struct pm_env env;
	struct pm_region region;
	int err;

	env.memory = image;
	env.bytes = bytes;
	if (pm_region_volatile_bytes(WORLD_SLOTS) > sizeof(memory))
		abort();
	memset(memory, 0, sizeof(memory));
	err = pm_region_open(&region, &env, image, bytes, memory, may_write);
	if (!err)
		world_see(&region, ret);
	if (ret_region)
		*ret_region = region;
	return err;
}
