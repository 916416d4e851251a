/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lines of persistent memory that were stored to: what of them is certainly
 * durable, and what a cut may leave.
 *
 * Model: media holds, of each line of 64 bytes, what its stores made of it up
 * to some store not before the last one that a flush and then a fence covered.
 * Lines are independent: any may have been evicted early. Eight aligned bytes
 * are stored at once, more are not. So between two fences the images that a cut
 * may leave only become more, and it is enough to look before each fence.
 */
#ifndef PM_LINES_H
#define PM_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "../core/env.h"

#define LINE_BYTES 64

struct line {
	struct line_store *store;
	size_t count, room;
	size_t flushed; /* stores that a fence will make durable */
	size_t chosen;	/* of the image that is being made */
};

struct lines {
	struct line *line; /* one for each line */
	size_t total;
	size_t *dirty; /* numbers of those with stores */
	size_t dirty_count;
};

/* The memory, or the program ends with exit 4. */
void *lines_need(void *memory);
void lines_make(struct lines *lines, size_t bytes);
void lines_free(struct lines *lines);
/* No line was stored to. */
void lines_forget(struct lines *lines);
/* Of at most eight bytes, within eight that are aligned. */
void lines_store(struct lines *lines, size_t offset, const void *data,
		 size_t bytes);
void lines_flush(struct lines *lines, size_t offset);
/* Do in a copy of media what a fence now makes durable; then forget it. */
void lines_settle(const struct lines *lines, rem_u8 *media);
void lines_drop(struct lines *lines);

/* How many images a cut now may leave; more than @limit is not counted out. */
unsigned long lines_images(const struct lines *lines, unsigned long limit);
/* Of each line all its stores, or none. */
void lines_choose_all(struct lines *lines, bool newest);
/* From none on to the next choice, like a number's digits; false after all. */
bool lines_choose_next(struct lines *lines);
/* The chosen stores of one line, in an image. */
void lines_put(const struct lines *lines, size_t number, rem_u8 *image);

unsigned long lines_random(unsigned long *seed);

#endif /* PM_LINES_H */
