/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CRC32C, intervals, the power wire. */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "../core/interval.h"
#include "../core/pwr.h"
#include "check.h"

/* The vectors of RFC 3720 B.4; table and instruction agree, unaligned too. */
void test_crc32c(void)
{
	u8 data[300];
	u32 by_table[40][40];

	memset(data, 0, sizeof(data));
	for (int has = 0; has < 2; has++) {
		crc32c_init(has);
		CHECK(crc32c("123456789", 9) == 0xe3069283u, "check value");
		memset(data, 0, 32);
		CHECK(crc32c(data, 32) == 0x8a9136aau, "zeros");
		memset(data, 0xff, 32);
		CHECK(crc32c(data, 32) == 0x62a8ab43u, "ones");
		for (u32 i = 0; i < sizeof(data); i++)
			data[i] = (u8)(i * 7 + 3);
		for (u32 at = 0; at < 40; at++)
			for (u32 bytes = 0; bytes < 40; bytes++) {
				u32 crc = crc32c(data + at, bytes);

				if (!has)
					by_table[at][bytes] = crc;
				CHECK(crc == by_table[at][bytes],
				      "at %u bytes %u", at, bytes);
			}
	}
}

/* Small ranges at both ends of the 64-bit space. */
#define CELLS 9

static bool cell_in(u32 cell, u32 base, u32 bytes)
{
	return cell >= base && cell < base + bytes;
}

static void check_pair(u64 origin, u32 a, u32 a_bytes, u32 b, u32 b_bytes)
{
	bool overlaps = false, inside = a_bytes && b_bytes;
	bool a_wraps = a + a_bytes > CELLS && origin;
	bool b_wraps = b + b_bytes > CELLS && origin;

	for (u32 cell = 0; cell < 2 * CELLS; cell++) {
		overlaps |= cell_in(cell, a, a_bytes) &&
			    cell_in(cell, b, b_bytes);
		inside &= !cell_in(cell, a, a_bytes) ||
			  cell_in(cell, b, b_bytes);
	}
	if (a_wraps || b_wraps)
		overlaps = inside = false;
	CHECK(range_overlaps(origin + a, a_bytes, origin + b, b_bytes) ==
		      overlaps,
	      "overlap %u+%u %u+%u", a, a_bytes, b, b_bytes);
	CHECK(range_inside(origin + a, a_bytes, origin + b, b_bytes) == inside,
	      "inside %u+%u %u+%u", a, a_bytes, b, b_bytes);
	CHECK(range_valid(origin + a, a_bytes) == (a_bytes && !a_wraps),
	      "valid %u+%u", a, a_bytes);
}

static void check_pairs(u64 origin)
{
	for (u32 a = 0; a < CELLS; a++)
		for (u32 a_bytes = 0; a_bytes <= CELLS; a_bytes++)
			for (u32 b = 0; b < CELLS; b++)
				for (u32 b_bytes = 0; b_bytes <= CELLS;
				     b_bytes++)
					check_pair(origin, a, a_bytes, b,
						   b_bytes);
}

static void check_map(const struct map *map, u64 origin, const u32 *cell)
{
	for (u32 i = 0; i < CELLS; i++)
		CHECK(map_type_at(map, origin + i) == cell[i], "cell %u", i);
	for (u32 i = 1; i < map->count; i++) {
		const struct map_entry *left = &map->entry[i - 1];
		const struct map_entry *right = &map->entry[i];

		CHECK(left->base + left->bytes <= right->base, "order");
		CHECK(left->base + left->bytes < right->base ||
			      left->type != right->type,
		      "not joined");
	}
}

/* Every sequence of three ranges on nine cells with three types. */
static void check_paint(u64 origin)
{
	u32 ranges = CELLS * (CELLS + 1) / 2 * 3;

	for (u32 all = 0; all < ranges * ranges * ranges; all += 7) {
		struct map map = { .count = 0 };
		u32 cell[CELLS] = { 0 };
		u32 rest = all;

		for (u32 n = 0; n < 3; n++, rest /= ranges) {
			u32 type = rest % ranges % 3;
			u32 which = rest % ranges / 3;
			u32 base = 0;

			while (which >= CELLS - base)
				which -= CELLS - base++;
			CHECK(map_paint(&map, origin + base, which + 1, type),
			      "paint");
			for (u32 i = base; i < base + which + 1; i++)
				cell[i] = type;
		}
		check_map(&map, origin, cell);
	}
}

void test_interval(void)
{
	struct map map = { .count = 0 };
	u64 value = 1;

	check_pairs(0);
	check_pairs(UINT64_MAX - (CELLS - 1));
	check_paint(0);
	check_paint(UINT64_MAX - (CELLS - 1));

	CHECK(align_up(1, 4096, &value) && value == 4096, "up");
	CHECK(align_up(4096, 4096, &value) && value == 4096, "already");
	CHECK(!align_up(UINT64_MAX, 4096, &value) && value == 4096, "wrap");
	CHECK(!align_up(1, 3, &value) && value == 4096, "not a power");

	for (u32 i = 0; i < MAP_ENTRIES_MAX; i++)
		CHECK(map_paint(&map, i * 2, 1, MAP_RAM), "fill");
	CHECK(!map_paint(&map, 1000, 1, MAP_RAM), "full");
	CHECK(map.count == MAP_ENTRIES_MAX, "unchanged when full");
	CHECK(map_bytes(&map, MAP_RAM) == MAP_ENTRIES_MAX, "sum");
}

/* All 256 bytes: half have even parity, half of these come from the loader. */
void test_pwr(void)
{
	u32 statuses = 0;

	for (u32 byte = 0; byte < 256; byte++) {
		u8 echo;

		if (!pwr_is_status((u8)byte))
			continue;
		statuses++;
		echo = pwr_echo((u8)byte);
		CHECK(!__builtin_parity(echo), "parity of the echo");
		CHECK(echo & REM_PWR_FROM_MACHINE, "an echo is marked");
		CHECK((echo & 0x3f) == (byte & 0x3f), "an echo repeats");
		CHECK(!pwr_is_status(echo), "an echo is no status");
		for (u32 bit = 0; bit < 8; bit++)
			CHECK(!pwr_is_status((u8)(byte ^ 1u << bit)),
			      "one flipped bit of %x is ignored", byte);
		CHECK(pwr_enough((u8)byte) ==
			      ((byte & 1) &&
			       (byte >> 1 & 3) >= REM_CHARGE_FLAP),
		      "enough %x", byte);
	}
	CHECK(statuses == 64, "64 statuses, not %u", statuses);
	CHECK(!pwr_is_status(REM_PWR_STOPPED), "stopped is no status");
}
