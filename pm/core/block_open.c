// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Laying out and opening a block segment. Opening finishes what a cut left
 * committed, and finds which places are free; only entries of which the two
 * maps differ cost a read of the data.
 */
#include "block.h"

#define PART_ALIGN_BYTES 4096
#define MAGIC_BYTES sizeof(rem_u64)

static bool is_power_of_two(rem_u32 value)
{
	return value && !(value & (value - 1));
}

/* Offsets of all parts for @blocks; what they need in all. */
static rem_u64 lay_out(struct rem_pm_block_header *header, rem_u64 blocks,
		       rem_u64 spare)
{
	rem_u64 map_bytes = pm_align_up(
		blocks * sizeof(struct rem_pm_map_entry), PART_ALIGN_BYTES);

	header->blocks = blocks;
	header->places = blocks + spare;
	header->map_offset[0] = REM_PM_BLOCK_MAP_OFFSET;
	header->map_offset[1] = header->map_offset[0] + map_bytes;
	header->lane_offset = header->map_offset[1] + map_bytes;
	header->place_offset = header->lane_offset +
			       (rem_u64)header->lanes * header->lane_bytes;
	return header->place_offset + header->places * header->block_bytes;
}

int pm_block_plan(const struct pm_block_format *format,
		  struct rem_pm_block_header *ret)
{
	struct rem_pm_block_header header = { .magic = REM_PM_BLOCK_MAGIC };
	rem_u64 low = 0, high;

	if (!is_power_of_two(format->block_bytes) ||
	    format->block_bytes < REM_PM_BLOCK_BYTES_MIN ||
	    format->block_bytes > REM_PM_BLOCK_BYTES_MAX || !format->lanes ||
	    format->lanes > REM_PM_BLOCK_LANES_MAX || !format->lane_entries ||
	    format->lane_entries > 1 << 20)
		return -EINVAL;
	header.version = REM_PM_BLOCK_VERSION;
	header.block_bytes = format->block_bytes;
	header.lanes = format->lanes;
	header.lane_bytes = (rem_u32)pm_align_up(
		sizeof(struct rem_pm_lane) +
			format->lane_entries *
				(rem_u64)sizeof(struct rem_pm_lane_entry),
		PART_ALIGN_BYTES);
	header.segment_bytes = format->segment_bytes;
	memcpy(header.uuid, format->uuid, sizeof(header.uuid));
	high = format->segment_bytes / format->block_bytes;
	if (high > REM_PM_BLOCK_PLACES_MAX - format->lane_entries)
		high = REM_PM_BLOCK_PLACES_MAX - format->lane_entries;
	while (low < high) { /* the most blocks that fit */
		rem_u64 middle = high - (high - low) / 2;

		if (lay_out(&header, middle, format->lane_entries) <=
		    format->segment_bytes)
			low = middle;
		else
			high = middle - 1;
	}
	if (!low)
		return -ENOSPC;
	lay_out(&header, low, format->lane_entries);
	header.crc =
		pm_crc32c(&header, offsetof(struct rem_pm_block_header, crc));
	*ret = header;
	return 0;
}

static rem_u8 *header_at(const struct pm_block *block, int copy)
{
	return block->base + copy * REM_PM_BLOCK_HEADER_STRIDE_BYTES;
}

int pm_block_format(struct pm_env *env, void *base,
		    const struct pm_block_format *format)
{
	struct pm_block block = { .env = env, .base = base };
	int err = pm_block_plan(format, &block.header);

	if (err)
		return err;
	for (rem_u64 number = 0; number < block.header.blocks; number++) {
		if (number % PM_REST == PM_REST - 1)
			pm_rest(env);
		for (int map = 0; map < REM_PM_BLOCK_MAPS; map++) {
			union pm_map_word hole = pm_map_hole((rem_u32)number);

			pm_copy(env, pm_map_at(&block, map, number), &hole,
				sizeof(hole));
		}
	}
	for (rem_u32 lane = 0; lane < block.header.lanes; lane++)
		pm_lane_store(&block, lane, pm_lane_idle(lane, 1));
	pm_fence(env); /* all of it, before a header says that it is there */
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		pm_copy(env, header_at(&block, copy) + MAGIC_BYTES,
			(const rem_u8 *)&block.header + MAGIC_BYTES,
			sizeof(block.header) - MAGIC_BYTES);
	/*
	 * The magic last: without it in any copy, and with no header whose
	 * checksum is right but for it, nothing was laid out.
	 */
	pm_fence(env);
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		pm_store64(env, header_at(&block, copy), block.header.magic);
		pm_flush(env, header_at(&block, copy), MAGIC_BYTES);
	}
	pm_fence(env);
	return 0;
}

