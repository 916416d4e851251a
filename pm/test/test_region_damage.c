// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: damage to one or two copies is repaired, damage to three is refused
 * and does not affect other slots; impossible content is refused.
 * Method: each bit of each copy of each slot; each byte of two and of three.
 */
#include <stdlib.h>

#include "check.h"
#include "world.h"

struct scene {
	struct world world;
	struct seen before;
	rem_u8 *pristine;
};

static void scene_make(struct scene *scene)
{
	struct rem_pm_segment record;
	rem_u32 slot;

	world_make(&scene->world);
	slot = world_add(&scene->world, "one", 6000, 1);
	world_add(&scene->world, "two", 4096, 2);
	/* Both halves of a slot in use are committed then. */
	record = scene->world.region.entry[slot].record;
	record.mode = 0600;
	CHECK(!pm_segment_change(&scene->world.region, slot, &record),
	      "change");
	world_see(&scene->world.region, &scene->before);
	scene->pristine = malloc(WORLD_BYTES);
	memcpy(scene->pristine, scene->world.env->memory, WORLD_BYTES);
}

static void scene_free(struct scene *scene)
{
	free(scene->pristine);
	world_free(&scene->world);
}

static struct pm_slot slot_of(struct scene *scene, rem_u32 index)
{
	rem_u8 *memory = scene->world.env->memory;

	if (index == WORLD_SLOTS)
		return pm_super_slot(memory);
	return pm_table_slot(memory, &scene->world.region.super, index);
}

static void put_back(struct scene *scene)
{
	memcpy(scene->world.env->memory, scene->pristine,
	       pm_base_bytes(WORLD_SLOTS));
}

static void is_repaired(struct scene *scene, const char *what, rem_u32 index,
			unsigned int place)
{
	rem_u8 *memory = scene->world.env->memory;
	struct pm_region region;
	struct seen seen;
	int err = image_see(memory, WORLD_BYTES, true, &seen, &region);

	PROMISE("wrong-data",
		!err && seen_same(&seen, &scene->before) && !region.refused,
		"%s: slot %u, %u: %d", what, index, place, err);
	CHECK(!region.damaged == !region.repaired, "%s: slot %u, %u: counters",
	      what, index, place);
	err = image_see(memory, WORLD_BYTES, true, &seen, &region);
	PROMISE("not-repaired", !err && !region.damaged && !region.repaired,
		"%s: slot %u, %u", what, index, place);
}

static void each_bit_of_one_copy(struct scene *scene)
{
	for (rem_u32 index = 0; index <= WORLD_SLOTS; index++) {
		struct pm_slot slot = slot_of(scene, index);
		/* All free slots are alike: test the first and the last. */
		if (index > 3 && index < WORLD_SLOTS - 1)
			continue;
		for (unsigned int bit = 0; bit < REM_PM_SLOT_BYTES * 8; bit++) {
			for (int copy = 0; copy < REM_PM_COPIES; copy++) {
				slot.copy[copy][bit / 8] ^=
					(rem_u8)(1u << bit % 8);
				is_repaired(scene, "one copy", index, bit);
				put_back(scene);
			}
		}
	}
}

static void each_byte_of_two_copies(struct scene *scene)
{
	for (rem_u32 index = 0; index <= WORLD_SLOTS; index++) {
		struct pm_slot slot = slot_of(scene, index);

		if (index > 2 && index < WORLD_SLOTS)
			continue;
		for (unsigned int at = 0; at < REM_PM_SLOT_BYTES; at++) {
			for (int good = 0; good < REM_PM_COPIES; good++) {
				for (int copy = 0; copy < 3; copy++)
					if (copy != good)
						slot.copy[copy][at] ^= 0x41;
				is_repaired(scene, "two copies", index, at);
				put_back(scene);
			}
		}
	}
}

static void whole_copies_may_go(struct scene *scene)
{
	for (rem_u32 index = 0; index <= WORLD_SLOTS; index++) {
		struct pm_slot slot = slot_of(scene, index);

		for (int good = 0; good < REM_PM_COPIES; good++) {
			for (int copy = 0; copy < REM_PM_COPIES; copy++)
				if (copy != good)
					memset(slot.copy[copy], good ? 0 : 255,
					       REM_PM_SLOT_BYTES);
			is_repaired(scene, "two whole copies", index, 0);
			put_back(scene);
		}
	}
}

/* Never an older record, and no other segment is lost. */
static void three_copies_are_refused(struct scene *scene)
{
	rem_u8 *memory = scene->world.env->memory;
	unsigned int refused = 0;

	for (unsigned int at = 0; at < REM_PM_SLOT_BYTES; at++) {
		rem_u32 one = pm_segment_find(&scene->world.region, "one");
		struct pm_slot slot = slot_of(scene, one);
		struct pm_region region;
		struct seen seen;
		int err;

		for (int copy = 0; copy < REM_PM_COPIES; copy++)
			slot.copy[copy][at] ^= 0x10;
		err = image_see(memory, WORLD_BYTES, true, &seen, &region);
		CHECK(!err, "byte %u: other segments are readable: %d", at,
		      err);
		PROMISE("wrong-data",
			region.refused ?
				seen.count == 1 &&
					!strcmp(seen.segment[0].name, "two") :
				seen_same(&seen, &scene->before),
			"byte %u: neither refused nor correct", at);
		refused += region.refused;
		put_back(scene);
	}
	PROMISE("not-refused", refused == REM_PM_SLOT_BYTES,
		"%u of %d bytes refused", refused, REM_PM_SLOT_BYTES);
}

