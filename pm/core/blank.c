// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Whether something is where a region is to be made. Not by a list of signatures: what
 * is not zero is somebody's. Only what a format of our own left when it was cut is
 * nobody's, so that the next boot may do it again.
 */
#include "region.h"

#define LOOK_BYTES 0x100000 /* of each end */

/* The first byte that is not zero; @to if there is none. Both are aligned. */
static rem_u64 first_byte(const rem_u8 *base, rem_u64 from, rem_u64 to)
{
	rem_u64 word = 0;

	while (to - from >= sizeof(word)) {
		if (!pm_load64(base + from, &word))
			return from; /* media has lost it: somebody's, maybe */
		if (word)
			break;
		from += sizeof(word);
	}
	if (from < to)
		from += (rem_u64)__builtin_ctzll(word) / 8;
	return from;
}

struct look {
	struct pm_env *env;
	rem_u8 *base;
	rem_u64 at; /* read up to here */
	rem_u64 found;
};

/* Zeros up to @offset, where a slot begins that a format may have begun. */
static bool slot_is_free(struct look *look, const struct pm_slot *slot,
			 int copy, const void *half, rem_u32 any)
{
	rem_u64 offset = (rem_u64)(slot->copy[copy] - look->base);

	look->found = first_byte(look->base, look->at, offset);
	if (look->found < offset)
		return false;
	look->found =
		first_byte(look->base, offset, offset + REM_PM_SLOT_BYTES);
	look->at = offset + REM_PM_SLOT_BYTES;
	return pm_slot_is_unmade(slot, copy, half, any);
}

static bool zeros(struct look *look, rem_u64 from, rem_u64 to)
{
	look->found = first_byte(look->base, from, to);
	return look->found == to;
}

#define SUPER_WORD(field) \
	(1u << offsetof(struct rem_pm_super, field) / sizeof(rem_u64))

static bool base_is_free(struct look *look, const struct rem_pm_super *super)
{
	/* Of each format these are different. */
	const rem_u32 any = SUPER_WORD(word) | SUPER_WORD(region_bytes) |
			    SUPER_WORD(uuid) | SUPER_WORD(uuid) << 1 |
			    SUPER_WORD(created_ns);
	const struct rem_pm_segment none = { .type = REM_PM_FREE };
	struct pm_slot slot = pm_super_slot(look->base);

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		if (!slot_is_free(look, &slot, copy, super, any))
			return false;
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		for (rem_u32 index = 0; index < super->slots; index++) {
			if (index % PM_REST == PM_REST - 1)
				pm_rest(look->env);
			slot = pm_table_slot(look->base, super, index);
			if (!slot_is_free(look, &slot, copy, &none, 0))
				return false;
		}
	return true;
}

int pm_region_check_blank(struct pm_env *env, const void *base, rem_u64 bytes,
			  const struct pm_format *format, rem_u64 *ret_offset)
{
	struct look look = { .env = env,
			     .base = (rem_u8 *)(size_t)base }; /* only read */
	struct rem_pm_super super;
	rem_u64 begin, end;
	int err = pm_region_plan(format, &super);

	if (err)
		return err;
	if (bytes < format->bytes)
		return -EFBIG;
	begin = bytes < LOOK_BYTES ? bytes : LOOK_BYTES;
	if (begin < super.base_bytes)
		begin = super.base_bytes;
	end = bytes < LOOK_BYTES ? 0 : bytes - LOOK_BYTES;
	if (end < begin)
		end = begin;
	if (base_is_free(&look, &super) && zeros(&look, look.at, begin) &&
	    zeros(&look, end, bytes))
		return 0;
	*ret_offset = look.found;
	return -ENOTEMPTY;
}
