// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of its surroundings, in the kernel: stores that bypass the
 * caches, CLWB and SFENCE, by the kernel's own interface for them; through a
 * window where the region is protected. With pmcore_fof as its surroundings the
 * caches are as good as media, and nothing is written back.
 */
#include <linux/export.h>
#include <linux/libnvdimm.h>
#include <linux/string.h>

#include <asm/special_insns.h>

#include "pmcore.h"
#include "slot.h"

#define LINE_BYTES 64 /* the least that a CPU with CLWB or CLFLUSH has */

struct pm_env pmcore_fof;
EXPORT_SYMBOL_GPL(pmcore_fof);

void pm_store64(struct pm_env *env, void *to, rem_u64 value)
{
	if (pmcore.protected)
		pmcore_window_store64(to, value);
	else
		WRITE_ONCE(*(u64 *)to, value);
}
EXPORT_SYMBOL_GPL(pm_store64);

rem_u64 pm_load64(const void *from)
{
	return READ_ONCE(*(const u64 *)from);
}
EXPORT_SYMBOL_GPL(pm_load64);

static void copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (env == &pmcore_fof)
		memcpy(to, from, bytes);
	else
		memcpy_flushcache(to, from, bytes);
}

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!pmcore.protected) {
		copy(env, to, from, bytes);
		return;
	}
	while (bytes) {
		size_t now = bytes;
		void *at = pmcore_window_open(to, &now);

		copy(env, at, from, now);
		pmcore_window_close(at, now);
		to += now;
		from += now;
		bytes -= now;
	}
}
EXPORT_SYMBOL_GPL(pm_copy);

static void zero(struct pm_env *env, void *to, size_t bytes)
{
	memset(to, 0, bytes);
	pm_flush(env, to, bytes);
}

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	if (!pmcore.protected) {
		zero(env, to, bytes);
		return;
	}
	while (bytes) {
		size_t now = bytes;
		void *at = pmcore_window_open(to, &now);

		zero(env, at, now);
		pmcore_window_close(at, now);
		to += now;
		bytes -= now;
	}
}
EXPORT_SYMBOL_GPL(pm_zero);

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	if (env == &pmcore_fof)
		return;
	if (bytes <= LINE_BYTES - ((unsigned long)at & (LINE_BYTES - 1)))
		clwb((void *)at);
	else
		arch_wb_cache_pmem((void *)at, bytes);
}
EXPORT_SYMBOL_GPL(pm_flush);

/* On x86 stores reach the caches in their order: with fof only the compiler's. */
void pm_fence(struct pm_env *env)
{
	if (env == &pmcore_fof)
		barrier();
	else
		wmb(); /* what was flushed, before what is stored from here on */
}
EXPORT_SYMBOL_GPL(pm_fence);

/* Of judge.c, which has no kernel in it. */
EXPORT_SYMBOL_GPL(pm_check);