/* Zeros, or what the format stores there. */
static bool may_be(const rem_u8 *at, const void *made, size_t bytes)
{
	const rem_u8 *byte = made;

	for (size_t i = 0; i < bytes; i += sizeof(rem_u64)) {
		rem_u64 word;

		if (!pm_load64(at + i, &word))
			return false;
		if (word && memcmp(&word, byte + i, sizeof(word)))
			return false;
	}
	return true;
}

int pm_block_check_blank(struct pm_env *env, const void *base,
			 const struct pm_block_format *format)
{
	struct pm_block block = { .base = (rem_u8 *)(size_t)base };
	int err = pm_block_plan(format, &block.header);

	if (err)
		return err;
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		if (!may_be(header_at(&block, copy), &block.header,
			    sizeof(block.header)))
			return -EUCLEAN;
	for (rem_u64 number = 0; number < block.header.blocks; number++) {
		if (number % PM_REST == PM_REST - 1)
			pm_rest(env);
		for (int map = 0; map < REM_PM_BLOCK_MAPS; map++) {
			union pm_map_word hole = pm_map_hole((rem_u32)number);

			if (!may_be(pm_map_at(&block, map, number), &hole,
				    sizeof(hole)))
				return -EUCLEAN;
		}
	}
	for (rem_u32 lane = 0; lane < block.header.lanes; lane++) {
		const struct rem_pm_lane *at = pm_lane_at(&block, lane);
		rem_u64 idle = pm_lane_idle(lane, 1);

		if (!may_be((const rem_u8 *)&at->word, &idle, sizeof(idle)) ||
		    !may_be((const rem_u8 *)&at->copy, &idle, sizeof(idle)))
			return -EUCLEAN;
	}
	return 0;
}

/* Whether a header whose checksum is right can be true of this segment. */
static bool header_is_sound(const struct rem_pm_block_header *header,
			    rem_u64 bytes, const rem_u8 *uuid)
{
	struct rem_pm_block_header laid_out = *header;
	rem_u64 spare = header->places - header->blocks;

	if (!is_power_of_two(header->block_bytes) ||
	    header->block_bytes < REM_PM_BLOCK_BYTES_MIN ||
	    header->block_bytes > REM_PM_BLOCK_BYTES_MAX || !header->blocks ||
	    header->places <= header->blocks ||
	    header->places > REM_PM_BLOCK_PLACES_MAX || !header->lanes ||
	    header->lanes > REM_PM_BLOCK_LANES_MAX ||
	    header->lane_bytes < sizeof(struct rem_pm_lane) +
					 sizeof(struct rem_pm_lane_entry) ||
	    header->lane_bytes % PART_ALIGN_BYTES ||
	    header->lane_bytes > 1 << 25)
		return false;
	if (header->segment_bytes > bytes ||
	    memcmp(header->uuid, uuid, sizeof(header->uuid)))
		return false;
	return lay_out(&laid_out, header->blocks, spare) <= bytes &&
	       !memcmp(&laid_out, header, sizeof(laid_out));
}

static bool header_holds(const rem_u8 *at, rem_u64 bytes, const rem_u8 *uuid,
			 struct rem_pm_block_header *ret, int *ret_err)
{
	if (!pm_fetch(ret, at, sizeof(*ret)))
		return false;
	/* Cut off before its magic, or damaged: its content is there. */
	if (!ret->magic)
		ret->magic = REM_PM_BLOCK_MAGIC;
	if (ret->magic != REM_PM_BLOCK_MAGIC ||
	    ret->crc !=
		    pm_crc32c(ret, offsetof(struct rem_pm_block_header, crc)))
		return false;
	if (ret->version != REM_PM_BLOCK_VERSION) {
		*ret_err = -EPROTONOSUPPORT;
		return false;
	}
	return header_is_sound(ret, bytes, uuid);
}

