// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"

const rem_u8 blocks_uuid[16] = "a segment's name";

const struct pm_block_format blocks_format = {
	.segment_bytes = BLOCKS_BYTES,
	.block_bytes = BLOCK,
	.lanes = 2,
	.lane_entries = TX_MAX,
	.uuid = "a segment's name",
};

void blocks_make(struct blocks *blocks)
{
	memset(blocks, 0, sizeof(*blocks));
	blocks->env = recorder_new(BLOCKS_BYTES);
	CHECK(!pm_block_format(blocks->env, blocks->env->memory,
			       &blocks_format),
	      "format");
	CHECK(!blocks_open(blocks), "open");
}

int blocks_open(struct blocks *blocks)
{
	struct rem_pm_block_header header;
	int err = pm_block_peek(blocks->env->memory, BLOCKS_BYTES, blocks_uuid,
				&header);

	if (err)
		return err;
	free(blocks->volatile_memory);
	blocks->volatile_memory = calloc(1, pm_block_volatile_bytes(&header));
	return pm_block_open(&blocks->block, blocks->env, blocks->env->memory,
			     BLOCKS_BYTES, blocks_uuid, blocks->volatile_memory,
			     true);
}

void blocks_free(struct blocks *blocks)
{
	free(blocks->volatile_memory);
	recorder_free(blocks->env);
}

void blocks_see(struct pm_block *block, struct blocks_seen *ret)
{
	rem_u8 data[BLOCK];

	memset(ret, 0, sizeof(*ret));
	ret->count = (rem_u32)block->header.blocks;
	if (ret->count > BLOCKS_MAX)
		abort();
	for (rem_u32 i = 0; i < ret->count; i++) {
		ret->err[i] = pm_block_read(block, i, data);
		ret->content[i] = pm_crc32c(data, BLOCK);
	}
}

int blocks_image_see(rem_u8 *image, struct blocks_seen *ret,
		     struct pm_block *ret_block)
{
	static rem_u8 memory[4096];
	static struct pm_env env;
	struct rem_pm_block_header header;
	struct pm_block block;
	int err;

	env.memory = image;
	env.bytes = BLOCKS_BYTES;
	err = pm_block_peek(image, BLOCKS_BYTES, blocks_uuid, &header);
	if (err)
		return err;
	if (pm_block_volatile_bytes(&header) > sizeof(memory))
		abort();
	memset(memory, 0, sizeof(memory));
	err = pm_block_open(&block, &env, image, BLOCKS_BYTES, blocks_uuid,
			    memory, true);
	if (!err)
		blocks_see(&block, ret);
	if (ret_block)
		*ret_block = block;
	return err;
}

int blocks_write(struct blocks *blocks, rem_u32 first, rem_u32 count,
		 rem_u32 seed)
{
	static rem_u8 data[TX_MAX + 1][BLOCK];
	struct pm_block_io io[TX_MAX + 1];
	unsigned long state = seed;

	for (rem_u32 i = 0; i < count; i++) {
		for (int at = 0; at < BLOCK; at++)
			data[i][at] = (rem_u8)random_next(&state);
		io[i].block = first + i;
		io[i].data = seed ? data[i] : NULL;
	}
	return pm_block_write(&blocks->block, io, count);
}
