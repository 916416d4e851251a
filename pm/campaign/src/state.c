// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>

#include "../../core/block.h"
#include "../../core/region.h"
#include "env.h"
#include "state.h"

static void *zeroed(size_t bytes)
{
	static void *memory;
	static size_t room;

	if (bytes > room) {
		free(memory);
		memory = malloc(bytes);
		room = bytes;
	}
	if (!memory) {
		perror("memory for a region");
		exit(4);
	}
	return memset(memory, 0, bytes);
}

static int see_blocks(struct pm_env *image, rem_u8 *base,
		      const struct rem_pm_segment *record, struct state *ret)
{
	static rem_u8 data[REM_PM_BLOCK_BYTES_MAX];
	struct rem_pm_block_header header;
	struct pm_block block;
	void *memory;
	int err = pm_block_peek(base, record->bytes, record->uuid, &header);

	if (err == -ENOMEDIUM)
		return 0; /* nobody has written to it */
	if (err)
		return err;
	memory = calloc(1, pm_block_volatile_bytes(&header));
	if (!memory)
		return -ENOMEM;
	err = pm_block_open(&block, image, base, record->bytes, record->uuid,
			    memory, true);
	for (rem_u64 i = 0; !err && i < header.blocks; i++) {
		if (pm_block_read(&block, i, data)) {
			/* What a reader is refused equals nothing that was promised. */
			ret->damaged++;
			ret->digest = promise_mix(ret->digest, ~i);
			continue;
		}
		ret->digest =
			promise_block(ret->digest, i, data, header.block_bytes);
	}
	ret->repaired += block.repaired;
	ret->damaged += block.mismatches;
	free(memory);
	return err;
}

static int see(struct pm_env *image, struct state *ret)
{
	struct rem_pm_super super;
	struct pm_region region;
	int err = pm_region_peek(image->memory, image->bytes, &super);

	memset(ret, 0, sizeof(*ret));
	if (!err)
		err = pm_region_open(
			&region, image, image->memory, image->bytes,
			zeroed(pm_region_volatile_bytes(super.slots)), true);
	if (err)
		return err;
	ret->damaged = region.damaged + region.refused;
	ret->repaired = region.repaired;
	ret->digest = promise_mix(1, region.super.wish_bytes);
	for (rem_u32 slot = 0; slot < super.slots && !err; slot++) {
		const struct rem_pm_segment *record =
			&region.entry[slot].record;
		struct promise_segment head;

		if (region.entry[slot].state != PM_SLOT_USED)
			continue;
		head = state_head(record);
		ret->digest = promise_head(ret->digest, &head);
		if (record->type == REM_PM_BLOCK)
			err = see_blocks(image, image->memory + record->offset,
					 record, ret);
		else if (promise_counts(&head))
			ret->digest = promise_bytes(
				ret->digest, image->memory + record->offset,
				record->bytes);
	}
	return err;
}

int pm_state(rem_u8 *memory, size_t bytes, pm_touch *touch, void *context,
	     struct state *ret)
{
	struct pm_env image = { memory, bytes, touch, context };

	return see(&image, ret);
}

rem_u64 pm_promise(const rem_u8 *memory, size_t bytes)
{
	struct pm_env none = { .bytes = bytes };
	struct rem_pm_super super;
	struct pm_region region;
	rem_u32 slot;

	/* Opened for reading only, so that nothing is written. */
	none.memory = (rem_u8 *)(size_t)memory;
	if (pm_region_peek(memory, bytes, &super) ||
	    pm_region_open(&region, &none, none.memory, bytes,
			   zeroed(pm_region_volatile_bytes(super.slots)),
			   false))
		return 0;
	slot = pm_segment_find(&region, PROMISE_NAME);
	return slot == PM_SLOT_NONE ? 0 : region.entry[slot].record.offset;
}
