/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Persistent memory that records: what was stored, what was flushed, and what a
 * cut at any moment may leave (lines.h).
 */
#ifndef PM_RECORDER_H
#define PM_RECORDER_H

#include "../core/region.h"
#include "lines.h"

struct pm_env {
	rem_u8 *memory; /* what CPUs see */
	rem_u8 *media;	/* what is certainly durable */
	size_t bytes;
	bool recording;
	struct lines lines;
	unsigned long stores, flushes, fences;
	/* Called before each fence, and by recorder_cut(). */
	void (*before_fence)(struct pm_env *env, void *context);
	void *context;
};

struct pm_env *recorder_new(size_t bytes);
void recorder_free(struct pm_env *env);
/* All that was stored is durable; record from here on. */
void recorder_begin(struct pm_env *env);
void recorder_end(struct pm_env *env);

/*
 * Call @judge with each image that a cut now may leave: all of them if they are
 * at most @limit, else the extremes and @limit drawn from @seed. Each image is
 * in a buffer of @env->bytes that @judge may write to.
 */
void recorder_cut(struct pm_env *env, unsigned long limit, unsigned long *seed,
		  void (*judge)(rem_u8 *image, void *context), void *context);

#endif /* PM_RECORDER_H */
