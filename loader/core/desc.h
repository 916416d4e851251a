/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The machine description: a table of typed entries in a canonical order, so that
 * two descriptions of one machine are equal byte by byte.
 */
#ifndef LOADER_DESC_H
#define LOADER_DESC_H

#include "base.h"

struct desc {
	u32 count;
	bool full; /* an entry was left out */
	struct rem_desc_entry entry[REM_DESC_ENTRIES_MAX];
};

/* Append; @value has @values words, at most five. */
void desc_add(struct desc *desc, u16 type, u32 key, const u64 *value,
	      u32 values);

/*
 * Append the CPUs that firmware enables, by their APIC ids. The one that boots, which
 * hardware or firmware chooses, enters the image in the place of the one that booted
 * before, so it has to be the same.
 */
void desc_add_cpus(struct desc *desc, const u32 *apic_id, u32 count,
		   u32 boot_apic_id);

/* Order by type, then key; number entries of equal type and key. */
void desc_finish(struct desc *desc);

/*
 * Write it as struct rem_desc and its entries; returns the size. One that is full
 * is written without a magic, as it does not identify the machine.
 */
u32 desc_write(const struct desc *desc, u8 *to);

/*
 * Compare the description that an image expects with the one found, in canonical
 * order. REM_BOOT_RESUME if they are equal, but for a little DRAM, else the reason
 * of the first entry that differs, with that entry of each side (zeros if a side has
 * none).
 */
u32 desc_compare(const u8 *expected, u32 expected_count,
		 const struct desc *found, struct rem_desc_entry *ret_expected,
		 struct rem_desc_entry *ret_found);

#endif /* LOADER_DESC_H */
