/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "stamp.h"

#include "../hw/flush.h"
#include "../hw/io.h"

struct rem_range_stamp stamp_read(const struct machine *machine, u32 n)
{
	struct rem_range_stamp stamp;

	memcpy(&stamp, at_phys(machine->nvram.range[n].base), sizeof(stamp));
	return range_stamp_checks(&stamp) ? stamp :
					    (struct rem_range_stamp){ 0 };
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

	memcpy(at, stamp, sizeof(*stamp));
	flush(at, sizeof(*stamp));
}

static bool has_block(const struct machine *machine, u32 n)
{
	return machine->nvram.range[n].base == machine->region_phys;
}

void stamp_drop(const struct machine *machine)
{
	const struct rem_range_stamp none = { 0 };

	/* A block is no stamp, and stays. */
	for (u32 n = 0; n < machine->nvram.count; n++)
		if (has_block(machine, n) && stamp_read(machine, n).count)
			store_stamp(machine, n, &none);
}

void stamp_ranges(const struct machine *machine, struct memtype memtype,
		  struct desc *desc)
{
	struct rem_range_stamp next = { 0 };
	u32 newest = 0;

	for (u32 n = 0; n < machine->nvram.count; n++) {
		struct rem_range_stamp stamp = stamp_read(machine, n);

		if (stamp.count > newest)
			newest = stamp.count;
	}
	/* Memory of programs is not touched: without memtype= it is theirs. */
	if (memtype.given && !memtype.dram_only)
		next = range_stamp(newest, read_tsc());
	for (u32 n = 0; n < machine->nvram.count; n++) {
		if (has_block(machine, n) ||
		    (!next.count && !stamp_read(machine, n).count))
			continue;
		store_stamp(machine, n, &next);
		describe_stamp(desc, n, &next);
	}
	desc_write(desc, block_at(machine, REM_DESC_OFFSET));
}
