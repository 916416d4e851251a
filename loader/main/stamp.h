/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The stamps of the ranges of NVRAM; the one with the block has none. */
#ifndef LOADER_STAMP_H
#define LOADER_STAMP_H

#include "../core/desc.h"
#include "../core/memtype.h"
#include "machine.h"

/* The stamp of range @n; zeros if it has none. */
struct rem_range_stamp stamp_read(const struct machine *machine, u32 n);

/*
 * Before the first byte of a block is written. A range that gets a block because the
 * one that had it is absent may hold a part of that one's image: it is spoilt by the
 * block, also if the power fails before a kernel is loaded.
 */
void stamp_drop(const struct machine *machine);

/*
 * Before a cold boot: no other range that its kernel may change keeps its stamp, so
 * that an image which had a part in it is not entered, also if the block of that
 * image is absent now. The entries of @desc change with them, and it is written
 * again.
 */
void stamp_ranges(const struct machine *machine, struct memtype memtype,
		  struct desc *desc);

#endif /* LOADER_STAMP_H */
