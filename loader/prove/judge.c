/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The checks of any body with any table: they read nothing outside of the table, and
 * what a body that passes names lies in NVRAM, outside of the record block.
 */
#include "prove.h"

#include "../../format/rem_judge.h"

static struct rem_desc_entry table[REM_DESC_ENTRIES_MAX];
static struct rem_body body;

static bool in_block(u64 address)
{
	return address >= body.region_phys &&
	       address - body.region_phys < REM_BLOCK_BYTES;
}

/* Whether a range of NVRAM has this address. */
static bool in_nvram(u64 address)
{
	bool found = false;

	for (u32 i = 0; i < REM_DESC_ENTRIES_MAX; i++)
		found |= i < body.desc_count && rem_is_nvram(&table[i]) &&
			 address >= table[i].value[0] &&
			 address - table[i].value[0] < table[i].value[1];
	return found;
}

static void check(u64 address)
{
	assert(in_nvram(address));
	assert(!in_block(address));
}

int main(void)
{
	u64 contexts, text, rodata;

	__CPROVER_havoc_object(table);
	__CPROVER_havoc_object(&body);
	__CPROVER_assume(body.desc_count <= REM_DESC_ENTRIES_MAX);
	if (rem_body_wrong(&body, table))
		return 0;
	contexts = (u64)body.context_bytes * body.cpu_count;
	check(body.entry_phys);
	check(body.entry_cr3);
	check(body.entry_cr3 + (REM_RANGE_ALIGN_BYTES - 1));
	check(body.context_phys);
	check(body.context_phys + (contexts - 1));
	assert(in_nvram(body.region_phys));
	if (!body.text_pages)
		return 0;
	text = body.text_pages * 4096ull;
	rodata = body.text_phys + body.rodata_page * 4096ull;
	assert(body.text_phys % 4096 == 0 && rodata - body.text_phys >= text);
	check(body.text_phys);
	check(body.text_phys + (text - 1));
	check(rodata);
	check(rodata + (body.rodata_pages * 4096ull - 1));
	return 0;
}
