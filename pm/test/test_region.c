// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a region behaves as region.h specifies, without cuts and damage, and
 * the cost of an operation does not depend on the other segments.
 */
#include <stdlib.h>

#include "check.h"
#include "world.h"

static void blank_memory_is_no_region(void)
{
	struct pm_env *env = recorder_new(WORLD_BYTES);
	struct rem_pm_super super;

	CHECK(pm_region_peek(env->memory, WORLD_BYTES, &super) == -ENOMEDIUM,
	      "zeros");
	memset(env->memory, 0xff, WORLD_BYTES);
	CHECK(pm_region_peek(env->memory, WORLD_BYTES, &super) == -EUCLEAN,
	      "ones");
	CHECK(pm_region_peek(env->memory, 4096, &super) == -EFBIG, "too small");
	recorder_free(env);
}

static void names_are_checked(void)
{
	static const char *const bad[] = { "",	  ".",	 "..",	     ".x", "-x",
					   "a/b", "a b", "\xc3\xa4", "a\n" };
	char longest[REM_PM_NAME_BYTES + 1];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!pm_name_is_valid(bad[i]), "name %zu", i);
	memset(longest, 'x', sizeof(longest));
	longest[REM_PM_NAME_BYTES - 1] = 0;
	CHECK(pm_name_is_valid(longest), "63 bytes");
	longest[REM_PM_NAME_BYTES - 1] = 'x';
	longest[REM_PM_NAME_BYTES] = 0;
	CHECK(!pm_name_is_valid(longest), "64 bytes");
	CHECK(pm_name_is_valid("a.B-9_"), "all kinds");
}

/* Blocks that could never be laid out; a record that has such is no damage. */
static void sizes_of_blocks_are_checked(void)
{
	static const rem_u32 wrong[] = { 0, 1, 256, 1000, 131072 };
	struct pm_segment_new new = { .name = "blocks",
				      .type = REM_PM_BLOCK,
				      .persist = REM_PM_FOC,
				      .bytes = 8192 };
	struct rem_pm_segment record;
	struct world world;
	struct pm_slot at;
	rem_u32 slot;

	world_make(&world);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		new.block_bytes = wrong[i];
		CHECK(pm_segment_create(&world.region, &new, &slot) == -EINVAL,
		      "blocks of %u bytes", wrong[i]);
	}
	new.block_bytes = 512;
	CHECK(!pm_segment_create(&world.region, &new, &slot), "create");
	record = world.region.entry[slot].record;
	record.block_bytes = 1000;
	at = pm_table_slot(world.env->memory, &world.region.super, slot);
	pm_slot_write(world.env, &at, record.word.sequence + 1, &record);
	CHECK(!world_open(&world) && !world.region.refused, "open");
	CHECK(!pm_segment_destroy(&world.region, slot), "destroy");
	new.type = REM_PM_RAW;
	CHECK(pm_segment_create(&world.region, &new, &slot) == -EINVAL,
	      "blocks of a raw segment");
	world_free(&world);
}

static void segments_come_and_go(void)
{
	struct world world;
	struct seen before, after;
	struct pm_segment_new new = { .name = "one",
				      .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 1 };
	rem_u32 one, two, slot;

	world_make(&world);
	one = world_add(&world, "one", 5000, 1);
	two = world_add(&world, "two", 4096, 2);
	CHECK(pm_segment_create(&world.region, &new, &slot) == -EEXIST, "twin");
	new.name = "no/name";
	CHECK(pm_segment_create(&world.region, &new, &slot) == -EINVAL, "name");
	new.name = "huge";
	new.bytes = WORLD_BYTES;
	CHECK(pm_segment_create(&world.region, &new, &slot) == -ENOSPC, "full");
	new.bytes = 0xffffffffffffffff;
	CHECK(pm_segment_create(&world.region, &new, &slot) == -ENOSPC, "max");
	CHECK(pm_segment_find(&world.region, "one") == one, "find");
	world_see(&world.region, &before);
	CHECK(!world_open(&world), "open");
	world_see(&world.region, &after);
	CHECK(seen_same(&before, &after), "%s",
	      seen_difference(&before, &after));
	PROMISE("not-clean", !world.region.repaired && !world.region.damaged,
		"%llu repaired, %llu damaged",
		(unsigned long long)world.region.repaired,
		(unsigned long long)world.region.damaged);
	CHECK(!pm_segment_destroy(&world.region, one), "destroy");
	CHECK(pm_segment_destroy(&world.region, one) == -ENOENT, "twice");
	CHECK(pm_segment_find(&world.region, "one") == PM_SLOT_NONE, "gone");
	CHECK(pm_segment_find(&world.region, "two") == two, "other stays");
	CHECK(!world_open(&world), "open");
	CHECK(world.region.used == 1, "one left");
	world_free(&world);
}

static void zeros_are_new(const struct world *world, rem_u32 slot, rem_u64 from)
{
	const rem_u8 *at = pm_segment_at(&world->region, slot);

	for (rem_u64 i = from; i < world->region.entry[slot].record.bytes; i++)
		if (at[i]) {
			PROMISE("old-bytes", false, "at %llu",
				(unsigned long long)i);
			return;
		}
}

