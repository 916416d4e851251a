// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a format destroys nothing: where something is, it is reported, and a format that
 * was cut is not something.
 * Method: headers of what is usual on disks, at their offsets, and one byte at each
 * multiple of an odd number at both ends; each image that a cut of a format may leave.
 * A block segment with blocks whose headers are lost is not laid out again.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"
#include "world.h"

#define IMAGES_MAX 300
#define BYTES (8ul << 20)
#define END (1ul << 20)

static const struct pm_format wanted = { .bytes = BYTES,
					 .slots = 300,
					 .uuid = "sixteen bytes id",
					 .created_ns = 5 };

static int look(const rem_u8 *memory, rem_u64 *ret_offset)
{
	struct rem_pm_super super;

	CHECK(pm_region_peek(memory, BYTES, &super), "it is a region");
	return pm_region_check_blank(NULL, memory, BYTES, &wanted, ret_offset);
}

static void signatures(rem_u8 *memory)
{
	static const struct {
		const char *what, *text;
		size_t offset;
	} is[] = {
		{ "partition table", "\x55\xaa", 510 },
		{ "GPT", "EFI PART", 512 },
		{ "GPT's copy", "EFI PART", BYTES - 512 },
		{ "LVM", "LABELONE", 512 },
		{ "LUKS", "LUKS", 0x4000 },
		{ "ext4", "\x53\xef", 1080 },
		{ "swap", "SWAPSPACE2", 4086 },
		{ "nvdimm namespace", "NVDIMM_PFN_INFO", 4096 },
		{ "btrfs", "_BHRfS_M", 65600 },
		{ "RAID 0.90", "\xfc\x4e\x2b\xa9", BYTES - 65536 },
		{ "RAID 1.0", "\xfc\x4e\x2b\xa9", BYTES - 8192 },
	};

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		size_t bytes = strlen(is[i].text);
		rem_u64 offset = 0;

		memcpy(memory + is[i].offset, is[i].text, bytes);
		PROMISE("overwritten", look(memory, &offset) == -ENOTEMPTY,
			"%s is taken for nothing", is[i].what);
		CHECK(offset == is[i].offset, "%s: found at %llu", is[i].what,
		      (unsigned long long)offset);
		memset(memory + is[i].offset, 0, bytes);
	}
}

static void one_byte(rem_u8 *memory)
{
	rem_u64 offset;

	for (size_t at = 200; at < END; at += 1021) {
		memory[at] = 0x5a;
		PROMISE("overwritten",
			pm_region_check_blank(NULL, memory, BYTES, &wanted,
					      &offset) == -ENOTEMPTY,
			"byte %zu", at);
		memory[at] = 0;
		memory[BYTES - at] = 1;
		PROMISE("overwritten",
			pm_region_check_blank(NULL, memory, BYTES, &wanted,
					      &offset) == -ENOTEMPTY,
			"byte %zu from the end", at);
		memory[BYTES - at] = 0;
	}
	CHECK(!look(memory, &offset), "nothing is there");
}

static void limits(const rem_u8 *memory)
{
	struct pm_format large = wanted;
	rem_u64 offset;

	CHECK(pm_region_check_blank(NULL, memory, BYTES - 4096, &wanted,
				    &offset) == -EFBIG,
	      "more than there is");
	large.slots = REM_PM_SLOTS_MAX;
	CHECK(pm_region_check_blank(NULL, memory, BYTES, &large, &offset) ==
		      -ENOSPC,
	      "too small");
}

static void judge_format(rem_u8 *image, void *context)
{
	struct pm_format format = { .bytes = WORLD_BYTES,
				    .slots = WORLD_SLOTS,
				    .uuid = "another one's id",
				    .created_ns = 99 };
	struct rem_pm_super super;
	rem_u64 offset = 0;
	int err;

	(*(int *)context)++;
	if (pm_region_peek(image, WORLD_BYTES, &super) != -ENOMEDIUM)
		return;
	err = pm_region_check_blank(NULL, image, WORLD_BYTES, &format, &offset);
	PROMISE("not-again", !err, "a format that was cut, byte %llu: %d",
		(unsigned long long)offset, err);
}

static int format_region(struct pm_env *env)
{
	struct pm_format format = { .bytes = WORLD_BYTES,
				    .slots = WORLD_SLOTS,
				    .uuid = "sixteen bytes id",
				    .created_ns = 7 };

	return pm_region_format(env, env->memory, &format);
}

static void judge_blocks(rem_u8 *image, void *context)
{
	struct rem_pm_block_header header;

	(*(int *)context)++;
	if (pm_block_peek(image, BLOCKS_BYTES, blocks_uuid, &header) ==
	    -ENOMEDIUM)
		PROMISE("not-again",
			!pm_block_check_blank(NULL, image, &blocks_format),
			"blocks: a format that was cut");
}

static int format_blocks(struct pm_env *env)
{
	return pm_block_format(env, env->memory, &blocks_format);
}

/* @count blocks from the first on, as one transaction. */
static void headers_are_lost(rem_u32 count)
{
	struct pm_block_format larger = blocks_format;
	struct pm_env *env = recorder_new(2 * BLOCKS_BYTES);
	struct pm_block_lent lent = { .from = NULL };
	struct rem_pm_block_header header;
	struct blocks blocks;

	blocks_make(&blocks);
	CHECK(!blocks_write(&blocks, 0, count, 5), "write");
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		memset(blocks.env->memory +
			       copy * REM_PM_BLOCK_HEADER_STRIDE_BYTES,
		       0, sizeof(header));
	CHECK(pm_block_peek(blocks.env->memory, BLOCKS_BYTES, blocks_uuid,
			    &header) == -ENOMEDIUM,
	      "peek");
	PROMISE("overwritten",
		pm_block_check_blank(NULL, blocks.env->memory,
				     &blocks_format) == -EUCLEAN,
		"%u blocks are taken for none", count);
	larger.segment_bytes = 2 * BLOCKS_BYTES;
	PROMISE("overwritten",
		pm_block_rebuild(blocks.env, blocks.env->memory, BLOCKS_BYTES,
				 env->memory, &larger, &lent) == -EUCLEAN,
		"%u blocks are not copied", count);
	recorder_free(env);
	blocks_free(&blocks);
}

void test_blank(void)
{
	rem_u8 *memory = need(aligned_alloc(4096, BYTES));

	memset(memory, 0, BYTES);
	signatures(memory);
	one_byte(memory);
	limits(memory);
	free(memory);
	/* What was cut may be done again. */
	recorder_each_cut(WORLD_BYTES, IMAGES_MAX, format_region, judge_format);
	recorder_each_cut(BLOCKS_BYTES, IMAGES_MAX, format_blocks,
			  judge_blocks);
	headers_are_lost(1);
	headers_are_lost(TX_MAX);
}
