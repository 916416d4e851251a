/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The ranges of NVRAM and their stamps; the answer on the console. */
#include "../core/answer.h"
#include "../core/crc32c.h"
#include "../core/ranges.h"
#include "check.h"

#define MIB 0x100000ull
#define GIB 0x40000000ull

static void check_ranges(const struct ranges *ranges, const struct range *right,
			 u32 count, const char *what)
{
	CHECK(ranges->count == count, "%s: %u ranges", what, ranges->count);
	for (u32 i = 0; i < count && i < ranges->count; i++)
		CHECK(ranges->range[i].base == right[i].base &&
			      ranges->range[i].bytes == right[i].bytes,
		      "%s: range %u is %llx, %llx bytes", what, i,
		      (unsigned long long)ranges->range[i].base,
		      (unsigned long long)ranges->range[i].bytes);
}

static void ranges_ascend_without_overlaps(void)
{
	static const struct range right[] = {
		{ 2 * GIB, GIB }, { 4 * GIB, GIB },	{ 5 * GIB, GIB },
		{ 6 * GIB, GIB }, { 8 * GIB, GIB / 2 },
	};
	struct ranges ranges = { .count = 0 };

	/* The NFIT's, in any order; adjacent ones stay two. */
	CHECK(ranges_add(&ranges, 5 * GIB, GIB), "first");
	CHECK(ranges_add(&ranges, 4 * GIB, GIB), "before it");
	/* What a map has: the same, part of it, and more on both sides. */
	CHECK(ranges_add(&ranges, 4 * GIB, 2 * GIB), "both again");
	CHECK(ranges_add(&ranges, 4 * GIB + MIB, MIB), "part of one");
	CHECK(ranges_add(&ranges, 5 * GIB, 2 * GIB), "more behind");
	CHECK(ranges_add(&ranges, 2 * GIB, GIB), "another");
	CHECK(ranges_add(&ranges, 8 * GIB, GIB / 2), "a small one");
	check_ranges(&ranges, right, GO_COUNT(right), "all");
	CHECK(ranges_region(&ranges, 0)->base == 2 * GIB,
	      "the first of the largest");
	CHECK(ranges_region(&ranges, 1u << 4)->base == 8 * GIB,
	      "a small one that has an image");
	CHECK(ranges_region(&ranges, 1u << 3 | 1u << 4)->base == 6 * GIB,
	      "the largest that has an image");
}

/* What firmware has: behind, inside, before, all, more than all, parts of pages. */
static void what_firmware_has_is_left_out(void)
{
	static const struct range right[] = {
		{ 2 * GIB + MIB, GIB - MIB },
		{ 4 * GIB, MIB },
		{ 4 * GIB + 3 * MIB, GIB - 3 * MIB },
		{ 5 * GIB, GIB - 0x2000 },
		{ 9 * GIB, GIB },
	};
	struct ranges ranges = { .count = 0 };
	struct map firmware = { .count = 0 };

	for (u64 n = 2; n < 10; n++)
		if (n != 3)
			CHECK(ranges_add(&ranges, n * GIB, GIB), "a range");
	CHECK(ranges_remove_map(&ranges, &firmware), "nothing");
	CHECK(ranges.count == 7, "nothing is left out");
	map_paint(&firmware, GIB, GIB + MIB, MAP_RAM);
	map_paint(&firmware, 4 * GIB + MIB, 2 * MIB, MAP_ACPI);
	map_paint(&firmware, 6 * GIB - 0x1800, 0x800 + GIB + 0x1000, MAP_NVS);
	map_paint(&firmware, 7 * GIB, GIB, MAP_RAM);
	map_paint(&firmware, 8 * GIB, GIB, MAP_RAM);
	CHECK(ranges_remove_map(&ranges, &firmware), "all have room");
	check_ranges(&ranges, right, GO_COUNT(right), "the rest");
}

static void what_firmware_has_makes_more_ranges_than_fit(void)
{
	struct ranges ranges = { .count = 0 };
	struct map firmware = { .count = 0 };

	CHECK(ranges_add(&ranges, 0, GIB), "a range");
	for (u64 n = 1; n <= REM_RANGES_MAX; n++)
		map_paint(&firmware, n * MIB, 0x1000, MAP_RAM);
	CHECK(!ranges_remove_map(&ranges, &firmware), "one more than fits");
	CHECK(ranges.count == REM_RANGES_MAX, "%u ranges", ranges.count);
}

