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

union pm_map_word pm_map_lost(rem_u32 number)
{
	union pm_map_word entry = pm_map_hole(number);

	entry.entry.check++;
	return entry;
}

union pm_map_word pm_map_get(const struct pm_block *block, int map,
			     rem_u64 number)
{
	union pm_map_word entry;

	if (!pm_load64(pm_map_at(block, map, number), &entry.word))
		entry = pm_map_lost((rem_u32)number);
	return entry;
}

#define LINE_ENTRIES (PM_LINE_BYTES / sizeof(struct rem_pm_map_entry))

/*
 * A line of a map that media has lost, with all its entries: from the other map, or
 * none of them are known.
 */
static void heal_map_line(struct pm_block *block, int map, rem_u32 number)
{
	rem_u32 first = number - number % LINE_ENTRIES;
	union pm_map_word line[LINE_ENTRIES];

	if (!pm_fetch(line, pm_map_at(block, !map, first), sizeof(line)))
		for (rem_u32 i = 0; i < LINE_ENTRIES; i++)
			line[i] = pm_map_lost(first + i);
	pm_copy(block->env, pm_map_at(block, map, first), line, sizeof(line));
	pm_fence(block->env);
}

static void map_store(struct pm_block *block, int map, rem_u32 number,
		      union pm_map_word entry)
{
	rem_u8 *at = pm_map_at(block, map, number);

	pm_store64(block->env, at, entry.word);
	pm_flush(block->env, at, sizeof(entry));
}

void pm_map_put(struct pm_block *block, int map, rem_u32 number,
		union pm_map_word entry)
{
	rem_u64 was;

	if (!pm_load64(pm_map_at(block, map, number), &was))
		heal_map_line(block, map, number);
	map_store(block, map, number, entry);
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

#define PIECE_BYTES 256

/* Whether the bytes of a place are what an entry says. */
static bool place_checks(const struct pm_block *block, rem_u32 number,
			 union pm_map_word entry)
{
	const rem_u8 *at = place_at(block, entry.entry.place);
	rem_u32 crc = check_begin(number);
	rem_u8 piece[PIECE_BYTES];

	for (rem_u32 done = 0; done < block->header.block_bytes;
	     done += PIECE_BYTES) {
		if (!pm_fetch(piece, at + done, PIECE_BYTES))
			return false;
		crc = pm_crc32c_add(crc, piece, PIECE_BYTES);
	}
	return entry.entry.check == ~crc;
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
	       place_checks(block, number, entry);
}

/* What an entry names, into @to; what is checked is what came there. */
static bool fetch(const struct pm_block *block, rem_u32 number,
		  union pm_map_word entry, void *to)
{
	rem_u32 crc = check_begin(number);

	if (entry.entry.place == REM_PM_BLOCK_HOLE) {
		memset(to, 0, block->header.block_bytes);
		return entry.word == pm_map_hole(number).word;
	}
	if (entry.entry.place >= block->header.places)
		return false;
	return pm_fetch_crc32c(to, place_at(block, entry.entry.place),
			       block->header.block_bytes, &crc) &&
	       entry.entry.check == ~crc;
}

static void set_bad(struct pm_block *block, rem_u64 number, bool bad)
{
	if (!block->bad_count && !bad)
		return;
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
	    (block->bad_count && pm_block_is_bad(block, number)))
		first = pm_map_hole(number);
	return first;
}

/* What the maps agree on, @old, was read in both if it is a place. */
static void put_both(struct pm_block *block, rem_u32 number,
		     union pm_map_word old, union pm_map_word entry)
{
	if (old.entry.place != REM_PM_BLOCK_HOLE) {
		map_store(block, 0, number, entry);
		map_store(block, 1, number, entry);
		return;
	}
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
	put_both(block, io->block, old, entry);
	pm_fence(block->env);
	put_place(block, old);
	set_bad(block, io->block, false);
}

struct rem_pm_lane *pm_lane_at(const struct pm_block *block, rem_u32 lane)
{
	return (struct rem_pm_lane *)(block->base + block->header.lane_offset +
				      (rem_u64)lane * block->header.lane_bytes);
}

static void lane_word_store(struct pm_block *block, struct rem_pm_word *at,
			    rem_u64 word)
{
	rem_u64 was;

	if (!pm_load64(at, &was)) { /* its line has nothing else */
		pm_zero(block->env, at, PM_LINE_BYTES);
		pm_fence(block->env);
	}
	pm_store64(block->env, at, word);
	pm_flush(block->env, at, sizeof(*at));
}

void pm_lane_store(struct pm_block *block, rem_u32 lane, rem_u64 word)
{
	struct rem_pm_lane *at = pm_lane_at(block, lane);

	lane_word_store(block, &at->word, word);
	lane_word_store(block, &at->copy, word);
}

struct rem_pm_word pm_lane_word(const struct pm_block *block, rem_u32 lane,
				int copy)
{
	const struct rem_pm_lane *at = pm_lane_at(block, lane);
	union {
		struct rem_pm_word word;
		rem_u64 bits;
	} is;

	if (!pm_load64(copy ? &at->copy : &at->word, &is.bits))
		is.bits = 0;
	return is.word;
}

rem_u64 pm_lane_idle(rem_u32 lane, rem_u32 sequence)
{
	return sequence |
	       (rem_u64)pm_check(REM_PM_IN_WORK, lane, sequence, NULL, 0) << 32;
}