int pm_block_peek(const void *base, rem_u64 bytes, const rem_u8 *uuid,
		  struct rem_pm_block_header *ret)
{
	const rem_u8 *at = base;
	struct rem_pm_block_header header;
	bool blank = true;
	rem_u64 magic;
	int err = -EUCLEAN;

	if (bytes < REM_PM_BLOCK_MAP_OFFSET)
		return -ENOSPC;
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		if (header_holds(at, bytes, uuid, &header, &err)) {
			*ret = header;
			return 0;
		}
		blank &= pm_load64(at, &magic) && !magic;
		at += REM_PM_BLOCK_HEADER_STRIDE_BYTES;
	}
	return blank ? -ENOMEDIUM : err;
}

static size_t bitmap_bytes(rem_u64 bits)
{
	return (size_t)pm_align_up(bits, 64) / 8;
}

/* Of the largest transaction: all its blocks have a spare place. */
static rem_u32 lane_entries(const struct rem_pm_block_header *header)
{
	rem_u64 spare = header->places - header->blocks;
	rem_u32 room;

	if (header->lane_bytes < sizeof(struct rem_pm_lane))
		return 0; /* nothing is laid out */
	room = (rem_u32)((header->lane_bytes - sizeof(struct rem_pm_lane)) /
			 sizeof(struct rem_pm_lane_entry));
	return room < spare ? room : (rem_u32)spare;
}

size_t pm_block_volatile_bytes(const struct rem_pm_block_header *header)
{
	/* A block that turns up twice in a lane gives a place twice. */
	return lane_entries(header) * sizeof(struct rem_pm_lane_entry) +
	       bitmap_bytes(header->blocks) + bitmap_bytes(header->places) +
	       sizeof(rem_u32) * (size_t)header->places;
}

enum lane_state {
	LANE_DAMAGED,
	LANE_IDLE,
	LANE_COMMITTED,
};

static enum lane_state lane_state(struct pm_block *block, rem_u32 lane,
				  int copy)
{
	union {
		struct rem_pm_word word;
		rem_u64 bits;
	} is = { .word = pm_lane_word(block, lane, copy) };
	rem_u32 sum;

	if (is.bits == pm_lane_idle(lane, is.word.sequence))
		return LANE_IDLE;
	if (pm_lane_read(block, lane, &sum) &&
	    is.word.check == pm_lane_check(lane, is.word.sequence, sum))
		return LANE_COMMITTED;
	return LANE_DAMAGED;
}

/* Do the rest of a transaction that a cut left committed: all of it, or nothing. */
static int replay(struct pm_block *block, rem_u32 lane, int copy)
{
	/* Once more: what is done is what checks here, whatever media loses later. */
	if (lane_state(block, lane, copy) != LANE_COMMITTED)
		return -EUCLEAN;
	for (rem_u32 i = 0; i < block->entry_count; i++)
		if (block->entries[i].block >= block->header.blocks)
			return -EUCLEAN;
	for (rem_u32 i = 0; i < block->entry_count; i++) {
		const struct rem_pm_lane_entry *entry = &block->entries[i];
		const union pm_map_word new = { .entry = entry->entry };

		for (int map = 0; map < REM_PM_BLOCK_MAPS; map++)
			pm_map_put(block, map, entry->block, new);
	}
	pm_fence(block->env);
	block->replayed++;
	return 0;
}

static int open_lane(struct pm_block *block, rem_u32 lane)
{
	struct rem_pm_word word = pm_lane_word(block, lane, 0);
	struct rem_pm_word copy = pm_lane_word(block, lane, 1);
	enum lane_state first = lane_state(block, lane, 0);
	enum lane_state second = lane_state(block, lane, 1);
	rem_u32 sequence = word.sequence;
	int err;

	if (first == LANE_DAMAGED && second == LANE_DAMAGED)
		return -EUCLEAN;
	if (first == LANE_DAMAGED ||
	    (second != LANE_DAMAGED && copy.sequence > sequence))
		sequence = copy.sequence;
	if (first == LANE_COMMITTED || second == LANE_COMMITTED) {
		if (!block->may_write)
			return -EROFS;
		err = replay(block, lane, first != LANE_COMMITTED);
		if (err)
			return err;
	} else if (first == LANE_IDLE && second == LANE_IDLE &&
		   word.sequence == copy.sequence) {
		return 0;
	} else if (first == LANE_DAMAGED || second == LANE_DAMAGED) {
		block->repaired++;
	}
	if (block->may_write) {
		pm_lane_store(block, lane, pm_lane_idle(lane, sequence + 1));
		pm_fence(block->env);
	}
	return 0;
}

