// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: the platform's promise to save caches when the power fails
 *
 * It may end at any time: a Stop outlasted its bound, a device appeared that cannot
 * be stopped fast. Segments of persist=fof are then written back with all else that
 * is in the caches (WBINVD: the time of that is bounded by their size, not by that of
 * segments), and each store to them as to other segments, until the promise returns.
 * The rules are those of core/fof.h.
 *
 * The kernel tells us when it changes. Who acknowledges something asks by itself, too,
 * so nothing depends on how soon that is.
 *
 * It ends for good when the module goes, and before the machine restarts, halts or enters
 * another kernel: a reset may drop what is in the caches, a Stop begins no more, and a
 * later kernel may not know that something is there.
 */
#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/reboot.h>
#include <asm/smp.h>
#include <asm/special_insns.h>

#include "fof.h"
#include "pmcore.h"

static void write_back(void);

struct pm_fof pmcore_promise = {
	.promised = pmcore_flush_on_fail,
	.write_back = write_back,
	/* Until pmcore_promise_begin(). */
	.unsettled = true,
};

static bool over; /* for good */
static DEFINE_MUTEX(settle_lock);
static ATOMIC_NOTIFIER_HEAD(holders);

/**
 * pmcore_flush_on_fail() - whether caches are safe when the power fails, now
 *
 * Context: any.
 */
bool pmcore_flush_on_fail(void)
{
	return !READ_ONCE(over) && pmcore_source_saves();
}

/* Those first who flush by a setting of their own: else they might just not do it. */
static void write_back(void)
{
	atomic_notifier_call_chain(&holders, false, NULL);
	wbinvd_on_all_cpus();
}

/**
 * pmcore_settle() - write back what is in the caches by a promise that has ended
 *
 * Context: may sleep.
 */
void pmcore_settle(void)
{
	mutex_lock(&settle_lock);
	if (!pmcore_promise.promised())
		pm_fof_settle(&pmcore_promise);
	mutex_unlock(&settle_lock);
}

/* What is stored from here on is unsettled, so the end of the promise is heard again. */
static void resume(void)
{
	mutex_lock(&settle_lock);
	if (pm_fof_kept(&pmcore_promise))
		atomic_notifier_call_chain(&holders, true, NULL);
	mutex_unlock(&settle_lock);
}

int pmcore_promise_watch(struct notifier_block *holder)
{
	int err;

	mutex_lock(&settle_lock);
	err = atomic_notifier_chain_register(&holders, holder);
	if (!err)
		holder->notifier_call(holder, pm_fof_kept(&pmcore_promise),
				      NULL);
	mutex_unlock(&settle_lock);
	return err;
}
EXPORT_SYMBOL_GPL(pmcore_promise_watch);

void pmcore_promise_unwatch(struct notifier_block *holder)
{
	atomic_notifier_chain_unregister(&holders, holder);
}
EXPORT_SYMBOL_GPL(pmcore_promise_unwatch);

/* Of the kernel's chain: may sleep. */
static int changed(struct notifier_block *nb, unsigned long unused, void *data)
{
	pmcore_settle();
	resume();
	pmcore_event();
	pmcore_ctl_promise_changed();
	return NOTIFY_OK;
}

static struct notifier_block kernels = { .notifier_call = changed };

static void end_for_good(void)
{
	/* Before it is asked what is unsettled: pm_fof_kept() has the other order. */
	smp_store_mb(over, true);
	pmcore_settle();
}

/* Before devices are shut down: what is stored from here on is flushed. */
static int restarts(struct notifier_block *nb, unsigned long how, void *data)
{
	end_for_good();
	pmcore_event();
	pmcore_ctl_promise_changed();
	return NOTIFY_DONE;
}

static struct notifier_block reboots = { .notifier_call = restarts };

/**
 * pmcore_promise_begin() - write back what others left in the caches
 *
 * A kernel that has died (kexec), or the module before this one: what programs had
 * stored through mappings is seen here, and its marks (dirty.c) are gone. Who syncs it
 * must find it on media.
 *
 * Context: may sleep; nobody uses the region yet.
 */
void pmcore_promise_begin(void)
{
	mutex_lock(&settle_lock);
	pm_fof_settle(&pmcore_promise);
	mutex_unlock(&settle_lock);
}

/**
 * pmcore_promise_init() - hear of changes
 *
 * Return: 0 or a negative errno.
 */
int pmcore_promise_init(void)
{
	int err = register_reboot_notifier(&reboots);

	if (err)
		return err;
	err = pmcore_source_watch(&kernels);
	if (err)
		unregister_reboot_notifier(&reboots);
	return err;
}

/**
 * pmcore_promise_exit() - undo it, and leave nothing in the caches
 *
 * Context: may sleep; segments have no users.
 */
void pmcore_promise_exit(void)
{
	unregister_reboot_notifier(&reboots);
	pmcore_source_unwatch(&kernels);
	end_for_good();
}
