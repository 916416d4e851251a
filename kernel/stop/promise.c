// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the machine promises to save what is in CPU caches when the power fails:
 * a Stop would begin, and end within the hold-up. Programs and drivers build on that
 * by not flushing (persist=fof), so it is taken back as soon as it does not hold, and
 * those who watch it are told.
 *
 * During a Stop and the Go after it the promise stays as it was: nobody runs, until
 * Go opens the gate, and then a drop of PWR_OK is pending until the machine is armed.
 */
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "stop.h"

static DEFINE_RAW_SPINLOCK(rem_promise_lock);
static BLOCKING_NOTIFIER_HEAD(rem_promise_chain);
static bool rem_promised;

static void rem_promise_tell(struct work_struct *work)
{
	blocking_notifier_call_chain(&rem_promise_chain, rem_promise(), NULL);
	rem_sysfs_promise_changed();
}

static DECLARE_WORK(rem_promise_work, rem_promise_tell);

static bool rem_promise_holds(void)
{
	int state = READ_ONCE(rem.state);

	if (state == REM_STOPPING)
		return rem_promised && !rem_budget_exceeded();
	return state == REM_ARMED && rem_power_watched() &&
	       READ_ONCE(rem.stop_mode) == REM_MODE_FAST &&
	       rem_budget_hold_up_ns() && rem_budget_fits();
}

/** rem_promise - Return: whether a power failure saves the caches. Context: any. */
bool rem_promise(void)
{
	return READ_ONCE(rem_promised);
}

/**
 * rem_promise_update - after a change of what the promise depends on
 *
 * Context: any but NMI.
 */
void rem_promise_update(void)
{
	unsigned long flags;
	bool holds, changed;

	raw_spin_lock_irqsave(&rem_promise_lock, flags);
	holds = rem_promise_holds();
	changed = holds != rem_promised;
	WRITE_ONCE(rem_promised, holds);
	raw_spin_unlock_irqrestore(&rem_promise_lock, flags);
	if (changed)
		schedule_work(&rem_promise_work);
}

/**
 * rem_promise_watch - hear of changes
 * @nb: called, in process context, with the promise after the change
 *
 * Return: 0 or a negative errno.
 */
int rem_promise_watch(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&rem_promise_chain, nb);
}

/**
 * rem_promise_unwatch - undo rem_promise_watch()
 * @nb: what it was given
 */
void rem_promise_unwatch(struct notifier_block *nb)
{
	blocking_notifier_chain_unregister(&rem_promise_chain, nb);
}
