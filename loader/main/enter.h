/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_RESUME_H
#define GO_RESUME_H

#include "machine.h"

/*
 * Make @sequence durable as consumed: from here on no image up to it can be
 * entered by any later boot. False if memory does not hold what was stored.
 */
bool consume(const struct machine *machine, u32 sequence);

/* Write the @n-th loader event of @sequence's timeline. */
void loader_event(const struct machine *machine, u32 sequence, u32 n,
		  enum rem_event_type type, u64 tsc, u64 value);

_Noreturn void image_enter(u64 entry_phys, u64 body_phys, u64 note_phys);

#endif /* GO_RESUME_H */
