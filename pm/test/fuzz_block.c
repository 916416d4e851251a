// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: no bytes of media make the blocks' code read or write outside the
 * segment, or return a block whose check is wrong.
 * Method: as fuzz_region.c; header and lanes get correct checks.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"

#define STEP_BYTES 11

void check(bool ok, const char *verdict, const char *file, int line,
	   const char *format, ...)
{
	(void)verdict;
	(void)format;
	if (!ok) {
		fprintf(stderr, "%s:%d\n", file, line);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const rem_u8 *data, size_t bytes);

static struct blocks blocks;
static rem_u8 *pristine;

static void prepare(void)
{
	if (pristine)
		return;
	blocks_make(&blocks);
	blocks_write(&blocks, 0, TX_MAX, 11);
	pristine = malloc(BLOCKS_BYTES);
	memcpy(pristine, blocks.env->memory, BLOCKS_BYTES);
}

static void seal_header(rem_u8 at, rem_u64 value)
{
	struct rem_pm_block_header header;
	rem_u8 *memory = blocks.env->memory;

	memcpy(&header, memory, sizeof(header));
	memcpy((rem_u8 *)&header + at % 15 * 8, &value, 8);
	header.crc =
		pm_crc32c(&header, offsetof(struct rem_pm_block_header, crc));
	memcpy(memory, &header, sizeof(header));
}

static void seal_lane(rem_u8 at, rem_u64 value)
{
	struct rem_pm_lane *lane = pm_lane_at(&blocks.block, at & 1);
	rem_u32 sequence = 5, sum;

	memcpy((rem_u8 *)&lane->count + at / 2 * 8, &value, 8);
	if (!pm_lane_read(&blocks.block, at & 1, &sum))
		return;
	lane->word.sequence = sequence;
	lane->word.check = pm_lane_check(at & 1, sequence, sum);
	lane->copy = lane->word;
}

static void step(const rem_u8 *data)
{
	rem_u64 value;

	memcpy(&value, data + 3, 8);
	if (data[0] % 4 == 1)
		seal_header(data[1], value);
	else if (data[0] % 4 == 2)
		seal_lane(data[1] % 32, value);
	else
		memcpy(blocks.env->memory +
			       (data[1] * 256u + data[2]) % (BLOCKS_BYTES - 8),
		       &value, 8);
}

int LLVMFuzzerTestOneInput(const rem_u8 *data, size_t bytes)
{
	struct rem_pm_block_header header;
	struct pm_block block;
	void *memory;
	rem_u8 *buffer;
	struct pm_block_io io[2];

	prepare();
	memcpy(blocks.env->memory, pristine, BLOCKS_BYTES);
	for (; bytes >= STEP_BYTES; bytes -= STEP_BYTES, data += STEP_BYTES)
		step(data);
	if (pm_block_peek(blocks.env->memory, BLOCKS_BYTES, blocks_uuid,
			  &header))
		return 0;
	memory = calloc(1, pm_block_volatile_bytes(&header));
	buffer = calloc(1, header.block_bytes);
	if (!pm_block_open(&block, blocks.env, blocks.env->memory, BLOCKS_BYTES,
			   blocks_uuid, memory, true)) {
		io[0] = (struct pm_block_io){ 0, buffer };
		io[1] = (struct pm_block_io){ 1, NULL };
		for (rem_u64 i = 0; i < header.blocks && i < 100; i++) {
			pm_block_read(&block, i, buffer);
			pm_block_scrub(&block, i);
		}
		pm_block_write(&block, io, 2);
		pm_block_write(&block, io, 1);
	}
	free(buffer);
	free(memory);
	return 0;
}