static void a_refused_slot_stops_creation(struct scene *scene)
{
	rem_u8 *memory = scene->world.env->memory;
	struct pm_segment_new new = { .name = "new",
				      .type = REM_PM_RAW,
				      .persist = REM_PM_FOC,
				      .bytes = 1 };
	struct pm_slot slot = slot_of(scene, 0);
	struct pm_region region;
	struct seen seen;
	rem_u32 got;

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		memset(slot.copy[copy], 0, REM_PM_SLOT_BYTES);
	CHECK(!image_see(memory, WORLD_BYTES, true, &seen, &region), "opens");
	CHECK(region.refused == 1, "zeros in three copies are refused");
	CHECK(pm_segment_create(&region, &new, &got) == -EROFS, "create");
	put_back(scene);
	slot = slot_of(scene, WORLD_SLOTS);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		slot.copy[copy][REM_PM_HALF_BYTES + 20] ^= 1;
	CHECK(image_see(memory, WORLD_BYTES, true, &seen, NULL) == -EUCLEAN,
	      "no superblock");
	put_back(scene);
}

/* By a hostile writer: correct checksums, impossible values. */
static void impossible(struct scene *scene, const char *what,
		       void (*spoil)(struct rem_pm_segment *), rem_u32 lost)
{
	rem_u8 *memory = scene->world.env->memory;
	struct pm_region *is = &scene->world.region;
	rem_u32 two = pm_segment_find(is, "two");
	struct rem_pm_segment record = is->entry[two].record;
	struct pm_slot slot = slot_of(scene, two);
	struct pm_region region;
	struct seen seen;

	spoil(&record);
	pm_slot_write(scene->world.env, &slot, record.word.sequence + 1,
		      &record);
	CHECK(!image_see(memory, WORLD_BYTES, true, &seen, &region), "%s: open",
	      what);
	PROMISE("not-refused", region.refused == lost, "%s: %u refused, not %u",
		what, region.refused, lost);
	put_back(scene);
}

static rem_u64 offset_of_one;

static void overlaps(struct rem_pm_segment *record)
{
	record->offset = offset_of_one + 4096;
}

static void twin(struct rem_pm_segment *record)
{
	memcpy(record->name, "one", 4);
}

static void outside(struct rem_pm_segment *record)
{
	record->offset = WORLD_BYTES;
}

static void wraps(struct rem_pm_segment *record)
{
	record->extent_bytes = 0xfffffffffffff000;
}

static void in_base(struct rem_pm_segment *record)
{
	record->offset = 0;
}

static void bad_name(struct rem_pm_segment *record)
{
	memcpy(record->name, "../", 4);
}

static void reserved(struct rem_pm_segment *record)
{
	record->reserved[3] = 1;
}

static void impossible_content_is_refused(struct scene *scene)
{
	struct pm_region *region = &scene->world.region;

	offset_of_one =
		region->entry[pm_segment_find(region, "one")].record.offset;
	impossible(scene, "overlap", overlaps, 2);
	impossible(scene, "two of a name", twin, 2);
	impossible(scene, "outside", outside, 1);
	impossible(scene, "wraps", wraps, 1);
	impossible(scene, "in the base segment", in_base, 1);
	impossible(scene, "name", bad_name, 1);
	impossible(scene, "reserved", reserved, 1);
}

/* A record at the place of another is not mistaken for it. */
static void a_misplaced_record_is_no_record(struct scene *scene)
{
	struct pm_slot from = slot_of(scene, 0), to = slot_of(scene, 5);
	struct pm_region region;
	struct seen seen;

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		memcpy(to.copy[copy], from.copy[copy], REM_PM_SLOT_BYTES);
	CHECK(!image_see(scene->world.env->memory, WORLD_BYTES, true, &seen,
			 &region),
	      "open");
	PROMISE("not-refused", region.refused == 1 && seen.count == 2,
		"misplaced: %u refused", region.refused);
	put_back(scene);
}

static void scrub_repairs(struct scene *scene)
{
	struct pm_region *region = &scene->world.region;
	rem_u64 repaired = region->repaired;

	slot_of(scene, 0).copy[1][200] ^= 4;
	CHECK(!pm_region_scrub(region, 0), "scrub");
	CHECK(region->repaired == repaired + 1, "counted");
	is_repaired(scene, "scrub", 0, 0);
	slot_of(scene, WORLD_SLOTS).copy[2][200] ^= 4;
	CHECK(!pm_region_scrub(region, PM_SLOT_NONE), "scrub superblock");
	put_back(scene);
}

void test_region_damage(void)
{
	struct scene scene;

	scene_make(&scene);
	each_bit_of_one_copy(&scene);
	each_byte_of_two_copies(&scene);
	whole_copies_may_go(&scene);
	three_copies_are_refused(&scene);
	a_refused_slot_stops_creation(&scene);
	impossible_content_is_refused(&scene);
	a_misplaced_record_is_no_record(&scene);
	scrub_repairs(&scene);
	scene_free(&scene);
}
