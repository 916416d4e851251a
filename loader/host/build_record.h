/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Makes valid record blocks, for tests to damage. */
#ifndef LOADER_BUILD_RECORD_H
#define LOADER_BUILD_RECORD_H

#include "../core/record.h"

struct record_image {
	u32 sequence;
	u64 region_phys;
	u64 region_bytes;
	u64 memory_phys; /* page table and contexts are in its first pages */
	u64 entry_phys;
	u32 policy;
	u32 hold_s;
	const struct rem_desc_entry *entry;
	u32 entry_count;
};

/* An image of a machine that a test has made up, with all of it in the region. */
struct record_image build_image_of(u32 sequence, u64 region_phys,
				   u64 region_bytes,
				   const struct desc *machine);

/* Block header and consumed word; both slots empty. */
void build_block(u8 *block, u64 region_bytes, u32 consumed);

/* A committed image in the slot of its sequence. */
void build_image(u8 *block, const struct record_image *image);

/* Correct header_crc and the commit word of slot @n. */
void build_reseal(u8 *block, u32 n);

#endif /* LOADER_BUILD_RECORD_H */
