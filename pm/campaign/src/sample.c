// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdlib.h>

#include "../../core/region.h"
#include "state.h"

#define SLOTS 12

static int create(struct pm_region *region, struct pm_env *env)
{
	const struct pm_segment_new new = {
		.name = PROMISE_NAME,
		.type = REM_PM_RAW,
		.persist = REM_PM_FOC,
		.bytes = PROMISE_BYTES,
	};
	const struct rem_pm_segment *record;
	struct promise promise = { .done = 0 };
	struct promise_segment head;
	rem_u32 slot;
	int err = pm_segment_create(region, &new, &slot);

	if (err)
		return err;
	record = &region->entry[slot].record;
	head = state_head(record);
	promise.digest = promise_head(promise_mix(1, 0), &head);
	memcpy(env->memory + record->offset, &promise, sizeof(promise));
	return 0;
}

int pm_sample(rem_u8 *memory, size_t bytes, pm_touch *touch, void *context)
{
	const struct pm_format format = { .bytes = bytes, .slots = SLOTS };
	struct pm_env env = { memory, bytes, touch, context };
	void *lent = calloc(1, pm_region_volatile_bytes(SLOTS));
	struct pm_region region;
	int err;

	if (!lent)
		return -ENOMEM;
	err = pm_region_format(&env, memory, &format);
	if (!err)
		err = pm_region_open(&region, &env, memory, bytes, lent, true);
	if (!err)
		err = create(&region, &env);
	free(lent);
	return err;
}
