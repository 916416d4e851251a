/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "stamp.h"

#include "../hw/flush.h"
#include "../hw/io.h"

static bool is_region(const struct machine *machine, u32 n)
{
	return machine->nvram.range[n].base == machine->region_phys;
}

static struct range_mark read_mark(const struct machine *machine, u32 n)
{
	return range_mark(at_phys(machine->nvram.range[n].base));
}

struct range_mark stamp_mark(const struct machine *machine, u32 n)
{
	return is_region(machine, n) ? (struct range_mark){ 0 } :
				       read_mark(machine, n);
}

/* What the kernel reads of a range has to be what the next loader reads. */
static void describe_stamp(struct desc *desc, u32 n,
			   const struct rem_range_stamp *stamp)
{
	for (u32 i = 0; i < desc->count; i++) {
		struct rem_desc_entry *entry = &desc->entry[i];

		if (entry->type != REM_DESC_MEMORY || entry->key != n)
			continue;
		entry->value[3] = stamp->count;
		entry->value[4] = stamp->nonce;
	}
}

static void store_stamp(const struct machine *machine, u32 n,
			const struct rem_range_stamp *stamp)
{
	u8 *at = at_phys(machine->nvram.range[n].base);

	/* The magic alone marks the range, if the power fails in between. */
	*(volatile u64 *)at = stamp->magic;
	memcpy(at, stamp, sizeof(*stamp));
	flush(at, sizeof(*stamp));
}

/* One that no range of this machine has had. */
static struct rem_range_stamp next_stamp(const struct machine *machine)
{
	u64 newest = 0;

	for (u32 n = 0; n < machine->nvram.count; n++) {
		struct range_mark mark = read_mark(machine, n);

		if (mark.count > newest)
			newest = mark.count;
	}
	return range_stamp((u32)newest, read_ticks());
}

void stamp_region(const struct machine *machine)
{
	const struct rem_range_stamp taken = next_stamp(machine);

	/* A block says the same, and stays. */
	for (u32 n = 0; n < machine->nvram.count; n++)
		if (is_region(machine, n) &&
		    read_mark(machine, n).nonce != REM_BLOCK_MAGIC)
			store_stamp(machine, n, &taken);
}

void stamp_ranges(const struct machine *machine, struct memtype memtype,
		  struct desc *desc)
{
	struct rem_range_stamp next = { 0 };

	/* Memory of programs is not touched: without memtype= it is theirs. */
	if (memtype.given && !memtype.dram_only)
		next = next_stamp(machine);
	for (u32 n = 0; n < machine->nvram.count; n++) {
		if (is_region(machine, n) ||
		    (!next.count && !range_is_marked(read_mark(machine, n))))
			continue;
		store_stamp(machine, n, &next);
		describe_stamp(desc, n, &next);
	}
	desc_write(desc, block_at(machine, REM_DESC_OFFSET));
}
