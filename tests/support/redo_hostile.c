// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The redo area as hostile bytes: `redo_hostile CASES SEED`. Numbers of any size, with right
 * checksums for the most part, so that the checks behind them are reached.
 *
 * Oracle: whatever is judged to be a ring has all its parts within the area, behind the entries; no
 * more positions wait than it has slots; what is written lies on the disk; and a new ring is put
 * where nothing is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../kernel/persist/redo_judge.c"

#define AREA_BYTES (16u << 20)

static unsigned long state, rings, waiting, written, placed;

static rem_u64 any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Of all sizes, and often near a limit. */
static rem_u64 number(void)
{
	static const rem_u64 limits[] = { 0,	      512,
					  4096,	      AREA_BYTES,
					  4032,	      REM_REDO_SLOTS_MAX,
					  1ull << 32, 1ull << 63 };
	rem_u64 value = any() >> any() % 64;

	if (any() % 2)
		value = limits[any() % 8] + any() % 3 - 1;
	return any() % 4 ? value & ~511ull : value;
}

static void check(bool right, const char *what)
{
	if (right)
		return;
	printf("%s\n", what);
	exit(1);
}

static void make_entry(rem_u8 *entry)
{
	struct rem_redo_disk disk = { .slots = (rem_u32)number(),
				      .id = any() % 2,
				      .offset = number(),
				      .sectors = number() };
	struct rem_redo_word word;
	rem_u64 from = number();

	for (int i = 0; i < REM_REDO_ENTRY_BYTES; i++)
		entry[i] = any() % 8 ? 0 : (rem_u8)any();
	if (any() % 4) {
		disk.slots = (rem_u32)(any() % 5000);
		disk.offset = any() % (AREA_BYTES / 4096) * 4096;
		disk.sectors = any() % 4 ? 1ull << any() % 40 : disk.sectors;
	}
	disk.identity[0] = any() % 8 != 0;
	disk.identity[REM_REDO_IDENTITY_BYTES - 1] = any() % 8 == 0;
	rem_redo_fill_disk(&disk);
	disk.crc ^= any() % 8 == 0;
	memcpy(entry, &disk, sizeof(disk));
	for (int at = REM_REDO_COVERED_AT; at < REM_REDO_ENTRY_BYTES;
	     at += (int)sizeof(word)) {
		rem_redo_fill_word(&word, any() % 8 ? disk.id : any(),
				   any() % 4 ? from + any() % 2000 : number());
		word.crc ^= any() % 8 == 0;
		memcpy(entry + at, &word, sizeof(word));
	}
}

static void check_slot(const struct rem_redo_seen *ring)
{
	rem_u64 at = any() % 4 ? ring->head : number();
	struct rem_redo_slot slot = { .id = ring->id,
				      .position = any() % 8 ? at : number(),
				      .sector = number(),
				      .bytes = any() % 4 ? (rem_u32)(any() % 9 *
								     512) :
							   (rem_u32)number() };
	rem_u64 end;

	rem_redo_fill_slot(&slot);
	if (rem_redo_slot_wrong(&slot, ring, at))
		return;
	written++;
	end = slot.sector + slot.bytes / 512;
	check(slot.position == at && slot.id == ring->id,
	      "a slot of another position");
	check(slot.bytes && slot.bytes <= 4096 && !(slot.bytes % 512),
	      "a slot of another size");
	check(end > slot.sector && end <= ring->sectors,
	      "a write behind the disk's end");
}

static void check_ring(const struct rem_redo_seen *ring,
		       enum rem_redo_state seen)
{
	rem_u64 at = number();

	rings++;
	check(ring->slots && ring->offset >= REM_REDO_AREA_BYTES_MIN,
	      "in the entries");
	check(ring->offset + ring->slots * 4160ull <= AREA_BYTES,
	      "behind the area");
	check(rem_redo_data_at(ring, at) >= ring->offset &&
		      rem_redo_data_at(ring, at) + 4096 <=
			      rem_redo_slot_at(ring, 0),
	      "data outside");
	check(rem_redo_slot_at(ring, at) + 64 <=
		      ring->offset + rem_redo_ring_bytes(ring->slots),
	      "a slot outside");
	if (seen != REM_REDO_WAITS)
		return;
	waiting++;
	check(ring->covered > ring->head &&
		      ring->covered - ring->head <= ring->slots,
	      "more than it can have");
	check_slot(ring);
}

static void check_place(const struct rem_redo_extent *taken)
{
	rem_u32 wanted = (rem_u32)number();
	rem_u64 offset, end;
	rem_u32 slots = rem_redo_place(taken, REM_REDO_DISKS, AREA_BYTES,
				       wanted, &offset);

	if (!slots)
		return;
	placed++;
	end = offset + rem_redo_ring_bytes(slots);
	check(slots <= wanted && slots >= REM_REDO_SLOTS_MIN,
	      "another size than wanted");
	check(offset >= REM_REDO_AREA_BYTES_MIN && !(offset % 4096),
	      "not in its place");
	check(end <= AREA_BYTES, "a new ring behind the area");
	for (int i = 0; i < REM_REDO_DISKS; i++)
		check(!taken[i].bytes || end <= taken[i].offset ||
			      offset >= taken[i].offset + taken[i].bytes,
		      "a new ring over another");
}

int main(int argc, char **argv)
{
	struct rem_redo_extent taken[REM_REDO_DISKS] = { 0 };
	rem_u8 entry[REM_REDO_ENTRY_BYTES];
	struct rem_redo_seen ring;
	enum rem_redo_state seen;
	unsigned long cases;

	if (argc != 3)
		return 2;
	cases = strtoul(argv[1], NULL, 10);
	state = strtoul(argv[2], NULL, 10) * 2 + 1;
	for (unsigned long i = 0; i < cases; i++) {
		make_entry(entry);
		seen = rem_redo_judge(entry, AREA_BYTES, &ring);
		taken[i % REM_REDO_DISKS] = (struct rem_redo_extent){ 0 };
		if (seen != REM_REDO_NONE) {
			check_ring(&ring, seen);
			taken[i % REM_REDO_DISKS].offset = ring.offset;
			taken[i % REM_REDO_DISKS].bytes =
				rem_redo_ring_bytes(ring.slots);
		}
		check_place(taken);
	}
	printf("%lu hostile areas: %lu rings, %lu waiting, %lu writes, %lu placed\n",
	       cases, rings, waiting, written, placed);
	return 0;
}
