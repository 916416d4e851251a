// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A table of 2 MiB, of which each step reads some entries and changes one. */
#include "table.h"

#ifndef TABLE_NAME
#define TABLE_NAME "table"
#endif

const char work_name[] = TABLE_NAME;
/*
 * In one large page, as a mapping of persistent memory has it: with small ones
 * the walks of page tables, not a way to persist, would make the difference.
 */
static struct entry entries[TABLE_ENTRIES]
	__attribute__((aligned(TABLE_BYTES)));

static void step(uint64_t number)
{
	struct change change = table_step(table_read_plain, entries, number);

	entries[change.index] = change.entry;
}

uint64_t work(uint64_t rounds)
{
	table_fill(entries);
	for (uint64_t number = 0; number < rounds; number++)
		step(number);
	return table_digest(entries);
}