static void a_new_segment_is_zeros(void)
{
	struct pm_segment_new new = { .name = "new",
				      .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 10000 };
	struct world world;
	rem_u32 slot;

	world_make(&world);
	CHECK(!pm_segment_create(&world.region, &new, &slot), "create");
	zeros_are_new(&world, slot, 0);
	/* Shrunk and grown again: the truncated bytes do not come back. */
	world_fill(&world, slot, 3);
	CHECK(!pm_segment_resize(&world.region, slot, 100, false), "shrink");
	CHECK(!pm_segment_resize(&world.region, slot, 9000, false), "grow");
	zeros_are_new(&world, slot, 100);
	world_free(&world);
}

static void sizes_change(void)
{
	struct world world;
	rem_u32 one, two, content;

	world_make(&world);
	one = world_add(&world, "one", 6000, 1);
	two = world_add(&world, "two", 4096, 2);
	content = pm_crc32c(pm_segment_at(&world.region, one), 6000);
	CHECK(pm_segment_resize(&world.region, one, 20000, false) == -ENOSPC,
	      "no room in place");
	CHECK(!pm_segment_resize(&world.region, one, 20000, true), "move");
	CHECK(pm_crc32c(pm_segment_at(&world.region, one), 6000) == content,
	      "content was moved");
	zeros_are_new(&world, one, 6000);
	CHECK(!pm_segment_resize(&world.region, one, 30000, false), "in place");
	CHECK(pm_segment_resize(&world.region, two, WORLD_BYTES, true) ==
		      -ENOSPC,
	      "too large");
	CHECK(!world_open(&world), "open");
	CHECK(pm_crc32c(pm_segment_at(&world.region, one), 6000) == content,
	      "still there");
	world_free(&world);
}

static void every_slot_can_be_used(void)
{
	struct pm_segment_new new = { .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 1 };
	struct world world;
	char name[8];
	rem_u32 slot;

	world_make(&world);
	for (int i = 0; i < WORLD_SLOTS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		world_add(&world, name, 4096, (rem_u32)i);
	}
	new.name = "more";
	CHECK(pm_segment_create(&world.region, &new, &slot) == -ENOSPC,
	      "no slot left");
	CHECK(!world_open(&world), "open full");
	CHECK(world.region.used == WORLD_SLOTS, "all used");
	world_free(&world);
}

static void the_region_changes_size(void)
{
	struct world world;
	struct seen seen;
	rem_u32 slot;

	world_make(&world);
	slot = world_add(&world, "one", 4096, 1);
	CHECK(pm_region_wish(&world.region, 4096) == -EFBIG, "wish too small");
	CHECK(pm_region_wish(&world.region, 4097) == -EINVAL, "odd wish");
	CHECK(!pm_region_wish(&world.region, WORLD_BYTES - 8192), "wish");
	CHECK(!world_open(&world), "open");
	CHECK(world.region.super.wish_bytes == WORLD_BYTES - 8192, "kept");
	CHECK(!image_see(world.env->memory, WORLD_BYTES - 8192, true, &seen,
			 NULL),
	      "smaller");
	CHECK(seen.region_bytes == WORLD_BYTES - 8192 && !seen.wish_bytes,
	      "applied");
	CHECK(image_see(world.env->memory,
			world.region.entry[slot].record.offset, true, &seen,
			NULL) == -EFBIG,
	      "a segment is not cut off");
	CHECK(!world_open(&world), "larger again");
	CHECK(world.region.super.region_bytes == WORLD_BYTES, "all of it");
	world_free(&world);
}

/* Stores, flushes and fences of a create and a destroy with @many others. */
static void count_of(rem_u32 many, unsigned long *ret)
{
	rem_u32 slots = many + 2;
	rem_u64 bytes = pm_base_bytes(slots) + (many + 8ull) * 4096;
	struct pm_format format = { .bytes = bytes, .slots = slots };
	struct pm_segment_new new = { .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 1 };
	struct pm_env *env = recorder_new(bytes);
	void *memory = calloc(1, pm_region_volatile_bytes(slots));
	struct pm_region region;
	char name[16];
	rem_u32 slot = 0;

	CHECK(!pm_region_format(env, env->memory, &format), "format");
	CHECK(!pm_region_open(&region, env, env->memory, bytes, memory, true),
	      "open");
	for (rem_u32 i = 0; i < many; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		new.name = name;
		CHECK(!pm_segment_create(&region, &new, &slot), "create %u", i);
	}
	env->stores = env->flushes = env->fences = 0;
	new.name = "last";
	CHECK(!pm_segment_create(&region, &new, &slot), "last");
	CHECK(!pm_segment_destroy(&region, slot), "destroy");
	ret[0] = env->stores;
	ret[1] = env->flushes;
	ret[2] = env->fences;
	free(memory);
	recorder_free(env);
}

static void cost_does_not_grow_with_segments(void)
{
	unsigned long few[3], many[3];

	count_of(1, few);
	count_of(10000, many);
	CHECK(few[0] == many[0] && few[1] == many[1] && few[2] == many[2],
	      "stores %lu/%lu flushes %lu/%lu fences %lu/%lu", few[0], many[0],
	      few[1], many[1], few[2], many[2]);
}

void test_region(void)
{
	blank_memory_is_no_region();
	names_are_checked();
	sizes_of_blocks_are_checked();
	segments_come_and_go();
	a_new_segment_is_zeros();
	sizes_change();
	every_slot_can_be_used();
	the_region_changes_size();
	cost_does_not_grow_with_segments();
}
