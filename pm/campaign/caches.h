/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a cut at a place of a recording may leave of a region, harsher than the
 * caches of the machine that was recorded: media holds, of each line, what its
 * stores made of it up to some store not before the last one that a flush and a
 * fence covered. Lines are independent, for any may be evicted early, and eight
 * aligned bytes are stored at once, more are not.
 */
#ifndef PM_CACHES_H
#define PM_CACHES_H

#include <stdbool.h>

#include "../core/env.h"

#define LINE_BYTES 64

struct line;

/* The surroundings of the core while it looks at an image. */
struct pm_env {
	rem_u8 *memory; /* an image: media, but while one is judged */
	size_t bytes;
	size_t *touched; /* lines in which it is not media now */
	size_t touched_count, touched_room;
	bool *is_touched;
};

struct caches {
	struct pm_env image;
	rem_u8 *media;	/* what is certainly durable */
	rem_u8 *memory; /* what CPUs see */
	struct line *line;
	size_t *dirty; /* their numbers */
	size_t dirty_count;
	unsigned long seed, images;
	bool changed; /* since all that a cut may leave was judged */
};

/* @media becomes the model's own. */
void caches_begin(struct caches *caches, rem_u8 *media, size_t bytes);
/* Outside of a window: media alone is known. */
void caches_write_back(struct caches *caches, size_t offset,
		       const rem_u8 *line);
/* A window begins or ends: nothing is dirty, CPUs see what media has. */
void caches_forget(struct caches *caches);
void caches_store(struct caches *caches, size_t offset, const rem_u8 *data,
		  size_t bytes);
/* The line is as @data says, and no store told of it. */
void caches_line(struct caches *caches, size_t offset, const rem_u8 *data);
void caches_flush(struct caches *caches, size_t offset);
void caches_fence(struct caches *caches);

/*
 * Call @judge for each image that a cut now may leave: all where there are at
 * most @limit, else the extremes and some that are drawn. What @judge writes to
 * the image is undone. @plain: nothing of what is dirty is in it.
 */
void caches_cut(struct caches *caches, unsigned long limit,
		void (*judge)(struct pm_env *image, bool plain, void *context),
		void *context);

#endif /* PM_CACHES_H */
