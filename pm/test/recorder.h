/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Persistent memory that records stores, flushes and fences, and enumerates
 * the images that a cut at any moment may leave (crash_states.h).
 */
#ifndef PM_RECORDER_H
#define PM_RECORDER_H

#include "../../machine/crash-states/c/crash_states.h"
#include "../core/region.h"

#define RECORDER_STUCK_MAX 8
#define RECORDER_MANY_BYTES 4096

struct pm_env {
	rem_u8 *memory; /* as CPUs see it */
	size_t bytes;
	struct crash_states *states; /* while it records */
	rem_u64 expected; /* changes with the images that a test expects */
	unsigned long stores, flushes, fences;
	unsigned long calls, calls_max; /* from one pm_rest() to the next */
	/* Many bytes at once, of a segment's content, or of a table. */
	void (*before_many)(struct pm_env *env, void *context);
	rem_u64 stuck[RECORDER_STUCK_MAX]; /* offsets of words */
	int stuck_count;
	/* Called before each fence, or each flush, while it records. */
	void (*before_fence)(struct pm_env *env, void *context);
	void (*before_flush)(struct pm_env *env, void *context);
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

/* Eight bytes of media that from now on are zeros, whatever is stored. */
void recorder_stick(struct pm_env *env, void *at);

/*
 * Media loses lines: the memory itself is overwritten, so that who reads it in another
 * way than by the core's pm_fetch() gets something else. A line is there again when
 * one store covers it. Of all recorders together; recorder_free() forgets them.
 */
void recorder_lose(struct pm_env *env, void *at, size_t bytes);
unsigned int recorder_lost(void);

/*
 * Call @judge with each image that a cut now may leave. @judge may write to the
 * image, by the core with a struct pm_env of its own.
 */
void recorder_cut(struct pm_env *env, void (*judge)(rem_u8 *image, void *),
		  void *context);

/*
 * Run @act over new memory of @bytes, and @judge on each image that a cut before one of its
 * fences may leave. @judge counts them in an int; less than 100 are too few.
 */
void recorder_each_cut(size_t bytes, rem_u64 images_max,
		       int (*act)(struct pm_env *env),
		       void (*judge)(rem_u8 *image, void *count));

/*
 * Run @act, in which the kernel dies after @steps flushes and fences: what was stored stays in
 * the caches. Returns false where @act has no more of them.
 */
bool recorder_dies(struct pm_env *env, int steps, void (*act)(void *context),
		   void *context);

#endif /* PM_RECORDER_H */
