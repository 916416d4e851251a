/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The decision: whether the image in the record block may be entered, and if not,
 * why. No byte of the block is trusted until it has been checked here.
 */
#ifndef LOADER_RECORD_H
#define LOADER_RECORD_H

#include "desc.h"

/*
 * struct decision
 * @reason: enum rem_boot_reason; REM_BOOT_RESUME = enter @body
 * @sequence: of the image that was checked, 0 = none; slot = its parity
 * @consume: sequence to make durable in the consumed word before any byte of
 *	NVRAM outside the block is written or the image is entered; 0 = nothing
 * @body: the header that was checked, zeros if none was
 */
struct decision {
	u32 reason;
	u32 sequence;
	u32 slot;
	u32 consume;
	struct rem_desc_entry expected;
	struct rem_desc_entry found;
	struct rem_body body;
};

/*
 * Check the REM_BLOCK_BYTES at @block of a region at @region_phys.
 * @cold_requested: by the user; images that could be entered later are consumed
 * nevertheless.
 */
void rem_decide(const u8 *block, u64 region_phys, u64 region_bytes,
		const struct desc *found, bool cold_requested,
		struct decision *ret_decision);

/* The two words, ready to be stored. */
struct rem_word record_consumed(u32 sequence);
struct rem_word record_commit(u32 sequence, u32 body_crc);

#endif /* LOADER_RECORD_H */
