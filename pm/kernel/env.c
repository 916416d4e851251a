// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of its surroundings, in the kernel: stores that bypass the
 * caches, CLWB and SFENCE, by the kernel's own interface for them.
 */
#include <linux/crc32c.h>
#include <linux/export.h>
#include <linux/libnvdimm.h>
#include <linux/string.h>

#include "slot.h"

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	WRITE_ONCE(*(u64 *)to, value);
}
EXPORT_SYMBOL_GPL(pm_store64);

rem_u64 pm_load64(const void *from)
{
	return READ_ONCE(*(const u64 *)from);
}
EXPORT_SYMBOL_GPL(pm_load64);

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	memcpy_flushcache(to, from, bytes);
}
EXPORT_SYMBOL_GPL(pm_copy);

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	memset(to, 0, bytes);
	arch_wb_cache_pmem(to, bytes);
}
EXPORT_SYMBOL_GPL(pm_zero);

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	arch_wb_cache_pmem((void *)at, bytes);
}
EXPORT_SYMBOL_GPL(pm_flush);

void pm_fence(struct pm_env *env)
{
	wmb(); /* what was flushed, before what is stored from here on */
}
EXPORT_SYMBOL_GPL(pm_fence);

rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes)
{
	return crc32c(crc, data, bytes);
}
EXPORT_SYMBOL_GPL(pm_crc32c_add);

/* Of slot.c, which has no kernel in it. */
EXPORT_SYMBOL_GPL(pm_check);
