// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of its surroundings, in the kernel: stores that bypass the
 * caches, CLWB and SFENCE, by the kernel's own interface for them; through a
 * window where the region is protected. With pmcore_fof as its surroundings nothing
 * is written back as long as the caches are as good as media (core/fof.h).
 */
#include <linux/export.h>
#include <linux/libnvdimm.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include <asm/asm.h>
#include <asm/special_insns.h>

#include "fof.h"
#include "pmcore.h"
#include "slot.h"

#define PIECE_BYTES SZ_1M /* after each of which others may run */
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

/* One load, as pm_fetch() is not: an entry of a map may be stored to meanwhile. */
bool pm_load64(const void *from, rem_u64 *ret)
{
	u32 lost = 1;
	u64 word = 0;

	from = pmcore_media(from, sizeof(word));
	asm volatile("1: movq %[from], %[word]\n"
		     "   xorl %[lost], %[lost]\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT_MCE_SAFE)
		     : [word] "+r"(word), [lost] "+r"(lost)
		     : [from] "m"(*(const u64 *)from)
		     : "cc");
	*ret = word;
	return !lost;
}
EXPORT_SYMBOL_GPL(pm_load64);

static bool is_of_a_line(const void *at, size_t bytes)
{
	return bytes <= LINE_BYTES - ((unsigned long)at & (LINE_BYTES - 1));
}

static void flush(const void *at, size_t bytes)
{
	if (is_of_a_line(at, bytes))
		clwb((void *)at);
	else
		arch_wb_cache_pmem((void *)at, bytes);
}

static void copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	if (!pmcore_stays(env)) {
		memcpy_flushcache(to, from, bytes);
		return;
	}
	memcpy(to, from, bytes);
	if (!pmcore_stays(env))
		flush(to, bytes);
}

/* How much of @bytes is done in one go; others run before all but the first. */
static size_t piece(size_t done, size_t bytes)
{
	if (done && !(done % PIECE_BYTES))
		cond_resched();
	return min(bytes - done, PIECE_BYTES - done % PIECE_BYTES);
}

void pm_rest(struct pm_env *env)
{
	cond_resched();
}
EXPORT_SYMBOL_GPL(pm_rest);

void pm_copy(struct pm_env *env, void *to, const void *from, size_t bytes)
{
	size_t done, now;

	pmcore_lost_write(to, bytes);
	for (done = 0; done < bytes; done += now) {
		void *at = to + done;

		now = piece(done, bytes);
		if (pmcore.protected)
			at = pmcore_window_open(at, &now);
		copy(env, at, from + done, now);
		if (pmcore.protected)
			pmcore_window_close(at, now);
	}
	pmcore_lost_written(to, bytes);
}
EXPORT_SYMBOL_GPL(pm_copy);

void pm_zero(struct pm_env *env, void *to, size_t bytes)
{
	size_t done, now;

	pmcore_lost_write(to, bytes);
	for (done = 0; done < bytes; done += now) {
		void *at = to + done;

		now = piece(done, bytes);
		if (pmcore.protected)
			at = pmcore_window_open(at, &now);
		memset(at, 0, now);
		if (!pmcore_stays(env))
			flush(at, now);
		if (pmcore.protected)
			pmcore_window_close(at, now);
	}
	pmcore_lost_written(to, bytes);
}
EXPORT_SYMBOL_GPL(pm_zero);

/* Apart, so that the flush of a line needs no stack. */
static noinline void flush_in_pieces(const void *at, size_t bytes)
{
	size_t done, now;

	for (done = 0; done < bytes; done += now) {
		now = piece(done, bytes);
		flush(at + done, now);
	}
}

void pm_flush(struct pm_env *env, const void *at, size_t bytes)
{
	if (pmcore_stays(env))
		return;
	if (is_of_a_line(at, bytes))
		clwb((void *)at);
	else
		flush_in_pieces(at, bytes);
}
EXPORT_SYMBOL_GPL(pm_flush);

/*
 * On x86 stores reach the caches in their order: where they may stay there, only the
 * compiler's. Where they no longer may, what is there goes first.
 */
void pm_fence(struct pm_env *env)
{
	if (pmcore_stays(env)) {
		barrier();
		return;
	}
	if (env == &pmcore_fof && !pm_fof_settled(&pmcore_promise))
		pmcore_settle();
	wmb(); /* what was flushed, before what is stored from here on */
}
EXPORT_SYMBOL_GPL(pm_fence);

/* Of judge.c, which has no kernel in it. */
EXPORT_SYMBOL_GPL(pm_check);
