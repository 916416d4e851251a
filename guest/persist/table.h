/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table that is kept in each of the ways of `rem bench persist`.
 *
 * A step reads TABLE_READS entries and changes one; what it does depends on
 * its number and on what it reads, so that a step that is lost, torn or done
 * twice changes the digest. A program that keeps the table itself makes
 * TABLE_BATCH steps durable at once, with the number of steps done.
 */
#ifndef TABLE_H
#define TABLE_H

#include "work.h"

#define TABLE_ENTRIES 32768 /* 2 MiB: a large page */
#ifndef TABLE_READS
#define TABLE_READS 16
#endif
#define TABLE_BATCH 16
#define TABLE_WORDS 8

struct entry {
	uint64_t word[TABLE_WORDS];
};

#define TABLE_BYTES (TABLE_ENTRIES * sizeof(struct entry))

struct change {
	uint64_t index;
	struct entry entry;
};

static inline void table_fill(struct entry *entries)
{
	for (uint64_t i = 0; i < TABLE_ENTRIES; i++)
		for (uint64_t j = 0; j < TABLE_WORDS; j++)
			entries[i].word[j] = work_mix(i * TABLE_WORDS + j);
}

/* Where an entry can be read; @room is one's own, if it must be copied. */
typedef const struct entry *table_read(void *table, uint64_t index,
				       struct entry *room);

static inline const struct entry *table_read_plain(void *table, uint64_t index,
						   struct entry *room)
{
	(void)room;
	return (const struct entry *)table + index;
}

/* What step @number makes of the table. */
static inline struct change table_step(table_read *read, void *table,
				       uint64_t number)
{
	uint64_t folded = number;
	struct change change;
	struct entry room;

	for (uint64_t i = 0; i < TABLE_READS; i++) {
		uint64_t index =
			work_mix(number * TABLE_READS + i) % TABLE_ENTRIES;
		const struct entry *entry = read(table, index, &room);

		for (uint64_t j = 0; j < TABLE_WORDS; j++)
			folded = work_fold(folded, entry->word[j]);
	}
	change.index = folded % TABLE_ENTRIES;
	change.entry = *read(table, change.index, &room);
	change.entry.word[number % TABLE_WORDS] = folded;
	return change;
}

static inline uint64_t table_digest(const struct entry *entries)
{
	uint64_t digest = 0;

	for (uint64_t i = 0; i < TABLE_ENTRIES; i++)
		for (uint64_t j = 0; j < TABLE_WORDS; j++)
			digest = work_fold(digest, entries[i].word[j]);
	return digest;
}

#endif /* TABLE_H */
