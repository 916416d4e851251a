// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Reading and writing blocks. Invariants: what an entry of the map says is on
 * media before the entry is stored; a place that an entry on media may name is
 * never written to; bytes that do not check are never given out.
 */
#include "block.h"

rem_u8 *pm_map_at(const struct pm_block *block, int map, rem_u64 number)
{
	return block->base + block->header.map_offset[map] +
	       number * sizeof(struct rem_pm_map_entry);
}

union pm_map_word pm_map_get(const struct pm_block *block, int map,
			     rem_u64 number)
{
	return (union pm_map_word){ .word = pm_load64(
					    pm_map_at(block, map, number)) };
}

void pm_map_put(struct pm_block *block, int map, rem_u32 number,
		union pm_map_word entry)
{
	rem_u8 *at = pm_map_at(block, map, number);

	pm_store64(block->env, at, entry.word);
	pm_flush(block->env, at, sizeof(entry));
}

static rem_u8 *place_at(const struct pm_block *block, rem_u32 place)
{
	return block->base + block->header.place_offset +
	       (rem_u64)place * block->header.block_bytes;
}

/* Of a block's check: what comes before its bytes. */
static rem_u32 check_begin(rem_u32 number)
{
	return pm_crc32c_add(PM_CRC_BEGIN, &number, sizeof(number));
}

static rem_u32 check_of(const struct pm_block *block, rem_u32 number,
			const void *data)
{
	return ~pm_crc32c_add(check_begin(number), data,
			      block->header.block_bytes);
}

union pm_map_word pm_map_hole(rem_u32 number)
{
	const rem_u32 head[] = { number, REM_PM_BLOCK_HOLE };

	return (union pm_map_word){ .entry = {
					    .place = REM_PM_BLOCK_HOLE,
					    .check = pm_crc32c(head,
							       sizeof(head)),
				    } };
}

bool pm_map_verify(const struct pm_block *block, rem_u32 number,
		   union pm_map_word entry)
{
	if (entry.entry.place == REM_PM_BLOCK_HOLE)
		return entry.word == pm_map_hole(number).word;
	return entry.entry.place < block->header.places &&
	       entry.entry.check ==
		       check_of(block, number,
				place_at(block, entry.entry.place));
}

/* What an entry names, into @to; what is checked is what came there. */
static bool fetch(const struct pm_block *block, rem_u32 number,
		  union pm_map_word entry, void *to)
{
	rem_u32 crc;

	if (entry.entry.place == REM_PM_BLOCK_HOLE) {
		memset(to, 0, block->header.block_bytes);
		return entry.word == pm_map_hole(number).word;
	}
	if (entry.entry.place >= block->header.places)
		return false;
	crc = pm_fetch_crc32c(to, place_at(block, entry.entry.place),
			      block->header.block_bytes, check_begin(number));
	return entry.entry.check == ~crc;
}

static void set_bad(struct pm_block *block, rem_u64 number, bool bad)
{
	if (pm_block_is_bad(block, number) == bad)
		return;
	block->bad[number / 8] ^= (rem_u8)(1u << number % 8);
	block->bad_count += bad ? 1 : -1ull;
}

rem_u64 pm_block_next_bad(const struct pm_block *block, rem_u64 number)
{
	rem_u64 blocks = block->header.blocks;

	if (!block->bad_count)
		return blocks;
	while (number < blocks && !pm_block_is_bad(block, number))
		number++;
	return number < blocks ? number : blocks;
}

int pm_block_read(struct pm_block *block, rem_u64 number, void *to)
{
	rem_u32 name = (rem_u32)number;

	if (number >= block->header.blocks)
		return -ERANGE;
	if (fetch(block, name, pm_map_get(block, 0, number), to) ||
	    fetch(block, name, pm_map_get(block, 1, number), to))
		return 0;
	memset(to, 0, block->header.block_bytes);
	return -EBADMSG;
}

/* Write data to a free place. Not durable yet, and nothing names it. */
static union pm_map_word place_data(struct pm_block *block,
				    const struct pm_block_io *io)
{
	union pm_map_word entry;

	if (!io->data)
		return pm_map_hole(io->block);
	entry.entry.place = block->free[--block->free_count];
	/*
	 * Of what was given, not of what is in the place now: damage between
	 * the two must show.
	 */
	entry.entry.check = ~pm_copy_crc32c(block->env,
					    place_at(block, entry.entry.place),
					    io->data, block->header.block_bytes,
					    check_begin(io->block));
	return entry;
}

/*
 * Give back what a block's entry named before. Where the two maps disagreed it
 * is not known whose place that is: it stays taken until the next open.
 */
static void put_place(struct pm_block *block, union pm_map_word old)
{
	if (old.entry.place < block->header.places &&
	    block->free_count < block->header.places)
		block->free[block->free_count++] = old.entry.place;
}

static union pm_map_word agreed(const struct pm_block *block, rem_u32 number)
{
	union pm_map_word first = pm_map_get(block, 0, number);

	if (first.word != pm_map_get(block, 1, number).word ||
	    pm_block_is_bad(block, number))
		first = pm_map_hole(number);
	return first;
}

static void put_both(struct pm_block *block, rem_u32 number,
		     union pm_map_word entry)
{
	pm_map_put(block, 0, number, entry);
	pm_map_put(block, 1, number, entry);
}

