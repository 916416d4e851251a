// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a block segment behaves as block.h specifies, without cuts and damage.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"

static void plans_fit(void)
{
	struct pm_block_format format = { .lanes = 1, .lane_entries = 4 };
	struct rem_pm_block_header header;

	for (rem_u32 size = 512; size <= 65536; size *= 2) {
		for (rem_u64 bytes = 0; bytes < 2 << 20; bytes += 40960) {
			format.block_bytes = size;
			format.segment_bytes = bytes;
			if (pm_block_plan(&format, &header))
				continue;
			CHECK(header.place_offset + header.places * size <=
				      bytes,
			      "%u: too long", size);
			CHECK(header.place_offset % 4096 == 0, "alignment");
			CHECK(header.places == header.blocks + 4, "spare");
		}
	}
	format.segment_bytes = 1 << 20;
	format.block_bytes = 256;
	CHECK(pm_block_plan(&format, &header) == -EINVAL, "256");
	format.block_bytes = 1000;
	CHECK(pm_block_plan(&format, &header) == -EINVAL, "1000");
	format.block_bytes = 131072;
	CHECK(pm_block_plan(&format, &header) == -EINVAL, "131072");
	format.block_bytes = 4096;
	format.segment_bytes = 4096 * 5;
	CHECK(pm_block_plan(&format, &header) == -ENOSPC, "too small");
}

static void what_is_written_is_read(void)
{
	struct blocks blocks;
	struct blocks_seen empty, one, many, again;
	rem_u8 zeros[BLOCK] = { 0 }, data[BLOCK];

	blocks_make(&blocks);
	blocks_see(&blocks.block, &empty);
	for (rem_u32 i = 0; i < empty.count; i++)
		CHECK(!empty.err[i] &&
			      empty.content[i] == pm_crc32c(zeros, BLOCK),
		      "block %u is zeros at first", i);
	CHECK(!blocks_write(&blocks, 3, 1, 7), "one");
	blocks_see(&blocks.block, &one);
	CHECK(one.content[3] != empty.content[3], "block 3 is written");
	CHECK(one.content[2] == empty.content[2], "block 2 is unchanged");
	CHECK(!blocks_write(&blocks, 1, TX_MAX, 8), "many");
	blocks_see(&blocks.block, &many);
	CHECK(!blocks_open(&blocks), "open");
	blocks_see(&blocks.block, &again);
	CHECK(!memcmp(&many, &again, sizeof(many)), "after opening");
	PROMISE("not-clean", !blocks.block.repaired && !blocks.block.replayed,
		"repaired or replayed");
	CHECK(!blocks_write(&blocks, 1, TX_MAX, 0), "holes");
	CHECK(!pm_block_read(&blocks.block, 2, data) &&
		      !memcmp(data, zeros, BLOCK),
	      "a hole reads as zeros");
	blocks_free(&blocks);
}

static void limits_are_kept(void)
{
	struct blocks blocks;
	rem_u8 data[BLOCK];
	rem_u32 last;

	blocks_make(&blocks);
	last = (rem_u32)blocks.block.header.blocks;
	CHECK(blocks_write(&blocks, last, 1, 1) == -ERANGE, "write behind");
	CHECK(blocks_write(&blocks, last - 1, 2, 1) == -ERANGE, "half behind");
	CHECK(pm_block_read(&blocks.block, last, data) == -ERANGE, "read");
	CHECK(blocks.block.lane_entries >= TX_MAX, "lane");
	blocks.block.lane_entries = TX_MAX;
	CHECK(blocks_write(&blocks, 0, TX_MAX + 1, 1) == -E2BIG, "too many");
	CHECK(!blocks_write(&blocks, last - 1, 1, 1), "the last");
	CHECK(!blocks_write(&blocks, 0, 0, 1), "none");
	blocks.block.may_write = false;
	CHECK(blocks_write(&blocks, 0, 1, 1) == -EROFS, "read only");
	blocks_free(&blocks);
}

/* No place is ever lost, however blocks are written and discarded. */
static void places_are_conserved(void)
{
	struct blocks blocks;
	unsigned long seed = 5;
	rem_u32 spare, last, used = 0;

	blocks_make(&blocks);
	last = (rem_u32)blocks.block.header.blocks;
	spare = (rem_u32)blocks.block.header.places;
	CHECK(blocks.block.free_count == spare, "all are free");
	for (int round = 0; round < 3000; round++) {
		rem_u32 count = 1 + (rem_u32)random_next(&seed) % TX_MAX;
		rem_u32 first =
			(rem_u32)random_next(&seed) % (last - count + 1);

		CHECK(!blocks_write(&blocks, first, count,
				    (rem_u32)random_next(&seed) % 4),
		      "round %d", round);
	}
	for (rem_u32 i = 0; i < last; i++)
		used += pm_map_get(&blocks.block, 0, i).entry.place !=
			REM_PM_BLOCK_HOLE;
	CHECK(blocks.block.free_count + used == spare, "%u free, %u used",
	      blocks.block.free_count, used);
	CHECK(!blocks_open(&blocks), "open");
	CHECK(blocks.block.free_count + used == spare, "after opening");
	blocks_free(&blocks);
}

/* One transaction may name a block twice: the last wins, no place is lost. */
static void twice_in_one_transaction(void)
{
	rem_u8 first[BLOCK], second[BLOCK], data[BLOCK];
	const struct pm_block_io io[] = { { 4, first },
					  { 5, first },
					  { 4, second } };
	struct blocks blocks;
	rem_u32 unused;

	memset(first, 1, BLOCK);
	memset(second, 2, BLOCK);
	blocks_make(&blocks);
	unused = blocks.block.free_count;
	CHECK(!pm_block_write(&blocks.block, io, 3), "write");
	CHECK(!pm_block_read(&blocks.block, 4, data) &&
		      !memcmp(data, second, BLOCK),
	      "the last wins");
	CHECK(blocks.block.free_count == unused - 2, "places");
	blocks_free(&blocks);
}

void test_block(void)
{
	plans_fit();
	what_is_written_is_read();
	limits_are_kept();
	places_are_conserved();
	twice_in_one_transaction();
}
