// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: the boot that gives a region its new size does so or not, at each cut,
 * and otherwise the next boot does; no segment is lost.
 * Method: a wish, and an opening with that size over the recorder; each image
 * that a cut may leave is opened as by the next boot: with the size in the
 * superblock's wish, or else its current size (open_region() in
 * kernel/pmcore_main.c).
 */
#include <stdlib.h>

#include "check.h"
#include "world.h"

#define IMAGES_MAX 300 /* of one fence */
#define SMALL_BYTES (WORLD_BYTES - 8 * REM_PM_UNIT_BYTES)

struct trial {
	const char *name;
	struct seen after;
	rem_u64 old_bytes, new_bytes;
	unsigned long images, old, new;
	bool done;
};

static rem_u64 boot_bytes(const struct rem_pm_super *super)
{
	return super->wish_bytes ? super->wish_bytes : super->region_bytes;
}

static void judge(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct pm_region region;
	struct rem_pm_super super;
	struct seen seen;
	int err = pm_region_peek(image, WORLD_BYTES, &super);
	bool is_new = super.region_bytes == trial->new_bytes &&
		      !super.wish_bytes;
	bool is_old = super.region_bytes == trial->old_bytes &&
		      super.wish_bytes == trial->new_bytes;

	trial->images++;
	trial->new += !err &&is_new;
	trial->old += !err && is_old;
	PROMISE("not-atomic", !err && (is_new || (is_old && !trial->done)),
		"%s: %d, has %llu bytes and wishes for %llu", trial->name, err,
		(unsigned long long)super.region_bytes,
		(unsigned long long)super.wish_bytes);
	if (err)
		return;
	err = image_see(image, boot_bytes(&super), true, &seen, &region);
	PROMISE("does-not-open", !err, "%s: the next boot: %d", trial->name,
		err);
	if (err)
		return;
	PROMISE("damaged", !region.damaged, "%s: a cut looks like damage",
		trial->name);
	PROMISE("not-atomic", seen_same(&seen, &trial->after), "%s: %s",
		trial->name, seen_difference(&seen, &trial->after));
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge, trial);
}

/* As the kernel does it: a region of @has bytes with a wish for @wants. */
static void world_before(struct world *world, rem_u64 has, rem_u64 wants)
{
	static rem_u8 memory[1 << 16];

	world_make(world);
	world_add(world, "one", 6000, 1);
	world_add(world, "two", 4096, 2);
	memset(memory, 0, sizeof(memory));
	CHECK(!pm_region_open(&world->region, world->env, world->env->memory,
			      has, memory, true),
	      "a region of %llu bytes", (unsigned long long)has);
	CHECK(!pm_region_wish(&world->region, wants), "a wish");
}

static int boot(struct world *world, rem_u64 bytes)
{
	static rem_u8 memory[1 << 16];

	memset(memory, 0, sizeof(memory));
	return pm_region_open(&world->region, world->env, world->env->memory,
			      bytes, memory, true);
}

static void try(const char *name, rem_u64 has, rem_u64 wants)
{
	struct trial trial = {
		.name = name,
		.old_bytes = has,
		.new_bytes = wants,
	};
	struct world world;

	world_before(&world, has, wants);
	CHECK(!boot(&world, wants), "%s: the boot that resizes", name);
	world_see(&world.region, &trial.after);
	CHECK(trial.after.count == 2 && trial.after.region_bytes == wants,
	      "%s: the result", name);
	world_free(&world);

	world_before(&world, has, wants);
	world.env->before_fence = cut;
	world.env->context = &trial;
	recorder_begin(world.env, IMAGES_MAX, 7);
	boot(&world, wants);
	trial.done = true;
	world.env->expected++;
	cut(world.env, &trial);
	recorder_end(world.env);
	CHECK(trial.old > 10 && trial.new, "%s: %lu images, %lu old, %lu new",
	      name, trial.images, trial.old, trial.new);
	world_free(&world);
}

void test_region_size_cuts(void)
{
	try("the boot to a smaller region", WORLD_BYTES, SMALL_BYTES);
	try("the boot to a larger region", SMALL_BYTES, WORLD_BYTES);
}
