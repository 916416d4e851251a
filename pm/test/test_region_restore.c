// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: while a region is open, damage to all copies of a slot loses nothing: a
 * check restores the record from memory, and so does the next change before it
 * is made. A cut meanwhile leaves that record, or a refused slot, never an older
 * record.
 * Method: each byte of all three copies of a slot in use, of a free one and of the
 * superblock, then a check or a change, then an open as a boot would; each image
 * that a cut during a check may leave. Words that stay zeros whatever is
 * stored stand for media that do not keep it.
 */
#include <stdlib.h>

#include "check.h"
#include "world.h"

#define IMAGES_MAX 300

struct scene {
	struct world world;
	struct seen before;
	rem_u32 one; /* its slot has two committed halves */
};

static void scene_make(struct scene *scene)
{
	world_make(&scene->world);
	scene->one = world_add_two(&scene->world);
	CHECK(!pm_region_wish(&scene->world.region, 4096 * 90), "wish");
	world_see(&scene->world.region, &scene->before);
}

static void damage(struct scene *scene, rem_u32 index, unsigned int at,
		   unsigned int bytes)
{
	struct pm_slot slot = world_slot(&scene->world, index);

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		for (unsigned int i = at; i < at + bytes; i++)
			slot.copy[copy][i] ^= 0x10;
}

/* What a boot finds is what memory has. */
static void same_after_boot(struct scene *scene, const char *what,
			    unsigned int at)
{
	struct pm_region region;
	struct seen expected, seen;
	int err;

	world_see(&scene->world.region, &expected);
	err = image_see(scene->world.env->memory, WORLD_BYTES, false, &seen,
			&region);
	PROMISE("lost", !err && !region.refused && seen_same(&seen, &expected),
		"%s, byte %u: %d, %u refused: %s", what, at, err,
		err ? 0 : region.refused,
		err ? "does not open" : seen_difference(&seen, &expected));
}

static void check_restores(struct scene *scene, rem_u32 index)
{
	struct pm_region *region = &scene->world.region;

	for (unsigned int at = 0; at <= REM_PM_SLOT_BYTES; at++) {
		rem_u64 repaired = region->repaired;

		if (at < REM_PM_SLOT_BYTES)
			damage(scene, index, at, 1);
		else
			damage(scene, index, 0, REM_PM_SLOT_BYTES);
		PROMISE("not-repaired", !pm_region_scrub(region, index),
			"slot %u, byte %u", index, at);
		/* The bytes behind a word "in work" have no meaning. */
		CHECK(region->repaired <= repaired + 1 &&
			      (at < 8 || at >= REM_PM_SLOT_BYTES) <=
				      region->repaired - repaired,
		      "slot %u, byte %u: counted", index, at);
		same_after_boot(scene, "check", at);
	}
}

/* Another mode each time, so that each has something to lose. */
static int change(struct scene *scene, unsigned int round)
{
	struct pm_region *region = &scene->world.region;
	struct rem_pm_segment record = region->entry[scene->one].record;

	record.mode = round % 0777;
	return pm_segment_change(region, scene->one, &record);
}

static void changes_after_damage_are_kept(struct scene *scene)
{
	struct pm_region *region = &scene->world.region;

	for (unsigned int at = 0; at < REM_PM_SLOT_BYTES; at++) {
		struct pm_segment_new new = { .name = "three",
					      .type = REM_PM_RAW,
					      .persist = REM_PM_FOC,
					      .bytes = 1 };
		rem_u32 slot = region->free_slot;

		damage(scene, scene->one, at, 1);
		CHECK(!change(scene, at), "change");
		same_after_boot(scene, "change", at);
		damage(scene, PM_SLOT_NONE, at, 1);
		CHECK(!pm_region_wish(region, 4096 * (80 + at % 9)), "wish");
		same_after_boot(scene, "wish", at);
		damage(scene, slot, at, 1);
		CHECK(!pm_segment_create(region, &new, &slot), "create");
		same_after_boot(scene, "create", at);
		damage(scene, slot, at, 1);
		CHECK(!pm_segment_destroy(region, slot), "destroy");
		same_after_boot(scene, "destroy", at);
	}
}

struct trial {
	struct seen before;
	struct seen without; /* the damaged slot */
	bool done, is_super;
	unsigned long images, refused;
};

static void judge(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct pm_region region;
	struct seen seen;
	int err = image_see(image, WORLD_BYTES, true, &seen, &region);

	trial->images++;
	if (err || region.refused) {
		trial->refused++;
		PROMISE("lost", !trial->done, "refused when it was restored");
		PROMISE("not-atomic",
			trial->is_super ?
				err == -EUCLEAN :
				!err && seen_same(&seen, &trial->without),
			"others are changed: %d", err);
		return;
	}
	PROMISE("rolled-back", seen_same(&seen, &trial->before), "%s",
		seen_difference(&seen, &trial->before));
}

static void cut(struct pm_env *env, void *context)
{
	recorder_cut(env, judge, context);
}

/* @at and @bytes: which part of both halves of all copies is lost. */
static void cuts_never_roll_back(rem_u32 index, unsigned int at,
				 unsigned int bytes)
{
	struct trial trial = { .is_super = index == PM_SLOT_NONE };
	struct scene scene;

	scene_make(&scene);
	trial.before = scene.before;
	damage(&scene, index, at, bytes);
	if (!trial.is_super)
		image_see(scene.world.env->memory, WORLD_BYTES, false,
			  &trial.without, NULL);
	scene.world.env->before_fence = cut;
	scene.world.env->context = &trial;
	recorder_begin(scene.world.env, IMAGES_MAX, 4);
	CHECK(!pm_region_scrub(&scene.world.region, index), "check");
	trial.done = true;
	scene.world.env->expected++;
	cut(scene.world.env, &trial);
	recorder_end(scene.world.env);
	CHECK(trial.images > 4, "only %lu images", trial.images);
	CHECK(trial.refused, "it was never refused: nothing was damaged");
	world_free(&scene.world);
}

static void cuts_of_slots(void)
{
	for (unsigned int half = 0; half < REM_PM_HALVES; half++)
		for (unsigned int line = 0; line < REM_PM_HALF_BYTES;
		     line += 64) {
			unsigned int at = half * REM_PM_HALF_BYTES + line;

			cuts_never_roll_back(0, at, 64);
			cuts_never_roll_back(PM_SLOT_NONE, at, 64);
		}
	cuts_never_roll_back(0, 0, REM_PM_SLOT_BYTES);
	cuts_never_roll_back(PM_SLOT_NONE, 0, REM_PM_SLOT_BYTES);
}

/* A stuck line: a change is refused, not acknowledged, and a check reports it. */
static void media_that_keep_nothing(void)
{
	struct scene scene;
	struct pm_region *region = &scene.world.region;

	scene_make(&scene);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		recorder_stick(scene.world.env,
			       world_slot(&scene.world, scene.one).copy[copy]);
	PROMISE("not-refused", pm_region_scrub(region, scene.one) == -EUCLEAN,
		"check");
	PROMISE("not-refused", change(&scene, 3) == -EUCLEAN, "change");
	CHECK(region->entry[scene.one].record.mode == 0600, "memory");
	world_free(&scene.world);
}

void test_region_restore(void)
{
	struct scene scene;

	scene_make(&scene);
	check_restores(&scene, scene.one);
	check_restores(&scene, WORLD_SLOTS - 1);
	check_restores(&scene, PM_SLOT_NONE);
	changes_after_damage_are_kept(&scene);
	world_free(&scene.world);
	cuts_of_slots();
	media_that_keep_nothing();
}
