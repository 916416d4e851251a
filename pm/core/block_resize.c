// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Resizes a block segment: copies its blocks to another place. The old place is
 * not changed, except for what opening finishes and repairs; the caller then
 * makes the new one the segment's at one instant
 * (pm_segment_rebuild()). A damaged block is never copied.
 */
#include "block.h"

static bool is_hole(const struct pm_block *block, rem_u64 number)
{
	rem_u64 hole = pm_map_hole((rem_u32)number).word;

	return pm_map_get(block, 0, number).word == hole &&
	       pm_map_get(block, 1, number).word == hole;
}

/* The headers, and where the map begins: nobody has begun to lay it out. */
static bool was_never_used(const rem_u8 *base, rem_u64 bytes)
{
	rem_u64 end = REM_PM_BLOCK_MAP_OFFSET + REM_PM_UNIT_BYTES;
	rem_u64 word;

	for (rem_u64 at = 0; at < end && at < bytes; at += sizeof(word))
		if (!pm_load64(base + at, &word) || word)
			return false;
	return true;
}

static int copy_blocks(struct pm_block *from, struct pm_block *to,
		       const struct pm_block_lent *lent)
{
	for (rem_u64 number = 0; number < from->header.blocks; number++) {
		struct pm_block_io io = { (rem_u32)number, lent->buffer };
		int err;

		if (number % PM_REST == PM_REST - 1)
			pm_rest(to->env);
		if (is_hole(from, number))
			continue;
		if (number >= to->header.blocks)
			return -EFBIG;
		err = pm_block_read(from, number, lent->buffer);
		if (!err)
			err = pm_block_write(to, &io, 1);
		if (err)
			return err;
	}
	return 0;
}

int pm_block_rebuild(struct pm_env *env, void *from, rem_u64 from_bytes,
		     void *to, const struct pm_block_format *format,
		     const struct pm_block_lent *lent)
{
	struct pm_block old, new;
	int err = pm_block_open(&old, env, from, from_bytes, format->uuid,
				lent->from, true);

	if (err == -ENOMEDIUM) { /* nobody has written to it */
		if (!was_never_used(from, from_bytes))
			return -EUCLEAN;
		pm_zero(env, to, format->segment_bytes);
		return 0;
	}
	if (err)
		return err;
	if (old.header.block_bytes != format->block_bytes)
		return -EINVAL;
	err = pm_block_format(env, to, format);
	if (!err)
		err = pm_block_open(&new, env, to, format->segment_bytes,
				    format->uuid, lent->to, true);
	return err ? err : copy_blocks(&old, &new, lent);
}
