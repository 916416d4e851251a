/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a reader finds in an image of a region, by the core's own code. */
#ifndef PM_STATE_H
#define PM_STATE_H

#include <stdint.h>

#include "../core/env.h"

struct state {
	uint64_t digest;   /* as promise.h has it */
	uint64_t damaged;  /* halves, segments and blocks that do not check */
	uint64_t repaired; /* copies that opening put right */
};

/* Open all of it. The error of the region's or of a segment's opening. */
int state_see(struct pm_env *image, struct state *ret);

/* Where the promise's segment is in a region that opens; else 0. */
rem_u64 state_promise(const rem_u8 *memory, size_t bytes);

#endif /* PM_STATE_H */
