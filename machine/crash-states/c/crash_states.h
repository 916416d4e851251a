/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a power cut may leave on media, given stores, flushes and fences: the
 * rules are those of the Rust crate remanence-crash-states (src/lib.rs there).
 *
 * Wrong arguments (a size that is not in whole lines, an offset outside of the
 * memory) abort the program.
 */
#ifndef CRASH_STATES_H
#define CRASH_STATES_H

#include <stddef.h>
#include <stdint.h>

struct crash_states;
struct crash_image;

/*
 * Memory of @bytes that is on media as it is in @media. Of a moment with at
 * most @all_max images all are shown, of others the extreme ones and @drawn
 * that @seed chooses.
 */
struct crash_states *crash_states_new(const void *media, size_t bytes,
				      uint64_t all_max, uint64_t drawn,
				      uint64_t seed);
void crash_states_free(struct crash_states *states);

/* Bytes were stored; each part within eight that are aligned at once. */
void crash_states_store(struct crash_states *states, size_t offset,
			const void *data, size_t bytes);
/* The lines of these bytes are to be written back. */
void crash_states_flush(struct crash_states *states, size_t offset,
			size_t bytes);
/* What was flushed is on media. */
void crash_states_fence(struct crash_states *states);

/* What is on media for certain, until the next fence. */
const void *crash_states_media(const struct crash_states *states);

/*
 * Call @look with each image that a cut now may leave. An image that was shown
 * before for the same @expected is not shown again: @expected is a number for
 * what @look wants to find.
 */
void crash_states_show(struct crash_states *states, uint64_t expected,
		       void (*look)(struct crash_image *image, void *context),
		       void *context);

/* The image; `look` may write to it if it calls crash_image_touch(). */
void *crash_image_bytes(struct crash_image *image);
/* These bytes are written to, and put back after the look. */
void crash_image_touch(struct crash_image *image, size_t offset, size_t bytes);

#endif /* CRASH_STATES_H */
