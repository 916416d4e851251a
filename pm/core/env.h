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
/* One aligned load of eight bytes, which a store may race with. */
rem_u64 pm_load64(const void *from);

#define PM_CRC_BEGIN 0xffffffffu
rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes);

static inline rem_u32 pm_crc32c(const void *data, size_t bytes)
{
	return ~pm_crc32c_add(PM_CRC_BEGIN, data, bytes);
}

/* Bugs planted for tests that must find them; none in other builds. */
#ifdef PM_MUTANTS
extern int pm_mutant;
#define PM_MUTANT(number) (pm_mutant == (number))
#else
#define PM_MUTANT(number) false
#endif

enum pm_mutant_number {
	PM_MUTANT_NONE,
	PM_MUTANT_NO_BODY_FENCE,       /* commit word before its body is safe */
	PM_MUTANT_NO_IN_WORK,	       /* body written under a committed word */
	PM_MUTANT_ONE_COPY,	       /* other copies never written */
	PM_MUTANT_NO_COMMIT_FLUSH,     /* acknowledged before it is durable */
	PM_MUTANT_SAME_HALF,	       /* written over the half that holds */
	PM_MUTANT_CHECK_WITHOUT_BODY,  /* checksum of the word only */
	PM_MUTANT_CHECK_WITHOUT_INDEX, /* a record of another slot passes */
	PM_MUTANT_ROLL_BACK,	       /* older half taken, newer damaged */
	PM_MUTANT_NO_REPAIR,	       /* damage seen and left */
	PM_MUTANT_NO_ZERO,	       /* a new segment shows old bytes */
	PM_MUTANT_MOVE_COMMITS_FIRST,  /* moved before its data is */
	PM_MUTANT_OVERLAP_TAKEN,       /* overlapping segments not refused */
	PM_MUTANT_MAP_BEFORE_DATA,     /* block committed before its data */
	PM_MUTANT_DATA_IN_PLACE,       /* block written over its old place */
	PM_MUTANT_NO_JOURNAL,	       /* many blocks without a lane */
	PM_MUTANT_LANE_IDLE_EARLY,     /* lane idle before the maps are safe */
	PM_MUTANT_LANE_WITHOUT_ENTRIES, /* lane's check of the word only */
	PM_MUTANT_CHECK_WITHOUT_BLOCK,	/* data of another block passes */
	PM_MUTANT_NO_VERIFY,		/* read without looking at the check */
	PM_MUTANT_MAP_ONE_COPY,		/* second map never written */
	PM_MUTANT_FREED_TOO_EARLY,	/* old place used before commit */
	PM_MUTANT_NO_REPLAY,		/* committed lane left at open */
	PM_MUTANTS_END
};

#endif /* PM_ENV_H */
