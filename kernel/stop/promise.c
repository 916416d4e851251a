// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the machine promises to save what is in CPU caches when the power fails:
 * a Stop would begin, and end within the hold-up. Programs and drivers build on that
 * by not flushing (persist=fof), so it is taken back as soon as it does not hold, and
 * those who watch it are told.
 *
 * decide.c has what it depends on. Windows in which no Stop begins:
 *
 *   CPU hotplug	a step of it may last for any time: taken back before the step begins,
 *			and the kernel's own watchers have written back by then (hotplug.c)
 *   no PWR_OK		a Stop that has not begun at its drop, since attempts were used up or
 *			the machine was disarmed, begins late or never: taken back until
 *			PWR_OK is back
 *   no charge		the supply, or an NVDIMM's capacitor, could not feed a Stop: taken
 *			back until the supply reports the charge
 *   bad health		user space says that the supply or a module may not do what it is
 *			there for (health.c): taken back until it takes that back
 *
 * Not taken back:
 *
 *   Stop and Go	nobody runs until Go opens the gate. A drop of PWR_OK is then pending
 *			until a thread of highest priority has armed the machine; the loader
 *			entered the image only with the charge for that and another Stop
 *			(REM_CHARGE_FLAP).
 *   preemption off	is a part of the bound (budget.c)
 *   stop_machine()	the Stop is queued behind it; the same
 *   a panic		runs no program, and the restart after it is no power failure
 */
#include <linux/atomic.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "decide.h"
#include "stop.h"

static DEFINE_RAW_SPINLOCK(rem_promise_lock);
static BLOCKING_NOTIFIER_HEAD(rem_promise_chain);
static bool rem_promised;
/* Windows in which no Stop begins. */
static atomic_t rem_promise_windows = ATOMIC_INIT(0);

static void rem_promise_tell(struct work_struct *work)
{
	blocking_notifier_call_chain(&rem_promise_chain, rem_promise(), NULL);
	rem_sysfs_promise_changed();
}

static DECLARE_WORK(rem_promise_work, rem_promise_tell);

static bool rem_promise_holds(void)
{
	int state = READ_ONCE(rem.state);
	struct rem_promise_facts facts = {
		.stopping = state == REM_STOPPING,
		.promised = rem_promised,
		.exceeded = rem_budget_exceeded(),
		.window = atomic_read(&rem_promise_windows),
		.armed = state == REM_ARMED && !rem.differs[0],
		.watched = rem_power_watched(),
		.fast = READ_ONCE(rem.stop_mode) == REM_MODE_FAST,
		.fits = rem_budget_hold_up_ns() && rem_budget_fits(),
		.power_ok = rem_power_ok(),
		.charged = rem_power_charged(),
		.healthy = rem_health_good(),
	};

	return rem_promise_decide(&facts);
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
 * rem_promise_suspend - take the promise back, and wait until watchers have heard that
 *
 * Programs are told at the same time, but not waited for.
 *
 * Context: process, also in a step of CPU hotplug.
 */
void rem_promise_suspend(void)
{
	atomic_inc(&rem_promise_windows);
	rem_promise_update();
	flush_work(&rem_promise_work);
}

/** rem_promise_resume - undo rem_promise_suspend(). Context: process. */
void rem_promise_resume(void)
{
	atomic_dec(&rem_promise_windows);
	rem_promise_update();
}

/**
 * rem_promise_watch - hear of changes
 * @nb: called, in process context, with the promise after the change. CPU hotplug waits
 *	for it, so it must not wait for CPU hotplug.
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