rem_u32 pm_lane_check(rem_u32 lane, rem_u32 sequence, rem_u32 sum)
{
	return pm_check(REM_PM_COMMITTED, lane, sequence, &sum, sizeof(sum));
}

bool pm_lane_read(struct pm_block *block, rem_u32 lane, rem_u32 *ret_sum)
{
	const struct rem_pm_lane *at = pm_lane_at(block, lane);
	rem_u32 head[2], crc;
	size_t bytes;

	if (!pm_fetch(head, &at->count, sizeof(head)) || !head[0] ||
	    head[0] > block->lane_entries)
		return false;
	bytes = head[0] * sizeof(*block->entries);
	if (!pm_fetch(block->entries, at + 1, bytes))
		return false;
	block->entry_count = head[0];
	crc = pm_crc32c_add(PM_CRC_BEGIN, head, sizeof(head));
	crc = pm_crc32c_add(crc, block->entries, bytes);
	*ret_sum = crc;
	return true;
}

/* Lines of the entries that media has lost are zeros then. The lane is idle. */
static void heal_lane(struct pm_block *block, struct rem_pm_lane *lane,
		      rem_u32 count)
{
	size_t bytes = sizeof(*lane) - offsetof(struct rem_pm_lane, count) +
		       count * sizeof(struct rem_pm_lane_entry);
	rem_u8 *at = (rem_u8 *)&lane->count;
	rem_u64 word;

	for (size_t done = 0; done < bytes; done += PM_LINE_BYTES)
		if (!pm_load64(at + done, &word))
			pm_zero(block->env, at + done, PM_LINE_BYTES);
}

/* Write the entries of a transaction behind the words of a lane. Their checksum. */
static rem_u32 fill_lane(struct pm_block *block, struct rem_pm_lane *lane,
			 const struct pm_block_io *io, rem_u32 count)
{
	struct rem_pm_lane_entry *entry =
		(struct rem_pm_lane_entry *)(lane + 1);
	const rem_u32 head[] = { count, 0 };
	rem_u32 crc = pm_crc32c_add(PM_CRC_BEGIN, head, sizeof(head));

	heal_lane(block, lane, count);
	pm_copy(block->env, &lane->count, head, sizeof(head));
	for (rem_u32 i = 0; i < count; i++) {
		struct rem_pm_lane_entry one = { .block = io[i].block };

		one.entry = place_data(block, &io[i]).entry;
		pm_copy(block->env, &entry[i], &one, sizeof(one));
		crc = pm_crc32c_add(crc, &one, sizeof(one));
	}
	return crc;
}

/*
 * Put the entries that were read into both maps: media may lose them meanwhile, and what
 * is committed must be done. What they named before goes onto the stack of free places,
 * but counts there only once the maps are safe.
 */
static rem_u32 apply_lane(struct pm_block *block)
{
	rem_u32 kept = block->free_count;
	rem_u32 freed;

	for (rem_u32 i = 0; i < block->entry_count; i++) {
		const struct rem_pm_lane_entry *entry = &block->entries[i];
		const union pm_map_word new = { .entry = entry->entry };
		union pm_map_word old;

		old = agreed(block, entry->block);
		put_place(block, old);
		put_both(block, entry->block, old, new);
		set_bad(block, entry->block, false);
	}
	pm_fence(block->env);
	freed = block->free_count;
	block->free_count = kept;
	return freed;
}

static int check_many(const struct pm_block *block,
		      const struct pm_block_io *io, rem_u32 count)
{
	rem_u32 places = 0;

	if (count > block->lane_entries)
		return -E2BIG;
	for (rem_u32 i = 0; i < count; i++) {
		if (io[i].block >= block->header.blocks)
			return -ERANGE;
		places += !!io[i].data;
	}
	return places > block->free_count ? -ENOSPC : 0;
}

static int write_many(struct pm_block *block, const struct pm_block_io *io,
		      rem_u32 count)
{
	rem_u32 number = block->lane_next;
	rem_u32 sequence = pm_lane_word(block, number, 0).sequence + 1;
	rem_u32 unused = block->free_count;
	rem_u32 sum, found;
	rem_u32 freed;

	block->lane_next = (number + 1) % block->header.lanes;
	sum = fill_lane(block, pm_lane_at(block, number), io, count);
	pm_fence(block->env);
	/* It must be there when the next open finishes it. */
	if (!pm_lane_read(block, number, &found) || found != sum) {
		block->free_count = unused;
		return -EIO;
	}
	pm_lane_store(block, number,
		      sequence | (rem_u64)pm_lane_check(number, sequence, sum)
					 << 32);
	pm_fence(block->env);
	freed = apply_lane(block);
	pm_lane_store(block, number, pm_lane_idle(number, sequence + 1));
	block->free_count = freed;
	return 0;
}

int pm_block_write(struct pm_block *block, const struct pm_block_io *io,
		   rem_u32 count)
{
	int err;

	if (!block->may_write)
		return -EROFS;
	if (count == 1) { /* as most are: it needs no loop */
		if (io->block >= block->header.blocks)
			return -ERANGE;
		if (io->data && !block->free_count)
			return -ENOSPC;
		write_one(block, io);
		return 0;
	}
	err = check_many(block, io, count);
	return err || !count ? err : write_many(block, io, count);
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
