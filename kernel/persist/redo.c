// SPDX-License-Identifier: GPL-2.0-only
/*
 * The redo area's bytes in NVRAM (rem_redo.h): rings of this kernel, and those that an
 * earlier one has left. Who writes to a ring sees to its order (stop/disk_log.c):
 *
 *   a slot is in NVRAM	   before `covered` passes it, by the CPU that has copied it
 *   `covered` is in NVRAM before a flush ends
 *   `head` is in NVRAM	   before a slot behind it is used again
 */
#include <linux/blkdev.h>
#include <linux/libnvdimm.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/random.h>
#include <linux/string.h>

#include "../machine.h"
#include "persist.h"

/**
 * struct rem_redo_ring - the ring of a disk
 * @entry: of the area
 * @seen: where its parts are
 * @data: of slot 0
 * @slots: of slot 0
 * @used: by a log of this kernel
 * @turn: copy of each word, @covered and @head, that is written next
 */
struct rem_redo_ring {
	u8 *entry;
	struct rem_redo_seen seen;
	u8 *data;
	struct rem_redo_slot *slots;
	bool used;
	u8 turn[2];
};

static u8 *area;
static u64 area_bytes;
static struct rem_redo_ring rings[REM_REDO_DISKS];
/* Protects which entries there are. */
static DEFINE_MUTEX(rings_lock);

static u8 *entry_of(unsigned int n)
{
	return area + n * REM_REDO_ENTRY_BYTES;
}

static void write_back(void *at, size_t bytes)
{
	arch_wb_cache_pmem(at, bytes);
}

/**
 * rem_redo_open - where the area is
 * @at: mapped write-back
 * @bytes: its size
 */
void rem_redo_open(void *at, u64 bytes)
{
	area = at;
	area_bytes = bytes;
}

/**
 * rem_redo_format - make the area empty
 *
 * Before the registry's head says that there is one: until then anything may be there.
 */
void rem_redo_format(void)
{
	if (!area)
		return;
	memset(area, 0, REM_REDO_AREA_BYTES_MIN);
	write_back(area, REM_REDO_AREA_BYTES_MIN);
	rem_registry_fence();
}

/**
 * rem_redo_look - what an entry of the area has
 * @n: of the entry
 * @ret_ring: where its parts are
 * @ret_identity: of its disk, REM_REDO_IDENTITY_BYTES, with an end
 *
 * Return: its state; that of a ring of this kernel is REM_REDO_EMPTY.
 */
enum rem_redo_state rem_redo_look(unsigned int n, struct rem_redo_seen *ret_ring,
				  char *ret_identity)
{
	enum rem_redo_state state = REM_REDO_NONE;
	struct rem_redo_disk *disk;

	*ret_identity = 0;
	if (!area)
		return REM_REDO_NONE;
	mutex_lock(&rings_lock);
	state = rem_redo_judge(entry_of(n), area_bytes, ret_ring);
	if (state != REM_REDO_NONE) {
		disk = (struct rem_redo_disk *)entry_of(n);
		strscpy(ret_identity, (char *)disk->identity,
			REM_REDO_IDENTITY_BYTES);
		if (rings[n].used)
			state = REM_REDO_EMPTY;
	}
	mutex_unlock(&rings_lock);
	return state;
}

/** rem_redo_waits - Return: whether a disk lacks what a ring has */
bool rem_redo_waits(void)
{
	char identity[REM_REDO_IDENTITY_BYTES];
	struct rem_redo_seen ring;
	unsigned int n;

	for (n = 0; n < REM_REDO_DISKS; n++)
		if (rem_redo_look(n, &ring, identity) >= REM_REDO_WAITS)
			return true;
	return false;
}

/**
 * rem_redo_slot - copy a slot of a ring that waits
 * @ring: judged
 * @position: of the slot
 * @ret_slot: the copy, not judged
 *
 * Return: its data.
 */
