/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The decision: whether the image in the record block may be entered, and if not,
 * why. No byte of the block is trusted until it has been checked here.
 */
#ifndef LOADER_RECORD_H
#define LOADER_RECORD_H

#include "../../format/rem_judge.h"
#include "desc.h"

/*
 * struct decision
 * @reason: enum rem_boot_reason; REM_BOOT_RESUME = enter @body
 * @sequence: of the image that was checked, 0 = none; slot = its parity
 * @consume: sequence to make durable in the consumed word before any byte of
 *	NVRAM outside the block is written or the image is entered; 0 = nothing
 * @clear: bit n = slot n, whose commit word has to be zero, too, before a cold boot
 *	overwrites the image: the consumed word does not close it for certain
 * @body: the header that was checked, zeros if none was
 * @wrong: if the reason is REM_COLD_BODY_FIELD, what is wrong, to print
 */
struct decision {
	u32 reason;
	u32 sequence;
	u32 slot;
	u32 consume;
	u32 clear;
	struct rem_desc_entry expected;
	struct rem_desc_entry found;
	struct rem_body body;
	const char *wrong;
};

/*
 * Check the REM_BLOCK_BYTES at @block of a region at @region_phys.
 * @cold_requested: by the user; images that could be entered later are consumed
 * nevertheless.
 */
void rem_decide(const u8 *block, u64 region_phys, u64 region_bytes,
		const struct desc *found, bool cold_requested,
		struct decision *ret_decision);

/*
 * Whether an image in the REM_BLOCK_BYTES at @block could be entered, now or at a
 * later boot, on whatever machine.
 */
bool rem_block_open(const u8 *block);

/*
 * Whether the image would be entered on the machine that was stopped, and is to be
 * kept although this one differs: by its policy it is not consumed at once.
 */
bool rem_holds(const struct decision *decision);

/*
 * Why the machine was reset in the last Go, after an image was entered or after a
 * Stop that could not commit; 0 = it was not, or a boot has reported it. Only to name
 * why the machine boots cold: @decision is that there is no image to enter.
 */
u32 rem_go_given_up(const u8 *block, const struct decision *decision);

/* Mark @event of a timeline as reported, if it gives such a reason; false if not. */
bool rem_event_report(struct rem_event *event);

/* The two words, ready to be stored. */
struct rem_word record_consumed(u32 sequence);
struct rem_word record_commit(u32 sequence, u32 body_crc);

#endif /* LOADER_RECORD_H */