static void ranges_are_whole_pages(void)
{
	static const struct range right[] = { { 0x2000, 0x1000 } };
	struct ranges ranges = { .count = 0 };

	CHECK(ranges_add(&ranges, 0x1001, 0x2fff - 1), "cut to pages");
	CHECK(ranges_add(&ranges, 0x5001, 0xfff), "less than a page");
	CHECK(ranges_add(&ranges, 0x6000, 0xfff), "less than a page");
	CHECK(ranges_add(&ranges, 0x7000, 0), "nothing");
	CHECK(ranges_add(&ranges, UINT64_MAX - 0xfff, 0x2000), "wraps");
	CHECK(ranges_add(&ranges, UINT64_MAX - 0xff, 0x100), "the end");
	check_ranges(&ranges, right, 1, "pages");
	CHECK(!ranges_region(&ranges, 1), "too small for a block");
	CHECK(ranges_add(&ranges, 2 * GIB + 0x1000, 2 * GIB), "not aligned");
	CHECK(!ranges_region(&ranges, 3), "not aligned for a block");
	CHECK(ranges_add(&ranges, 8 * GIB, REM_BLOCK_BYTES + 0x1000), "room");
	CHECK(ranges_region(&ranges, 0)->base == 8 * GIB, "room for a block");
}

static void more_ranges_are_reported(void)
{
	struct ranges ranges = { .count = 0 };
	struct map map = { .count = 0 };

	for (u32 i = 0; i < REM_RANGES_MAX; i++)
		CHECK(ranges_add(&ranges, 2 * i * GIB, GIB), "range %u", i);
	CHECK(!ranges_add(&ranges, 100 * GIB, GIB), "one more");
	CHECK(ranges.count == REM_RANGES_MAX, "only so many");
	map_paint(&map, 0, GIB, MAP_RAM);
	map_paint(&map, 2 * GIB, GIB, MAP_PMEM);
	CHECK(ranges_add_map(&ranges, &map), "DRAM is none, NVRAM is known");
	map_paint(&map, 200 * GIB, GIB, MAP_PRAM);
	CHECK(!ranges_add_map(&ranges, &map), "one more in the map");
}

static void every_cold_boot_has_its_stamp(void)
{
	struct rem_range_stamp stamp = range_stamp(0, 7);
	u8 *byte = (u8 *)&stamp;

	CHECK(stamp.count == 1 && stamp.nonce == 7, "the first");
	CHECK(range_stamp(stamp.count, 7).count == 2, "the next");
	for (u32 bit = 0; bit < 8 * sizeof(stamp); bit++) {
		CHECK(range_stamp_checks(&stamp), "whole");
		byte[bit / 8] ^= (u8)(1u << bit % 8);
		CHECK(!range_stamp_checks(&stamp), "bit %u", bit);
		byte[bit / 8] ^= (u8)(1u << bit % 8);
	}
	memset(&stamp, 0, sizeof(stamp));
	CHECK(!range_stamp_checks(&stamp), "zeros");
}

static void first_bytes_tell_who_has_used_a_range(void)
{
	struct rem_range_stamp stamp = range_stamp(4, 7);
	struct range_mark mark = range_mark((const u8 *)&stamp);
	u64 magic = REM_BLOCK_MAGIC;
	u8 start[sizeof(stamp)] = { 0 };

	CHECK(mark.count == 5 && mark.nonce == 7, "a stamp");
	CHECK(!range_is_marked(range_mark(start)), "nothing");
	memcpy(start, "a file system", 13);
	CHECK(!range_is_marked(range_mark(start)), "of programs");
	memcpy(start, &magic, sizeof(magic));
	mark = range_mark(start);
	CHECK(!mark.count && mark.nonce == magic, "a block, of any version");
	/* A stamp is stored from its magic on; each cut marks the range. */
	memset(start, 0, sizeof(start));
	for (u32 bytes = 8; bytes < sizeof(stamp); bytes += 8) {
		memcpy(start, &stamp, bytes);
		mark = range_mark(start);
		CHECK(!mark.count && mark.nonce == REM_RANGE_MAGIC,
		      "%u bytes of a stamp", bytes);
	}
}

void test_ranges(void)
{
	crc32c_init(false);
	ranges_ascend_without_overlaps();
	what_firmware_has_is_left_out();
	what_firmware_has_makes_more_ranges_than_fit();
	ranges_are_whole_pages();
	more_ranges_are_reported();
	every_cold_boot_has_its_stamp();
	first_bytes_tell_who_has_used_a_range();
}

void test_answer(void)
{
	static const struct {
		const char *typed;
		u32 answers;
	} cases[] = {
		{ "cold\r", 1 },
		{ "cold\n", 1 },
		{ "\r\ncold\r\n", 1 },
		{ "cold", 0 },
		{ "\r\n\r\n", 0 },
		{ "colder\r", 0 },
		{ "cold cold\r", 0 },
		{ "xcold\r", 0 },
		{ "Cold\r", 0 },
		{ "col\rd\r", 0 },
		{ "what?\rcold\rcold\r", 2 },
		{ "\xff\xff\r", 0 },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++) {
		struct answer answer = { 0 };
		u32 answers = 0;

		for (const char *at = cases[i].typed; *at; at++)
			answers += answer_byte(&answer, (u8)*at);
		CHECK(answers == cases[i].answers, "'%s': %u", cases[i].typed,
		      answers);
	}
}
