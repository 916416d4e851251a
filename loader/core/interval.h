/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All arithmetic on address ranges. Ranges are [base, base + bytes). A range that
 * ends beyond 2^64 is invalid; for it all functions return what keeps the caller
 * from reading, entering or handing out memory.
 */
#ifndef LOADER_INTERVAL_H
#define LOADER_INTERVAL_H

#include "base.h"

/* True if the range is not empty and does not wrap. */
bool range_valid(u64 base, u64 bytes);

/* True if the inner range is valid and lies in the outer one. */
bool range_inside(u64 base, u64 bytes, u64 outer_base, u64 outer_bytes);

/* True if both are valid and share a byte. */
bool range_overlaps(u64 a_base, u64 a_bytes, u64 b_base, u64 b_bytes);

/* Next multiple of @align (a power of two) that fits in 64 bits, or false. */
bool align_up(u64 value, u64 align, u64 *ret_value);

/* Types of e820 with Linux' numbers; 0 is a hole. */
enum map_type {
	MAP_HOLE = 0,
	MAP_RAM = 1,
	MAP_RESERVED = 2,
	MAP_ACPI = 3,
	MAP_NVS = 4,
	MAP_PMEM = 7,
	MAP_PRAM = 12, /* persistent, before it had a number */
};

/* Room in Linux' boot_params. */
#define MAP_ENTRIES_MAX 128

struct map_entry {
	u64 base;
	u64 bytes;
	u32 type;
};

/*
 * struct map - the type of each address
 *
 * Entries ascend and do not overlap; adjacent ones differ in type.
 */
struct map {
	u32 count;
	struct map_entry entry[MAP_ENTRIES_MAX];
};

/*
 * Give [base, base + bytes) the type @type, regardless of its old type; MAP_HOLE
 * removes it. False, with @map unchanged, if the range is invalid or there is no
 * room.
 */
bool map_paint(struct map *map, u64 base, u64 bytes, u32 type);

/* Type of one address. */
u32 map_type_at(const struct map *map, u64 address);

/* Sum of all entries of @type. */
u64 map_bytes(const struct map *map, u32 type);

#endif /* LOADER_INTERVAL_H */
