// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a line that media has lost is an error of what it held, and of nothing else:
 * what has copies is repaired, a block is not returned until it is written again, a
 * segment is not moved without its content, a transaction is not done in parts.
 * Method: each line of the tables and of a block segment is lost, in one copy and in
 * all, before the open and while it is open; and each line of a lane, in the middle of
 * its transaction. Lost lines read as garbage, and with
 * sanitizers only pm_fetch() may touch them; less than a whole line does not bring
 * one back.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"
#include "world.h"

struct scene {
	struct world world;
	struct seen before;
	rem_u32 one;
};

static void scene_make(struct scene *scene)
{
	world_make(&scene->world);
	scene->one = world_add_two(&scene->world);
	world_see(&scene->world.region, &scene->before);
}

static void lose(struct scene *scene, rem_u32 index, int copy, unsigned int at)
{
	struct pm_slot slot = world_slot(&scene->world, index);

	recorder_lose(scene->world.env, slot.copy[copy] + at, PM_LINE_BYTES);
}

static void opens_as_before(struct scene *scene, rem_u32 index, unsigned int at)
{
	struct pm_region region;
	struct seen seen;
	int err = image_see(scene->world.env->memory, WORLD_BYTES, true, &seen,
			    &region);

	PROMISE("lost", !err && seen_same(&seen, &scene->before),
		"slot %u, line at %u: %d", index, at, err);
	PROMISE("not-repaired", !recorder_lost(),
		"slot %u, line at %u: %u lines", index, at, recorder_lost());
}

static void each_line_of_a_slot(rem_u32 index)
{
	for (unsigned int at = 0; at < REM_PM_SLOT_BYTES; at += PM_LINE_BYTES) {
		struct scene scene;
		struct pm_region *region = &scene.world.region;

		scene_make(&scene);
		for (int copy = 0; copy < REM_PM_COPIES; copy++) {
			lose(&scene, index, copy, at);
			opens_as_before(&scene, index, at);
			lose(&scene, index, copy, at);
			lose(&scene, index, (copy + 1) % REM_PM_COPIES, at);
			opens_as_before(&scene, index, at);
		}
		/* Of all copies, while memory has it. */
		for (int copy = 0; copy < REM_PM_COPIES; copy++)
			lose(&scene, index, copy, at);
		PROMISE("not-repaired", !pm_region_scrub(region, index),
			"slot %u, line at %u: check", index, at);
		opens_as_before(&scene, index, at);
		world_free(&scene.world);
	}
}

/* Not the panic of each boot, and not the loss of the others. */
static void all_copies_before_the_open(void)
{
	struct scene scene;
	struct pm_region region;
	struct seen seen;

	scene_make(&scene);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		lose(&scene, scene.one, copy, 0);
	CHECK(!image_see(scene.world.env->memory, WORLD_BYTES, true, &seen,
			 &region) &&
		      region.refused == 1 && seen.count == 1,
	      "one slot is refused");
	CHECK(!world_open(&scene.world), "open");
	CHECK(!pm_segment_give_up(&scene.world.region, scene.one), "give up");
	CHECK(!recorder_lost() && !world_open(&scene.world) &&
		      !scene.world.region.refused,
	      "it is free");
	world_free(&scene.world);
}

static void content_that_is_lost_is_not_moved(void)
{
	struct scene scene;
	struct pm_region *region = &scene.world.region;
	rem_u64 offset;

	scene_make(&scene);
	offset = region->entry[scene.one].record.offset;
	recorder_lose(scene.world.env, region->base + offset + 4096, 64);
	PROMISE("lost",
		pm_segment_resize(region, scene.one, 60000, true) == -EIO,
		"moved");
	CHECK(region->entry[scene.one].record.offset == offset &&
		      region->entry[scene.one].record.bytes == 6000,
	      "it is where it was");
	CHECK(!pm_segment_resize(region, scene.one, 60000, false) ==
		      (region->entry[scene.one].record.bytes == 60000),
	      "grown in place or not at all");
	world_free(&scene.world);
}

struct blocks_scene {
	struct blocks blocks;
	struct blocks_seen before;
};

static void blocks_scene_make(struct blocks_scene *scene)
{
	blocks_make(&scene->blocks);
	CHECK(!blocks_write(&scene->blocks, 0, TX_MAX, 11), "setup");
	CHECK(!blocks_write(&scene->blocks, 2, 1, 12), "setup");
	CHECK(!blocks_write(&scene->blocks, 4, 1, 0), "setup");
	blocks_see(&scene->blocks.block, &scene->before);
}