const void *rem_redo_slot(const struct rem_redo_seen *ring, u64 position,
			  struct rem_redo_slot *ret_slot)
{
	memcpy(ret_slot, area + rem_redo_slot_at(ring, position),
	       sizeof(*ret_slot));
	return area + rem_redo_data_at(ring, position);
}

static void forget(unsigned int n)
{
	struct rem_redo_disk *disk = (struct rem_redo_disk *)entry_of(n);

	WRITE_ONCE(disk->magic, 0);
	write_back(disk, sizeof(*disk));
	rem_registry_fence();
}

/** rem_redo_forget - the disk of an entry has all, or what it lacks is given up */
void rem_redo_forget(unsigned int n)
{
	mutex_lock(&rings_lock);
	if (!rings[n].used)
		forget(n);
	mutex_unlock(&rings_lock);
}

/** rem_redo_is_used - Return: whether a log of this kernel has a ring */
bool rem_redo_is_used(void)
{
	bool used = false;
	unsigned int n;

	mutex_lock(&rings_lock);
	for (n = 0; n < REM_REDO_DISKS; n++)
		used |= rings[n].used;
	mutex_unlock(&rings_lock);
	return used;
}

/* Returns the number of a free entry; what is taken is in @taken. With rings_lock held. */
static int find_entry(struct rem_redo_extent *taken)
{
	struct rem_redo_seen ring;
	int n, free = -1;

	for (n = 0; n < REM_REDO_DISKS; n++) {
		enum rem_redo_state state = rem_redo_judge(entry_of(n),
							   area_bytes, &ring);

		taken[n] = (struct rem_redo_extent){ 0 };
		if (!rings[n].used && state < REM_REDO_WAITS) {
			free = free < 0 ? n : free;
			continue;
		}
		taken[n].offset = ring.offset;
		taken[n].bytes = rem_redo_ring_bytes(ring.slots);
	}
	return free;
}

static void write_entry(struct rem_redo_ring *ring, const char *identity)
{
	struct rem_redo_disk disk = {
		.slots = ring->seen.slots,
		.id = ring->seen.id,
		.offset = ring->seen.offset,
		.sectors = ring->seen.sectors,
	};
	struct rem_redo_word word;
	unsigned int copy;

	strscpy((char *)disk.identity, identity, sizeof(disk.identity));
	rem_redo_fill_disk(&disk);
	rem_redo_fill_word(&word, disk.id, 0);
	/* The words first: an entry without them would be damaged. */
	memset(ring->entry, 0, REM_REDO_ENTRY_BYTES);
	for (copy = 0; copy < REM_REDO_COPIES; copy++) {
		size_t at = copy * sizeof(word);

		memcpy(ring->entry + REM_REDO_COVERED_AT + at, &word,
		       sizeof(word));
		memcpy(ring->entry + REM_REDO_HEAD_AT + at, &word, sizeof(word));
	}
	write_back(ring->entry, REM_REDO_ENTRY_BYTES);
	rem_registry_fence();
	memcpy(ring->entry, &disk, sizeof(disk));
	write_back(ring->entry, sizeof(disk));
	rem_registry_fence();
}

/**
 * rem_redo_begin - make a ring for a disk
 * @identity: of the disk
 * @sectors: its size
 * @slots: wanted; a ring may have fewer
 * @ret_slots: how many it has
 *
 * Everything that was written to the disk is on media.
 *
 * Context: process.
 * Return: the ring, or NULL if there is no room.
 */
