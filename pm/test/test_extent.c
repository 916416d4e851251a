// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: space is never allocated twice, never lost, and found if there is
 * enough.
 * Method: random allocations and frees, compared with a plain array of owners.
 */
#include <stdlib.h>

#include "../core/extent.h"
#include "check.h"
#include "need.h"
#include "recorder.h"

#define UNITS 300
#define SLOTS 40
#define FIRST 7
#define ROUNDS 20000

struct owned {
	rem_u32 node;
	bool used;
};

static rem_u32 owner[UNITS];

static void note(const struct pm_extents *extents, rem_u32 node, rem_u32 who,
		 rem_u32 before)
{
	const struct pm_node *at = &extents->node[node];

	for (rem_u64 i = 0; i < at->units; i++) {
		rem_u32 *is = &owner[at->offset - FIRST + i];

		CHECK(*is == before, "unit %llu belongs to %u, not %u",
		      (unsigned long long)i, *is, before);
		*is = who;
	}
}

static rem_u64 longest_gap(void)
{
	rem_u64 best = 0, run = 0;

	for (int i = 0; i < UNITS; i++) {
		run = owner[i] == PM_NODE_FREE ? run + 1 : 0;
		best = run > best ? run : best;
	}
	return best;
}

static void covers(const struct pm_extents *extents)
{
	rem_u32 node = 0;
	rem_u64 at = FIRST, unused = 0;
	bool was_free = false;

	for (; node != PM_NODE_NONE; node = extents->node[node].after) {
		bool is_free = extents->node[node].owner == PM_NODE_FREE;

		CHECK(extents->node[node].offset == at, "gap or overlap");
		CHECK(!(is_free && was_free), "two free neighbours");
		at += extents->node[node].units;
		unused += is_free ? extents->node[node].units : 0;
		was_free = is_free;
	}
	CHECK(at == FIRST + UNITS, "the nodes end at %llu",
	      (unsigned long long)at);
	CHECK(unused == extents->free_units, "free units");
}

static void resize(struct pm_extents *extents, rem_u32 node, rem_u32 slot,
		   unsigned long *seed)
{
	rem_u64 most =
		extents->node[node].units + pm_extents_room(extents, node);

	note(extents, node, PM_NODE_FREE, slot);
	pm_extents_resize(extents, node, 1 + random_next(seed) % most);
	note(extents, node, slot, PM_NODE_FREE);
}

static void step(struct pm_extents *extents, struct owned *have,
		 unsigned long *seed)
{
	rem_u32 slot = (rem_u32)(random_next(seed) % SLOTS);
	struct owned *it = &have[slot];
	rem_u64 units, gap;

	if (it->used && random_next(seed) % 3 == 0) {
		resize(extents, it->node, slot, seed);
	} else if (it->used) {
		note(extents, it->node, PM_NODE_FREE, slot);
		pm_extents_put(extents, it->node);
		it->used = false;
	} else {
		units = 1 + random_next(seed) % 40;
		gap = longest_gap();
		it->node = pm_extents_get(extents, units,
					  random_next(seed) % 2 ? 8 : 1, slot);
		it->used = it->node != PM_NODE_NONE;
		CHECK(it->used == (gap >= units), "%llu units, gap of %llu: %d",
		      (unsigned long long)units, (unsigned long long)gap,
		      it->used);
		if (it->used) {
			CHECK(extents->node[it->node].units == units, "units");
			note(extents, it->node, slot, PM_NODE_FREE);
		}
	}
	covers(extents);
}

void test_extents(void)
{
	static struct pm_extents extents;
	static struct pm_node node[2 * SLOTS + 4];
	struct owned have[SLOTS] = { 0 };
	unsigned long seed = 1;

	for (int i = 0; i < UNITS; i++)
		owner[i] = PM_NODE_FREE;
	pm_extents_init(&extents, node, pm_nodes_for(SLOTS), FIRST, UNITS);
	for (int round = 0; round < ROUNDS; round++)
		step(&extents, have, &seed);
	for (rem_u32 slot = 0; slot < SLOTS; slot++)
		if (have[slot].used)
			pm_extents_put(&extents, have[slot].node);
	CHECK(extents.free_units == UNITS, "all is free again");
	CHECK(extents.node[0].units == UNITS, "in one piece");
}
