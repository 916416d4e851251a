// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "recorder.h"

struct store {
	rem_u8 offset; /* in the line, multiple of 8 */
	rem_u64 value;
};

struct line {
	struct store *store;
	size_t count;
	size_t room;
	size_t flushed; /* stores that a fence will make durable */
	size_t chosen;	/* of the image that is being made */
};

static void *need(void *memory)
{
	if (!memory) {
		perror("memory for the recorder");
		exit(4);
	}
	return memory;
}

struct pm_env *recorder_new(size_t bytes)
{
	struct pm_env *env = need(calloc(1, sizeof(*env)));

	env->bytes = bytes;
	env->memory = need(aligned_alloc(4096, bytes));
	env->media = need(aligned_alloc(4096, bytes));
	env->line = need(calloc(bytes / LINE_BYTES, sizeof(*env->line)));
	env->dirty = need(calloc(bytes / LINE_BYTES, sizeof(*env->dirty)));
	memset(env->memory, 0, bytes);
	return env;
}

void recorder_free(struct pm_env *env)
{
	for (size_t i = 0; i < env->bytes / LINE_BYTES; i++)
		free(env->line[i].store);
	free(env->line);
	free(env->dirty);
	free(env->memory);
	free(env->media);
	free(env);
}

static void forget(struct pm_env *env)
{
	for (size_t i = 0; i < env->dirty_count; i++)
		env->line[env->dirty[i]].count = 0;
	for (size_t i = 0; i < env->dirty_count; i++)
		env->line[env->dirty[i]].flushed = 0;
	env->dirty_count = 0;
}

void recorder_begin(struct pm_env *env)
{
	forget(env);
	memcpy(env->media, env->memory, env->bytes);
	env->recording = true;
}

void recorder_end(struct pm_env *env)
{
	env->recording = false;
	forget(env);
}

static size_t offset_of(struct pm_env *env, const void *at)
{
	size_t offset = (size_t)((const rem_u8 *)at - env->memory);

	if (offset >= env->bytes) {
		fprintf(stderr, "store outside the region\n");
		abort();
	}
	return offset;
}

static void store8(struct pm_env *env, size_t offset, rem_u64 value)
{
	size_t number = offset / LINE_BYTES;
	struct line *line;

	memcpy(env->memory + offset, &value, sizeof(value));
	env->stores++;
	if (!env->recording)
		return;
	line = &env->line[number];
	if (!line->count)
		env->dirty[env->dirty_count++] = number;
	if (line->count == line->room) {
		line->room = line->room ? 2 * line->room : 16;
		line->store = need(realloc(line->store,
					   line->room * sizeof(*line->store)));
	}
	line->store[line->count++] =
		(struct store){ (rem_u8)(offset % LINE_BYTES), value };
}

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	size_t offset = offset_of(env, to);

	if (offset % 8) {
		fprintf(stderr, "eight bytes stored at odd places\n");
		abort();
	}
	store8(env, offset, value);
}

rem_u64 pm_load64(const void *from)
{
	rem_u64 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	size_t first = offset_of(env, at) / LINE_BYTES;
	size_t last = (offset_of(env, at) + bytes - 1) / LINE_BYTES;

	env->flushes += last - first + 1;
	if (!env->recording)
		return;
	for (size_t number = first; number <= last; number++)
		env->line[number].flushed = env->line[number].count;
}

/* Bytes that share eight with others are stored with what those are. */
static void store_any(struct pm_env *env, void *to, const void *from,
		      size_t bytes)
{
	size_t offset = offset_of(env, to);
	const rem_u8 *at = from;

	if (!bytes)
		return;
	while (bytes) {
		size_t in = offset % 8;
		size_t part = 8 - in < bytes ? 8 - in : bytes;
		rem_u8 word[8];
		rem_u64 value;

		memcpy(word, env->memory + offset - in, 8);
		if (at)
			memcpy(word + in, at, part);
		else
			memset(word + in, 0, part);
		memcpy(&value, word, 8);
		store8(env, offset - in, value);
		offset += part;
		bytes -= part;
		at = at ? at + part : NULL;
	}
}

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	store_any(env, to, from, bytes);
	pm_flush(env, to, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!bytes)
		return;
	store_any(env, to, NULL, bytes);
	pm_flush(env, to, bytes);
}

