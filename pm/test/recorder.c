// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
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

#define LOST_MAX 256
#define LOST_BYTE 0x6b

static rem_u8 *lost[LOST_MAX]; /* lines that media has lost */
static unsigned int lost_count;

static rem_u8 *line_of(const void *at)
{
	return (rem_u8 *)((size_t)at / PM_LINE_BYTES * PM_LINE_BYTES);
}

/* With sanitizers, who reads a lost line in another way than by pm_fetch() ends. */
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

static void forget_lost(void)
{
	while (lost_count)
		ASAN_UNPOISON_MEMORY_REGION(lost[--lost_count], PM_LINE_BYTES);
}

static void spoil(rem_u8 *line)
{
	ASAN_UNPOISON_MEMORY_REGION(line, PM_LINE_BYTES);
	memset(line, LOST_BYTE, PM_LINE_BYTES);
	ASAN_POISON_MEMORY_REGION(line, PM_LINE_BYTES);
}

/* Before a store: what it covers may be written to. */
static void lift(const rem_u8 *at, size_t bytes)
{
	for (unsigned int i = 0; i < lost_count; i++)
		if (lost[i] < at + bytes && lost[i] + PM_LINE_BYTES > at)
			ASAN_UNPOISON_MEMORY_REGION(lost[i], PM_LINE_BYTES);
}

/* One store: whole lines are there again, of others nothing is. */
static void heal(const rem_u8 *at, size_t bytes)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < lost_count; i++) {
		if (lost[i] >= at && lost[i] + PM_LINE_BYTES <= at + bytes)
			continue;
		if (lost[i] < at + bytes && lost[i] + PM_LINE_BYTES > at)
			spoil(lost[i]);
		lost[left++] = lost[i];
	}
	lost_count = left;
}

struct pm_env *recorder_new(size_t bytes)
{
	struct pm_env *env = need(calloc(1, sizeof(*env)));
	size_t pages_bytes = (bytes + 4095) & ~(size_t)4095;

	env->bytes = bytes;
	env->memory = need(aligned_alloc(4096, pages_bytes));
	memset(env->memory, 0, pages_bytes);
	return env;
}

void recorder_free(struct pm_env *env)
{
	recorder_end(env);
	forget_lost();
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

static void stay_stuck(struct pm_env *env)
{
	for (int i = 0; i < env->stuck_count; i++)
		memset(env->memory + env->stuck[i], 0, sizeof(rem_u64));
}

void recorder_stick(struct pm_env *env, void *at)
{
	if (env->stuck_count == RECORDER_STUCK_MAX)
		abort();
	env->stuck[env->stuck_count++] = offset_of(env, at);
	stay_stuck(env);
}

static void called(struct pm_env *env, size_t bytes)
{
	if (++env->calls > env->calls_max)
		env->calls_max = env->calls;
	if (bytes >= RECORDER_MANY_BYTES && env->before_many)
		env->before_many(env, env->context);
}

void pm_rest(struct pm_env *env)
{
	if (env) /* of what is only looked at there is none */
		env->calls = 0;
}

/* These bytes of memory have changed. */
static void stored(struct pm_env *env, size_t offset, size_t bytes)
{
	called(env, bytes);
	stay_stuck(env);
	heal(env->memory + offset, bytes);
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
	lift(to, sizeof(value));
	memcpy(to, &value, sizeof(value));
	stored(env, offset, sizeof(value));
}

unsigned int recorder_lost(void)
{
	return lost_count;
}

void recorder_lose(struct pm_env *env, void *at, size_t bytes)
{
	offset_of(env, at);
	for (rem_u8 *line = line_of(at); line < (rem_u8 *)at + bytes;
	     line += PM_LINE_BYTES) {
		if (lost_count == LOST_MAX)
			abort();
		lost[lost_count++] = line;
		spoil(line);
	}
}

bool pm_fetch(void *to, const void *from, size_t bytes)
{
	const rem_u8 *at = from;

	for (unsigned int i = 0; i < lost_count; i++)
		if (lost[i] < at + bytes && lost[i] + PM_LINE_BYTES > at)
			return false;
	memcpy(to, from, bytes);
	return true;
}

bool pm_load64(const void *from, rem_u64 *ret)
{
	return pm_fetch(ret, from, sizeof(*ret));
}

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	size_t offset = offset_of(env, at);

	env->flushes += (offset + bytes - 1) / 64 - offset / 64 + 1;
	if (!env->states)
		return;
	if (env->before_flush)
		env->before_flush(env, env->context);
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
	lift(to, bytes);
	memcpy(to, from, bytes);
	stored(env, offset_of(env, to), bytes);
	pm_flush(env, to, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!bytes)
		return;
	room_for(env, to, bytes);
	lift(to, bytes);
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

#define IMAGES_LEAST 100

struct each_cut {
	void (*judge)(rem_u8 *image, void *count);
	int count;
};

static void cut_now(struct pm_env *env, void *context)
{
	struct each_cut *each = context;

	recorder_cut(env, each->judge, &each->count);
}

void recorder_each_cut(size_t bytes, rem_u64 images_max,
		       int (*act)(struct pm_env *env),
		       void (*judge)(rem_u8 *image, void *count))
{
	struct pm_env *env = recorder_new(bytes);
	struct each_cut each = { .judge = judge };
	int err;

	env->before_fence = cut_now;
	env->context = &each;
	recorder_begin(env, images_max, 3);
	err = act(env);
	CHECK(!err, "an act that is cut: %d", err);
	recorder_end(env);
	CHECK(each.count > IMAGES_LEAST, "only %d images", each.count);
	recorder_free(env);
}

struct death {
	jmp_buf end;
	int steps; /* before it */
};

static void die(struct pm_env *env, void *context)
{
	struct death *death = context;

	(void)env;
	if (!death->steps--)
		longjmp(death->end, 1);
}

bool recorder_dies(struct pm_env *env, int steps, void (*act)(void *context),
		   void *context)
{
	struct death death = { .steps = steps };
	bool died = true;

	env->before_fence = die;
	env->before_flush = die;
	env->context = &death;
	if (!setjmp(death.end)) {
		act(context);
		died = false;
	}
	env->before_fence = NULL;
	env->before_flush = NULL;
	return died;
}
