/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The machine description: a table of typed entries in one canonical order, so
 * that two descriptions of one machine are the same bytes.
 */
#ifndef GO_DESC_H
#define GO_DESC_H

#include "base.h"

struct desc {
	u32 count;
	bool full; /* an entry was left out */
	struct rem_desc_entry entry[REM_DESC_ENTRIES_MAX];
};

/* Append; @value has @values words, at most five. */
void desc_add(struct desc *desc, u16 type, u32 key, const u64 *value,
	      u32 values);

/* Order by type, then key; number entries of equal type and key. */
void desc_finish(struct desc *desc);

/* Write it as struct rem_desc and its entries; returns the bytes. */
u32 desc_write(const struct desc *desc, u8 *to);

/*
 * Compare what an image expects with what was found, in canonical order.
 * REM_BOOT_RESUME if they are the same, else the reason for the first entry
 * that differs, with that entry of each side (zeros where a side has none).
 */
u32 desc_compare(const u8 *expected, u32 expected_count,
		 const struct desc *found, struct rem_desc_entry *ret_expected,
		 struct rem_desc_entry *ret_found);

#endif /* GO_DESC_H */
