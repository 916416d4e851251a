// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: each operation on segments is done or not done, at each cut; done once
 * it was acknowledged; and a cut during the recovery does no harm.
 * Method: each operation over the recorder; each image that a cut may leave is
 * opened as a boot would, and must have the state before or after. Some of
 * these openings are recorded and cut themselves.
 */
#include <stdlib.h>

#include "check.h"
#include "need.h"
#include "world.h"

#define IMAGES_MAX 300 /* of one fence; all, if there are fewer */
#define REOPENED 16    /* every n-th image is opened with cuts, too */

struct trial {
	const char *name;
	struct seen before, after;
	bool done; /* acknowledged: only @after is legal from here on */
	unsigned long images;
	struct pm_env *again;	 /* for cuts while opening */
	rem_u8 *opened;		 /* an image before it was opened */
	const struct seen *must; /* what such a cut must leave */
};

static void judge_opened(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct seen seen;
	int err = image_see(image, trial->again->bytes, true, &seen, NULL);

	PROMISE("does-not-open", !err, "%s: cut while opening: %d", trial->name,
		err);
	if (!err)
		PROMISE("not-atomic", seen_same(&seen, trial->must),
			"%s: cut while opening: %s", trial->name,
			seen_difference(&seen, trial->must));
}

static void cut_opening(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge_opened, trial);
}

static void open_with_cuts(const rem_u8 *image, struct trial *trial,
			   const struct seen *must)
{
	static rem_u8 memory[1 << 16];
	struct pm_region region;

	memset(memory, 0, sizeof(memory));
	trial->must = must;
	memcpy(trial->again->memory, image, trial->again->bytes);
	trial->again->before_fence = cut_opening;
	trial->again->context = trial;
	recorder_begin(trial->again, IMAGES_MAX / 10, trial->images);
	pm_region_open(&region, trial->again, trial->again->memory,
		       trial->again->bytes, memory, true);
	recorder_end(trial->again);
}

static void judge(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct pm_region region;
	struct seen seen;
	bool reopen = trial->images++ % REOPENED == 0;
	size_t bytes = trial->again->bytes;
	int err;

	if (reopen)
		memcpy(trial->opened, image, bytes);
	err = image_see(image, bytes, true, &seen, &region);
	PROMISE("does-not-open", !err, "%s: %d", trial->name, err);
	if (err)
		return;
	PROMISE("damaged", !region.damaged, "%s: a cut looks like damage",
		trial->name);
	if (trial->done || !seen_same(&seen, &trial->before))
		PROMISE("not-atomic", seen_same(&seen, &trial->after),
			"%s, %s: %s", trial->name,
			trial->done ? "done" : "under way",
			seen_difference(&seen, &trial->after));
	err = image_see(image, bytes, true, &seen, &region);
	PROMISE("not-stable",
		!err && !region.repaired && !region.damaged && !region.refused,
		"%s: not clean when opened twice", trial->name);
	if (reopen) {
		memcpy(image, trial->opened, bytes);
		open_with_cuts(image, trial,
			       seen_same(&seen, &trial->before) ?
				       &trial->before :
				       &trial->after);
	}
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge, trial);
}

static void try(const char *name, void (*setup)(struct world *),
		int (*act)(struct world *))
{
	struct trial trial = { .name = name };
	struct world world;
	int err;

	world_make(&world);
	setup(&world);
	world_see(&world.region, &trial.before);
	trial.again = recorder_new(world.env->bytes);
	trial.opened = need(malloc(world.env->bytes));
	/* The result, without cuts. */
	err = act(&world);
	CHECK(!err, "%s: %d", name, err);
	world_see(&world.region, &trial.after);
	world_free(&world);

	world_make(&world);
	setup(&world);
	world.env->before_fence = cut;
	world.env->context = &trial;
	recorder_begin(world.env, IMAGES_MAX, 7);
	act(&world);
	trial.done = true;
	world.env->expected++;
	cut(world.env, &trial);
	recorder_end(world.env);
	CHECK(trial.images > 10, "%s: only %lu images", name, trial.images);
	free(trial.opened);
	recorder_free(trial.again);
	world_free(&world);
}

static void some(struct world *world)
{
	world_add(world, "one", 6000, 1);
	world_add(world, "two", 4096, 2);
	pm_segment_destroy(&world->region, world_add(world, "gone", 8192, 3));
}

static int create(struct world *world)
{
	return region_create_new(&world->region);
}

static int destroy(struct world *world)
{
	return pm_segment_destroy(&world->region,
				  pm_segment_find(&world->region, "one"));
}

static int grow_in_place(struct world *world)
{
	return pm_segment_resize(&world->region,
				 pm_segment_find(&world->region, "two"), 12288,
				 false);
}

static int shrink(struct world *world)
{
	return pm_segment_resize(&world->region,
				 pm_segment_find(&world->region, "one"), 100,
				 false);
}

static int grow_by_moving(struct world *world)
{
	return pm_segment_resize(&world->region,
				 pm_segment_find(&world->region, "one"), 12288,
				 true);
}

static int change(struct world *world)
{
	rem_u32 slot = pm_segment_find(&world->region, "two");
	struct rem_pm_segment record = world->region.entry[slot].record;

	record.mode = 0600;
	record.map_address = 0x7f0000000000;
	return pm_segment_change(&world->region, slot, &record);
}

static int wish(struct world *world)
{
	return pm_region_wish(&world->region, WORLD_BYTES - 8192);
}

/* A format that was cut leaves no region, or a complete one. */
static void judge_format(rem_u8 *image, void *context)
{
	struct seen seen;
	int err = image_see(image, WORLD_BYTES, true, &seen, NULL);

	PROMISE("not-atomic", err == -ENOMEDIUM || (!err && !seen.count),
		"format: %d", err);
	(*(int *)context)++;
}

static int format_region(struct pm_env *env)
{
	struct pm_format format = { .bytes = WORLD_BYTES,
				    .slots = WORLD_SLOTS };

	return pm_region_format(env, env->memory, &format);
}

void test_region_cuts(void)
{
	try("create", some, create);
	try("destroy", some, destroy);
	try("grow in place", some, grow_in_place);
	try("grow by moving", some, grow_by_moving);
	try("shrink", some, shrink);
	try("change", some, change);
	try("resize of the region", some, wish);
	recorder_each_cut(WORLD_BYTES, IMAGES_MAX, format_region, judge_format);
}
