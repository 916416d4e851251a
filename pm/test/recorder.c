// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "need.h"
#include "recorder.h"

/* The image that is being checked. A check may record and cut, too. */
struct look {
	struct crash_image *image;
	rem_u8 *memory;
	void (*judge)(rem_u8 *image, void *context);
	void *context;
	struct look *outer;
};

static struct look *current;

struct pm_env *recorder_new(size_t bytes)
{
	struct pm_env *env = need(calloc(1, sizeof(*env)));

	env->bytes = bytes;
	env->memory = need(aligned_alloc(4096, bytes));
	memset(env->memory, 0, bytes);
	return env;
}

void recorder_free(struct pm_env *env)
{
	recorder_end(env);
	free(env->memory);
	free(env);
}

void recorder_begin(struct pm_env *env, rem_u64 images_max, rem_u64 seed)
{
	recorder_end(env);
	env->states = crash_states_new(env->memory, env->bytes, images_max,
				       images_max, seed);
}

void recorder_end(struct pm_env *env)
{
	if (env->states)
		crash_states_free(env->states);
	env->states = NULL;
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

/* These bytes of memory have changed. */
static void stored(struct pm_env *env, size_t offset, size_t bytes)
{
	env->stores += (offset % 8 + bytes + 7) / 8;
	if (env->states)
		crash_states_store(env->states, offset, env->memory + offset,
				   bytes);
	if (current && current->memory == env->memory)
		crash_image_touch(current->image, offset, bytes);
}

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	size_t offset = offset_of(env, to);

	if (offset % 8) {
		fprintf(stderr, "eight bytes stored at a misaligned place\n");
		abort();
	}
	memcpy(to, &value, sizeof(value));
	stored(env, offset, sizeof(value));
}

rem_u64 pm_load64(const void *from)
{
	rem_u64 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	size_t offset = offset_of(env, at);

	env->flushes += (offset + bytes - 1) / 64 - offset / 64 + 1;
	if (env->states)
		crash_states_flush(env->states, offset, bytes);
}

static size_t room_for(struct pm_env *env, const void *to, size_t bytes)
{
	size_t offset = offset_of(env, to);

	if (bytes > env->bytes - offset) {
		fprintf(stderr, "store past the region\n");
		abort();
	}
	return offset;
}

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	room_for(env, to, bytes);
	memcpy(to, from, bytes);
	stored(env, offset_of(env, to), bytes);
	pm_flush(env, to, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!bytes)
		return;
	room_for(env, to, bytes);
	memset(to, 0, bytes);
	stored(env, offset_of(env, to), bytes);
	pm_flush(env, to, bytes);
}

void pm_fence(struct pm_env *env)
{
	env->fences++;
	if (!env->states)
		return;
	if (env->before_fence)
		env->before_fence(env, env->context);
	crash_states_fence(env->states);
}

static void show(struct crash_image *image, void *context)
{
	struct look *look = context;

	look->image = image;
	look->memory = crash_image_bytes(image);
	look->outer = current;
	current = look;
	look->judge(look->memory, look->context);
	current = look->outer;
}

void recorder_cut(struct pm_env *env, void (*judge)(rem_u8 *image, void *),
		  void *context)
{
	struct look look = { .judge = judge, .context = context };

	crash_states_show(env->states, env->expected, show, &look);
}
