// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "caches.h"

struct store {
	rem_u8 offset, bytes; /* within eight that are aligned */
	rem_u8 data[8];
};

struct line {
	struct store *store;
	size_t count, room;
	size_t flushed; /* stores that a fence will make durable */
	size_t chosen;	/* of the image that is being made */
};

static void *need(void *memory)
{
	if (!memory) {
		perror("memory for what a cut may leave");
		exit(4);
	}
	return memory;
}

void caches_begin(struct caches *caches, rem_u8 *media, size_t bytes)
{
	size_t lines = bytes / LINE_BYTES;

	memset(caches, 0, sizeof(*caches));
	caches->media = media;
	caches->memory = need(malloc(bytes));
	caches->line = need(calloc(lines, sizeof(*caches->line)));
	caches->dirty = need(calloc(lines, sizeof(*caches->dirty)));
	caches->image.memory = need(aligned_alloc(4096, bytes));
	caches->image.bytes = bytes;
	caches->image.is_touched = need(calloc(lines, 1));
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
	for (size_t i = 0; i < caches->dirty_count; i++) {
		caches->line[caches->dirty[i]].count = 0;
		caches->line[caches->dirty[i]].flushed = 0;
	}
	caches->dirty_count = 0;
	caches->changed = false;
	memcpy(caches->memory, caches->media, caches->image.bytes);
}

static void store_part(struct caches *caches, size_t offset, const rem_u8 *data,
		       size_t bytes)
{
	struct line *line = &caches->line[offset / LINE_BYTES];
	struct store *store;

	if (!line->count)
		caches->dirty[caches->dirty_count++] = offset / LINE_BYTES;
	if (line->count == line->room) {
		line->room = line->room ? 2 * line->room : 8;
		line->store = need(realloc(line->store,
					   line->room * sizeof(*line->store)));
	}
	store = &line->store[line->count++];
	store->offset = (rem_u8)(offset % LINE_BYTES);
	store->bytes = (rem_u8)bytes;
	memcpy(store->data, data, bytes);
}

void caches_store(struct caches *caches, size_t offset, const rem_u8 *data,
		  size_t bytes)
{
	memcpy(caches->memory + offset, data, bytes);
	caches->changed = true;
	while (bytes) {
		size_t part = 8 - offset % 8 < bytes ? 8 - offset % 8 : bytes;

		store_part(caches, offset, data, part);
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
	struct line *line = &caches->line[offset / LINE_BYTES];

	line->flushed = line->count;
}

static void put(rem_u8 *line, const struct store *store)
{
	memcpy(line + store->offset, store->data, store->bytes);
}

void caches_fence(struct caches *caches)
{
	size_t kept = 0;

	for (size_t i = 0; i < caches->dirty_count; i++) {
		size_t number = caches->dirty[i];
		struct line *line = &caches->line[number];
		rem_u8 *media = caches->media + number * LINE_BYTES;

		for (size_t n = 0; n < line->flushed; n++)
			put(media, &line->store[n]);
		memcpy(caches->image.memory + number * LINE_BYTES, media,
		       LINE_BYTES);
		line->count -= line->flushed;
		memmove(line->store, line->store + line->flushed,
			line->count * sizeof(*line->store));
		line->flushed = 0;
		if (line->count)
			caches->dirty[kept++] = number;
	}
	caches->dirty_count = kept;
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
			image->touched = need(
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
	bool plain = true;

	for (size_t i = 0; i < caches->dirty_count; i++) {
		size_t number = caches->dirty[i];
		struct line *line = &caches->line[number];

		plain &= !line->chosen;
		if (line->chosen)
			touch(&caches->image, number * LINE_BYTES, LINE_BYTES);
		for (size_t n = 0; n < line->chosen; n++)
			put(caches->image.memory + number * LINE_BYTES,
			    &line->store[n]);
	}
	caches->images++;
	cut->judge(&caches->image, plain, cut->context);
	undo(caches);
}

static void choose_all(struct caches *caches, bool newest)
{
	for (size_t i = 0; i < caches->dirty_count; i++) {
		struct line *line = &caches->line[caches->dirty[i]];

		line->chosen = newest ? line->count : 0;
	}
}

/* Like a number's digits; false after the last. */
static bool next(struct caches *caches)
{
	for (size_t i = 0; i < caches->dirty_count; i++) {
		struct line *line = &caches->line[caches->dirty[i]];

		if (line->chosen++ < line->count)
			return true;
		line->chosen = 0;
	}
	return false;
}

static unsigned long draw(struct caches *caches)
{
	unsigned long z = caches->seed += 0x9e3779b97f4a7c15ul;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ z >> 27) * 0x94d049bb133111ebul;
	return z ^ z >> 31;
}

static void sample(const struct cut *cut, unsigned long limit)
{
	struct caches *caches = cut->caches;

	choose_all(caches, false);
	show(cut);
	choose_all(caches, true);
	show(cut);
	for (unsigned long n = 0; n < limit; n++) {
		size_t pick = draw(caches) % caches->dirty_count;
		struct line *line = &caches->line[caches->dirty[pick]];

		switch (n % 4) {
		case 0: /* one alone */
			choose_all(caches, false);
			line->chosen = line->count;
			break;
		case 1: /* all but one */
			choose_all(caches, true);
			line->chosen = 0;
			break;
		default:
			for (size_t i = 0; i < caches->dirty_count; i++) {
				line = &caches->line[caches->dirty[i]];
				line->chosen = draw(caches) % (line->count + 1);
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
	unsigned long images = 1;

	for (size_t i = 0; i < caches->dirty_count && images <= limit; i++)
		images *= caches->line[caches->dirty[i]].count + 1;
	caches->changed = false;
	if (images > limit) {
		sample(&cut, limit);
		return;
	}
	choose_all(caches, false);
	do
		show(&cut);
	while (next(caches));
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
