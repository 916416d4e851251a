/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whether an image is the one that a Stop of this machine has left. */
#ifndef LOADER_TRUST_H
#define LOADER_TRUST_H

#include "record.h"

/*
 * struct trust - what this machine can authenticate images by
 * @state: enum rem_trust_state
 * @counter: of the TPM, as it has been since the boot before this one
 * @key: of that boot
 * @name: of which @key_id is the beginning; the rest is secret
 */
struct trust {
	u32 state;
	u64 counter;
	u64 key_id;
	u64 measured;
	u8 key[REM_KEY_BYTES];
	u8 name[REM_KEY_BYTES];
};

/* struct trust_views - where the memory is that a header names */
struct trust_views {
	const u8 *contexts;
	const u8 *text;
	const u8 *rodata;
};

/*
 * struct trust_text - what a kernel continues the sum of its text by
 * @counter, @key, @sum: as in struct rem_key; all zeros if it has none
 */
struct trust_text {
	u64 counter;
	u64 key[REM_TEXT_KEY_WORDS];
	u64 sum[3];
};

/*
 * Judge the image of @decision, which may be entered by all else: REM_BOOT_RESUME, or
 * the reason not to. Sets @ret_text for its kernel if it is to be entered.
 */
u32 rem_trust_judge(const struct trust *trust, const u8 *block,
		    const struct decision *decision,
		    const struct trust_views *views,
		    struct trust_text *ret_text);

/* A kernel is loaded in the boot with @counter. */
void rem_trust_new_life(const struct trust *trust, u64 counter,
			struct trust_text *ret_text);

#endif /* LOADER_TRUST_H */
