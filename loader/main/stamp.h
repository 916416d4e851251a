/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What ranges of NVRAM begin with. The region, which has the block in use, is not
 * described by it; every other one is.
 */
#ifndef LOADER_STAMP_H
#define LOADER_STAMP_H

#include "../core/desc.h"
#include "../core/memtype.h"
#include "machine.h"

/* What range @n begins with; zeros for the region. */
struct range_mark stamp_mark(const struct machine *machine, u32 n);

/*
 * Before the first byte of a block is written. A range that gets a block because the
 * one that had it is absent may hold a part of that one's image, or files that it
 * had open: it is spoilt by the block, also if the power fails before a kernel is
 * loaded. So it gets a new stamp, where the kernel lays the block out.
 */
void stamp_region(const struct machine *machine);

/*
 * Before a cold boot: no other range that its kernel may change keeps its stamp, so
 * that an image which had a part in it is not entered, also if the block of that
 * image is absent now. Nor does one keep a block, whose image would be entered when
 * this kernel has used the range. The entries of @desc change with them, and it is
 * written again.
 */
void stamp_ranges(const struct machine *machine, struct memtype memtype,
		  struct desc *desc);

#endif /* LOADER_STAMP_H */
