// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: no damaged bit is ever read as data; damage with redundancy is
 * repaired; without redundancy only the block itself is lost.
 * Method: each bit of the whole segment, one at a time.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"

struct scene {
	struct blocks blocks;
	struct blocks_seen before;
	rem_u8 *pristine;
};

static void scene_make(struct scene *scene)
{
	blocks_make(&scene->blocks);
	CHECK(!blocks_write(&scene->blocks, 0, TX_MAX, 11), "setup");
	CHECK(!blocks_write(&scene->blocks, 2, 1, 12), "setup");
	CHECK(!blocks_write(&scene->blocks, 4, 1, 0), "setup");
	blocks_see(&scene->blocks.block, &scene->before);
	scene->pristine = malloc(BLOCKS_BYTES);
	memcpy(scene->pristine, scene->blocks.env->memory, BLOCKS_BYTES);
}

static void put_back(struct scene *scene)
{
	memcpy(scene->blocks.env->memory, scene->pristine, BLOCKS_BYTES);
}

/* Each block is right or not returned; returns the number of the latter. */
static unsigned int lost(const struct scene *scene,
			 const struct blocks_seen *seen, size_t at)
{
	unsigned int count = 0;

	for (rem_u32 i = 0; i < seen->count; i++) {
		if (seen->err[i]) {
			count++;
			CHECK(seen->err[i] == -EBADMSG, "byte %zu: %d", at,
			      seen->err[i]);
		} else {
			PROMISE("wrong-data",
				seen->content[i] == scene->before.content[i],
				"byte %zu: block %u", at, i);
		}
	}
	return count;
}

static void each_bit(struct scene *scene)
{
	rem_u8 *memory = scene->blocks.env->memory;
	const struct rem_pm_block_header *header = &scene->blocks.block.header;
	unsigned int in_base = 0, in_data = 0;

	for (size_t at = 0; at < BLOCKS_BYTES; at++) {
		/* Zeros that are never read: one bit of each such byte. */
		int bits = at < 128 || at >= header->map_offset[0] ? 8 : 1;
		int step = at >= header->place_offset ? 3 : 1;

		for (int bit = 0; bit < bits; bit += step) {
			struct blocks_seen seen;
			struct pm_block block;
			int err;

			memory[at] ^= (rem_u8)(1 << bit);
			err = blocks_image_see(memory, &seen, &block);
			CHECK(!err, "byte %zu bit %d: %d", at, bit, err);
			if (at < header->place_offset)
				in_base += lost(scene, &seen, at);
			else
				in_data += lost(scene, &seen, at);
			err = blocks_image_see(memory, &seen, &block);
			PROMISE("not-repaired", !err && !block.repaired,
				"byte %zu", at);
			put_back(scene);
		}
	}
	CHECK(!in_base, "%u blocks lost by damage that can be repaired",
	      in_base);
	/* Five places are in use; of each of 512 bytes 3 bits are tried. */
	CHECK(in_data == 5 * BLOCK * 3, "%u blocks lost by damaged data",
	      in_data);
}

/* A damaged segment is not mistaken for one that was never laid out. */
static void all_magics_zeroed(struct scene *scene)
{
	rem_u8 *memory = scene->blocks.env->memory;
	struct blocks_seen seen;
	struct pm_block block;

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		memset(memory + copy * REM_PM_BLOCK_HEADER_STRIDE_BYTES, 0, 8);
	CHECK(!blocks_image_see(memory, &seen, &block), "magics: open");
	CHECK(block.repaired == REM_PM_COPIES, "magics: repaired");
	CHECK(!memcmp(&seen, &scene->before, sizeof(seen)), "magics: content");
	CHECK(!blocks_image_see(memory, &seen, &block) && !block.repaired,
	      "magics: not repaired");
	put_back(scene);
}

/* The same while it is open: reading uses the other map; scrub repairs. */
static void while_open(struct scene *scene)
{
	struct pm_block *block = &scene->blocks.block;
	struct blocks_seen seen;
	rem_u8 *entry = pm_map_at(block, 0, 1);
	rem_u32 unused = block->free_count;

	entry[1] ^= 2;
	blocks_see(block, &seen);
	CHECK(!memcmp(&seen, &scene->before, sizeof(seen)), "other map");
	CHECK(!pm_block_scrub(block, 1), "scrub");
	CHECK(block->repaired == 1, "counted");
	CHECK(!memcmp(pm_map_at(block, 0, 1), pm_map_at(block, 1, 1), 8),
	      "maps agree");
	/* A damaged entry is overwritten: no other block's place is freed. */
	entry[0] ^= 1;
	CHECK(!blocks_write(&scene->blocks, 1, 1, 77), "overwrite");
	CHECK(block->free_count == unused - 1, "its place stays taken");
	blocks_see(block, &seen);
	for (rem_u32 i = 0; i < seen.count; i++)
		CHECK(!seen.err[i], "block %u", i);
	CHECK(!blocks_open(&scene->blocks), "open");
	CHECK(block->free_count == unused, "free again");
	put_back(scene);
	CHECK(!blocks_open(&scene->blocks), "open");
}

/* Both words of a lane, or one: without a scrub the next open would refuse both. */
static void lanes_while_open(struct scene *scene)
{
	struct pm_block *block = &scene->blocks.block;

	for (unsigned int words = 1; words < 4; words++) {
		struct rem_pm_lane *lane = pm_lane_at(block, 1);
		rem_u64 repaired = block->repaired;

		if (words & 1)
			lane->word.check ^= 4;
		if (words & 2)
			lane->copy.sequence ^= 0x100;
		pm_block_scrub_base(block);
		PROMISE("not-repaired",
			block->repaired == repaired + 1 &&
				!blocks_open(&scene->blocks),
			"lane, words %u", words);
		CHECK(!block->repaired, "lane, words %u: once more", words);
	}
}

