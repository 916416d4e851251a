// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a slot that is damaged in all copies can be given up, and then the region
 * takes new segments again; the others are as they were at each cut meanwhile.
 * Method: all copies of one slot are damaged; each image that a cut may leave has
 * the others, and that slot refused or, once it was acknowledged, free.
 */
#include "check.h"
#include "world.h"

#define IMAGES_MAX 300

struct trial {
	struct seen others;
	bool done;
	unsigned long images, seed;
};

static void damage(struct world *world, rem_u32 slot)
{
	struct pm_slot at =
		pm_table_slot(world->env->memory, &world->region.super, slot);

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		for (int half = 0; half < REM_PM_HALVES; half++)
			at.copy[copy][half * REM_PM_HALF_BYTES + 40] ^= 4;
}

static void judge(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct pm_region region;
	struct seen seen;
	int err = image_see(image, WORLD_BYTES, true, &seen, &region);

	trial->images++;
	CHECK(!err, "open: %d", err);
	if (err)
		return;
	CHECK(seen_same(&seen, &trial->others), "%s",
	      seen_difference(&seen, &trial->others));
	CHECK(region.refused <= !trial->done, "%u refused", region.refused);
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, IMAGES_MAX, &trial->seed, judge, trial);
}

void test_region_give_up(void)
{
	struct trial trial = { .seed = 3 };
	struct world world;
	rem_u32 slot;

	world_make(&world);
	world_add(&world, "kept", 5000, 1);
	slot = world_add(&world, "lost", 9000, 2);
	world_add(&world, "kept-too", 4096, 3);
	CHECK(pm_segment_give_up(&world.region, slot) == -ENOENT, "sound");
	damage(&world, slot);
	CHECK(!world_open(&world) && world.region.refused == 1, "refused");
	world_see(&world.region, &trial.others);
	world.env->before_fence = cut;
	world.env->context = &trial;
	recorder_begin(world.env);
	CHECK(!pm_segment_give_up(&world.region, slot), "give up");
	trial.done = true;
	cut(world.env, &trial);
	recorder_end(world.env);
	CHECK(trial.images > 50, "only %lu images", trial.images);
	/* Its space and its name are there again. */
	world_add(&world, "lost", 9000, 4);
	CHECK(!world_open(&world) && !world.region.refused &&
		      !world.region.damaged && world.region.used == 3,
	      "open");
	world_free(&world);
}
