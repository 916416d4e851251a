/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Persistent memory that records stores, flushes and fences, and enumerates
 * the images that a cut at any moment may leave (crash_states.h).
 */
#ifndef PM_RECORDER_H
#define PM_RECORDER_H

#include "../../machine/crash-states/c/crash_states.h"
#include "../core/region.h"

struct pm_env {
	rem_u8 *memory; /* as CPUs see it */
	size_t bytes;
	struct crash_states *states; /* while it records */
	rem_u64 expected; /* changes with the images that a test expects */
	unsigned long stores, flushes, fences;
	/* Called before each fence while it records. */
	void (*before_fence)(struct pm_env *env, void *context);
	void *context;
};

struct pm_env *recorder_new(size_t bytes);
void recorder_free(struct pm_env *env);
/*
 * Makes everything stored so far durable, and records from here on. At a
 * moment with at most @images_max images all are enumerated, otherwise the
 * extreme ones and as many that @seed chooses.
 */
void recorder_begin(struct pm_env *env, rem_u64 images_max, rem_u64 seed);
void recorder_end(struct pm_env *env);

/*
 * Call @judge with each image that a cut now may leave. @judge may write to the
 * image, by the core with a struct pm_env of its own.
 */
void recorder_cut(struct pm_env *env, void (*judge)(rem_u8 *image, void *),
		  void *context);

#endif /* PM_RECORDER_H */