struct rem_redo_ring *rem_redo_begin(const char *identity, u64 sectors,
				     u32 slots, u32 *ret_slots)
{
	struct rem_redo_extent taken[REM_REDO_DISKS];
	struct rem_redo_ring *ring = NULL;
	u64 offset;
	int n = -1;

	if (!area)
		return NULL;
	mutex_lock(&rings_lock);
	n = find_entry(taken);
	if (n >= 0)
		*ret_slots = rem_redo_place(taken, ARRAY_SIZE(taken), area_bytes,
					    slots, &offset);
	if (n >= 0 && *ret_slots) {
		ring = &rings[n];
		*ring = (struct rem_redo_ring){
			.entry = entry_of(n),
			.seen = {
				.id = get_random_u64(),
				.offset = offset,
				.sectors = sectors,
				.slots = *ret_slots,
			},
			.used = true,
		};
		ring->data = area + offset;
		ring->slots = (void *)area + rem_redo_slot_at(&ring->seen, 0);
		write_entry(ring, identity);
	}
	mutex_unlock(&rings_lock);
	if (!ring)
		pr_warn("remanence: redo: %s: no room for a ring; its flushes wait for the disk\n",
			identity);
	return ring;
}

/**
 * rem_redo_end - a log ends
 * @ring: of the log
 * @clean: the disk has everything; otherwise the ring waits for the next boot
 */
void rem_redo_end(struct rem_redo_ring *ring, bool clean)
{
	mutex_lock(&rings_lock);
	if (clean)
		forget(ring - rings);
	ring->used = false;
	mutex_unlock(&rings_lock);
}

/** rem_redo_data - Return: where the data of a position are */
void *rem_redo_data(struct rem_redo_ring *ring, u64 position)
{
	return ring->data + position % ring->seen.slots * REM_REDO_SLOT_BYTES;
}

/**
 * rem_redo_keep - copy the data of a slot, past the caches
 * @ring: of the log
 * @position: of the slot
 * @sector: of the disk
 * @data: aligned to 8 bytes, and nobody changes them
 * @bytes: of the data
 *
 * In NVRAM after rem_redo_fence() of the same CPU.
 */
void rem_redo_keep(struct rem_redo_ring *ring, u64 position, u64 sector,
		   const void *data, u32 bytes)
{
	struct rem_redo_slot new = {
		.id = ring->seen.id,
		.position = position,
		.sector = sector,
		.bytes = bytes,
		.data_crc = rem_checksum(data, bytes),
	};
	struct rem_redo_slot *slot = ring->slots + position % ring->seen.slots;

	rem_redo_fill_slot(&new);
	memcpy_flushcache(rem_redo_data(ring, position), data, bytes);
	memcpy_flushcache(slot, &new, sizeof(new));
}

/** rem_redo_fence - what this CPU has kept is in NVRAM after it */
void rem_redo_fence(void)
{
	rem_registry_fence();
}

/** rem_redo_drop - the write of a slot has failed. Context: any. */
void rem_redo_drop(struct rem_redo_ring *ring, u64 position)
{
	struct rem_redo_slot *slot = ring->slots + position % ring->seen.slots;

	WRITE_ONCE(slot->dropped, REM_REDO_DROPPED);
	write_back(slot, sizeof(*slot));
}

/* The copy that is not the newer one: it may be torn. */
static void write_word(struct rem_redo_ring *ring, size_t at, u8 *turn,
		       u64 position)
{
	struct rem_redo_word *copies = (void *)ring->entry + at, new;

	rem_redo_fill_word(&new, ring->seen.id, position);
	copies[*turn] = new;
	write_back(&copies[*turn], sizeof(new));
	rem_registry_fence();
	*turn ^= 1;
}

/**
 * rem_redo_cover - promise what is before a position
 * @ring: of the log
 * @position: higher than before; all slots before it are in NVRAM
 *
 * In NVRAM when it returns. Context: any, under the log's lock.
 */
void rem_redo_cover(struct rem_redo_ring *ring, u64 position)
{
	write_word(ring, REM_REDO_COVERED_AT, &ring->turn[0], position);
}

/**
 * rem_redo_advance - the disk has what is before a position
 * @ring: of the log
 * @position: higher than before
 *
 * In NVRAM when it returns. Context: any, under the log's lock.
 */
void rem_redo_advance(struct rem_redo_ring *ring, u64 position)
{
	write_word(ring, REM_REDO_HEAD_AT, &ring->turn[1], position);
}
