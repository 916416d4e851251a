/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_ENTER_H
#define LOADER_ENTER_H

#include "../core/record.h"
#include "machine.h"

/*
 * Make @sequence durable as consumed: no later boot can enter an image up to it.
 * False if memory does not contain what was stored.
 */
bool consume(const struct machine *machine, u32 sequence);

/*
 * Before a cold boot: make durable that no later boot can enter an image that
 * @decision has found, damaged or not. False if memory does not contain what was
 * stored.
 */
bool close_images(const struct machine *machine,
		  const struct decision *decision);

/* Write the @n-th loader event of @sequence's timeline. */
void loader_event(const struct machine *machine, u32 sequence, u32 n,
		  enum rem_event_type type, u64 tsc, u64 value);

/*
 * After a cold boot has stored its reason: no later boot gives it again. A cut in
 * between reports twice rather than never.
 */
void report_events(const struct machine *machine);

_Noreturn void image_enter(u64 entry_phys, u64 body_phys, u64 note_phys);

#endif /* LOADER_ENTER_H */
