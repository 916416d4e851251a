// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "lines.h"

struct line_store {
	rem_u8 offset, bytes; /* in the line; within eight that are aligned */
	rem_u8 data[8];
};

void *lines_need(void *memory)
{
	if (!memory) {
		perror("memory for what a cut may leave");
		exit(4);
	}
	return memory;
}

void lines_make(struct lines *lines, size_t bytes)
{
	lines->total = bytes / LINE_BYTES;
	lines->line = lines_need(calloc(lines->total, sizeof(*lines->line)));
	lines->dirty = lines_need(calloc(lines->total, sizeof(*lines->dirty)));
	lines->dirty_count = 0;
}

void lines_free(struct lines *lines)
{
	for (size_t i = 0; i < lines->total; i++)
		free(lines->line[i].store);
	free(lines->line);
	free(lines->dirty);
}

void lines_forget(struct lines *lines)
{
	for (size_t i = 0; i < lines->dirty_count; i++) {
		lines->line[lines->dirty[i]].count = 0;
		lines->line[lines->dirty[i]].flushed = 0;
	}
	lines->dirty_count = 0;
}

void lines_store(struct lines *lines, size_t offset, const void *data,
		 size_t bytes)
{
	struct line *line = &lines->line[offset / LINE_BYTES];
	struct line_store *store;

	if (!line->count)
		lines->dirty[lines->dirty_count++] = offset / LINE_BYTES;
	if (line->count == line->room) {
		line->room = line->room ? 2 * line->room : 8;
		line->store = lines_need(realloc(
			line->store, line->room * sizeof(*line->store)));
	}
	store = &line->store[line->count++];
	store->offset = (rem_u8)(offset % LINE_BYTES);
	store->bytes = (rem_u8)bytes;
	memcpy(store->data, data, bytes);
}

void lines_flush(struct lines *lines, size_t offset)
{
	struct line *line = &lines->line[offset / LINE_BYTES];

	line->flushed = line->count;
}

static void put(const struct line *line, size_t count, rem_u8 *at)
{
	for (size_t n = 0; n < count; n++)
		memcpy(at + line->store[n].offset, line->store[n].data,
		       line->store[n].bytes);
}

void lines_settle(const struct lines *lines, rem_u8 *media)
{
	for (size_t i = 0; i < lines->dirty_count; i++) {
		const struct line *line = &lines->line[lines->dirty[i]];

		put(line, line->flushed, media + lines->dirty[i] * LINE_BYTES);
	}
}

void lines_drop(struct lines *lines)
{
	size_t kept = 0;

	for (size_t i = 0; i < lines->dirty_count; i++) {
		size_t number = lines->dirty[i];
		struct line *line = &lines->line[number];

		line->count -= line->flushed;
		memmove(line->store, line->store + line->flushed,
			line->count * sizeof(*line->store));
		line->flushed = 0;
		if (line->count)
			lines->dirty[kept++] = number;
	}
	lines->dirty_count = kept;
}

unsigned long lines_images(const struct lines *lines, unsigned long limit)
{
	unsigned long images = 1;

	for (size_t i = 0; i < lines->dirty_count && images <= limit; i++)
		images *= lines->line[lines->dirty[i]].count + 1;
	return images;
}

void lines_choose_all(struct lines *lines, bool newest)
{
	for (size_t i = 0; i < lines->dirty_count; i++) {
		struct line *line = &lines->line[lines->dirty[i]];

		line->chosen = newest ? line->count : 0;
	}
}

bool lines_choose_next(struct lines *lines)
{
	for (size_t i = 0; i < lines->dirty_count; i++) {
		struct line *line = &lines->line[lines->dirty[i]];

		if (line->chosen++ < line->count)
			return true;
		line->chosen = 0;
	}
	return false;
}

void lines_put(const struct lines *lines, size_t number, rem_u8 *image)
{
	const struct line *line = &lines->line[number];

	put(line, line->chosen, image + number * LINE_BYTES);
}

unsigned long lines_random(unsigned long *seed)
{
	unsigned long z = *seed += 0x9e3779b97f4a7c15ul;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ z >> 27) * 0x94d049bb133111ebul;
	return z ^ z >> 31;
}
