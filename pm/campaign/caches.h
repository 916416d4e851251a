/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a cut at a place of a recording may leave of a region: by the model of
 * test/lines.h, which is harsher than the caches of the machine that was
 * recorded.
 */
#ifndef PM_CACHES_H
#define PM_CACHES_H

#include "../test/lines.h"

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
	struct lines lines;
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
