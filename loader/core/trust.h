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
 */
struct trust {
	u32 state;
	u64 counter;
	u64 key_id;
	u64 measured;
	u8 key[REM_KEY_BYTES];
};

/*
 * Judge the image of @decision, which may be entered by all else: REM_BOOT_RESUME, or
 * the reason not to. @contexts is at @decision's context_phys.
 */
u32 rem_trust_judge(const struct trust *trust, const u8 *block,
		    const struct decision *decision, const u8 *contexts);

#endif /* LOADER_TRUST_H */
