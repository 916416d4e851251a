// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What the core asks of its surroundings (core/env.h), on an image. */
#include <stdio.h>
#include <stdlib.h>

#include "env.h"

static void touch(struct pm_env *env, const void *at, size_t bytes)
{
	size_t offset = (size_t)((const rem_u8 *)at - env->memory);

	if (offset > env->bytes || bytes > env->bytes - offset) {
		fprintf(stderr, "the core stores outside of the region\n");
		abort();
	}
	env->touch(env->context, offset, bytes);
}

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	touch(env, to, sizeof(value));
	memcpy(to, &value, sizeof(value));
}

/* An image has all its lines. */
bool pm_fetch(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return true;
}

bool pm_load64(const void *from, rem_u64 *ret)
{
	return pm_fetch(ret, from, sizeof(*ret));
}

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	touch(env, to, bytes);
	memcpy(to, from, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!bytes)
		return;
	touch(env, to, bytes);
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

void pm_rest(struct pm_env *env)
{
	(void)env;
}