/* Make the two entries of a block agree; without media that may be written,
 * reading tries both anyhow.
 */
static void settle(struct pm_block *block, rem_u32 number)
{
	rem_u64 first = pm_map_get(block, 0, number).word;

	if (number % PM_REST == PM_REST - 1)
		pm_rest(block->env);
	if (first != pm_map_get(block, 1, number).word ||
	    first == pm_map_lost(number).word)
		pm_block_scrub(block, number);
}

static void find_free(struct pm_block *block, rem_u8 *taken)
{
	rem_u64 places = block->header.places;

	for (rem_u64 number = 0; number < block->header.blocks; number++) {
		if (number % PM_REST == PM_REST - 1)
			pm_rest(block->env);
		for (int map = 0; map < REM_PM_BLOCK_MAPS; map++) {
			rem_u32 place =
				pm_map_get(block, map, number).entry.place;

			if (place < places)
				taken[place / 8] |= (rem_u8)(1u << place % 8);
		}
	}
	for (rem_u64 place = places; place-- > 0;) {
		if (place % PM_REST == 0)
			pm_rest(block->env);
		if (!(taken[place / 8] >> place % 8 & 1))
			block->free[block->free_count++] = (rem_u32)place;
	}
}

/* Of an open segment, whose writers are elsewhere: no transaction is under way. */
static void scrub_lane(struct pm_block *block, rem_u32 lane)
{
	bool first = lane_state(block, lane, 0) == LANE_IDLE;
	bool second = lane_state(block, lane, 1) == LANE_IDLE;

	if ((first && second) || !block->may_write)
		return;
	pm_lane_store(block, lane,
		      pm_lane_idle(lane,
				   pm_lane_word(block, lane, !first).sequence));
	pm_fence(block->env);
	block->repaired++;
}

static void scrub_headers(struct pm_block *block)
{
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		struct rem_pm_block_header seen;
		rem_u8 *at = header_at(block, copy);

		if ((pm_fetch(&seen, at, sizeof(seen)) &&
		     !memcmp(&seen, &block->header, sizeof(seen))) ||
		    !block->may_write)
			continue;
		pm_copy(block->env, at, &block->header, sizeof(block->header));
		pm_fence(block->env);
		block->repaired++;
	}
}

void pm_block_scrub_base(struct pm_block *block)
{
	scrub_headers(block);
	for (rem_u32 lane = 0; lane < block->header.lanes; lane++)
		scrub_lane(block, lane);
}

/*
 * What is seen here may be in the caches only: of a segment that was closed, whose
 * last words wait for a fence, or of a kernel that died without one (kexec). What
 * is decided from it, as which places are free, must not outlive it in a cut.
 */
static void make_durable(const struct pm_block *block)
{
	pm_flush(block->env, block->base, (size_t)block->header.place_offset);
	pm_fence(block->env);
}

int pm_block_open(struct pm_block *block, struct pm_env *env, void *base,
		  rem_u64 bytes, const rem_u8 *uuid, void *memory,
		  bool may_write)
{
	rem_u8 *taken;
	int err;

	memset(block, 0, sizeof(*block));
	block->env = env;
	block->base = base;
	block->may_write = may_write;
	err = pm_block_peek(base, bytes, uuid, &block->header);
	if (err)
		return err;
	block->lane_entries = lane_entries(&block->header);
	block->entries = memory;
	block->free = (rem_u32 *)(block->entries + block->lane_entries);
	block->bad = (rem_u8 *)(block->free + block->header.places);
	taken = block->bad + bitmap_bytes(block->header.blocks);
	if (may_write)
		make_durable(block);
	scrub_headers(block);
	for (rem_u32 lane = 0; lane < block->header.lanes; lane++) {
		err = open_lane(block, lane);
		if (err)
			return err;
	}
	for (rem_u64 number = 0; number < block->header.blocks; number++)
		settle(block, (rem_u32)number);
	find_free(block, taken);
	return 0;
}