/* How many blocks are not returned; the others are right. */
static unsigned int not_returned(struct blocks_scene *scene, rem_u64 at)
{
	struct blocks_seen seen;
	unsigned int count = 0;

	blocks_see(&scene->blocks.block, &seen);
	for (rem_u32 i = 0; i < seen.count; i++) {
		count += !!seen.err[i];
		PROMISE("wrong-data",
			seen.err[i] ?
				seen.err[i] == -EBADMSG :
				seen.content[i] == scene->before.content[i],
			"line at %llu: block %u", (unsigned long long)at, i);
	}
	return count;
}

/* Finds, lists, and heals what is written again. */
static void scrub_and_write(struct blocks_scene *scene, rem_u64 at,
			    unsigned int bad)
{
	struct pm_block *block = &scene->blocks.block;
	rem_u64 number;

	for (number = 0; number < block->header.blocks; number++)
		pm_block_scrub(block, number);
	pm_block_scrub_base(block);
	PROMISE("not-listed", block->bad_count == bad,
		"line at %llu: %llu of %u", (unsigned long long)at,
		(unsigned long long)block->bad_count, bad);
	/* All in one, through both lanes; and each for itself. */
	CHECK(!blocks_write(&scene->blocks, 0, TX_MAX, 11), "write");
	CHECK(!blocks_write(&scene->blocks, 0, TX_MAX, 11), "write");
	number = pm_block_next_bad(block, 0);
	for (; number < block->header.blocks;
	     number = pm_block_next_bad(block, 0))
		CHECK(!blocks_write(&scene->blocks, (rem_u32)number, 1, 0),
		      "write");
	CHECK(!blocks_write(&scene->blocks, 2, 1, 12), "write");
	CHECK(!blocks_write(&scene->blocks, 4, 1, 0), "write");
	PROMISE("not-repaired", !not_returned(scene, at), "line at %llu",
		(unsigned long long)at);
	PROMISE("not-repaired",
		!blocks_open(&scene->blocks) && !not_returned(scene, at) &&
			!block->bad_count,
		"line at %llu: opened again", (unsigned long long)at);
}

/* @twin: the same line of the other copy, or 0. */
static void lose_of_blocks(rem_u64 at, rem_u64 twin, bool while_open)
{
	struct blocks_scene scene;
	const struct rem_pm_block_header *header = &scene.blocks.block.header;
	rem_u8 *memory;
	unsigned int bad;

	blocks_scene_make(&scene);
	memory = scene.blocks.env->memory;
	recorder_lose(scene.blocks.env, memory + at, PM_LINE_BYTES);
	if (twin)
		recorder_lose(scene.blocks.env, memory + twin, PM_LINE_BYTES);
	if (!while_open)
		PROMISE("does-not-open", !blocks_open(&scene.blocks),
			"line at %llu", (unsigned long long)at);
	bad = not_returned(&scene, at);
	if (at >= header->place_offset)
		PROMISE("lost", bad <= 1, "%u blocks by one line", bad);
	else
		PROMISE("lost", twin ? bad <= 8 : !bad, "%u blocks, at %llu",
			bad, (unsigned long long)at);
	scrub_and_write(&scene, at, bad);
	if (at < header->lane_offset && at % 4096 < 128)
		PROMISE("not-repaired", !recorder_lost(), "line at %llu",
			(unsigned long long)at);
	blocks_free(&scene.blocks);
}

static void each_line_of_blocks(bool while_open)
{
	struct blocks_scene scene;
	struct rem_pm_block_header header;

	blocks_scene_make(&scene);
	header = scene.blocks.block.header;
	blocks_free(&scene.blocks);
	for (rem_u64 at = 0; at < BLOCKS_BYTES; at += PM_LINE_BYTES)
		lose_of_blocks(at, 0, while_open);
	for (rem_u64 at = header.map_offset[0]; at < header.map_offset[1];
	     at += PM_LINE_BYTES)
		lose_of_blocks(at,
			       at + header.map_offset[1] - header.map_offset[0],
			       while_open);
}

struct lost_later {
	rem_u8 *line;  /* of the lane that is used next */
	rem_u8 *image; /* of what media has, then */
	int fence, at;
};