static void bad_blocks_are_listed_and_heal(struct scene *scene)
{
	struct pm_block *block = &scene->blocks.block;
	rem_u8 data[BLOCK];
	rem_u32 place = pm_map_get(block, 0, 3).entry.place;

	block->base[block->header.place_offset + place * BLOCK + 9] ^= 0x80;
	CHECK(pm_block_read(block, 3, data) == -EBADMSG, "read");
	for (int i = 0; i < BLOCK; i++)
		CHECK(!data[i], "byte %d is returned", i);
	CHECK(pm_block_scrub(block, 3) == -EBADMSG, "scrub");
	CHECK(pm_block_is_bad(block, 3) && block->bad_count == 1, "listed");
	CHECK(block->mismatches == 1, "counted");
	CHECK(!blocks_write(&scene->blocks, 3, 1, 5), "written again");
	CHECK(!pm_block_read(block, 3, data), "heals");
	CHECK(!pm_block_is_bad(block, 3) && !block->bad_count, "still listed");
	put_back(scene);
	CHECK(!blocks_open(&scene->blocks), "open");
}

/* Another block's data with its own correct check is refused. */
static void misplaced_data_is_damage(struct scene *scene)
{
	struct pm_block *block = &scene->blocks.block;
	rem_u8 data[BLOCK];

	for (int map = 0; map < REM_PM_BLOCK_MAPS; map++)
		memcpy(pm_map_at(block, map, 1), pm_map_at(block, map, 0), 8);
	PROMISE("wrong-data", pm_block_read(block, 1, data) == -EBADMSG,
		"misplaced");
	put_back(scene);
}

struct cut_lane {
	struct scene *scene;
	struct blocks_seen after;
	rem_u8 *image;
	int fence;
};

/* Keeps the image of a cut when the lane is committed and not yet applied. */
static void keep(struct pm_env *env, void *context)
{
	struct cut_lane *cut = context;

	if (++cut->fence == 3)
		memcpy(cut->image, crash_states_media(env->states), env->bytes);
}

/* A committed lane with a damaged bit: all of it, none of it, or refused. */
static void damaged_lanes(struct scene *scene)
{
	struct cut_lane cut = { .scene = scene };
	rem_u8 *image = malloc(BLOCKS_BYTES);
	struct pm_env *env = scene->blocks.env;
	struct pm_block *block = &scene->blocks.block;
	rem_u64 lane = block->header.lane_offset +
		       block->lane_next * (rem_u64)block->header.lane_bytes;
	unsigned int refused = 0;

	cut.image = malloc(BLOCKS_BYTES);
	env->before_fence = keep;
	env->context = &cut;
	recorder_begin(env, 1, 1);
	CHECK(!blocks_write(&scene->blocks, 0, 4, 99), "write");
	recorder_end(env);
	env->before_fence = NULL;
	blocks_see(block, &cut.after);
	for (size_t bit = 0; bit < 8 * (sizeof(struct rem_pm_lane) + 64);
	     bit++) {
		struct blocks_seen seen;
		int err;

		memcpy(image, cut.image, BLOCKS_BYTES);
		image[lane + bit / 8] ^= (rem_u8)(1u << bit % 8);
		err = blocks_image_see(image, &seen, NULL);
		if (err)
			CHECK(err == -EUCLEAN, "bit %zu: %d", bit, err);
		else
			PROMISE("wrong-data",
				!memcmp(&seen, &cut.after, sizeof(seen)),
				"bit %zu: not the committed data", bit);
		refused += err != 0;
	}
	CHECK(refused == 8 * (8 + 64), "%u bits refused", refused);
	free(cut.image);
	free(image);
	put_back(scene);
}

/* Correct checksums, impossible values: nothing outside is accessed. */
static void impossible_content(struct scene *scene)
{
	rem_u8 *memory = scene->blocks.env->memory;
	struct rem_pm_block_header header = scene->blocks.block.header;
	static const rem_u64 wrong[] = {
		0, 1, 4095, 1 << 20, 0xffffffffff, 0xffffffffffffffff
	};
	rem_u64 *const field[] = { &header.blocks,	  &header.places,
				   &header.map_offset[0], &header.map_offset[1],
				   &header.lane_offset,	  &header.place_offset };

	for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++) {
		for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
			struct blocks_seen seen;
			rem_u64 right = *field[i];

			if (!i && wrong[j] == 1)
				continue; /* fewer blocks are possible */
			*field[i] = wrong[j];
			header.crc = pm_crc32c(
				&header,
				offsetof(struct rem_pm_block_header, crc));
			for (int copy = 0; copy < REM_PM_COPIES; copy++)
				memcpy(memory + copy * 4096, &header,
				       sizeof(header));
			CHECK(blocks_image_see(memory, &seen, NULL) == -EUCLEAN,
			      "field %zu value %zu", i, j);
			*field[i] = right;
			put_back(scene);
		}
	}
}

void test_block_damage(void)
{
	struct scene scene;

	scene_make(&scene);
	each_bit(&scene);
	all_magics_zeroed(&scene);
	while_open(&scene);
	lanes_while_open(&scene);
	bad_blocks_are_listed_and_heal(&scene);
	misplaced_data_is_damage(&scene);
	damaged_lanes(&scene);
	impossible_content(&scene);
	free(scene.pristine);
	blocks_free(&scene.blocks);
}
