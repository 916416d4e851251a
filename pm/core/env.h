/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the core asks of its surroundings: stores to persistent memory, and a
 * checksum. The kernel, user space and the tests' recorder each have their own;
 * the core itself includes nothing of any of them but through here.
 *
 * Stores of pm_store64() are durable after pm_flush() of them and a pm_fence();
 * those of pm_copy() and pm_zero() after a pm_fence(). Until then they may be
 * durable or not, each line of 64 bytes for itself, in the order of its stores.
 */
#ifndef PM_ENV_H
#define PM_ENV_H

#include "rem_pm.h"
#include "rem_pm_block.h"

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#endif

struct pm_env; /* each surroundings' own */

/* One aligned store of eight bytes. */
void pm_store64(struct pm_env *env, void *to, rem_u64 value);
/* Store and begin to write back. */
void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes);
void pm_zero(struct pm_env *env, void *to, size_t bytes);
/* Begin to write back. */
void pm_flush(struct pm_env *env, const void *at, size_t bytes);
/* Wait until all that was begun has reached media. */
void pm_fence(struct pm_env *env);
/*
 * Called in long loops, after each PM_REST pieces of work: other threads may run then.
 * The functions above do the same by themselves where @bytes are many.
 */
void pm_rest(struct pm_env *env);
#define PM_REST 256
/*
 * Media may have lost a line (an uncorrectable error): it is not loaded from but by
 * these, which then return false, and what came is not to be used. A line is there
 * again when all of it is written by one pm_copy() or pm_zero(), not by less.
 */
bool pm_fetch(void *to, const void *from, size_t bytes);
/* One aligned load of eight bytes, which a store may race with. */
bool pm_load64(const void *from, rem_u64 *ret);
#define PM_LINE_BYTES 64

#define PM_CRC_BEGIN 0xffffffffu
rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes);

static inline rem_u32 pm_crc32c(const void *data, size_t bytes)
{
	return ~pm_crc32c_add(PM_CRC_BEGIN, data, bytes);
}

/* The next multiple of @to, a power of two. */
static inline rem_u64 pm_align_up(rem_u64 value, rem_u64 to)
{
	return (value + to - 1) & ~(to - 1);
}

#endif /* PM_ENV_H */
