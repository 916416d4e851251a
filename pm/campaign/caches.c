// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "caches.h"

void caches_begin(struct caches *caches, rem_u8 *media, size_t bytes)
{
	memset(caches, 0, sizeof(*caches));
	caches->media = media;
	caches->memory = lines_need(malloc(bytes));
	lines_make(&caches->lines, bytes);
	caches->image.memory = lines_need(aligned_alloc(4096, bytes));
	caches->image.bytes = bytes;
	caches->image.is_touched = lines_need(calloc(caches->lines.total, 1));
	memcpy(caches->memory, media, bytes);
	memcpy(caches->image.memory, media, bytes);
}

/* What media holds from now on; images begin with it. */
static void settle(struct caches *caches, size_t offset, const void *data,
		   size_t bytes)
{
	memcpy(caches->media + offset, data, bytes);
	memcpy(caches->image.memory + offset, data, bytes);
}

void caches_write_back(struct caches *caches, size_t offset, const rem_u8 *line)
{
	settle(caches, offset, line, LINE_BYTES);
	memcpy(caches->memory + offset, line, LINE_BYTES);
}

void caches_forget(struct caches *caches)
{
	lines_forget(&caches->lines);
	caches->changed = false;
	memcpy(caches->memory, caches->media, caches->image.bytes);
}

void caches_store(struct caches *caches, size_t offset, const rem_u8 *data,
		  size_t bytes)
{
	memcpy(caches->memory + offset, data, bytes);
	caches->changed = true;
	while (bytes) {
		size_t part = 8 - offset % 8 < bytes ? 8 - offset % 8 : bytes;

		lines_store(&caches->lines, offset, data, part);
		offset += part;
		data += part;
		bytes -= part;
	}
}

void caches_line(struct caches *caches, size_t offset, const rem_u8 *data)
{
	for (size_t at = 0; at < LINE_BYTES; at += 8)
		if (memcmp(caches->memory + offset + at, data + at, 8))
			caches_store(caches, offset + at, data + at, 8);
}

void caches_flush(struct caches *caches, size_t offset)
{
	lines_flush(&caches->lines, offset);
}

void caches_fence(struct caches *caches)
{
	lines_settle(&caches->lines, caches->media);
	lines_settle(&caches->lines, caches->image.memory);
	lines_drop(&caches->lines);
}

static void touch(struct pm_env *image, size_t offset, size_t bytes)
{
	size_t last = (offset + bytes - 1) / LINE_BYTES;

	if (offset + bytes > image->bytes || offset + bytes < offset) {
		fprintf(stderr, "the core stores outside of the region\n");
		abort();
	}
	for (size_t line = offset / LINE_BYTES; bytes && line <= last; line++) {
		if (image->is_touched[line])
			continue;
		if (image->touched_count == image->touched_room) {
			image->touched_room = 2 * image->touched_room + 64;
			image->touched = lines_need(
				realloc(image->touched,
					image->touched_room * sizeof(size_t)));
		}
		image->is_touched[line] = true;
		image->touched[image->touched_count++] = line;
	}
}

static void undo(struct caches *caches)
{
	struct pm_env *image = &caches->image;

	for (size_t i = 0; i < image->touched_count; i++) {
		size_t line = image->touched[i];

		memcpy(image->memory + line * LINE_BYTES,
		       caches->media + line * LINE_BYTES, LINE_BYTES);
		image->is_touched[line] = false;
	}
	image->touched_count = 0;
}

struct cut {
	struct caches *caches;
	void (*judge)(struct pm_env *image, bool plain, void *context);
	void *context;
};

static void show(const struct cut *cut)
{
	struct caches *caches = cut->caches;
	struct lines *lines = &caches->lines;
	bool plain = true;

	for (size_t i = 0; i < lines->dirty_count; i++) {
		size_t number = lines->dirty[i];

		if (!lines->line[number].chosen)
			continue;
		plain = false;
		touch(&caches->image, number * LINE_BYTES, LINE_BYTES);
		lines_put(lines, number, caches->image.memory);
	}
	caches->images++;
	cut->judge(&caches->image, plain, cut->context);
	undo(caches);
}

static void sample(const struct cut *cut, unsigned long limit)
{
	struct lines *lines = &cut->caches->lines;
	unsigned long *seed = &cut->caches->seed;

	lines_choose_all(lines, false);
	show(cut);
	lines_choose_all(lines, true);
	show(cut);
	for (unsigned long n = 0; n < limit; n++) {
		size_t pick = lines_random(seed) % lines->dirty_count;
		struct line *line = &lines->line[lines->dirty[pick]];

		switch (n % 4) {
		case 0: /* one alone */
			lines_choose_all(lines, false);
			line->chosen = line->count;
			break;
		case 1: /* all but one */
			lines_choose_all(lines, true);
			line->chosen = 0;
			break;
		default:
			for (size_t i = 0; i < lines->dirty_count; i++) {
				line = &lines->line[lines->dirty[i]];
				line->chosen =
					lines_random(seed) % (line->count + 1);
			}
		}
		show(cut);
	}
}

void caches_cut(struct caches *caches, unsigned long limit,
		void (*judge)(struct pm_env *image, bool plain, void *context),
		void *context)
{
	struct cut cut = { caches, judge, context };

	caches->changed = false;
	if (lines_images(&caches->lines, limit) > limit) {
		sample(&cut, limit);
		return;
	}
	lines_choose_all(&caches->lines, false);
	do
		show(&cut);
	while (lines_choose_next(&caches->lines));
}

/* What the core asks of its surroundings (env.h), on an image. */
static size_t offset_of(const struct pm_env *env, const void *at)
{
	return (size_t)((const rem_u8 *)at - env->memory);
}

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	touch(env, offset_of(env, to), sizeof(value));
	memcpy(to, &value, sizeof(value));
}

rem_u64 pm_load64(const void *from)
{
	rem_u64 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	touch(env, offset_of(env, to), bytes);
	memcpy(to, from, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!bytes)
		return;
	touch(env, offset_of(env, to), bytes);
	memset(to, 0, bytes);
}

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	(void)env;
	(void)at;
	(void)bytes;
}

void pm_fence(struct pm_env *env)
{
	(void)env;
}
