// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: work that grows with a segment is neither one long piece, in which a kernel
 * runs nobody else, nor done while the region is locked.
 * Method: calls of the core's surroundings are counted from one pm_rest() to the next,
 * of a region with many slots and a segment with many blocks. Each store of many
 * bytes must be aside, and what a reader sees then is the state before.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"
#include "world.h"

#define SLOTS 3000
#define MANY_BLOCKS 4000
#define CALLS_MAX \
	(PM_REST * 24) /* of a slot or a block there are at most so many */

static void few_calls(struct pm_env *env, const char *what)
{
	PROMISE("no-rest", env->calls_max <= CALLS_MAX,
		"%s: %lu calls without a rest", what, env->calls_max);
	env->calls = 0;
	env->calls_max = 0;
}

static void many_blocks(void)
{
	struct pm_block_format format = {
		.segment_bytes = MANY_BLOCKS * (BLOCK + 64),
		.block_bytes = BLOCK,
		.lanes = 1,
		.lane_entries = 4,
	};
	struct pm_env *env = recorder_new(2 * format.segment_bytes);
	struct rem_pm_block_header header;
	struct pm_block_lent lent = { .from = NULL };
	rem_u8 buffer[BLOCK] = { 1 };
	struct pm_block block;
	size_t bytes;

	CHECK(!pm_block_plan(&format, &header), "plan");
	CHECK(!pm_block_format(env, env->memory, &format), "format");
	few_calls(env, "format of blocks");
	bytes = pm_block_volatile_bytes(&header);
	lent.from = need(calloc(1, bytes));
	lent.to = need(calloc(1, bytes));
	lent.buffer = buffer;
	CHECK(!pm_block_open(&block, env, env->memory, format.segment_bytes,
			     format.uuid, lent.from, true),
	      "open");
	for (rem_u32 i = 0; i < header.blocks; i++) {
		struct pm_block_io io = { i, buffer };

		CHECK(!pm_block_write(&block, &io, 1), "write");
	}
	env->calls_max = 0;
	memset(lent.from, 0, bytes);
	CHECK(!pm_block_rebuild(env, env->memory, format.segment_bytes,
				env->memory + format.segment_bytes, &format,
				&lent),
	      "rebuild");
	few_calls(env, "a copy of blocks");
	free(lent.from);
	free(lent.to);
	recorder_free(env);
}

static void many_slots(void)
{
	struct pm_format format = { .slots = SLOTS };
	struct pm_region region;
	struct pm_env *env;
	void *memory = need(calloc(1, pm_region_volatile_bytes(SLOTS)));

	format.bytes = pm_base_bytes(SLOTS) + 8 * REM_PM_UNIT_BYTES;
	env = recorder_new(format.bytes);
	CHECK(!pm_region_format(env, env->memory, &format), "format");
	few_calls(env, "format of a region");
	/* One copy of each slot is damaged, so that each is repaired. */
	for (rem_u32 i = 0; i < SLOTS; i++)
		env->memory[REM_PM_TABLE_OFFSET + i * REM_PM_SLOT_BYTES] ^= 1;
	CHECK(!pm_region_open(&region, env, env->memory, format.bytes, memory,
			      true),
	      "open");
	CHECK(region.repaired == SLOTS, "each was repaired");
	few_calls(env, "open with repairs");
	free(memory);
	recorder_free(env);
}

struct watch {
	struct world world;
	struct seen before;
	const char *name;
	bool is_aside;
	unsigned int many, times;
};

static struct watch *watched;

static void aside(struct pm_region *region, bool begins)
{
	struct seen seen;

	CHECK(begins != watched->is_aside, "begins and ends in turn");
	watched->is_aside = begins;
	watched->times += begins;
	world_see(region, &seen);
	PROMISE("half-seen", seen_same(&seen, &watched->before), "%s: %s",
		watched->name, seen_difference(&seen, &watched->before));
}

static void before_many(struct pm_env *env, void *context)
{
	(void)env;
	(void)context;
	watched->many++;
	PROMISE("under-lock", watched->is_aside, "%s: many bytes are stored",
		watched->name);
}

static int create(struct pm_region *region)
{
	struct pm_segment_new new = { .name = "new",
				      .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 3 * 4096 };
	rem_u32 slot;

	return pm_segment_create(region, &new, &slot);
}

static int grow(struct pm_region *region)
{
	return pm_segment_resize(region, pm_segment_find(region, "two"),
				 9 * 4096, false);
}

static int move(struct pm_region *region)
{
	return pm_segment_resize(region, pm_segment_find(region, "one"),
				 9 * 4096, true);
}

static int fill(void *context, void *from, rem_u64 from_bytes, void *to,
		rem_u64 room_bytes)
{
	(void)from_bytes;
	pm_copy(context, to, from, 4096);
	pm_zero(context, (rem_u8 *)to + 4096, room_bytes - 4096);
	return 0;
}

static int rebuild(struct pm_region *region)
{
	return pm_segment_rebuild(region, pm_segment_find(region, "one"),
				  9 * 4096, fill, region->env);
}

static void work_is_aside(const char *name, int (*act)(struct pm_region *))
{
	struct watch watch = { .name = name };

	world_make(&watch.world);
	world_add(&watch.world, "one", 2 * 4096, 1);
	world_add(&watch.world, "two", 4096, 2);
	world_see(&watch.world.region, &watch.before);
	watched = &watch;
	watch.world.region.aside = aside;
	watch.world.env->before_many = before_many;
	CHECK(!act(&watch.world.region), "%s", name);
	CHECK(watch.many && watch.times == 1 && !watch.is_aside,
	      "%s: %u stores of many bytes, aside %u times", name, watch.many,
	      watch.times);
	world_free(&watch.world);
}

void test_long_work(void)
{
	many_blocks();
	many_slots();
	work_is_aside("create", create);
	work_is_aside("grow", grow);
	work_is_aside("move", move);
	work_is_aside("rebuild", rebuild);
}
