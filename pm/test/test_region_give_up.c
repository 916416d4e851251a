// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: a slot that is damaged in all copies can be given up, and then the
 * region accepts new segments again; the others are unchanged at each cut
 * meanwhile.
 * Method: all copies of one slot are damaged; each image that a cut may leave
 * has the others, and that slot refused or, once acknowledged, free. Slots
 * that are refused because of each other have names of one hash chain, in
 * which others are before and after them.
 */
#include "check.h"
#include "world.h"

#define IMAGES_MAX 300

struct trial {
	struct seen others;
	bool done;
	unsigned long images;
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
	PROMISE("does-not-open", !err, "open: %d", err);
	if (err)
		return;
	PROMISE("not-atomic", seen_same(&seen, &trial->others), "%s",
		seen_difference(&seen, &trial->others));
	PROMISE("not-atomic", region.refused <= !trial->done, "%u refused",
		region.refused);
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge, trial);
}

enum { BEHIND, FIRST, BEFORE, SECOND, LATER, NAMES };

/* Names that share a chain of the region's hash. */
static void same_chain(const struct world *world,
		       char name[NAMES][REM_PM_NAME_BYTES])
{
	unsigned int count = 0;

	for (unsigned int i = 0; count < NAMES; i++) {
		char *at = name[count];

		snprintf(at, REM_PM_NAME_BYTES, "n%u", i);
		if (!(pm_crc32c(at, strlen(at)) & world->region.hash_mask))
			count++;
	}
}

/* Gives one slot the other's place or name, with a correct checksum. */
static void contradict(struct world *world, rem_u32 slot, rem_u32 other,
		       bool by_name)
{
	struct rem_pm_segment record = world->region.entry[slot].record;
	const struct rem_pm_segment *is = &world->region.entry[other].record;
	struct pm_slot at =
		pm_table_slot(world->env->memory, &world->region.super, slot);

	if (by_name)
		memcpy(record.name, is->name, sizeof(record.name));
	else
		record.offset = is->offset;
	pm_slot_write(world->env, &at, record.word.sequence + 1, &record);
}

static void give_up_two(bool by_name, bool second_first)
{
	char name[NAMES][REM_PM_NAME_BYTES];
	rem_u32 slot[NAMES];
	struct world world;
	struct pm_region *region = &world.region;

	world_make(&world);
	same_chain(&world, name);
	for (int i = 0; i < LATER; i++)
		slot[i] = world_add(&world, name[i], 4096, (rem_u32)i);
	contradict(&world, slot[SECOND], slot[FIRST], by_name);
	CHECK(!world_open(&world) && region->refused == 2, "%u refused",
	      region->refused);
	for (int i = 0; i < 2; i++)
		CHECK(!pm_segment_give_up(
			      region, slot[second_first != i ? SECOND : FIRST]),
		      "give up");
	CHECK(!region->refused, "%u still refused", region->refused);
	CHECK(pm_segment_find(region, name[FIRST]) == PM_SLOT_NONE &&
		      pm_segment_find(region, name[SECOND]) == PM_SLOT_NONE,
	      "found after it was given up");
	CHECK(pm_segment_find(region, name[BEFORE]) == slot[BEFORE] &&
		      pm_segment_find(region, name[BEHIND]) == slot[BEHIND],
	      "others are not found");
	slot[LATER] = world_add(&world, name[LATER], 4096, 9);
	CHECK(!pm_segment_destroy(region, slot[BEHIND]) &&
		      !pm_segment_destroy(region, slot[BEFORE]),
	      "destroy");
	CHECK(pm_segment_find(region, name[LATER]) == slot[LATER], "later");
	CHECK(!world_open(&world) && !region->refused && region->used == 1,
	      "open");
	world_free(&world);
}

static void give_up_contradicting(void)
{
	for (int by_name = 0; by_name < 2; by_name++)
		for (int second_first = 0; second_first < 2; second_first++)
			give_up_two(by_name, second_first);
}

void test_region_give_up(void)
{
	struct trial trial = { .done = false };
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
	recorder_begin(world.env, IMAGES_MAX, 3);
	CHECK(!pm_segment_give_up(&world.region, slot), "give up");
	trial.done = true;
	world.env->expected++;
	cut(world.env, &trial);
	recorder_end(world.env);
	CHECK(trial.images > 50, "only %lu images", trial.images);
	/* Its space and its name are available again. */
	world_add(&world, "lost", 9000, 4);
	CHECK(!world_open(&world) && !world.region.refused &&
		      !world.region.damaged && world.region.used == 3,
	      "open");
	world_free(&world);
	give_up_contradicting();
}
