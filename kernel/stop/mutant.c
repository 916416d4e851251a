// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which planted bug this kernel has: `remanence.mutant=NAME`, or what is written
 * to /sys/module/remanence/parameters/mutant while it runs.
 */
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "mutant.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static char rem_mutant_name[32];
module_param_string(mutant, rem_mutant_name, sizeof(rem_mutant_name), 0600);
MODULE_PARM_DESC(mutant, "the planted bug of this kernel");

static DEFINE_MUTEX(rem_mutant_one);
static DEFINE_MUTEX(rem_mutant_other);
static int rem_mutant_sink;

/** rem_mutant - Return: whether this run has the bug @name. Context: any. */
bool rem_mutant(const char *name)
{
	return !strcmp(rem_mutant_name, name);
}

static void rem_mutant_locks(struct mutex *first, struct mutex *second)
{
	mutex_lock(first);
	mutex_lock(second);
	mutex_unlock(second);
	mutex_unlock(first);
}

/**
 * rem_mutant_speak - a bug for each watcher of the debug kernel
 *
 * Each does no harm but to be wrong. Context: process, after each Go.
 * Return: nothing.
 */
void rem_mutant_speak(void)
{
	unsigned int bytes = 13;
	u8 *area;

	OPTIMIZER_HIDE_VAR(bytes);
	if (rem_mutant("watch-lockdep")) {
		rem_mutant_locks(&rem_mutant_one, &rem_mutant_other);
		rem_mutant_locks(&rem_mutant_other, &rem_mutant_one);
	}
	if (rem_mutant("watch-sleep")) {
		preempt_disable();
		might_sleep();
		preempt_enable();
	}
	if (rem_mutant("watch-ubsan"))
		WRITE_ONCE(rem_mutant_sink, 1 << (bytes + 20));
	if (!rem_mutant("watch-kasan") && !rem_mutant("watch-leak"))
		return;
	area = kzalloc(bytes, GFP_KERNEL);
	if (!area)
		return;
	OPTIMIZER_HIDE_VAR(area);
	if (rem_mutant("watch-kasan"))
		WRITE_ONCE(area[bytes], 0);
	if (!rem_mutant("watch-leak"))
		kfree(area);
}