/* The fences of a transaction: its entries, its commit, its maps. */
#define COMMIT 2
#define MAPS 3

static void lose_now(struct pm_env *env, void *context)
{
	struct lost_later *later = context;

	if (++later->fence != later->at)
		return;
	if (later->image)
		memcpy(later->image, crash_states_media(env->states),
		       env->bytes);
	else
		recorder_lose(env, later->line, PM_LINE_BYTES);
}

/* The line of the entries that is so far behind the words of the next lane. */
static rem_u8 *entries_at(struct pm_block *block, size_t offset)
{
	return (rem_u8 *)pm_lane_at(block, block->lane_next) +
	       2 * PM_LINE_BYTES + offset;
}

static int write_and_lose(struct blocks_scene *scene, struct lost_later *later)
{
	int err;

	scene->blocks.env->before_fence = lose_now;
	scene->blocks.env->context = later;
	recorder_begin(scene->blocks.env, 1, 1);
	err = blocks_write(&scene->blocks, 0, TX_MAX, 99);
	recorder_end(scene->blocks.env);
	scene->blocks.env->before_fence = NULL;
	CHECK(later->fence >= later->at, "only %d fences", later->fence);
	return err;
}

/* Acknowledged is done, all of it; else nothing is. */
static void lose_in_a_transaction(int fence, size_t offset)
{
	struct blocks_scene scene;
	struct lost_later later = { .at = fence };
	struct blocks_seen after, seen;
	int err;

	blocks_scene_make(&scene);
	CHECK(!blocks_write(&scene.blocks, 0, TX_MAX, 99), "write");
	blocks_see(&scene.blocks.block, &after);
	blocks_free(&scene.blocks);
	blocks_scene_make(&scene);
	later.line = entries_at(&scene.blocks.block, offset);
	err = write_and_lose(&scene, &later);
	for (int opened = 0; opened < 2; opened++) {
		blocks_see(&scene.blocks.block, &seen);
		PROMISE("half-done",
			!memcmp(&seen, err ? &scene.before : &after,
				sizeof(seen)),
			"%d, fence %d, line at %zu, opened again %d", err,
			fence, offset, opened);
		CHECK(!blocks_open(&scene.blocks), "open");
	}
	CHECK(fence >= COMMIT ? !err : err == -EIO, "fence %d: %d", fence, err);
	blocks_free(&scene.blocks);
}

/* What a cut left committed is done as a whole when the segment is opened, or not at all. */
static void lose_before_a_replay(size_t offset)
{
	struct blocks_scene scene;
	struct lost_later later = { .at = MAPS };
	const struct rem_pm_block_header *header = &scene.blocks.block.header;
	rem_u8 *memory, *line;

	blocks_scene_make(&scene);
	memory = scene.blocks.env->memory;
	line = entries_at(&scene.blocks.block, offset);
	later.image = need(malloc(BLOCKS_BYTES));
	CHECK(!write_and_lose(&scene, &later), "write");
	memcpy(memory, later.image, BLOCKS_BYTES);
	recorder_lose(scene.blocks.env, line, PM_LINE_BYTES);
	CHECK(blocks_open(&scene.blocks) == -EUCLEAN, "opened");
	PROMISE("half-done",
		!memcmp(memory + header->map_offset[0],
			later.image + header->map_offset[0],
			header->lane_offset - header->map_offset[0]),
		"replayed, line at %zu", offset);
	free(later.image);
	blocks_free(&scene.blocks);
}

static void each_line_of_a_transaction(void)
{
	const size_t bytes = sizeof(struct rem_pm_lane) - 2 * PM_LINE_BYTES +
			     TX_MAX * sizeof(struct rem_pm_lane_entry);

	for (size_t at = 0; at < bytes; at += PM_LINE_BYTES) {
		for (int fence = 1; fence <= MAPS; fence++)
			lose_in_a_transaction(fence, at);
		lose_before_a_replay(at);
	}
}

void test_lost_lines(void)
{
	each_line_of_a_slot(0);
	each_line_of_a_slot(PM_SLOT_NONE);
	each_line_of_a_slot(WORLD_SLOTS - 1);
	all_copies_before_the_open();
	content_that_is_lost_is_not_moved();
	each_line_of_blocks(false);
	each_line_of_blocks(true);
	each_line_of_a_transaction();
}