static void write_one(struct pm_block *block, const struct pm_block_io *io)
{
	union pm_map_word old = agreed(block, io->block);
	union pm_map_word entry;

	entry = place_data(block, io);
	if (io->data)
		pm_fence(block->env);
	put_both(block, io->block, entry);
	pm_fence(block->env);
	put_place(block, old);
	set_bad(block, io->block, false);
}

struct rem_pm_lane *pm_lane_at(const struct pm_block *block, rem_u32 lane)
{
	return (struct rem_pm_lane *)(block->base + block->header.lane_offset +
				      (rem_u64)lane * block->header.lane_bytes);
}

void pm_lane_store(struct pm_block *block, rem_u32 lane, rem_u64 word)
{
	struct rem_pm_lane *at = pm_lane_at(block, lane);

	pm_store64(block->env, &at->word, word);
	pm_flush(block->env, &at->word, sizeof(at->word));
	pm_store64(block->env, &at->copy, word);
	pm_flush(block->env, &at->copy, sizeof(at->copy));
}

rem_u64 pm_lane_idle(rem_u32 lane, rem_u32 sequence)
{
	return sequence |
	       (rem_u64)pm_check(REM_PM_IN_WORK, lane, sequence, NULL, 0) << 32;
}

rem_u32 pm_lane_check(rem_u32 lane, rem_u32 sequence,
		      const struct rem_pm_lane *head,
		      const struct rem_pm_lane_entry *entry)
{
	const rem_u32 count[] = { head->count, head->reserved3 };
	rem_u32 crc = pm_crc32c_add(PM_CRC_BEGIN, count, sizeof(count));

	crc = pm_crc32c_add(crc, entry, head->count * sizeof(*entry));
	return pm_check(REM_PM_COMMITTED, lane, sequence, &crc, sizeof(crc));
}

/* Write the entries of a transaction behind the words of a lane. */
static void fill_lane(struct pm_block *block, struct rem_pm_lane *lane,
		      const struct pm_block_io *io, rem_u32 count)
{
	struct rem_pm_lane_entry *entry =
		(struct rem_pm_lane_entry *)(lane + 1);
	const rem_u32 head[] = { count, 0 };

	pm_copy(block->env, &lane->count, head, sizeof(head));
	for (rem_u32 i = 0; i < count; i++) {
		struct rem_pm_lane_entry one = { .block = io[i].block };

		one.entry = place_data(block, &io[i]).entry;
		pm_copy(block->env, &entry[i], &one, sizeof(one));
	}
}

/*
 * Put the entries into both maps. What they named before goes onto the stack
 * of free places, but counts there only once the maps are safe.
 */
static rem_u32 apply_lane(struct pm_block *block,
			  const struct rem_pm_lane_entry *entry, rem_u32 count)
{
	rem_u32 kept = block->free_count;
	rem_u32 freed;

	for (rem_u32 i = 0; i < count; i++) {
		union pm_map_word new = { .entry = entry[i].entry };

		put_place(block, agreed(block, entry[i].block));
		put_both(block, entry[i].block, new);
		set_bad(block, entry[i].block, false);
	}
	pm_fence(block->env);
	freed = block->free_count;
	block->free_count = kept;
	return freed;
}

static void write_many(struct pm_block *block, const struct pm_block_io *io,
		       rem_u32 count)
{
	rem_u32 number = block->lane_next;
	struct rem_pm_lane *lane = pm_lane_at(block, number);
	struct rem_pm_lane_entry *entry =
		(struct rem_pm_lane_entry *)(lane + 1);
	rem_u32 sequence = lane->word.sequence + 1;
	rem_u32 freed;

	block->lane_next = (number + 1) % block->header.lanes;
	fill_lane(block, lane, io, count);
	pm_fence(block->env);
	pm_lane_store(block, number,
		      sequence | (rem_u64)pm_lane_check(number, sequence, lane,
							entry)
					 << 32);
	pm_fence(block->env);
	freed = apply_lane(block, entry, count);
	pm_lane_store(block, number, pm_lane_idle(number, sequence + 1));
	block->free_count = freed;
}

int pm_block_write(struct pm_block *block, const struct pm_block_io *io,
		   rem_u32 count)
{
	rem_u32 places = 0;

	if (!block->may_write)
		return -EROFS;
	if (count > block->lane_entries)
		return -E2BIG;
	for (rem_u32 i = 0; i < count; i++) {
		if (io[i].block >= block->header.blocks)
			return -ERANGE;
		places += !!io[i].data;
	}
	if (places > block->free_count)
		return -ENOSPC;
	if (count == 1)
		write_one(block, io);
	else if (count)
		write_many(block, io, count);
	return 0;
}

int pm_block_scrub(struct pm_block *block, rem_u64 number)
{
	union pm_map_word first, second;
	rem_u32 name = (rem_u32)number;

	if (number >= block->header.blocks)
		return -ERANGE;
	first = pm_map_get(block, 0, number);
	second = pm_map_get(block, 1, number);
	if (pm_map_verify(block, name, first)) {
		if (first.word != second.word && block->may_write) {
			pm_map_put(block, 1, name, first);
			pm_fence(block->env);
			block->repaired++;
		}
	} else if (pm_map_verify(block, name, second)) {
		if (block->may_write) {
			pm_map_put(block, 0, name, second);
			pm_fence(block->env);
			block->repaired++;
		}
	} else {
		block->mismatches++;
		set_bad(block, number, true);
		return -EBADMSG;
	}
	set_bad(block, number, false);
	return 0;
}
