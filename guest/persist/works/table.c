// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A table of a MiB, of which each step reads some entries and changes one. */
#include "table.h"

const char work_name[] = "table";
static struct entry entries[TABLE_ENTRIES];

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
