// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: no bytes of media make the region's code read or write outside it.
 * Method: a valid image, changed as the input directs: at random places, or
 * inside records whose checks are then corrected, as a hostile writer would.
 */
#include <stdlib.h>

#include "check.h"
#include "world.h"

#define STEP_BYTES 11

/* Only what must hold for any bytes is checked here; a failure aborts. */
void check(bool ok, const char *verdict, const char *file, int line,
	   const char *format, ...)
{
	(void)verdict;
	(void)format;
	if (!ok) {
		fprintf(stderr, "%s:%d\n", file, line);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const rem_u8 *data, size_t bytes);

static struct world world;
static rem_u8 *pristine;

static void prepare(void)
{
	if (pristine)
		return;
	world_make(&world);
	world_add(&world, "one", 6000, 1);
	world_add(&world, "two", 4096, 2);
	world_add(&world, "three", 9000, 3);
	pristine = malloc(WORLD_BYTES);
	memcpy(pristine, world.env->memory, WORLD_BYTES);
}

/* Change eight bytes of a slot's record and commit it. */
static void sealed(rem_u8 which, rem_u8 at, rem_u64 value)
{
	struct rem_pm_super super = world.region.super;
	rem_u8 *memory = world.env->memory;
	struct pm_slot slot = which % 8 == 7 ?
				      pm_super_slot(memory) :
				      pm_table_slot(memory, &super, which % 8);
	struct pm_verdict verdict;

	if (pm_slot_judge(&slot, &verdict) ||
	    verdict.sequence >= REM_PM_SEQUENCE_LAST)
		return;
	memcpy(verdict.half + 8 + at % 184 / 8 * 8, &value, 8);
	pm_slot_write(world.env, &slot, verdict.sequence + 1, verdict.half);
}

static void step(const rem_u8 *data)
{
	rem_u64 base = pm_base_bytes(WORLD_SLOTS);
	rem_u64 value;

	memcpy(&value, data + 3, 8);
	if (data[0] & 1) {
		sealed(data[0] >> 1, data[1], value);
	} else {
		rem_u64 place =
			(data[0] >> 1) * 65536u + data[1] * 256u + data[2];

		memcpy(world.env->memory + place % (base - 8), &value, 8);
	}
}

static void use(struct pm_region *region)
{
	region_create_new(region);
	for (rem_u32 slot = 0; slot < region->super.slots; slot++) {
		pm_segment_resize(region, slot, 7000 + 4096 * slot, true);
		pm_region_scrub(region, slot);
		if (slot % 2)
			pm_segment_destroy(region, slot);
	}
	pm_region_wish(region, WORLD_BYTES / 2 / 4096 * 4096);
}

int LLVMFuzzerTestOneInput(const rem_u8 *data, size_t bytes)
{
	static rem_u8 memory[1 << 16];
	struct pm_region region;
	struct rem_pm_super super;
	struct seen seen;

	prepare();
	memcpy(world.env->memory, pristine, WORLD_BYTES);
	for (; bytes >= STEP_BYTES; bytes -= STEP_BYTES, data += STEP_BYTES)
		step(data);
	if (pm_region_peek(world.env->memory, WORLD_BYTES, &super) ||
	    pm_region_volatile_bytes(super.slots) > sizeof(memory))
		return 0;
	memset(memory, 0, sizeof(memory));
	if (pm_region_open(&region, world.env, world.env->memory, WORLD_BYTES,
			   memory, true))
		return 0;
	if (super.slots == WORLD_SLOTS)
		world_see(&region, &seen);
	use(&region);
	return 0;
}
