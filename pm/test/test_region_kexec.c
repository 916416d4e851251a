// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: what a kernel sees when it opens a region holds at each later cut, also if
 * the kernel before it died without a flush and only the caches have it (kexec).
 * Method: each operation ends at each of its flushes and fences; the region is
 * opened as CPUs see it, and one segment is changed; each image that a cut may
 * leave has what was seen, with or without that change.
 */
#include <stdlib.h>

#include "check.h"
#include "need.h"
#include "world.h"

#define IMAGES_MAX 100

struct death {
	const char *name;
	struct seen before, after; /* of the change by the next kernel */
	unsigned long images;
};

static void judge(rem_u8 *image, void *context)
{
	struct death *death = context;
	struct pm_region region;
	struct seen seen;
	int err = image_see(image, WORLD_BYTES, true, &seen, &region);

	death->images++;
	PROMISE("does-not-open", !err && !region.refused, "%s: %d, %u refused",
		death->name, err, err ? 0 : region.refused);
	PROMISE("not-atomic",
		err || seen_same(&seen, &death->before) ||
			seen_same(&seen, &death->after),
		"%s: neither before nor after the change", death->name);
}

static void cut(struct pm_env *env, void *context)
{
	recorder_cut(env, judge, context);
}

static int change(struct pm_region *region)
{
	rem_u32 slot = pm_segment_find(region, "two");
	struct rem_pm_segment record = region->entry[slot].record;

	record.mode = 0604;
	return pm_segment_change(region, slot, &record);
}

struct last_act {
	struct pm_region *region;
	void (*act)(struct pm_region *region);
};

static void act_last(void *context)
{
	const struct last_act *last = context;

	last->act(last->region);
}

/* What the next kernel makes of what it sees, without and with its own change. */
static void foresee(struct death *death, const struct world *world)
{
	struct pm_env env = { .memory = need(aligned_alloc(4096, WORLD_BYTES)),
			      .bytes = WORLD_BYTES };
	struct world other = { .env = &env };

	memcpy(env.memory, world->env->memory, WORLD_BYTES);
	CHECK(!world_open(&other), "%s: open", death->name);
	world_see(&other.region, &death->before);
	CHECK(!change(&other.region), "%s: change", death->name);
	world_see(&other.region, &death->after);
	free(env.memory);
	free(other.volatile_memory);
}

static bool caches_survive(const char *name, void (*act)(struct pm_region *),
			   int steps)
{
	struct death death = { .name = name };
	struct world world;
	struct last_act last = { .region = &world.region, .act = act };
	bool died;

	world_make(&world);
	world_add(&world, "one", 6000, 1);
	world_add(&world, "two", 4096, 2);
	recorder_begin(world.env, IMAGES_MAX, 5);
	died = recorder_dies(world.env, steps, act_last, &last);
	foresee(&death, &world);
	CHECK(!world_open(&world), "%s: open", name);
	world.env->before_fence = cut;
	world.env->context = &death;
	world.env->expected++;
	CHECK(!change(&world.region), "%s: change", name);
	cut(world.env, &death);
	recorder_end(world.env);
	CHECK(death.images > 10, "%s: only %lu images", name, death.images);
	world_free(&world);
	return died;
}

static void create(struct pm_region *region)
{
	region_create_new(region);
}

static void destroy(struct pm_region *region)
{
	pm_segment_destroy(region, pm_segment_find(region, "one"));
}

static void wish(struct pm_region *region)
{
	pm_region_wish(region, WORLD_BYTES - 8192);
}

static void each_death(const char *name, void (*act)(struct pm_region *))
{
	int steps = 0;

	while (caches_survive(name, act, steps))
		steps++;
	CHECK(steps > 10, "%s: only %d flushes and fences", name, steps);
}

void test_region_kexec(void)
{
	each_death("create", create);
	each_death("destroy", destroy);
	each_death("resize of the region", wish);
}
