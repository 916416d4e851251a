// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "recorder.h"

struct pm_env *recorder_new(size_t bytes)
{
	struct pm_env *env = lines_need(calloc(1, sizeof(*env)));

	env->bytes = bytes;
	env->memory = lines_need(aligned_alloc(4096, bytes));
	env->media = lines_need(aligned_alloc(4096, bytes));
	lines_make(&env->lines, bytes);
	memset(env->memory, 0, bytes);
	return env;
}

void recorder_free(struct pm_env *env)
{
	lines_free(&env->lines);
	free(env->memory);
	free(env->media);
	free(env);
}

void recorder_begin(struct pm_env *env)
{
	lines_forget(&env->lines);
	memcpy(env->media, env->memory, env->bytes);
	env->recording = true;
}

void recorder_end(struct pm_env *env)
{
	env->recording = false;
	lines_forget(&env->lines);
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
	memcpy(env->memory + offset, &value, sizeof(value));
	env->stores++;
	if (env->recording)
		lines_store(&env->lines, offset, &value, sizeof(value));
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
		lines_flush(&env->lines, number * LINE_BYTES);
}

/* Bytes that share eight with others are stored with what those are. */
static void store_any(struct pm_env *env, void *to, const void *from,
		      size_t bytes)
{
	size_t offset = offset_of(env, to);
	const rem_u8 *at = from;

	if (bytes > env->bytes - offset) {
		fprintf(stderr, "store past the region\n");
		abort();
	}
	if (!env->recording) {
		env->stores += (offset % 8 + bytes + 7) / 8;
		if (at)
			memcpy(to, at, bytes);
		else
			memset(to, 0, bytes);
		return;
	}
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

void pm_fence(struct pm_env *env)
{
	env->fences++;
	if (!env->recording)
		return;
	if (env->before_fence)
		env->before_fence(env, env->context);
	lines_settle(&env->lines, env->media);
	lines_drop(&env->lines);
}

/* The image of what is chosen of each dirty line. */
static void show(struct pm_env *env, rem_u8 *image,
		 void (*judge)(rem_u8 *image, void *context), void *context)
{
	memcpy(image, env->media, env->bytes);
	for (size_t i = 0; i < env->lines.dirty_count; i++)
		lines_put(&env->lines, env->lines.dirty[i], image);
	judge(image, context);
}

static void sample(struct pm_env *env, unsigned long limit, unsigned long *seed,
		   rem_u8 *image, void (*judge)(rem_u8 *, void *),
		   void *context)
{
	struct lines *lines = &env->lines;
	unsigned long alone = lines->dirty_count < limit ? lines->dirty_count :
							   limit;

	lines_choose_all(lines, true);
	show(env, image, judge, context);
	for (int newest = 0; newest < 2; newest++) {
		for (size_t i = 0; i < alone; i++) {
			size_t pick = lines_random(seed) % lines->dirty_count;
			struct line *line = &lines->line[lines->dirty[pick]];

			lines_choose_all(lines, newest);
			line->chosen = newest ? 0 : line->count;
			show(env, image, judge, context);
		}
	}
	for (unsigned long n = 0; n < limit; n++) {
		for (size_t i = 0; i < lines->dirty_count; i++) {
			struct line *line = &lines->line[lines->dirty[i]];

			line->chosen = lines_random(seed) % (line->count + 1);
		}
		show(env, image, judge, context);
	}
}

void recorder_cut(struct pm_env *env, unsigned long limit, unsigned long *seed,
		  void (*judge)(rem_u8 *image, void *context), void *context)
{
	rem_u8 *image = lines_need(aligned_alloc(4096, env->bytes));

	lines_choose_all(&env->lines, false);
	if (lines_images(&env->lines, limit) <= limit) {
		do
			show(env, image, judge, context);
		while (lines_choose_next(&env->lines));
	} else {
		show(env, image, judge, context);
		sample(env, limit, seed, image, judge, context);
	}
	free(image);
}
