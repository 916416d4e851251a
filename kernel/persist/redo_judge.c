// SPDX-License-Identifier: GPL-2.0-only
/*
 * The redo area's bytes (rem_redo.h) as pure functions, which are tested on the host,
 * too. What they read is untrusted: it is what a kernel left that did not stop.
 */
#include "redo_judge.h"

#ifdef __KERNEL__
#include <linux/string.h>
#include "persist.h"
#else
#include <string.h>

static rem_u32 rem_checksum(const void *data, unsigned long bytes)
{
	const rem_u8 *at = data;
	rem_u32 crc = ~0u;
	int bit;

	for (; bytes; bytes--) {
		crc ^= *at++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}
#endif

static rem_u64 whole_pages(rem_u64 bytes)
{
	return (bytes + REM_REDO_SLOT_BYTES - 1) &
	       ~(rem_u64)(REM_REDO_SLOT_BYTES - 1);
}

/** rem_redo_ring_bytes - Return: how much of the area a ring takes */
rem_u64 rem_redo_ring_bytes(rem_u32 slots)
{
	rem_u64 each = REM_REDO_SLOT_BYTES + sizeof(struct rem_redo_slot);

	return whole_pages(slots * each);
}

/** rem_redo_data_at - Return: where the data of a position is in the area */
rem_u64 rem_redo_data_at(const struct rem_redo_seen *ring, rem_u64 position)
{
	return ring->offset + position % ring->slots * REM_REDO_SLOT_BYTES;
}

/** rem_redo_slot_at - Return: where the struct rem_redo_slot of a position is */
rem_u64 rem_redo_slot_at(const struct rem_redo_seen *ring, rem_u64 position)
{
	return ring->offset + (rem_u64)ring->slots * REM_REDO_SLOT_BYTES +
	       position % ring->slots * sizeof(struct rem_redo_slot);
}

/** rem_redo_fill_disk - add what all entries have, and the checksum */
void rem_redo_fill_disk(struct rem_redo_disk *disk)
{
	disk->magic = REM_REDO_MAGIC;
	disk->version = REM_REDO_VERSION;
	disk->crc = rem_checksum(disk, offsetof(struct rem_redo_disk, crc));
}

/** rem_redo_fill_word - make a word of a ring */
void rem_redo_fill_word(struct rem_redo_word *word, rem_u64 id,
			rem_u64 position)
{
	*word = (struct rem_redo_word){ .id = id, .position = position };
	word->crc = rem_checksum(word, offsetof(struct rem_redo_word, crc));
}

/** rem_redo_fill_slot - add the checksum */
void rem_redo_fill_slot(struct rem_redo_slot *slot)
{
	slot->crc = rem_checksum(slot, offsetof(struct rem_redo_slot, crc));
}

/* Returns whether one of the copies at @copies is a word of the ring. */
static bool read_word(const rem_u8 *copies, rem_u64 id, rem_u64 *ret_position)
{
	struct rem_redo_word word;
	bool found = false;
	unsigned int i;

	*ret_position = 0;
	for (i = 0; i < REM_REDO_COPIES; i++) {
		memcpy(&word, copies + i * sizeof(word), sizeof(word));
		if (word.id != id || word.reserved ||
		    word.crc != rem_checksum(&word, offsetof(struct rem_redo_word,
							     crc)))
			continue;
		if (!found || word.position > *ret_position)
			*ret_position = word.position;
		found = true;
	}
	return found;
}

static bool disk_is_right(const struct rem_redo_disk *disk, rem_u64 area_bytes)
{
	if (disk->magic != REM_REDO_MAGIC ||
	    disk->version != REM_REDO_VERSION ||
	    disk->crc !=
		    rem_checksum(disk, offsetof(struct rem_redo_disk, crc)))
		return false;
	if (!disk->slots || disk->slots > REM_REDO_SLOTS_MAX ||
	    !disk->identity[0] ||
	    disk->identity[REM_REDO_IDENTITY_BYTES - 1])
		return false;
	return disk->offset >= REM_REDO_AREA_BYTES_MIN &&
	       !(disk->offset % REM_REDO_SLOT_BYTES) &&
	       disk->offset <= area_bytes &&
	       rem_redo_ring_bytes(disk->slots) <= area_bytes - disk->offset;
}

/**
 * rem_redo_judge - read an entry of the area
 * @entry: REM_REDO_ENTRY_BYTES
 * @area_bytes: of the area
 * @ret_ring: where its parts are, unless there is none
 *
 * An entry that was not written whole is none: it is written before its disk has a ring.
 *
 * Return: what it is.
 */
enum rem_redo_state rem_redo_judge(const rem_u8 *entry, rem_u64 area_bytes,
				   struct rem_redo_seen *ret_ring)
{
	struct rem_redo_disk disk;
	bool words;

	memcpy(&disk, entry, sizeof(disk));
	*ret_ring = (struct rem_redo_seen){ 0 };
	if (!disk_is_right(&disk, area_bytes))
		return REM_REDO_NONE;
	*ret_ring = (struct rem_redo_seen){
		.id = disk.id,
		.offset = disk.offset,
		.sectors = disk.sectors,
		.slots = disk.slots,
	};
	words = read_word(entry + REM_REDO_HEAD_AT, disk.id, &ret_ring->head);
	words &= read_word(entry + REM_REDO_COVERED_AT, disk.id,
			   &ret_ring->covered);
	if (!words)
		return REM_REDO_DAMAGED;
	if (ret_ring->covered <= ret_ring->head)
		return REM_REDO_EMPTY;
	return ret_ring->covered - ret_ring->head > disk.slots ?
		       REM_REDO_DAMAGED : REM_REDO_WAITS;
}

/**
 * rem_redo_slot_wrong - judge a slot below @covered
 * @slot: a copy of it
 * @ring: judged
 * @position: of the slot
 *
 * Return: NULL, or what is wrong.
 */
const char *rem_redo_slot_wrong(const struct rem_redo_slot *slot,
				const struct rem_redo_seen *ring,
				rem_u64 position)
{
	rem_u64 sectors = slot->bytes / REM_REDO_SECTOR_BYTES;

	if (slot->crc !=
	    rem_checksum(slot, offsetof(struct rem_redo_slot, crc)))
		return "its checksum is wrong";
	if (slot->id != ring->id || slot->position != position)
		return "it is another write's";
	if (!sectors || slot->bytes % REM_REDO_SECTOR_BYTES ||
	    slot->bytes > REM_REDO_SLOT_BYTES)
		return "its size is impossible";
	if (slot->sector > ring->sectors ||
	    sectors > ring->sectors - slot->sector)
		return "it is behind the disk's end";
	return NULL;
}

/** rem_redo_data_wrong - Return: whether @data is not that of a slot that is right */
bool rem_redo_data_wrong(const struct rem_redo_slot *slot, const rem_u8 *data)
{
	return rem_checksum(data, slot->bytes) != slot->data_crc;
}

/* What is free from @from on, up to the next extent or the end; 0 if @from is taken. */
static rem_u64 free_from(const struct rem_redo_extent *taken, rem_u32 count,
			 rem_u64 area_bytes, rem_u64 from)
{
	rem_u64 end = area_bytes;
	rem_u32 i;

	if (from >= area_bytes)
		return 0;
	for (i = 0; i < count; i++) {
		if (!taken[i].bytes ||
		    taken[i].offset + taken[i].bytes <= from)
			continue;
		if (taken[i].offset <= from)
			return 0;
		if (taken[i].offset < end)
			end = taken[i].offset;
	}
	return end - from;
}

/**
 * rem_redo_place - find room for a ring
 * @taken: by other rings, within the area
 * @count: of @taken
 * @area_bytes: of the area
 * @slots: wanted
 * @ret_offset: where it may be
 *
 * Return: how many slots it may have, at most @slots; 0 if there is no room for
 * REM_REDO_SLOTS_MIN.
 */
rem_u32 rem_redo_place(const struct rem_redo_extent *taken, rem_u32 count,
		       rem_u64 area_bytes, rem_u32 slots, rem_u64 *ret_offset)
{
	rem_u64 each = REM_REDO_SLOT_BYTES + sizeof(struct rem_redo_slot);
	rem_u64 from = REM_REDO_AREA_BYTES_MIN, room, fit;
	rem_u32 i = 0, best = 0;

	*ret_offset = 0;
	do {
		room = free_from(taken, count, area_bytes, from);
		fit = (room & ~(rem_u64)(REM_REDO_SLOT_BYTES - 1)) / each;
		if (fit > slots)
			fit = slots;
		if (fit > best) {
			best = (rem_u32)fit;
			*ret_offset = from;
		}
		if (i < count && taken[i].bytes)
			from = taken[i].offset + taken[i].bytes;
	} while (i++ < count);
	return best < REM_REDO_SLOTS_MIN ? 0 : best;
}
