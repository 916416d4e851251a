// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a resized block segment holds the same blocks, at each cut the old or
 * the new segment; a block that has no place, or is damaged, leaves everything
 * unchanged. Method: a region in the recorder with a block segment that was
 * written to; each image that a cut may leave is opened, region and blocks.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "world.h"

#define SMALL (8 * 4096)
#define LARGE (12 * 4096)
#define ENTRIES 2
#define IMAGES_MAX 60

struct trial {
	struct blocks_seen content;
	rem_u64 before, after; /* bytes */
	bool done;
	unsigned long images;
};

static struct pm_block_format format_of(const struct rem_pm_segment *record,
					rem_u64 bytes)
{
	struct pm_block_format format = {
		.segment_bytes = bytes,
		.block_bytes = record->block_bytes,
		.lanes = 1,
		.lane_entries = ENTRIES,
	};

	memcpy(format.uuid, record->uuid, sizeof(format.uuid));
	return format;
}

static int open_blocks(struct pm_env *env, rem_u8 *base,
		       const struct rem_pm_segment *record,
		       struct pm_block *ret)
{
	static rem_u8 memory[8192];
	struct rem_pm_block_header header;
	int err = pm_block_peek(base + record->offset, record->bytes,
				record->uuid, &header);

	if (err)
		return err;
	if (pm_block_volatile_bytes(&header) > sizeof(memory))
		abort();
	memset(memory, 0, sizeof(memory));
	return pm_block_open(ret, env, base + record->offset, record->bytes,
			     record->uuid, memory, true);
}

/* Reads the first blocks; the number of those after them varies. */
static void see(struct pm_block *block, struct blocks_seen *ret)
{
	rem_u8 data[BLOCK];

	memset(ret, 0, sizeof(*ret));
	ret->count = 4;
	for (rem_u32 i = 0; i < ret->count; i++) {
		ret->err[i] = pm_block_read(block, i, data);
		ret->content[i] = pm_crc32c(data, BLOCK);
	}
}

static int fill(void *context, void *from, rem_u64 from_bytes, void *to,
		rem_u64 room_bytes)
{
	static rem_u8 memory[2][8192];
	rem_u8 buffer[BLOCK];
	struct pm_block_lent lent = { memory[0], memory[1], buffer };
	struct world *world = context;
	struct pm_block_format format =
		format_of(&world->region.entry[0].record, room_bytes);

	memset(memory, 0, sizeof(memory));
	return pm_block_rebuild(world->env, from, from_bytes, to, &format,
				&lent);
}

static void setup(struct world *world, rem_u64 bytes, rem_u32 last)
{
	struct pm_segment_new new = { .name = "blocks",
				      .type = REM_PM_BLOCK,
				      .persist = REM_PM_FOC,
				      .bytes = bytes,
				      .block_bytes = BLOCK,
				      .uuid = "a block segment" };
	rem_u8 data[BLOCK];
	struct pm_block block;
	struct pm_block_format format;
	rem_u32 slot;

	world_make(world);
	CHECK(!pm_segment_create(&world->region, &new, &slot) && !slot, "new");
	format = format_of(&world->region.entry[0].record, bytes);
	CHECK(!pm_block_format(world->env, pm_segment_at(&world->region, 0),
			       &format),
	      "format");
	CHECK(!open_blocks(world->env, world->env->memory,
			   &world->region.entry[0].record, &block),
	      "open");
	for (rem_u32 number = 0; number <= last; number += last ? last : 1) {
		struct pm_block_io io = { number, data };

		memset(data, (int)number + 1, sizeof(data));
		CHECK(!pm_block_write(&block, &io, 1), "write");
		if (!last)
			break;
	}
}

static void judge(rem_u8 *image, void *context)
{
	static struct pm_env env;
	struct trial *trial = context;
	struct rem_pm_segment *record;
	struct blocks_seen content;
	struct pm_region region;
	struct pm_block block;
	struct seen seen;
	int err;

	trial->images++;
	env.memory = image;
	env.bytes = WORLD_BYTES;
	err = image_see(image, WORLD_BYTES, true, &seen, &region);
	PROMISE("does-not-open", !err && seen.count == 1 && !region.damaged,
		"region: %d", err);
	if (err || seen.count != 1)
		return;
	record = &region.entry[0].record;
	PROMISE("not-atomic",
		record->bytes == trial->after ||
			(!trial->done && record->bytes == trial->before),
		"%llu bytes", (unsigned long long)record->bytes);
	err = open_blocks(&env, image, record, &block);
	PROMISE("does-not-open", !err, "blocks: %d", err);
	if (err)
		return;
	see(&block, &content);
	PROMISE("not-atomic",
		!memcmp(&content, &trial->content, sizeof(content)) &&
			!block.mismatches,
		"other blocks");
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge, trial);
}

static void resized_at_each_cut(rem_u64 before, rem_u64 after)
{
	struct trial trial = { .before = before, .after = after };
	struct pm_block block;
	struct world world;

	setup(&world, before, 3);
	CHECK(!open_blocks(world.env, world.env->memory,
			   &world.region.entry[0].record, &block),
	      "open");
	see(&block, &trial.content);
	world.env->before_fence = cut;
	world.env->context = &trial;
	recorder_begin(world.env, IMAGES_MAX, 5);
	CHECK(!pm_segment_rebuild(&world.region, 0, after, fill, &world),
	      "resize");
	trial.done = true;
	world.env->expected++;
	cut(world.env, &trial);
	recorder_end(world.env);
	CHECK(trial.images > 100, "only %lu images", trial.images);
	world_free(&world);
}

/* @flips: damage the data of block 0; otherwise the last block has no place. */
static void refused_as_a_whole(bool flips)
{
	struct seen before, after;
	struct pm_block block;
	struct world world;
	rem_u8 *at;
	int err;

	setup(&world, LARGE, 20);
	CHECK(!open_blocks(world.env, world.env->memory,
			   &world.region.entry[0].record, &block),
	      "open");
	at = block.base + block.header.place_offset +
	     (size_t)pm_map_get(&block, 0, 0).entry.place * BLOCK;
	if (flips)
		at[7] ^= 1;
	world_see(&world.region, &before);
	err = pm_segment_rebuild(&world.region, 0, flips ? 2 * LARGE : SMALL,
				 fill, &world);
	CHECK(err == (flips ? -EBADMSG : -EFBIG), "%d", err);
	CHECK(!world_open(&world), "open");
	world_see(&world.region, &after);
	CHECK(seen_same(&before, &after), "%s",
	      seen_difference(&before, &after));
	world_free(&world);
}

void test_block_resize(void)
{
	resized_at_each_cut(SMALL, LARGE);
	resized_at_each_cut(LARGE, SMALL);
	refused_as_a_whole(false);
	refused_as_a_whole(true);
}