static void apply(rem_u8 *image, size_t number, const struct line *line,
		  size_t count)
{
	for (size_t i = 0; i < count; i++)
		memcpy(image + number * LINE_BYTES + line->store[i].offset,
		       &line->store[i].value, 8);
}

void pm_fence(struct pm_env *env)
{
	size_t kept = 0;

	env->fences++;
	if (!env->recording)
		return;
	if (env->before_fence)
		env->before_fence(env, env->context);
	for (size_t i = 0; i < env->dirty_count; i++) {
		size_t number = env->dirty[i];
		struct line *line = &env->line[number];

		apply(env->media, number, line, line->flushed);
		line->count -= line->flushed;
		memmove(line->store, line->store + line->flushed,
			line->count * sizeof(*line->store));
		line->flushed = 0;
		if (line->count)
			env->dirty[kept++] = number;
	}
	env->dirty_count = kept;
}

unsigned long recorder_random(unsigned long *seed)
{
	unsigned long z = *seed += 0x9e3779b97f4a7c15ul;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ z >> 27) * 0x94d049bb133111ebul;
	return z ^ z >> 31;
}

/* The image of what is chosen of each dirty line. */
static void show(struct pm_env *env, rem_u8 *image,
		 void (*judge)(rem_u8 *image, void *context), void *context)
{
	memcpy(image, env->media, env->bytes);
	for (size_t i = 0; i < env->dirty_count; i++) {
		struct line *line = &env->line[env->dirty[i]];

		apply(image, env->dirty[i], line, line->chosen);
	}
	judge(image, context);
}

static void choose_all(struct pm_env *env, bool newest)
{
	for (size_t i = 0; i < env->dirty_count; i++) {
		struct line *line = &env->line[env->dirty[i]];

		line->chosen = newest ? line->count : 0;
	}
}

/* Like a number's digits; false after the last. */
static bool next(struct pm_env *env)
{
	for (size_t i = 0; i < env->dirty_count; i++) {
		struct line *line = &env->line[env->dirty[i]];

		if (line->chosen++ < line->count)
			return true;
		line->chosen = 0;
	}
	return false;
}

static void sample(struct pm_env *env, unsigned long limit, unsigned long *seed,
		   rem_u8 *image, void (*judge)(rem_u8 *, void *),
		   void *context)
{
	unsigned long lines = env->dirty_count < limit ? env->dirty_count :
							 limit;

	choose_all(env, true);
	show(env, image, judge, context);
	for (int newest = 0; newest < 2; newest++) {
		for (size_t i = 0; i < lines; i++) {
			size_t pick = recorder_random(seed) % env->dirty_count;
			struct line *line = &env->line[env->dirty[pick]];

			choose_all(env, newest);
			line->chosen = newest ? 0 : line->count;
			show(env, image, judge, context);
		}
	}
	for (unsigned long n = 0; n < limit; n++) {
		for (size_t i = 0; i < env->dirty_count; i++) {
			struct line *line = &env->line[env->dirty[i]];

			line->chosen =
				recorder_random(seed) % (line->count + 1);
		}
		show(env, image, judge, context);
	}
}

void recorder_cut(struct pm_env *env, unsigned long limit, unsigned long *seed,
		  void (*judge)(rem_u8 *image, void *context), void *context)
{
	rem_u8 *image = need(aligned_alloc(4096, env->bytes));
	unsigned long images = 1;

	for (size_t i = 0; i < env->dirty_count && images <= limit; i++)
		images *= env->line[env->dirty[i]].count + 1;
	choose_all(env, false);
	if (images <= limit) {
		do
			show(env, image, judge, context);
		while (next(env));
	} else {
		show(env, image, judge, context);
		sample(env, limit, seed, image, judge, context);
	}
	free(image);
}
