/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a reader finds in an image of a region, by the core's own code. */
#ifndef PM_STATE_H
#define PM_STATE_H

#include <stdint.h>

#include "../promise.h"
#include "env.h"

struct state {
	uint64_t digest;   /* as promise.h has it */
	uint64_t damaged;  /* halves, segments and blocks that do not check */
	uint64_t repaired; /* copies that opening put right */
};

/* What the program in the guest would report of this segment. */
static inline struct promise_segment
state_head(const struct rem_pm_segment *record)
{
	struct promise_segment head = {
		.bytes = record->bytes,
		.generation = record->generation,
		.map_address = record->map_address,
		.type = record->type,
		.persist = record->persist,
		.uid = record->uid,
		.gid = record->gid,
		.mode = record->mode,
		.block_bytes = record->block_bytes,
	};

	memcpy(head.name, record->name, sizeof(head.name));
	return head;
}

/*
 * Open all of an image; @touch is called before the core writes to it. The error
 * of the region's or of a segment's opening.
 */
int pm_state(rem_u8 *memory, size_t bytes, pm_touch *touch, void *context,
	     struct state *ret);

/* Where the promise's segment is in a region that opens; else 0. */
rem_u64 pm_promise(const rem_u8 *memory, size_t bytes);

/*
 * For tests: a region with nothing but the promise's segment, whose promise
 * is kept.
 */
int pm_sample(rem_u8 *memory, size_t bytes, pm_touch *touch, void *context);

#endif /* PM_STATE_H */
